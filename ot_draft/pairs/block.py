"""block(study, p, q): every optimum and every rule on some pairs. `compare` keeps its numbers as rows, `sweep` writes them to files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, is_exact
from ..laws import sets
from ..lp.solution import solve
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..selection import SelectionRule
from .estimate import Place, evaluate_pairs
from .study import Study

DUAL, LINEAR_PROGRAM = "optimum", "optimum by LP"  # what is no rule
TOO_LARGE, UNDEFINED = "- too many draft sets", "- no such k under this law"


@dataclass(frozen=True)
class Cells:
    """One rule (or optimum) with k drafts on the R pairs of a block.

    accepted, taken, error: (R,) each, see `estimate.Acceptance`; None where it was left out, and `method` says why. optimum: (R,),
    of the law. method: formula, enumerated, estimated, dual, lp, or a reason.
    """

    k: int
    rule: str
    law: str
    method: str
    optimum: Any
    accepted: Any = None
    taken: Any = None
    error: Any = None


def block(
    study: Study, p: Array, q: Array, place_of: Callable[[int], Place], lp_seconds: float | None = None
) -> Iterator[Cells]:
    """For each k the optima of all laws, then all rules in the study's order; p, q: (R, n), floats or Fractions.

    place_of: place of a row, which seeds its random drafts. lp_seconds: that a linear program may take, of which each optimum then
    has one beside it; without it there are none, and rules that solve one always do.
    """
    for k in study.ks:
        laws = dict.fromkeys(rule.law for rule in study.rules if rule.law.is_defined(k))
        problems = {law: study.problem(p, q, k, law) for law in laws}
        optima = {law: optimal_acceptance(problem.p, q, k, law) for law, problem in problems.items()}
        for law, best in optima.items():
            yield Cells(k, DUAL, law.spelling, "dual", best, best, best, 0 * best)
            if lp_seconds is not None:
                yield _linear_program(problems[law], best, lp_seconds)
        for rule in study.rules:
            problem = problems.get(rule.law)
            if problem is None:
                yield Cells(k, rule.name, rule.law.spelling, UNDEFINED, None)
            else:
                yield _rule(study, rule, problem, optima[rule.law], place_of, lp_seconds)


def _linear_program(problem: Problem, best: Array, seconds: float) -> Cells:
    about = (problem.k, LINEAR_PROGRAM, problem.law.spelling)
    if max(sets.most(problem.law, q, problem.k) for q in problem.q) * sets.SECONDS > seconds:
        return Cells(*about, TOO_LARGE, best)
    solver = "flow" if is_exact(problem.p) else "highs"
    alone = (Problem(p, q, problem.k, problem.law) for p, q in zip(problem.p, problem.q, strict=True))
    values = np.array([solve(each, solver).acceptance for each in alone])
    return Cells(*about, "lp", best, values, values, 0 * values)


def _rule(
    study: Study, rule: SelectionRule, problem: Problem, best: Array, place_of: Callable[[int], Place], seconds: float | None
) -> Cells:  # fmt: skip
    about = (problem.k, rule.name, rule.law.spelling)
    if seconds is not None and max(rule.program_sets(q, problem.k) for q in problem.q) * sets.SECONDS > seconds:
        return Cells(*about, TOO_LARGE, best)
    found = evaluate_pairs(rule, problem, study.samples, study.seed, place_of, best)
    return Cells(*about, found.method, best, found.value, found.taken, found.error)
