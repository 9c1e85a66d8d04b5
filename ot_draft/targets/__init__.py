"""Targets for rules that are lossy on purpose: laws r(p, q) for the place of p, each with its budget and what it guarantees."""

from .cascade import Cascade
from .divergence import KL, ChiSquared, ReverseKL
from .ensemble import Ensemble
from .frontier import Frontier, frontier
from .lenience import Lenience
from .ratio import Ratio
from .total_variation import TotalVariation

__all__ = [
    "KL",
    "Cascade",
    "ChiSquared",
    "Ensemble",
    "Frontier",
    "Lenience",
    "Ratio",
    "ReverseKL",
    "TotalVariation",
    "frontier",
]
