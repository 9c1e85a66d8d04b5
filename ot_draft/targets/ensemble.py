"""A mixture of target and draft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import arrays as xp
from ..arrays import Array
from ..laws import DraftLaw
from .base import Target, budget


@dataclass(frozen=True)
class Ensemble(Target):
    """r = w p + (1 - w) q: TV(r, p) = (1 - w) TV(q, p), and r >= w p, hence KL(p || r) <= -log w.

    For one draft the acceptance is alpha(p) + TV(r, p), all that total variation allows; less than best under every other divergence.
    Source: DIVERSED 2026 (static ensemble); transformers' `assistant_ensemble_weight`.
    """

    weight: Any

    def __post_init__(self) -> None:
        budget(self.weight, "Ensemble(weight)", 0, 1)

    @property
    def guarantee(self) -> tuple[str, Any]:
        return "tv", 1 - self.weight

    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        weight = xp.number(self.weight, p)
        return weight * p + (1 - weight) * q
