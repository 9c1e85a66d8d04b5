"""Targets of lossy rules: distributions r(p, q) that replace p, each with a budget and a guarantee."""

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
