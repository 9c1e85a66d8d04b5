"""Draft selection in speculative decoding: the optimum, its certificate, every lossless rule, and the exact check of each."""

from importlib import import_module
from typing import Any

from . import arrays, laws, lossy, rules, trees
from .errors import (
    DraftSelectionError,
    InvalidArgument,
    InvalidDistribution,
    InvalidDrafts,
    MissingPackage,
    SolverFailed,
)
from .exact import Evaluation, evaluate
from .laws import IID, DraftLaw, Fixed, Hub, Hybrid, Several, WithoutReplacement
from .lossy import Frontier, frontier, losses
from .lp.solution import Solution
from .optimum import cut_value, kseq_bound, optimal_acceptance, optimal_cut
from .problem import Problem
from .rules.from_function import rule_from_function
from .sampling import draw, sample
from .selection import Selection, SelectionRule
from .transport.solve import solve

__version__ = "0.1.0"

__all__ = [
    "IID",
    "Audit",
    "DraftLaw",
    "DraftSelectionError",
    "Evaluation",
    "Fixed",
    "Frontier",
    "Hub",
    "Hybrid",
    "InvalidArgument",
    "InvalidDistribution",
    "InvalidDrafts",
    "MissingPackage",
    "Problem",
    "Report",
    "SamplerReport",
    "Selection",
    "SelectionRule",
    "Several",
    "Solution",
    "SolverFailed",
    "WithoutReplacement",
    "arrays",
    "bias_seen",
    "check_draws",
    "check_rule",
    "check_sampler",
    "check_step",
    "cut_value",
    "draw",
    "evaluate",
    "frontier",
    "kseq_bound",
    "laws",
    "losses",
    "lossy",
    "optimal_acceptance",
    "optimal_cut",
    "parametrize_with_rule_checks",
    "rule_from_function",
    "rules",
    "sample",
    "samples_for",
    "solve",
    "trees",
]

# Loaded when asked for: the checks need Hypothesis.
_LATER = {
    "Audit": "verify.server",
    "Report": "verify.rule",
    "SamplerReport": "verify.sampler",
    "bias_seen": "verify.sampler",
    "check_draws": "verify.sampler",
    "check_rule": "verify.rule",
    "check_sampler": "verify.sampler",
    "check_step": "verify.sampler",
    "parametrize_with_rule_checks": "verify.rule",
    "samples_for": "verify.sampler",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    of_laws = {type(law).__name__: type(law) for law in laws.ALL}
    if name in of_laws:
        return of_laws[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
