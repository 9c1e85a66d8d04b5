"""A quick exact search for a small problem on which a rule is not lossless. What it does not find, `check_rule` may find."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from time import process_time

import numpy as np

from ..arrays import Array, is_exact
from ..exact import evaluate
from ..laws import DraftLaw, is_defined
from ..problem import Problem
from ..selection import Selection, SelectionRule, target_kept
from .corners import CORNERS
from .source import magnitude, numbers


@dataclass(frozen=True)
class Refutation:
    """A problem in Fractions, and the total variation distance between the rule's output distribution and the target on it.

    overwrites: the argument that the rule changes on it, "p", "q" or "drafts", in Fractions or in float64; then the distance is 0.
    """

    problem: Problem
    distance: Fraction | float
    overwrites: str = ""

    def __str__(self) -> str:
        problem = self.problem
        where = f"p = {numbers(problem.p)}, q = {numbers(problem.q)}, k = {problem.k}"
        if self.overwrites:
            return f"overwrites its argument {self.overwrites} at {where}, so that what the caller computes from it is wrong"
        return f"is not lossless: total variation distance {magnitude(self.distance)} from the target at {where}"


class Watched:
    """A rule that notes which argument it changes. overwrites: "p", "q", "drafts", or ""."""

    def __init__(self, rule: SelectionRule) -> None:
        self.rule, self.overwrites = rule, ""

    def __call__(self, *arguments: Array) -> Selection:
        """The rule's selection."""
        before = [x.copy() for x in arguments]
        try:
            return self.rule(*arguments)
        finally:
            for name, x, old in zip(("p", "q", "drafts"), arguments, before, strict=True):
                if not self.overwrites and not np.array_equal(x, old):
                    self.overwrites = name


def refutation(
    rule: SelectionRule, ks: Iterable[int] = (1, 2, 3), seconds: float = 1.5, tuples: int = 256, rounding: float = 1e-9,
    clock: Callable[[], float] = process_time,
) -> Refutation | None:  # fmt: skip
    """Return a small problem on which the rule overwrites its arguments, or else that with the largest distance from the target.

    None does not show that the rule is lossless.

    Parameters
    ----------
    rule : SelectionRule
        Rule to test under its draft law. Problems on which it raises an error are passed over.
    ks : iterable of int, default=(1, 2, 3)
        Numbers of draft tokens; those for which the draft law is not defined are left out.
    seconds : float, default=1.5
        CPU time after which no further problem is tried. A call of the rule is not interrupted.
    tuples : int, default=256
        Maximum number of draft tuples per problem, all of which are enumerated.
    rounding : float, default=1e-9
        Distance up to which floats that a rule returns for Fractions do not refute it.
    clock : callable, default=time.process_time
        Seconds, for tests.

    Returns
    -------
    Refutation or None
    """
    end, worst = clock() + seconds, None
    for problem in small_problems(rule.law, ks, tuples):
        if clock() > end:
            break
        watched, floats = Watched(rule), (problem.p.astype(float), problem.q.astype(float))
        output: Array | None = None
        with suppress(
            Exception
        ):  # of a user's rule: it may reject this problem; others are for the caller that runs the rule
            target = target_kept(rule, problem.p, problem.q, problem.k)
            output = evaluate(watched, problem).output
        with suppress(Exception):
            evaluate(watched, Problem(*floats, problem.k, problem.law))
        if watched.overwrites:
            return Refutation(problem, 0, watched.overwrites)
        if output is None:
            continue
        distance = abs(output - target).sum() / 2
        if distance > (0 if holds_fractions(output) else rounding) and (worst is None or distance > worst.distance):
            worst = Refutation(problem, distance)
    return worst


def holds_fractions(*values: Array) -> bool:
    """Whether all numbers are Fractions or integers. An array of objects may hold floats, too."""
    return all(is_exact(x) and {type(each) for each in x.ravel().tolist()} <= {Fraction, int} for x in values)


def small_problems(law: DraftLaw, ks: Iterable[int], tuples: int) -> list[Problem]:
    """The corner cases with whole weights in Fractions and up to `tuples` draft tuples, those with few tuples first."""
    found = []
    for p, q in CORNERS.values():
        if all(isinstance(weight, int) for weight in (*p, *q)):
            target, draft = ([Fraction(weight) / Fraction(sum(weights)) for weight in weights] for weights in (p, q))
            found += [Problem(target, draft, k, law) for k in ks if len(p) ** k <= tuples and is_defined(law, k)]
    return sorted(found, key=lambda problem: problem.n**problem.k)
