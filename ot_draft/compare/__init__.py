"""Every rule beside the optimum on many pairs (p, q): reading them, the rows, means and times, tables and pictures."""

from ..laws import law_called
from . import merge
from .choice import choose_rules, law_name
from .estimate import Acceptance, expected_acceptance
from .pairs import Pairs, as_pairs, exact_masses, read_pairs
from .plotting import Entry, Look, direct_labels, look, plot_acceptance, pyplot
from .run import DUAL, LINEAR_PROGRAM, Row, Settings, compare_rules
from .summary import Summary, clustered_error, summarise, total_variation
from .tables import as_records, as_summaries
from .timing import measure

__all__ = [
    "DUAL",
    "LINEAR_PROGRAM",
    "Acceptance",
    "Entry",
    "Look",
    "Pairs",
    "Row",
    "Settings",
    "Summary",
    "as_pairs",
    "as_records",
    "as_summaries",
    "choose_rules",
    "clustered_error",
    "compare_rules",
    "direct_labels",
    "exact_masses",
    "expected_acceptance",
    "law_called",
    "law_name",
    "look",
    "measure",
    "merge",
    "plot_acceptance",
    "pyplot",
    "read_pairs",
    "summarise",
    "total_variation",
]
