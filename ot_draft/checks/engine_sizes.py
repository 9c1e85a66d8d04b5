"""Properties at an engine's sizes: vocabularies of 1,000, eight drafts, batches of 64, masses of 1e-12, thousands of calls.

What is small enough is looked at in Fractions. What is not is looked at in float64 first; where that shows an output law that
is off beyond rounding, Fractions have the last word, so that what refutes is exact all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from time import process_time
from typing import Any

import numpy as np

from ..arrays import Array
from ..problem import Problem
from ..selection import SelectionRule
from .calls import (
    Convert,
    NoProbabilities,
    Tuples,
    as_given,
    is_no_function,
    law_alone,
    law_apart,
    law_of_rows,
    law_together,
    tuples_of,
)
from .rule_property import rule_property, without_torch
from .source import Counterexample, number, numbers
from .strategies import Strategy, large_problems, st
from .validity import slack_of

CALLS, PATIENCE = 6_000, 1.5  # calls without a look at the law, and seconds of the CPU that they may take
REPEATED = (
    "from ot_draft.checks.engine_sizes import repeated_calls\n"
    "repeated_calls(rule, problem)  # raises what was seen: it calls the rule thousands of times"
)
ALONE = 16  # tuples that are tried one by one
SINGLY = "called with p and q (n,), drafts (k,): "
EXACT = 1_500  # tuples times tokens times pairs that are looked at in Fractions
NEAR = {"float64": 1e-11, "float32": 1e-5}  # sum of the differences that rounding may make in a law
SHOWN_IN = (
    "from ot_draft.checks.engine_sizes import as_given, in_numpy, in_torch, output_of\n"
    "output = output_of(rule, problem, {}({!r}))\n"
    "for place in zip(*np.nonzero(abs(output - problem.p) > 1e-11)):\n    print(*place, output[place], problem.p[place])"
)
SHOWN = SHOWN_IN.replace("{}({!r})", "as_given").replace(" > 1e-11", " > 0")
AXES = ((), (1,), (2,), (3,), (5,), (1, 1), (2, 3), (1, 1, 1), (8,), (2, 2, 3), (16,), (33,), (4, 16), (64,), (2, 4, 8))


def large_problems_of(rule: SelectionRule) -> Strategy:
    """Problems of a single pair (p, q)."""
    return large_problems(rule.law) if not rule.solves else large_problems(rule.law, cells=100)


def requests_of(rule: SelectionRule) -> Strategy:
    """Batches of up to 64 requests in up to three axes."""
    return large_problems(rule.law, st.sampled_from(AXES), cells=1_500 if not rule.solves else 100)


def output_of(rule: Any, problem: Problem, convert: Convert, most: float = np.inf) -> Array | None:
    """The output law (..., n); None where it takes too many draft tuples. One pair has all its drafts in one call."""
    tuples = tuples_of(problem)
    if tuples is None or problem.n * sum(len(weight) for _, weight in tuples) > most:
        return None
    return (
        law_apart(rule, problem, tuples, convert) if problem.batch else law_together(rule, problem, tuples[0], convert)
    )


def in_numpy(dtype: str) -> Convert:
    """Fractions as numpy floats."""
    return lambda x: x.astype(dtype)


def in_torch(dtype: str) -> Convert:
    """Fractions as torch tensors."""
    import torch

    return lambda x: torch.tensor(x.astype(dtype))


def _off(output: Array, problem: Problem, slack: float) -> str:
    """What is wrong with an output law (..., n), worst row and token; empty where every row is near p (L1)."""
    exact = output.dtype == object
    target = (problem.p if exact else problem.p.astype(np.float64)).reshape(-1, problem.n)
    distance = abs(output.reshape(-1, problem.n) - target)
    sums = distance.sum(-1)
    if (sums <= slack).all():
        return ""
    row = int(np.argmax(sums))
    token = int(np.argmax(distance[row]))
    if problem.n <= 8 and len(target) == 1:
        return f"output law {numbers(output)} instead of {numbers(target)}"
    where = f"row {list(map(int, np.unravel_index(row, problem.batch)))}, " if problem.batch else ""
    return f"{where}token {token} has mass {number(output.reshape(-1, problem.n)[row, token])} instead of {number(target[row, token])}"


def compare_with_target(rule: Any, problem: Problem) -> None:
    """Raise a Counterexample unless every row has its target's law: in Fractions, or first in float64 where that is long."""
    try:
        output = output_of(rule, problem, as_given, EXACT)
    except NoProbabilities as error:
        raise Counterexample(problem, str(error), SHOWN) from None
    if output is None:
        if not _wrong_in(rule, problem, in_numpy("float64"), NEAR["float64"]):
            return
        output = output_of(rule, problem, as_given)
        if output is None:
            return
    slack = slack_of(output)
    if seen := _off(output, problem, slack):
        raise Counterexample(problem, *_settled(rule, problem, as_given, seen, SHOWN))
    if slack:
        seen = "gives floats for Fractions: the output law is right up to rounding"
        raise Counterexample(problem, seen, SHOWN, decides=False)


def _settled(rule: Any, problem: Problem, convert: Convert, seen: str, shows: str) -> tuple[str, str, bool]:
    """What was seen, Python that shows it, and whether it decides: not where the rule is no function of its arguments."""
    tuples = tuples_of(problem)
    apart = problem.batch or SINGLY in seen
    if apart and tuples and is_no_function(rule, problem, tuples, convert):
        said = "the same arguments get another answer the second time, each with the right law: a rule is a function"
        return f"{said}; {seen}", shows, False
    return seen, shows, True


def _wrong_in(rule: Any, problem: Problem, convert: Convert, near: float) -> str:
    """What is wrong with the law in floats, beyond rounding; empty where nothing is."""
    try:
        output = output_of(rule, problem, convert)
        if output is None:
            return ""
        seen = _off(output, problem, near)
        tuples = None if problem.batch or seen else tuples_of(problem)
        if tuples and len(tuples[0][1]) <= ALONE:
            seen = _off(law_alone(rule, problem, tuples[0], convert), problem, near)
            return seen and SINGLY + seen
        return seen
    except NoProbabilities as error:
        return str(error)


@rule_property(cases=large_problems_of, category="lossless", large=True)
def engine_sizes(rule: SelectionRule, problem: Problem) -> None:
    """The output law is p for vocabularies of up to 1,000 tokens, up to 8 drafts, and masses down to 1e-12."""
    compare_with_target(rule, problem)


@rule_property(cases=requests_of, most=60, category="lossless", large=True)
def output_law_in_batches(rule: SelectionRule, problem: Problem) -> None:
    """Every row of a batch has its own target's law: up to 64 requests in up to three axes, in any memory."""
    compare_with_target(rule, problem)


def pairs_in_turn_of(rule: SelectionRule) -> list[Problem]:
    """Four pairs that share p or q, or differ by 1e-8, and two drafts."""
    little, third = Fraction(1, 10**8), Fraction(1, 3)
    one, other, near = (
        [third, third, third],
        [third / 2, Fraction(1, 2), third],
        [third - little, third + little, third],
    )
    none = [Fraction(1), Fraction(0), Fraction(0)]
    pairs = [(one, other), (other, one), (one, none), (near, other)]
    p, q = (np.array(x, dtype=object) for x in zip(*pairs, strict=True))
    return [Problem(p, q, k, rule.law) for k in (1, 2, 3) if rule.law.is_defined(k)][:2][-1:]


@rule_property(cases=pairs_in_turn_of, category="lossless")
def repeated_calls(rule: SelectionRule, problem: Problem) -> None:
    """The output law is p whatever was asked before: other pairs in the same memory, forwards and backwards, 6,000 calls between."""
    tuples = tuples_of(problem)
    if tuples is None:
        return
    _in_turn(rule, problem, tuples, as_given, 0.0)
    apart = [Problem(p, q, problem.k, problem.law) for p, q in zip(problem.p, problem.q, strict=True)]
    if not any(
        _wrong_in(rule, pair, in_numpy("float64"), NEAR["float64"]) for pair in apart
    ):  # else a matter of floats
        _in_turn(rule, problem, tuples, in_numpy("float64"), NEAR["float64"])


def _in_turn(rule: Any, problem: Problem, tuples: list[Tuples], convert: Convert, near: float) -> None:
    # Fractions with an axis before the last: a sum over a single row of objects is a bare Fraction, which has no axes.
    p, q = (convert(x[:1].copy() if near == 0 else x[0].copy()) for x in (problem.p, problem.q))
    for turn in (*range(len(tuples)), *range(len(tuples) - 1, -1, -1), None, *range(len(tuples))):
        if turn is None:
            _call_often(rule, p, q, tuples[0][0][:1])
            continue
        p[...], q[...] = convert(problem.p[turn]), convert(problem.q[turn])
        pair = Problem(problem.p[turn], problem.q[turn], problem.k, problem.law)
        output = law_of_rows(rule, p, q, tuples[turn])
        if seen := _off(output, pair, slack_of(output) or near):
            raise Counterexample(problem, f"pair {turn}, after other calls: {seen}", REPEATED)


def _call_often(rule: Any, p: Array, q: Array, drafts: Array) -> None:
    start = process_time()
    for _ in range(CALLS):
        rule(p, q, drafts[0].copy())
        if process_time() - start > PATIENCE:
            return


def all_sizes_of(rule: SelectionRule) -> Strategy:
    """Single pairs and batches."""
    return large_problems_of(rule) | requests_of(rule)


@rule_property(cases=all_sizes_of, category="floats", large=True)
def law_in_floats(rule: SelectionRule, problem: Problem) -> None:
    """In float64 and float32 the output law is p up to rounding: 1e-11 and 1e-5, summed over the tokens."""
    _compare_in("numpy", in_numpy, rule, problem)


@rule_property(cases=all_sizes_of, most=60, reason_to_skip=without_torch, category="floats", large=True)
def law_in_torch(rule: SelectionRule, problem: Problem) -> None:
    """On torch tensors, too."""
    _compare_in("torch", in_torch, rule, problem)


def _compare_in(library: str, of: Callable[[str], Convert], rule: Any, problem: Problem) -> None:
    for dtype, near in NEAR.items():
        if seen := _wrong_in(rule, problem, of(dtype), near):
            shows = SHOWN_IN.format(f"in_{library}", dtype)
            raise Counterexample(problem, *_settled(rule, problem, of(dtype), f"{library} {dtype}: {seen}", shows))
