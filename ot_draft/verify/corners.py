"""Corner cases, the default problems of the sampler checks: few and small, each of a kind on which published samplers failed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import to_host
from ..errors import InvalidArgument
from ..laws import DraftLaw, Fact, is_defined
from ..problem import Problem

CORNERS = {  # weights of p, weights of q
    "plain": ((5, 1, 4, 2, 6, 2), (2, 6, 1, 5, 1, 5)),
    "peaked draft": ((10, 50, 10, 10, 10, 10), (1, 95, 1, 1, 1, 1)),
    "peaked target": ((1, 1, 1, 1, 95, 1), (1, 1, 1, 1, 1, 1)),
    "zeros in p": ((0, 3, 0, 3, 0, 4), (2, 2, 2, 1, 2, 1)),
    "zeros in q": ((2, 2, 2, 1, 2, 1), (0, 3, 0, 3, 0, 4)),
    "disjoint supports": ((0, 0, 1, 2, 3, 0), (1, 2, 0, 0, 0, 3)),
    "p == q": ((1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6)),
    "ties": ((1, 2, 1, 2, 1, 2), (2, 1, 2, 1, 2, 1)),
    "one-hot q": ((5, 1, 4, 2, 6, 2), (0, 0, 1, 0, 0, 0)),
    "one-hot p": ((0, 0, 0, 1, 0, 0), (2, 6, 1, 5, 1, 5)),
    "repeated drafts": ((1, 1, 2, 2, 2, 2), (8, 8, 1, 1, 1, 1)),
    "one token": ((1,), (1,)),
    "q is used up": ((3, 1, 2, 2, 4, 1), (0, 3, 0, 0, 2, 0)),
    # 49 tokens: the cumulative sums of p, of q and of the residual fall short of 1 in float32
    "heavy tail": (tuple(1 / (i + 1) for i in range(49)), tuple((3 * i % 49 + 1) ** -1.5 for i in range(49))),
    # Found by a search over weights, each for faults that the others hardly show: tests/verify/rule/mutant_table.py
    "second draft in doubt": ((22, 6, 4), (68, 38, 1)),
    "nearly the same": ((17, 1), (285, 1)),
    "little is recovered": ((161, 1), (913, 1)),
    "seldom accepted": ((1, 881, 13, 7), (4, 5, 1, 153)),
    "seldom drafted": ((287, 1, 14), (1, 36, 6)),
    "hardly ever drafted": ((4, 1, 72), (19392, 1, 34)),
    "many refused": ((1, 44, 3, 3), (266, 1, 2, 4)),
    "recovered again and again": ((2, 1, 9, 8, 1, 8), (232, 979, 782, 468, 3, 1)),
    "large vocabulary": (
        tuple(1 / (i + 1) for i in range(1000)),
        tuple((7 * i % 1000 + 1) ** -1.5 for i in range(1000)),
    ),
}


@dataclass(frozen=True)
class LabelledProblem:
    """A problem in floats, and its name in the report."""

    label: str
    problem: Problem


def is_used_up(problem: Problem) -> bool:
    """Whether q has fewer tokens of positive probability than k, so that the draft law draws the remaining drafts uniformly."""
    return Fact.NEVER_RUNS_OUT not in problem.law.facts and problem.k > int((problem.q > 0).sum())


def corner_problems(
    law: DraftLaw, k: int | None = None, largest_k: int = 8, used_up: bool = False
) -> dict[str, Problem]:
    """Corner cases under a draft law, by name: with k drafts, or with numbers of drafts that depend on the case.

    Without k, a case has its numbers in `own_numbers`, else one of 1 to 4 in turn, as far as the draft law allows them. used_up: whether
    to include cases whose q has fewer tokens than drafts under a draft law that then draws other tokens (`WithoutReplacement`). These
    cases test code that drafts, not code that verifies.
    """
    allowed = [number for number in range(1, largest_k + 1) if is_defined(law, number)]
    in_turn = [number for number in allowed if number <= 4] or allowed  # 1 to 4 drafts in turn
    # Numbers of drafts of some cases, used if the draft law allows them.
    own_numbers = {
        "plain": (1, 2, 3, 4, 8), "p == q": (3, 8), "repeated drafts": (4,), "second draft in doubt": (3,), "nearly the same": (1,),
        "little is recovered": (2,), "seldom accepted": (1,), "seldom drafted": (2,), "hardly ever drafted": (2,),
        "q is used up": (3,), "many refused": (8,), "recovered again and again": (6,), "large vocabulary": (5,),
    }  # fmt: skip
    corners = {}
    for turn, (name, weights) in enumerate(CORNERS.items()):
        p, q = (np.array(w, dtype=np.float64) / sum(w) for w in weights)
        own = [number for number in own_numbers.get(name, ()) if number in allowed] or [in_turn[turn % len(in_turn)]]
        if name == "q is used up" and not (used_up and Fact.NEVER_RUNS_OUT not in law.facts):
            continue
        for number in own if k is None else [k]:
            problem = Problem(p, q, number, law)
            if used_up or not is_used_up(problem):
                corners[f"{name}, k = {number}"] = problem
    return corners


def labelled(problems: list[Problem]) -> dict[str, Problem]:
    """The given problems as float64 NumPy arrays, by index, n and k."""
    named = {}
    for number, problem in enumerate(problems):
        if not isinstance(problem, Problem) or problem.batch:
            raise InvalidArgument(
                f"problems[{number}] must be an unbatched otd.Problem, got {problem!r}. Pass otd.Problem(p, q, k, law)."
            )
        p, q = (to_host(x).astype(np.float64) for x in (problem.p, problem.q))
        name = f"problem {number}, n = {problem.n}, k = {problem.k}"
        named[name] = Problem(p, q, problem.k, problem.law)
    if not named:
        raise InvalidArgument("problems must hold at least one problem, got none. Pass [otd.Problem(p, q, k, law)].")
    return named


def in_groups(cases: list[LabelledProblem]) -> list[list[LabelledProblem]]:
    """Group the cases by n and k, so that the cases of a group fit into one batch."""
    groups: dict[tuple[int, int], list[LabelledProblem]] = {}
    for case in cases:
        groups.setdefault((case.problem.n, case.problem.k), []).append(case)
    return list(groups.values())
