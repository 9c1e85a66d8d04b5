"""A quick search for a problem on which a rule is not lossless. What it does not find, `check_rule` may find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from time import process_time
from types import MappingProxyType

import numpy as np

from ..arrays import Array, is_exact
from ..exact import evaluate
from ..laws import DraftLaw, is_defined
from ..problem import Problem
from ..selection import Selection, SelectionRule, target_kept
from .corners import CORNERS
from .source import magnitude, numbers

SMALL = 4  # max. number of tokens of the problems on which a rule is called repeatedly
KINDS = ("", "float64", "float32")  # of numbers, Fractions first
FLOAT_ROUNDING: Mapping[str, float] = MappingProxyType({"float64": 1e-6, "float32": 1e-4})


@dataclass(frozen=True)
class Refutation:
    """A problem, and the total variation distance between the rule's output distribution and the target on it.

    overwrites: the argument that the rule changes on it, "p", "q" or "drafts", in Fractions or in float64; then the distance is 0. It is 0,
    too, where accept or residual are not probabilities, whatever the output distribution; infinite where they are not numbers. kind:
    "float64" or "float32" if the distance is not in Fractions. again: whether it is found only after a call with other p and q.
    """

    problem: Problem
    distance: Fraction | float
    overwrites: str = ""
    kind: str = ""
    again: bool = False

    def __str__(self) -> str:
        problem, shown = self.problem, 8  # tokens
        where = f"p = {numbers(problem.p)}, q = {numbers(problem.q)}, k = {problem.k}"
        where = where if problem.n <= shown else f"one of the given pairs, n = {problem.n}, k = {problem.k}"
        if self.overwrites:
            return f"overwrites its argument {self.overwrites} at {where}, so that what the caller computes from it is wrong"
        within = f" in {self.kind}" if self.kind else ""
        within += " after a call with other p and q, so that it must keep no state between calls" if self.again else ""
        seen = (
            f"total variation distance {magnitude(self.distance)} from the target" if 0 < self.distance < np.inf else ""
        )
        return f"is not lossless{within}: {seen or 'accept or residual are not probabilities'} at {where}"


class Watched:
    """A rule that notes which argument it changes, and whether it returns numbers for Fractions that are not probabilities.

    overwrites: "p", "q", "drafts", or "".
    """

    def __init__(self, rule: SelectionRule, rounding: float) -> None:
        self.rule, self.rounding, self.overwrites, self.improper = rule, rounding, "", False

    def __call__(self, *arguments: Array) -> Selection:
        """The rule's selection."""
        before = [x.copy() for x in arguments]
        try:
            selection = self.rule(*arguments)
        finally:
            for name, x, old in zip(("p", "q", "drafts"), arguments, before, strict=True):
                if not self.overwrites and not np.array_equal(x, old):
                    self.overwrites = name
        if is_exact(arguments[0]):
            slack = 0 if holds_fractions(selection.accept, selection.residual) else self.rounding
            self.improper |= not are_probabilities(selection, before[2], slack).all()
        return selection


def are_probabilities(selection: Selection, drafts: Array, slack: float) -> Array:
    """Whether accept is >= 0 with sum <= 1, 0 for absent drafts, and the residual is a distribution, up to slack: (rows,)."""
    accept, residual = selection.accept, selection.residual
    fine = (accept >= -slack).all(-1) & (accept.sum(-1) <= 1 + slack) & ((accept == 0) | (drafts >= 0)).all(-1)
    return fine & (residual >= -slack).all(-1) & (abs(residual.sum(-1) - 1) <= slack)


def refutation(
    rule: SelectionRule, ks: Iterable[int] = (1, 2, 3), pairs: Iterable[tuple[Array, Array]] = (), seconds: float = 1.5,
    tuples: int = 256, rounding: float = 1e-9, float_rounding: Mapping[str, float] = FLOAT_ROUNDING,
    clock: Callable[[], float] = process_time,
) -> Refutation | None:  # fmt: skip
    """Return a problem on which the rule overwrites its arguments, or else that with the largest distance from the target.

    Problems in Fractions go before problems in float64, and these before float32. None does not show that the rule is lossless.

    Parameters
    ----------
    rule : SelectionRule
        Rule to test under its draft law. Problems on which it raises an error are passed over.
    ks : iterable of int, default=(1, 2, 3)
        Numbers of draft tokens; those for which the draft law is not defined are left out.
    pairs : iterable of (p, q), default=()
        Pairs of arrays (n,), Fractions or float64, that are tried after the small problems, if their draft tuples are few.
    seconds : float, default=1.5
        CPU time after which no further problem is tried. A call of the rule is not interrupted.
    tuples : int, default=256
        Maximum number of draft tuples per problem in Fractions, all of which are enumerated.
    rounding : float, default=1e-9
        Distance up to which floats that a rule returns for Fractions do not refute it.
    float_rounding : mapping, default={"float64": 1e-6, "float32": 1e-4}
        Distance up to which the output distribution in float64 and float32 does not refute the rule.
    clock : callable, default=time.process_time
        Seconds, for tests.

    Returns
    -------
    Refutation or None
    """
    end, ks, new = clock() + seconds, tuple(ks), rule
    with suppress(Exception):  # a rule that cannot be copied is the same object in every test
        new = deepcopy(rule)
    worst: Refutation | None = None
    improper: Refutation | None = None
    for problem in [*small_problems(rule.law, ks, tuples), *problems_of(pairs, rule.law, ks)]:
        if clock() > end:
            break
        watched = Watched(rule, rounding)
        p, q = (x / x.sum() for x in (problem.p.astype(float), problem.q.astype(float)))
        floats = Problem(p, q, problem.k, problem.law)
        exact = is_exact(problem.p) and problem.n**problem.k <= tuples
        cases = {"": problem} if exact else {}
        for kind, case in (cases | {"float64": floats, "float32": _single(floats)}).items():
            distance = _distance(watched, case, float_rounding.get(kind, rounding))
            found = Refutation(problem, distance, kind=kind)
            if distance and (
                worst is None or (KINDS.index(kind), -distance) < (KINDS.index(worst.kind), -worst.distance)
            ):
                worst = found
        if watched.overwrites:
            return Refutation(problem, 0, watched.overwrites)
        improper = improper or (Refutation(problem, 0) if watched.improper else None)
    found_last = improper if improper and (worst is None or worst.kind) else worst
    few = [problem for problem in small_problems(rule.law, ks, tuples) if problem.n <= SMALL]
    return found_last or _refuted_again(new, few, rounding, clock, clock() + seconds)


def _single(problem: Problem) -> Problem:
    """The problem in float32."""
    p, q = (x.astype(np.float32) for x in (problem.p, problem.q))
    return Problem(p / p.sum(), q / q.sum(), problem.k, problem.law)


def _refuted_again(
    rule: SelectionRule, problems: Iterable[Problem], rounding: float, clock: Callable[[], float], end: float
) -> Refutation | None:
    """A problem on which a new copy of the rule is wrong in its second or third call: another pair of these sizes, and the first again."""
    for problem in problems:
        if clock() > end:
            break
        own = rule
        with suppress(Exception):
            own = deepcopy(rule)
        watched, other = Watched(own, rounding), Problem(problem.q, problem.p, problem.k, problem.law)
        for place, each in enumerate((problem, other, problem)):
            distance = _distance(watched, each, rounding)
            if distance and place:
                return Refutation(each, distance, again=True)
    return None


def _distance(watched: Watched, problem: Problem, rounding: float) -> Fraction | float:
    """Total variation distance from the target; 0 up to rounding, and where the rule raises an error.

    Infinite where the output is not a number though q drafts every token; for impossible drafts a rule may return anything.
    """
    with suppress(Exception, SystemExit):  # it may reject this problem; others are for the caller that runs the rule
        target = target_kept(watched.rule, problem.p, problem.q, problem.k)
        output = evaluate(watched, problem).output
        distance = abs(output - target).sum() / 2
        if distance != distance:
            return np.inf if (problem.q > 0).all() else 0
        return distance if distance > (0 if holds_fractions(output) else rounding) else 0
    return 0


def holds_fractions(*values: Array) -> bool:
    """Whether all numbers are Fractions or integers. An array of objects may hold floats, too."""
    return all(is_exact(x) and {type(each) for each in x.ravel().tolist()} <= {Fraction, int} for x in values)


def small_problems(law: DraftLaw, ks: Iterable[int], tuples: int) -> list[Problem]:
    """The corner cases with whole weights, and p that equals q for some tokens, in Fractions; those with few draft tuples first."""
    found, equal_in_part = [], ((1, 2, 3, 2), (1, 2, 1, 4))
    for p, q in (*CORNERS.values(), equal_in_part):
        if all(isinstance(weight, int) for weight in (*p, *q)):
            target, draft = ([Fraction(weight) / Fraction(sum(weights)) for weight in weights] for weights in (p, q))
            found += [Problem(target, draft, k, law) for k in ks if len(p) ** k <= tuples and is_defined(law, k)]
    return sorted(
        found, key=lambda problem: (problem.n == 1, problem.n**problem.k)
    )  # every rule is right for one token


def problems_of(
    pairs: Iterable[tuple[Array, Array]], law: DraftLaw, ks: Iterable[int], cells: int = 1 << 18
) -> list[Problem]:
    """The problems of the pairs with at most `cells` draft tuples times tokens."""
    return [
        Problem(p, q, k, law)
        for p, q in pairs
        for k in ks
        if is_defined(law, k) and len(p) ** (1 + law.count(len(p), k)) <= cells
    ]
