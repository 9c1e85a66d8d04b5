"""compare_rules(pairs, study): every rule under its law, beside the optimum of that law, on every pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..laws import DraftLaw, sets
from ..lp import solve
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..selection import SelectionRule
from .estimate import evaluate_pair
from .pairs import Pairs
from .study import Study

CHUNK = 8  # pairs a task of joblib; fixed, so that nothing depends on the number of jobs
DUAL, LINEAR_PROGRAM = "optimum", "optimum by LP"  # rows that are no rules
TOO_LARGE, UNDEFINED = "- too many draft sets", "- no such k under this law"


@dataclass(frozen=True)
class Row:
    """One rule (or optimum) on one pair with k drafts.

    accepted, taken: see estimate.Acceptance; None where it was left out, and `method` says why. error: standard error of an
    estimate, else 0. optimum: of the law. method: formula, enumerated, estimated, dual, lp, or a reason.
    """

    pair: int
    k: int
    rule: str
    law: str
    accepted: Any
    taken: Any
    error: float
    optimum: Any
    method: str


def compare_rules(
    pairs: Pairs, study: Study | None = None, jobs: int = 1, advance: Callable[[int], object] | None = None
) -> list[Row]:
    """All rows, in order of pairs, ks and rules; the same to the last bit for any number of jobs.

    advance is called with the number of pairs just done.
    """
    study = study or Study()
    chunks = [range(start, min(start + CHUNK, len(pairs))) for start in range(0, len(pairs), CHUNK)]
    rows: list[Row] = []
    for chunk, done in zip(chunks, _run(pairs, study, chunks, jobs), strict=True):
        rows += done
        if advance:
            advance(len(chunk))
    return rows


def _run(pairs: Pairs, study: Study, chunks: Sequence[range], jobs: int) -> Iterator[list[Row]]:
    parts = [(pairs.p[list(c)], pairs.q[list(c)], [pairs.index[row] for row in c]) for c in chunks]
    if jobs == 1 or len(chunks) == 1:
        return (_compare_chunk(*part, study) for part in parts)
    from joblib import Parallel, delayed

    work = Parallel(n_jobs=min(jobs, len(chunks)), return_as="generator")
    return iter(work(delayed(_compare_chunk)(*part, study) for part in parts))


def _compare_chunk(p: Any, q: Any, index: list[int], study: Study) -> list[Row]:
    return [row for pair in zip(p, q, index, strict=True) for row in _compare_pair(*pair, study)]


def _compare_pair(p: Any, q: Any, index: int, study: Study) -> Iterator[Row]:
    for k in study.ks:
        optima: dict[DraftLaw, Any] = {}
        for law in dict.fromkeys(rule.law for rule in study.rules if rule.law.is_defined(k)):
            problem = study.problem(p, q, k, law)
            optima[law] = _number(optimal_acceptance(problem.p, q, k, law))
            yield Row(index, k, DUAL, law.spelling, optima[law], optima[law], 0.0, optima[law], "dual")
            yield _linear_program(problem, index, optima[law], study.lp_limit)
        for rule in study.rules:
            yield _compare_rule(rule, p, q, k, index, optima.get(rule.law), study)


def _linear_program(problem: Problem, index: int, optimum: Any, limit: int) -> Row:
    name, k = problem.law.spelling, problem.k
    if sets.most(problem.law, problem.q, k) > limit:
        return Row(index, k, LINEAR_PROGRAM, name, None, None, 0.0, optimum, TOO_LARGE)
    value = solve(problem, "flow" if isinstance(optimum, Fraction) else "highs").acceptance
    return Row(index, k, LINEAR_PROGRAM, name, value, value, 0.0, optimum, "lp")


def _compare_rule(rule: SelectionRule, p: Any, q: Any, k: int, index: int, optimum: Any, study: Study) -> Row:
    name = rule.law.spelling
    if optimum is None:
        return Row(index, k, rule.name, name, None, None, 0.0, None, UNDEFINED)
    if rule.program_sets(q, k) > study.lp_limit:
        return Row(index, k, rule.name, name, None, None, 0.0, optimum, TOO_LARGE)
    problem = study.problem(p, q, k, rule.law)
    result = evaluate_pair(rule, problem, study.samples, study.seed, (index,), optimum)
    accepted, taken = _number(result.value), _number(result.taken)
    return Row(index, k, rule.name, name, accepted, taken, float(result.error), optimum, result.method)


def _number(value: Any) -> Any:
    """A Fraction, or a Python float, out of a 0-d array or a numpy scalar."""
    value = value.item() if isinstance(value, np.ndarray | np.generic) else value
    return value if isinstance(value, Fraction) else float(value)
