"""Studies of many pairs (p, q): reading them, every rule beside the optimum, in memory or over sharded files, means, tables, pictures."""

from .pairs import read_pairs
from .rows import compare_rules
from .run_sweep import run_sweep
from .sharded import Sweep
from .shards import open_shards
from .study import Study
from .summary import summarise, summarise_sweep

__all__ = [
    "Study",
    "Sweep",
    "compare_rules",
    "open_shards",
    "read_pairs",
    "run_sweep",
    "summarise",
    "summarise_sweep",
]
