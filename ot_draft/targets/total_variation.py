"""The most acceptance within a total variation distance of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import arrays as xp
from ..arrays import Array
from ..bias import total_variation
from .base import Nearest, budget, toward
from .envelope import Envelope


@dataclass(frozen=True)
class TotalVariation(Nearest):
    """TV(r, p) <= eps, and the acceptance min(1, alpha(p) + eps): no law within eps has more.

    Of the many laws that have it, the one that is also the best under every other f-divergence, as long as the drafts fall on tokens
    with p > 0. Exact on Fractions. Source: this project (docs/lossy.md); one draft: Tran-Thien and Nock 2026.
    """

    eps: Any

    def __post_init__(self) -> None:
        budget(self.eps, "TotalVariation(eps)", 0, 1)

    @property
    def guarantee(self) -> tuple[str, Any]:
        return "tv", self.eps

    def missing(self, found: Envelope) -> Array:
        beyond = found.missing(1) - xp.number(self.eps, found.target)
        return xp.maximum(beyond, 0)

    def within(self, found: Envelope, missing: Array) -> Array:
        r = super().within(found, missing)
        if xp.is_exact(r):
            return r
        return toward(r, found.p, total_variation(r, found.p), float(self.eps))  # groups may have spent a little more
