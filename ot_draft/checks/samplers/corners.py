"""The problems on which a black-box sampler is tried: few, small, and each at a corner where samplers of the field failed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Array, to_host
from ...errors import InvalidArgument
from ...laws import DraftLaw
from ...problem import Problem

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
    # 49 tokens: the cumulative sums of p, of q and of the residual fall short of 1 in float32
    "heavy tail": (tuple(1 / (i + 1) for i in range(49)), tuple((3 * i % 49 + 1) ** -1.5 for i in range(49))),
}
EVERY_K = ("plain",)
LARGEST_K = ("repeated drafts",)


@dataclass(frozen=True)
class Case:
    """A problem in floats, how it is called in the report, and the law that every outcome must have: (cells,)."""

    label: str
    problem: Problem
    law: Array

    @property
    def cells(self) -> int:
        """Number of possible outcomes."""
        return int((self.law > 0).sum())

    @property
    def fixed_drafts(self) -> bool:
        """Whether only one draft tuple can be drawn, so that all randomness of the output is the sampler's own."""
        k, best = self.problem.k, int(np.argmax(self.problem.q))
        return bool(self.problem.law.probability(self.problem.q, np.full(k, best)) == 1) or k == 0


def corner_problems(law: DraftLaw, k: int | None = None, largest_k: int = 4) -> dict[str, Problem]:
    """The corners under a law, by name; with k drafts, or with 1 to largest_k in turn where the law allows them.

    Left out is a q with fewer tokens than drafts under a law that then runs out of mass: what is drafted is a convention.
    """
    allowed = [number for number in range(1, largest_k + 1) if law.is_defined(number)] if k is None else [k]
    corners = {}
    for turn, (name, weights) in enumerate(CORNERS.items()):
        p, q = (np.array(w, dtype=np.float64) / sum(w) for w in weights)
        some = allowed if name in EVERY_K else allowed[-1:] if name in LARGEST_K else [allowed[turn % len(allowed)]]
        for number in some:
            enough = not law.runs_out or number <= (q > 0).sum()
            if enough:
                corners[f"{name}, k = {number}"] = Problem(p, q, number, law)
    return corners


def labelled(problems: list[Problem]) -> dict[str, Problem]:
    """The user's problems in float64 numpy, by a name of their own."""
    named = {}
    for number, problem in enumerate(problems):
        if not isinstance(problem, Problem) or problem.batch:
            raise InvalidArgument(f"problems[{number}] is {problem!r}: give ot.Problem(p, q, k, law) of one pair each")
        p, q = (to_host(x).astype(np.float64) for x in (problem.p, problem.q))
        name = f"problem {number}, n = {problem.n}, k = {problem.k}"
        named[name] = Problem(p, q, problem.k, problem.law)
    if not named:
        raise InvalidArgument("problems is empty: give one ot.Problem(p, q, k, law) at least")
    return named


def in_groups(cases: list[Case]) -> list[list[Case]]:
    """Cases of equal n and k together: they may stand in one batch."""
    groups: dict[tuple[int, int], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.problem.n, case.problem.k), []).append(case)
    return list(groups.values())
