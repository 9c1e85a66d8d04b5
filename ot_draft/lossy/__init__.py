"""Targets for rules that are lossy on purpose: laws r(p, q) for the place of p, each with its budget and what it guarantees."""

from . import losses as losses
from .base import Target
from .closed_forms import Ratio, TotalVariation
from .divergence import KL, ChiSquared, ReverseKL
from .frontier import Frontier, frontier
from .toward import Toward

__all__ = [
    "KL",
    "ChiSquared",
    "Frontier",
    "Ratio",
    "ReverseKL",
    "Target",
    "TotalVariation",
    "Toward",
    "frontier",
]
