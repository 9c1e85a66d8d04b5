"""Draft selection in speculative decoding: the optimum, its certificate, every lossless rule, and the exact check of each."""

from . import paths, rules
from .errors import DraftSelectionError, InvalidDistribution, InvalidDrafts, MissingPackage, SolverFailed
from .exact import Evaluation, evaluate
from .laws import IID, DraftLaw, Hub, Hybrid, WithoutReplacement
from .lp import Solution, solve
from .optimum import cut_value, kseq_bound, optimal_acceptance
from .problem import Problem
from .sampling import draw, sample
from .selection import Selection, SelectionRule

__version__ = "0.1.0"

__all__ = [
    "IID",
    "DraftLaw",
    "DraftSelectionError",
    "Evaluation",
    "Hub",
    "Hybrid",
    "InvalidDistribution",
    "InvalidDrafts",
    "MissingPackage",
    "Problem",
    "Selection",
    "SelectionRule",
    "Solution",
    "SolverFailed",
    "WithoutReplacement",
    "cut_value",
    "draw",
    "evaluate",
    "kseq_bound",
    "optimal_acceptance",
    "paths",
    "rules",
    "sample",
    "solve",
]
