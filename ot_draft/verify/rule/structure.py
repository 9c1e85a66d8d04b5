"""Properties of a rule as a function: array types, rows of a batch, token ids, absent drafts, samples, unchanged arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...arrays import Array, to_host
from ...exact import Evaluation, evaluate
from ...laws import DraftLaw, Fact, is_defined
from ...problem import Problem
from ...sampling import draw, sample
from ...selection import SelectionRule, target_kept
from ..corners import CORNERS
from ..e_values import log_e_value
from ..source import Counterexample, numbers
from .calls import tuples_of
from .drawn import SAMPLING
from .rule_property import a_few, as_floats, possible_drafts, rule_property, without_torch
from .strategies import ONLY, batches, large_problems, numbers_of_drafts, problems_without_ties, small_problems


@dataclass(frozen=True)
class Tolerance:
    """Largest allowed difference of floats from exact numbers. Parameters are rounded towards validity, which costs acceptance.

    distance: total variation distance of output distributions. acceptance: difference of acceptances.
    """

    distance: float
    acceptance: float


TOLERANCES = {"float64": Tolerance(1e-9, 1e-5), "float32": Tolerance(1e-4, 1e-3)}
ROW_ROUNDING = 1e-9  # max. difference of a probability of one row in float64


@rule_property(cases=small_problems)
def floats_agree(rule: SelectionRule, problem: Problem) -> None:
    """In floats the output distribution and the acceptance are the exact ones up to rounding, and accept and output keep the dtype."""
    _agree(rule, problem, "numpy", lambda x: x)


@rule_property(cases=small_problems, reason_to_skip=without_torch, category="floats")
def torch_agrees(rule: SelectionRule, problem: Problem) -> None:
    """On torch tensors the output distribution and the acceptance are the exact ones up to rounding, in float64 and float32."""
    _agree(rule, problem, "torch", _tensor)


def _agree(rule: SelectionRule, problem: Problem, library: str, convert: Callable[[Array], Any]) -> None:
    exact = evaluate(rule, problem)
    for dtype, tolerance in TOLERANCES.items():
        case = as_floats(problem, dtype)
        result = evaluate(rule, Problem(convert(case.p), convert(case.q), problem.k, problem.law))
        seen, distance = _differs(result, exact, dtype, tolerance)
        if seen:
            said = f"{library} {dtype}{seen}"
            raise Counterexample(problem, said, decides=distance is not None, distance=distance)


def _differs(result: Evaluation, exact: Evaluation, dtype: str, tolerance: Tolerance) -> tuple[str, float | None]:
    """Description of the error in floats, or empty, and the total variation distance of a wrong output distribution."""
    for name, values in (("accept", result.accept), ("output", result.output)):
        returned = str(values.dtype).removeprefix("torch.")
        if returned != dtype:
            return f" in, {name} in {returned} out", None
    output, wanted = (to_host(x).astype(np.float64) for x in (result.output, exact.output))
    distance = float(abs(output - wanted).sum()) / 2
    if not distance <= tolerance.distance:
        return f": output distribution {numbers(output)} instead of {numbers(wanted)}", distance
    if not abs(float(result.acceptance) - float(exact.acceptance)) <= tolerance.acceptance:
        return f": acceptance {float(result.acceptance)} instead of {float(exact.acceptance)}", None
    return "", None


def _needs_values(rule: SelectionRule) -> str:
    return without_torch(rule) or ("computes on the host, which needs values" if rule.cost.on_host else "")


def shapes(law: DraftLaw) -> list[Problem]:
    """One problem of each shape, since nothing on the meta device depends on values."""
    masses = np.array([Fraction(1, 3)] * 3, dtype=object)
    return [Problem(masses, masses, k, law) for k in numbers_of_drafts(law, (1, 2, 3))]


@rule_property(cases=shapes, reason_to_skip=_needs_values)
def no_host_sync(rule: SelectionRule, problem: Problem) -> None:
    """The rule reads no values and creates no array on another device: it runs on torch's meta device."""
    import torch

    p, q = (_tensor(x.astype(np.float32)).to("meta") for x in (problem.p, problem.q))
    selection = rule(p, q, torch.zeros(problem.k, dtype=torch.int64, device="meta"))
    for name, values in (("accept", selection.accept), ("residual", selection.residual)):
        if values.device.type != "meta" or values.dtype != p.dtype:
            seen = f"{name} is {values.dtype} on {values.device}; p is {p.dtype} on {p.device}"
            raise Counterexample(problem, seen)


@rule_property(cases=large_problems, most=60, category="arguments", large=True)
def inputs_unchanged(rule: SelectionRule, problem: Problem) -> None:
    """The rule does not modify p, q and drafts: Fractions, float64, and torch if it is installed."""
    tuples = tuples_of(problem)
    if tuples is None:
        return
    drafts, case = tuples[0][0][:8], as_floats(problem)
    calls = [(problem.p, problem.q, drafts), (case.p, case.q, drafts)]
    if not without_torch(rule):
        calls.append((_tensor(case.p), _tensor(case.q), _tensor(drafts)))
    for arrays in calls:
        before = [np.array(to_host(x)) for x in arrays]
        rule(*arrays)
        for name, x, old in zip(("p", "q", "drafts"), arrays, before, strict=True):
            if not np.array_equal(to_host(x), old):
                raise Counterexample(problem, f"{name} was {numbers(old)} and is {numbers(to_host(x))}")


def _tensor(x: Array) -> Any:
    import torch

    return torch.tensor(x)


@rule_property(cases=batches)
def batch_equals_loop(rule: SelectionRule, problem: Problem) -> None:
    """The output of a row in a batch is that of the row alone, exactly in Fractions."""
    pair_of, drafts = _rows(problem)
    # In floats one row of each pair, since errors of single rows are found above in Fractions.
    of_floats = np.unique(pair_of, return_index=True)[1]
    for case, rows in ((problem, range(len(pair_of))), (as_floats(problem), of_floats.tolist())):
        _compare_rows(rule, problem, case, pair_of, drafts, rows, "alone")


@rule_property(cases=batches)
def rows_do_not_leak(rule: SelectionRule, problem: Problem) -> None:
    """The output of a row does not depend on the other rows of its batch."""
    pair_of, drafts = _rows(problem)
    parts = [np.flatnonzero(pair_of == pair) for pair in range(len(problem.p))]
    for case in (problem, as_floats(problem)):
        _compare_rows(rule, problem, case, pair_of, drafts, parts, "with the rows of its own pair only")


def _compare_rows(
    rule: SelectionRule, problem: Problem, case: Problem, pair_of: Array, drafts: Array, parts: Iterable[Any], how: str
) -> None:
    """Compare the output of every part, a row or several, in a separate call with that in a call of all rows. how: the separate call."""
    together = rule(case.p[pair_of], case.q[pair_of], drafts).output(drafts)
    for part in parts:
        apart = rule(case.p[pair_of[part]], case.q[pair_of[part]], drafts[part]).output(drafts[part])
        shape = together[part].shape
        most = 0 if together.dtype == object else ROW_ROUNDING
        near = apart.shape == shape and abs(together[part] - apart) <= most
        if not np.all(near):
            wrong = np.flatnonzero(~np.broadcast_to(near, shape).reshape(-1, shape[-1]).all(-1))[0]
            row, law = int(np.atleast_1d(part)[wrong]), apart.reshape(-1, apart.shape[-1])[wrong]
            seen = f"outputs {numbers(together[row])} in a batch, {numbers(law)} {how}"
            seen = f"row {row} (pair {pair_of[row]}, drafts {drafts[row].tolist()}) {seen}"
            raise Counterexample(problem, seen)


def _rows(problem: Problem, tuples_per_pair: int = 4) -> tuple[Array, Array]:
    """Some possible drafts of every pair, concatenated: pair of each row (m,), drafts (m, k)."""
    pairs = [Problem(p, q, problem.k, problem.law) for p, q in zip(problem.p, problem.q, strict=True)]
    drafts = [a_few(possible_drafts(pair), tuples_per_pair) for pair in pairs]
    return np.repeat(np.arange(len(pairs)), [len(rows) for rows in drafts]), np.concatenate(drafts)


@rule_property(cases=problems_without_ties)
def relabelling_commutes(rule: SelectionRule, problem: Problem) -> None:
    """A permutation of the token ids permutes the output distribution and keeps the acceptance."""
    base = evaluate(rule, problem)
    for order in ([1, 0, *range(2, problem.n)], [*range(1, problem.n), 0]) if problem.n > 1 else ():
        case = Problem(problem.p[order], problem.q[order], problem.k, problem.law)
        result = evaluate(rule, case)
        seen = ""
        if not np.array_equal(result.output, base.output[order]):
            seen = f"output distribution {numbers(result.output)} instead of {numbers(base.output[order])}"
        elif (
            not abs(result.acceptance - base.acceptance) <= TOLERANCES["float64"].acceptance
        ):  # parameters may be rounded differently
            seen = f"acceptance {result.acceptance} instead of {base.acceptance}"
        if seen:
            raise Counterexample(problem, f"tokens in the order {order}: {seen}")


@rule_property(cases=small_problems)
def absent_drafts(rule: SelectionRule, problem: Problem) -> None:
    """Without drafts the residual is p, also on torch. If the draft law allows absent drafts anywhere, a -1 changes nothing."""
    p, q, k, only = problem.p, problem.q, problem.k, ONLY.get()
    none = np.full((1, k), -1)
    case = as_floats(problem)
    calls = [(p, q, none)] if without_torch(rule) else [(p, q, none), (_tensor(case.p), _tensor(case.q), _tensor(none))]
    for arrays in calls:
        selection, wanted = rule(*arrays), to_host(target_kept(rule, *arrays[:2], k))
        accept, residual = to_host(selection.accept), to_host(selection.residual)
        near = residual == wanted if arrays[0] is p else abs(residual - wanted) <= ROW_ROUNDING
        if (accept != 0).any() or not near.all():
            seen = f"all drafts are absent: accept {numbers(accept)}, residual {numbers(residual)}"
            raise Counterexample(problem, seen)
    kept = target_kept(rule, p, q, k)
    if Fact.ABSENT_ANYWHERE not in problem.law.facts or not np.array_equal(target_kept(rule, p, q, k + 1), kept):
        return  # the target of a lossy rule may depend on the number of positions
    drafts = a_few(possible_drafts(problem), 4)
    fewer = rule(p, q, drafts).output(drafts)
    shorter = k > 1 and is_defined(problem.law, k - 1) and (only is None or k - 1 in only)
    if shorter and np.array_equal(kept, target_kept(rule, p, q, k - 1)):
        ragged = np.concatenate((drafts, drafts))
        ragged[::2, -1] = -1  # every second row has one draft less
        rows = [row[None][:, row >= 0] for row in ragged]
        alone = np.concatenate([rule(p, q, row).output(row) for row in rows])
        _same_rows(problem, ragged, rule(p[None], q[None], ragged).output(ragged), alone, " in a batch")
    for place in range(k + 1) if only is None or k + 1 in only else ():
        padded = np.insert(drafts, place, -1, axis=1)
        _same_rows(problem, padded, rule(p, q, padded).output(padded), fewer)


def _same_rows(problem: Problem, drafts: Array, law: Array, wanted: Array, where: str = "") -> None:
    """Raise a Counterexample if the output of a row differs from the wanted one."""
    if not np.array_equal(law, wanted):
        row = int(np.flatnonzero((law != wanted).any(-1))[0])
        seen = f"{where} output {numbers(law[row])} instead of {numbers(wanted[row])}"
        raise Counterexample(problem, f"drafts {drafts[row].tolist()}{seen}")


def sampled_problems(law: DraftLaw) -> list[Problem]:
    """Corner cases in Fractions, with 1, 2 and 3 drafts if the draft law allows them."""
    allowed = numbers_of_drafts(law, (1, 2, 3))
    tried = []
    for turn, name in enumerate(SAMPLING.frequency_corners):
        p, q = ([Fraction(weight) / Fraction(sum(weights)) for weight in weights] for weights in CORNERS[name])
        tried.append(Problem(p, q, allowed[turn % len(allowed)], law))
    return tried


@rule_property(cases=sampled_problems)
def sampled_frequencies(rule: SelectionRule, problem: Problem) -> None:
    """Tokens and positions sampled by otd.sample, 10,000 per problem, follow the distributions that otd.evaluate computes.

    Over the seed of the generator, which is fixed, a correct rule fails with probability at most 1e-9: an e-value of 6e9 for
    each of six tests. Tokens at total variation distance 0.064 from the computed distribution, and positions (at most four
    outcomes) at 0.063, pass with probability 1e-6: `e_values.smallest_distance(10_000, 6, 1 / SAMPLING.frequency_limit)`.
    """
    case = as_floats(problem)
    generator = np.random.default_rng(0)
    drafts = draw(case.law, np.tile(case.q, (SAMPLING.draws, 1)), case.k, generator)
    token, position = sample(rule, case.p, case.q, drafts, generator)
    result = evaluate(rule, case)
    accept = np.maximum(result.accept, 0)
    _compare_counts(problem, "tokens", token, result.output)
    _compare_counts(problem, "positions, -1 first,", position + 1, np.append(max(0.0, 1 - accept.sum()), accept))


def _compare_counts(problem: Problem, name: str, outcomes: Array, law: Array) -> None:
    law = np.maximum(law, 0) / np.maximum(law, 0).sum()
    counts = np.bincount(outcomes, minlength=len(law))
    if len(counts) > len(law) or not log_e_value(counts, law) < np.log(SAMPLING.frequency_limit):
        shares = (counts / len(outcomes)).round(4).tolist()
        raise Counterexample(problem, f"{name} {shares} of {SAMPLING.draws} draws instead of {law.round(4).tolist()}")
