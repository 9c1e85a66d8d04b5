"""The law of lenient speculative sampling."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

from .. import arrays as xp
from ..arrays import Array
from ..laws import DraftLaw
from .base import Target, budget


@dataclass(frozen=True)
class Lenience(Target):
    """What one draft gives that is taken with probability min(1, p / (l q)), else norm((p - q)+): r <= p / l, and r between p and q.

    r = min(q, p/l) + (1 - sum of that) norm((p - q)+), for every k and law. For one draft it has the most acceptance of all laws with
    r <= p / l, and its own total variation; under KL less than `KL` gives. Source: Leviathan et al. 2023, appendix A.5.
    """

    lenience: Any

    def __post_init__(self) -> None:
        budget(self.lenience, "Lenience(lenience)", 2.0**-40, 1)

    @property
    def guarantee(self) -> tuple[str, Any]:
        return "ratio", -log(self.lenience)

    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        lenience = xp.number(self.lenience, p)
        kept = xp.namespace(p).minimum(q, p / lenience)
        return kept + (1 - xp.total(kept)) * xp.normalise(xp.excess(p, q), otherwise=p)
