"""Studies of many pairs (p, q): reading them, every rule beside the optimum, in memory or over sharded files, means, tables, pictures."""

from ..array_files import array_names, read_arrays
from ..laws import law_called
from . import merge
from .block import DUAL, LINEAR_PROGRAM
from .estimate import Acceptance, expected_acceptance
from .pairs import Pairs, as_pairs, exact_masses, read_pairs
from .plotting import Entry, Look, direct_labels, look, plot_acceptance, pyplot
from .rows import Row, compare_rules, measure
from .run_sweep import ENGINES, Progress, engine, run_sweep
from .sharded import Sweep
from .shards import Shard, open_shards
from .study import QUICK_RULES, Study, choose_rules
from .summary import Summary, clustered_error, summarise, summarise_sweep, total_variation
from .tables import as_records, as_summaries

__all__ = [
    "DUAL",
    "ENGINES",
    "LINEAR_PROGRAM",
    "QUICK_RULES",
    "Acceptance",
    "Entry",
    "Look",
    "Pairs",
    "Progress",
    "Row",
    "Shard",
    "Study",
    "Summary",
    "Sweep",
    "array_names",
    "as_pairs",
    "as_records",
    "as_summaries",
    "choose_rules",
    "clustered_error",
    "compare_rules",
    "direct_labels",
    "engine",
    "exact_masses",
    "expected_acceptance",
    "law_called",
    "look",
    "measure",
    "merge",
    "open_shards",
    "plot_acceptance",
    "pyplot",
    "read_arrays",
    "read_pairs",
    "run_sweep",
    "summarise",
    "summarise_sweep",
    "total_variation",
]
