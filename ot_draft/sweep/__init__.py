"""Millions of contexts: rules x draft laws x k over sharded files, on any engine of joblib, resumable, the same bytes on all."""

from .engines import ENGINES, engine
from .plan import Part, Plan
from .run import Progress, sweep
from .shards import Shard, open_shards
from .summary import Mean, summarise_sweep

__all__ = [
    "ENGINES",
    "Mean",
    "Part",
    "Plan",
    "Progress",
    "Shard",
    "engine",
    "open_shards",
    "summarise_sweep",
    "sweep",
]
