"""Studies of many pairs (p, q): reading, every rule compared with the optimum, in memory or over sharded files, means, tables, plots."""

from .pairs import read_pairs
from .shards import open_shards
from .study import Study, compare_rules
from .summary import summarise, summarise_sweep
from .sweep import Sweep, run_sweep

__all__ = [
    "Study",
    "Sweep",
    "compare_rules",
    "estimate",
    "merge",
    "open_shards",
    "pairs",
    "plotting",
    "read_pairs",
    "run_sweep",
    "summarise",
    "summarise_sweep",
    "summary",
    "tables",
]
