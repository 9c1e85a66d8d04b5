"""Properties that decide whether a rule is lossless, in Fractions and in floats: its decisions and its output distribution.

A proper problem is a pair of distributions or a batch of pairs, k >= 1 draft tokens, none of them absent, and probabilities that are
normal float64 numbers. Small problems come first, then an engine's sizes: vocabularies of 1,000 tokens, eight draft tokens, batches
of 64, probabilities of 1e-12, thousands of calls. Small problems are computed in Fractions. Large problems are computed in float64
first. If the output distribution is wrong there beyond rounding, Fractions decide, so that a refutation is exact. A rule that returns
floats for Fractions is compared up to rounding: an error beyond rounding refutes the rule, a smaller one decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from time import process_time
from typing import Any

import numpy as np

from ...arrays import Array, broadcast_to, is_exact, is_torch, to_host
from ...exact import evaluate
from ...laws import DraftLaw, Fact, is_defined
from ...optimum import cut_value, optimal_cut
from ...problem import TOLERANCE, Problem
from ...selection import Selection, SelectionRule
from ..refutation import are_probabilities, holds_fractions
from ..source import EVALUATE, Counterexample, number, numbers
from . import calls
from .calls import Convert, NoProbabilities, Tuples, as_given, tuples_of
from .rule_property import as_floats, kept_problem, possible_drafts, rule_property, without_torch
from .strategies import (
    all_sizes,
    all_together,
    batches_together,
    boundary_list,
    extreme_list,
    large_problems,
    numbers_of_drafts,
    requests,
    single_together,
)

SLACK = 1e-9  # max. sum of differences of an output distribution of floats that a rule returns for Fractions
UNSEEN_CALLS_SECONDS = 1.5  # max. CPU time of calls between two comparisons of the output distribution
ROUNDING = {"float64": 1e-11, "float32": 1e-5}  # max. sum of differences by rounding, at an engine's sizes


def slack_of(*values: Array) -> float:
    """Largest allowed difference: 0 if all values are Fractions or integers, else SLACK."""
    return 0 if holds_fractions(*values) else SLACK


@dataclass(frozen=True)
class Difference:
    """Difference of an output distribution from the target: a description, and the largest total variation distance of the rows.

    tuple_by_tuple: whether the rule was called with one draft tuple at a time.
    """

    seen: str
    distance: Fraction | float | None = None
    tuple_by_tuple: bool = False

    def counterexample(self, problem: Problem, decides: bool = True) -> Counterexample:
        return Counterexample(problem, self.seen, decides, distance=self.distance)

    def said(self, before: str, after: str = "") -> Difference:
        """The difference with text before and after its description."""
        return replace(self, seen=before + self.seen + after)


def off(output: Array, problem: Problem, slack: float) -> Difference | None:
    """The worst row and token of a wrong output distribution (..., n); None if every row is within slack of p (L1), or p for slack 0."""
    target = (problem.p if output.dtype == object else problem.p.astype(np.float64)).reshape(-1, problem.n)
    if output.shape != problem.p.shape:
        return Difference(f"output distribution of shape {output.shape} instead of {problem.p.shape}")
    distance = abs(output.reshape(-1, problem.n) - target)
    sums = distance.sum(-1)
    if (sums <= slack).all() if slack else np.array_equal(output, problem.p):
        return None
    row = int(np.argmax(sums))
    token, variation = int(np.argmax(distance[row])), sums[row] / 2 if np.isfinite(float(sums[row])) else None
    if problem.n <= 8 and len(target) == 1:
        return Difference(f"output distribution {numbers(output)} instead of {numbers(target)}", variation)
    where = f"row {list(map(int, np.unravel_index(row, problem.batch)))}, " if problem.batch else ""
    mass, wanted = (number(x.reshape(-1, problem.n)[row, token]) for x in (output, target))
    return Difference(f"{where}token {token} has probability {mass} instead of {wanted}", variation)


def judge(problem: Problem, output: Array, settled: Callable[[Difference], Counterexample] | None = None) -> None:
    """Raise a Counterexample unless the output distribution is exactly p. settled: the counterexample of a difference."""
    slack = slack_of(output)
    if seen := off(output, problem, slack):
        raise settled(seen) if settled else seen.counterexample(problem)
    if slack and not np.array_equal(output, problem.p):
        said = "gives floats for Fractions: the output distribution is right up to rounding"
        raise Counterexample(problem, said, decides=False)


@rule_property(shows=EVALUATE, category="lossless")
def output_distribution(rule: SelectionRule, problem: Problem) -> None:
    """Averaged over the drafts, the output distribution is exactly the target: all drafts enumerated, in Fractions."""
    judge(problem, evaluate(rule, problem).output)


@rule_property(cases=boundary_list, shows=EVALUATE, category="lossless")
def boundary_cases(rule: SelectionRule, problem: Problem) -> None:
    """The output distribution is p on boundary cases, in Fractions: zeros, ties, one-hot distributions, p and q one ulp apart."""
    judge(problem, evaluate(rule, problem).output)


@rule_property(cases=extreme_list)
def extreme_cases(rule: SelectionRule, problem: Problem) -> None:
    """The output is correct for k = 0, a batch without rows and probabilities of 5e-324, in Fractions, float64 and torch."""
    for convert in (as_given, *_in_float64(rule)):
        _compare(rule, problem, convert)


@rule_property(cases=boundary_list, category="floats")
def boundary_cases_in_floats(rule: SelectionRule, problem: Problem) -> None:
    """The output distribution is p on boundary cases in float64, in NumPy and torch, up to rounding."""
    for convert in _in_float64(rule):
        _compare(rule, problem, convert)


def _in_float64(rule: SelectionRule) -> list[Convert]:
    """Conversions to float64 in NumPy, and in torch if it is installed."""
    return [in_numpy("float64"), *([] if without_torch(rule) else [in_torch("float64")])]


def _compare(rule: SelectionRule, problem: Problem, convert: Convert) -> None:
    p, q = convert(problem.p), convert(problem.q)
    case = Problem(p, q, problem.k, problem.law)
    kept, output = kept_problem(rule, case), evaluate(rule, case).output
    if not is_torch(p):
        seen = off(output, kept, 0.0 if p is problem.p else TOLERANCE["float64"])
    else:
        seen = off(to_host(output), Problem(to_host(kept.p), to_host(q), problem.k, problem.law), TOLERANCE["float64"])
        seen = seen and seen.said("torch: ")
    if seen:
        raise seen.counterexample(problem)


@rule_property(category="lossless")
def probabilities(rule: SelectionRule, problem: Problem) -> None:
    """accept is >= 0 with sum <= 1 and the residual is a distribution, given any drafts, in Fractions."""
    _compare_probabilities(rule, problem, problem)


@rule_property(category="floats")
def probabilities_in_floats(rule: SelectionRule, problem: Problem) -> None:
    """accept is >= 0 with sum <= 1 and the residual is a distribution in float64, up to 1e-9."""
    _compare_probabilities(rule, problem, as_floats(problem))


def _compare_probabilities(rule: SelectionRule, problem: Problem, case: Problem) -> None:
    n, drafts = problem.n, possible_drafts(case)  # in floats rounding can make a tie, and so another top token
    selection = rule(case.p, case.q, drafts)
    if selection.accept.shape != drafts.shape or selection.residual.shape not in {(n,), (len(drafts), n)}:
        seen = f"shapes {selection.accept.shape}, {selection.residual.shape}; drafts {drafts.shape}, n = {n}"
        raise Counterexample(problem, f"accept and residual have {seen}")
    slack = slack_of(selection.accept, selection.residual)
    accept, residual = selection.accept, broadcast_to(selection.residual, (len(drafts), n))
    fine = are_probabilities(Selection(accept, residual), drafts, slack)
    if not fine.all():
        row = int(np.argmin(fine))
        seen = f"accept {numbers(accept[row])}, residual {numbers(residual[row])}"
        if accept[row].sum() > 1 + slack:
            seen += ". accept must sum to at most 1. Return P(output = draft i), each test times the product of (1 - the tests before it)"
        raise Counterexample(problem, f"given drafts {drafts[row].tolist()}: {seen}")


@rule_property(category="lossless")
def at_most_the_optimum(rule: SelectionRule, problem: Problem) -> None:
    """The acceptance is at most 1 + p(H) - Q(all drafts in H), for the token set H that certifies the optimum."""
    acceptance = evaluate(rule, problem).acceptance
    _, token_set = optimal_cut(problem.p, problem.q, problem.k, problem.law)
    bound = cut_value(problem, token_set)
    slack = slack_of(np.asarray(acceptance))
    if not -slack <= acceptance <= bound + slack:
        seen = f"acceptance {number(acceptance)}, and no valid rule has more than {number(bound)}"
        raise Counterexample(problem, seen)


@rule_property(most=25)
def exactness(rule: SelectionRule, problem: Problem) -> None:
    """Fractions in, Fractions out: no float literal or float function on the way."""
    drafts = possible_drafts(problem)
    selection = rule(problem.p, problem.q, drafts)
    for name, values in (("accept", selection.accept), ("residual", selection.residual)):
        types = {type(value) for value in values.ravel()} if is_exact(values) else {values.dtype.type}
        if not types <= {Fraction, int} or not is_exact(values):
            seen = f"{name} holds {', '.join(sorted(each.__name__ for each in types))}"
            raise Counterexample(problem, seen)


def output_of(rule: Any, problem: Problem, convert: Convert, most: float = np.inf) -> Array | None:
    """The output distribution (..., n); None if there are too many draft tuples. A single pair gets all draft tuples in one call."""
    tuples = tuples_of(problem)
    if tuples is None or problem.n * sum(len(weight) for _, weight in tuples) > most:
        return None
    if problem.batch:
        return calls.law_apart(rule, problem, tuples, convert)
    return calls.law_together(rule, problem, tuples[0], convert)


def in_numpy(dtype: str) -> Convert:
    """Conversion of Fractions to NumPy floats."""
    return lambda x: x.astype(dtype)


def in_torch(dtype: str) -> Convert:
    """Conversion of Fractions to torch tensors."""
    import torch

    return lambda x: torch.tensor(x.astype(dtype))


@rule_property(cases=large_problems, together=single_together, category="lossless", large=True)
def engine_sizes(rule: SelectionRule, problem: Problem) -> None:
    """The output distribution is p for vocabularies of up to 1,000 tokens, up to 8 draft tokens, and probabilities down to 1e-12."""
    _compare_with_target(rule, problem)


@rule_property(cases=requests, together=batches_together, most=60, category="lossless", large=True)
def output_distribution_in_batches(rule: SelectionRule, problem: Problem) -> None:
    """The output distribution of every row of a batch is its own p: up to 64 requests in up to three axes, in six memory layouts."""
    _compare_with_target(rule, problem)


def _compare_with_target(rule: Any, problem: Problem, exact_cells: int = 1_500) -> None:
    """Compare in Fractions; above exact_cells, draft tuples times tokens times pairs, only after float64 shows an error."""
    try:
        output = output_of(rule, problem, as_given, exact_cells)
    except NoProbabilities as error:
        raise Counterexample(problem, str(error)) from None
    if output is None and _wrong_in(rule, problem, in_numpy("float64"), ROUNDING["float64"]):
        output = output_of(rule, problem, as_given)
    if output is not None:
        judge(problem, output, lambda seen: _settled(rule, problem, as_given, seen))


def _settled(rule: Any, problem: Problem, convert: Convert, seen: Difference) -> Counterexample:
    """The counterexample, which does not decide if the rule is not a function of its arguments."""
    tuples = tuples_of(problem)
    apart = problem.batch or seen.tuple_by_tuple
    if apart and tuples and calls.is_no_function(rule, problem, tuples, convert):
        said = "equal arguments give different outputs, and one call with all drafts the right distribution: a rule is a function; "
        return seen.said(said).counterexample(problem, decides=False)
    return seen.counterexample(problem)


def _wrong_in(rule: Any, problem: Problem, convert: Convert, near: float, single_tuples: int = 16) -> Difference | None:
    """Describe the error of the output distribution in floats beyond rounding; None if there is none.

    single_tuples: maximum number of draft tuples that are also given one by one.
    """
    try:
        output = output_of(rule, problem, convert)
        if output is None:
            return None
        seen = off(output, problem, near)
        tuples = None if problem.batch or seen else tuples_of(problem)
        if tuples and len(tuples[0][1]) <= single_tuples:
            seen = off(calls.law_alone(rule, problem, tuples[0], convert), problem, near)
            return seen and replace(seen.said("called with p and q (n,), drafts (k,): "), tuple_by_tuple=True)
        return seen
    except NoProbabilities as error:
        return Difference(str(error))


@rule_property(cases=all_sizes, together=all_together, category="floats", large=True)
def float_distribution(rule: SelectionRule, problem: Problem) -> None:
    """In float64 and float32 the output distribution is p up to rounding: 1e-11 and 1e-5, summed over the tokens."""
    _compare_in("numpy", in_numpy, rule, problem)


@rule_property(
    cases=all_sizes, together=all_together, most=60, reason_to_skip=without_torch, category="floats", large=True
)
def distribution_in_torch(rule: SelectionRule, problem: Problem) -> None:
    """On torch tensors the output distribution is p up to rounding, in float64 and float32."""
    _compare_in("torch", in_torch, rule, problem)


def _compare_in(library: str, of: Callable[[str], Convert], rule: Any, problem: Problem) -> None:
    for dtype, near in ROUNDING.items():
        if seen := _wrong_in(rule, problem, of(dtype), near):
            raise _settled(rule, problem, of(dtype), seen.said(f"{library} {dtype}: "))


def pairs_in_turn(law: DraftLaw) -> list[Problem]:
    """Four pairs that share p or q, or differ by 1e-8, with the second number of drafts that the draft law allows, if it has two."""
    little, third = Fraction(1, 10**8), Fraction(1, 3)
    one, other = [third, third, third], [third / 2, Fraction(1, 2), third]
    near, none = [third - little, third + little, third], [Fraction(1), Fraction(0), Fraction(0)]
    pairs = [(one, other), (other, one), (one, none), (near, other)]
    p, q = (np.array(x, dtype=object) for x in zip(*pairs, strict=True))
    return [Problem(p, q, k, law) for k in numbers_of_drafts(law, (1, 2, 3, 4))][:2][-1:]


@rule_property(category="lossless")
def padded_drafts(rule: SelectionRule, problem: Problem) -> None:
    """If the draft law allows absent drafts (-1) anywhere, the output distribution is p with one at any position, and with all absent."""
    _compare_padded(rule, problem, as_given)


@rule_property(category="floats")
def padded_drafts_in_floats(rule: SelectionRule, problem: Problem) -> None:
    """If the draft law allows absent drafts anywhere, the output distribution is p with them in float64, in NumPy and torch."""
    for convert in _in_float64(rule):
        _compare_padded(rule, problem, convert)


def _compare_padded(rule: Any, problem: Problem, convert: Convert) -> None:
    """Compare with k - 1 drafts and an absent one, then with k absent ones: always k columns, since a rule may take one k only.

    A failure decides nothing, because `DraftLaw.draw` returns all k drafts, and a rule for these alone may be lossless.
    """
    law, k = problem.law, problem.k
    if Fact.ABSENT_ANYWHERE not in law.facts or not is_defined(law, k - 1):
        return
    tuples = tuples_of(Problem(problem.p, problem.q, k - 1, law))
    if tuples is None:
        return
    drafts, weight = tuples[0]
    padded = [np.insert(drafts, position, -1, axis=1) for position in range(k)]
    for drafted in (*padded, np.full_like(padded[0], -1)):
        if seen := _wrong_for(rule, problem, (drafted, weight), convert):
            remedy = "; -1 is an absent draft: accept it with probability 0, or raise otd.InvalidDrafts"
            with suppress(Exception):  # a rule may take k columns only, or one column less
                if _wrong_for(rule, problem, (drafts, weight), convert):  # then absent drafts are not the cause
                    remedy = ""
            with suppress(Exception):
                full = tuples_of(problem)
                if full is not None and _wrong_for(rule, problem, full[0], convert):
                    remedy = ""
            raise seen.said(f"drafts like {drafted[-1].tolist()}: ", remedy).counterexample(problem, decides=False)


def _wrong_for(rule: Any, problem: Problem, tuples: Tuples, convert: Convert) -> Difference | None:
    """Describe the error of the output distribution for these draft tuples; None if there is none."""
    try:
        output = calls.law_together(rule, problem, tuples, convert)
        return off(output, problem, slack_of(output))
    except NoProbabilities as error:
        return Difference(str(error))


@rule_property(cases=pairs_in_turn, category="lossless")
def repeated_calls(rule: SelectionRule, problem: Problem) -> None:
    """The output distribution is p after other calls: other pairs in the same memory, in both orders, and 6,000 calls in between."""
    tuples = tuples_of(problem)
    if tuples is None:
        return
    _in_turn(rule, problem, tuples, as_given, 0.0)
    convert, near = in_numpy("float64"), ROUNDING["float64"]
    if not any(_wrong_in(rule, pair, convert, near) for pair in _alone(problem)):  # else a matter of floats
        _in_turn(rule, problem, tuples, convert, near)


@rule_property(cases=pairs_in_turn, reason_to_skip=without_torch, category="floats")
def repeated_calls_in_torch(rule: SelectionRule, problem: Problem) -> None:
    """On torch tensors the output distribution is p after calls with other pairs in the same memory, in both orders."""
    if tuples := tuples_of(problem):
        _in_turn(rule, problem, tuples, in_torch("float64"), ROUNDING["float64"], between=0)


def _alone(problem: Problem) -> list[Problem]:
    return [Problem(p, q, problem.k, problem.law) for p, q in zip(problem.p, problem.q, strict=True)]


def _in_turn(
    rule: Any, problem: Problem, tuples: list[Tuples], convert: Convert, near: float, between: int = 6_000
) -> None:
    """Compare pair after pair in the same memory. between: calls before the last round, whose results are ignored."""
    # Fractions with an axis before the last: a sum over a single row of objects is a bare Fraction, which has no axes.
    p, q = (convert(x[:1].copy() if near == 0 else x[0].copy()) for x in (problem.p, problem.q))
    pairs = _alone(problem)
    memory: dict[Any, Any] = {}
    for turn in (*range(len(tuples)), *range(len(tuples) - 1, -1, -1), None, *range(len(tuples))):
        if turn is None:
            start, calls_left = process_time(), between
            while calls_left and process_time() - start <= UNSEEN_CALLS_SECONDS:
                rule(p, q, tuples[0][0][0].copy())
                calls_left -= 1
            continue
        p[...], q[...] = convert(problem.p[turn]), convert(problem.q[turn])
        drafts = tuples[turn][0]
        drafted = memory.setdefault(drafts.shape, calls.like(drafts, p))
        drafted[...] = calls.like(drafts, p)
        output = calls.law_of_rows(rule, p, q, tuples[turn], drafted)
        if seen := off(output, pairs[turn], slack_of(output) or near):
            raise seen.said(f"pair {turn}, after other calls: ").counterexample(problem)
