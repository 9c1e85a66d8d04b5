"""Mean acceptance of a rule: by a formula, by enumeration, else estimated from random drafts; and it says which.

Two notions, which the papers mix up:

* *accepted*: the output is one of the drafted tokens, whichever way it got there. This is what the optimum bounds.
* *taken*: the rule takes a draft, E[sum_i accept_i]. What the residual puts on drafted tokens does not count. K-SEQ's bound
  is about this one. The two are equal where the residual has no mass on refused tokens, as for most rules here.

The formulas stand with the rules (`SelectionRule.closed_form`). Every one is held against `evaluate` in
tests/data/test_expected_acceptance.py, and against random drafts on real pairs.

All rules of a draft law are estimated from the same random draft tuples of a pair and k, so that their differences have less noise. A
control variate reduces the standard error: the acceptance of K-SEQ's sequence of tests on these tuples, whose expectation is known.
Where rare draft tuples carry most of the variance and were not drawn, the standard error is too small, as for every mean of a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal
from zlib import crc32

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument
from ..exact import evaluate
from ..laws import DraftLaw, Fact
from ..problem import Problem
from ..rules.k_seq.division_factor import division_factor
from ..sampling import draw
from ..selection import SelectionRule, checked, first_time

__all__ = ["expected_acceptance"]

Method = Literal["formula", "enumerated", "estimated"]
Place = tuple[int, ...]  # of a pair: the first numbers of its stream's key


@dataclass(frozen=True)
class EstimateSettings:
    """Sizes in cells: draft tuples times tokens.

    float_cells, exact_cells: maximum that is enumerated in floats, which takes some milliseconds, and in Fractions, about a second.
    cache_cells: cells at a time, as many as fit the cache of a core. A rule on the host gets all rows at once, since it plans once per
    call and its rows share one residual.
    """

    float_cells: int = 1 << 18
    exact_cells: int = 1 << 15
    cache_cells: int = 1 << 15


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of a rule on a problem, (...) each.

    value: probability that the output is a drafted token, whichever way it got there. taken: probability that the rule
    takes a draft, at most `value`; K-SEQ's bound is about this one. error: standard error of `value`, 0 unless estimated.
    method: "enumerated" (all draft tuples) and "formula" are exact in the problem's numbers, "estimated" is not.
    """

    value: Any
    taken: Any
    error: Any
    method: Method

    @property
    def exact(self) -> bool:
        """Whether the numbers are exact (to rounding, on floats)."""
        return self.method != "estimated"


def expected_acceptance(
    rule: SelectionRule,
    problem: Problem,
    samples: int = 256,
    generator: np.random.Generator | None = None,
    optimum: Any = None,
) -> Acceptance:
    """Return the expected acceptance of a rule for drafts that follow problem.law, without enumerating n^k tuples unless they are few.

    Fractions are enumerated if that takes about a second. Otherwise a closed form is used, then enumeration in floats, then the mean of
    the exact acceptance given random drafts.

    Parameters
    ----------
    rule : SelectionRule
        A rule.
    problem : Problem
        p and q of shape (..., n), k and the draft law.
    samples : int, default=256
        Number of random draft tuples, if they are needed.
    generator : numpy.random.Generator, optional
        Source of random numbers, with seed 0 by default.
    optimum : array of shape (...), optional
        Optimal acceptance of the problem, if it is known.

    Returns
    -------
    Acceptance
        Value, standard error and method.

    Examples
    --------
    >>> import ot_draft as otd
    >>> found = expected_acceptance(otd.rules.KSeq(), otd.Problem([0.5, 0.5], [0.75, 0.25], k=2))
    >>> found.method, round(float(found.value), 4)
    ('formula', 0.8476)
    """
    if xp.is_torch(problem.p):
        problem = Problem(problem.p.detach().cpu().numpy(), problem.q.detach().cpu().numpy(), problem.k, problem.law)
    settings = EstimateSettings()
    cells = problem.n ** (1 + problem.law.count(problem.n, problem.k)) * int(np.prod(problem.batch))
    if xp.is_exact(problem.p) and cells <= settings.exact_cells:
        return _enumerate(rule, problem)
    if form := closed_form(rule, problem, optimum):
        return Acceptance(*form, 0 * form[0], "formula")
    if xp.is_exact(problem.p):
        p, q = (masses.astype(np.float64) for masses in (problem.p, problem.q))
        return expected_acceptance(rule, Problem(p, q, problem.k, problem.law), samples, generator)
    if cells <= settings.float_cells:
        return _enumerate(rule, problem)
    return _estimate(rule, problem, samples, generator or np.random.default_rng(0))


def _enumerate(rule: SelectionRule, problem: Problem) -> Acceptance:
    evaluation = evaluate(rule, problem)
    return Acceptance(evaluation.acceptance, evaluation.accept.sum(-1), 0 * evaluation.acceptance, "enumerated")


def _estimate(
    rule: SelectionRule,
    problem: Problem,
    samples: int,
    generator: np.random.Generator,
    cache_cells: int = EstimateSettings.cache_cells,
) -> Acceptance:
    drafts = _drawn(problem, samples, generator, cache_cells)  # the same for every rule
    step = samples if rule.cost.on_host else max(1, cache_cells // (problem.n * int(np.prod(problem.batch))))
    parts = [
        _given(rule, problem.p, problem.q, drafts[..., start : start + step, :]) for start in range(0, samples, step)
    ]
    accepted, taken = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    control = _control(problem, drafts, cache_cells)
    value, error = mean_and_error(accepted - control)
    return Acceptance(value, mean_and_error(taken - control)[0], error, "estimated")


def mean_and_error(values: Array) -> tuple[Array, Array]:
    """Mean of values (..., rows) and its standard error. The mean is not clipped: it may exceed 1."""
    rows = values.shape[-1]
    return values.mean(-1), values.std(-1, ddof=1) / rows**0.5 if rows > 1 else np.inf + 0 * values[..., 0]


def _control(problem: Problem, drafts: Array, cache_cells: int = EstimateSettings.cache_cells) -> Array:
    """A function of draft tuples (..., rows, k) with expectation 0 under the draft law: (..., rows).

    It comes from K-SEQ's tests of the drafts in their order, each with probability t(x) = min(1, p(x) / (g q(x))) for the division
    factor g. For independent drafts it is 1 - prod_i (1 - t(x_i)) less its expectation 1 - (1 - sum_x q(x) t(x))^k: K-SEQ's acceptance.
    For others it is the martingale sum_i prod_{j < i} (1 - t(x_j)) (t(x_i) - E[t(x_i) | x_1 .. x_(i-1)]). It is subtracted with
    coefficient 1: a coefficient fitted to the sample is unreliable where rare draft tuples, which carry the difference, were not drawn.
    """
    p, q, law = (problem.p.astype(np.float64), problem.q.astype(np.float64), problem.law)
    factor = division_factor(p, q, np.full_like(p[..., :1], drafts.shape[-1]))
    test = np.minimum(xp.divide(p, factor * q, np.ones_like(p)), 1)
    passed = xp.gather(test[..., None, :], drafts)
    reached = np.cumprod(1 - passed, -1)
    if Fact.INDEPENDENT in law.facts:
        return (1 - (q * test).sum(-1)[..., None]) ** drafts.shape[-1] - reached[..., -1]
    before = np.concatenate([np.ones_like(reached[..., :1]), reached[..., :-1]], -1)
    return (before * (passed - _expected(test, q, drafts, law, cache_cells))).sum(-1)


def _expected(test: Array, q: Array, drafts: Array, law: DraftLaw, cache_cells: int) -> Array:
    """E[t(x_i) | x_1 .. x_(i-1)] for tests t, q (..., n) and drafts (..., rows, k): (..., rows, k)."""
    step = max(1, cache_cells // q.size)
    found = np.empty(drafts.shape)
    for start, i in product(range(0, drafts.shape[-2], step), range(drafts.shape[-1])):
        some = drafts[..., start : start + step, :]
        rows = np.broadcast_to(q[..., None, :], (*some.shape[:-1], q.shape[-1]))
        follows = law.conditional(rows, some, 0 * some[..., :1] + i)
        found[..., start : start + step, i] = (follows * test[..., None, :]).sum(-1)
    return found


def _given(rule: SelectionRule, p: Array, q: Array, drafts: Array) -> tuple[Array, Array]:
    """Acceptance given the drafts (..., rows, k), and the part that is taken: (..., rows) each."""
    originals = p[..., None, :], q[..., None, :], drafts
    given = tuple(map(np.copy, originals))  # the originals are also those of other rules
    selection = checked(rule(*given), p, drafts)
    if not all(map(np.array_equal, given, originals)):
        raise InvalidArgument(f"{rule.name} must not write into its arguments. Write into a copy, such as xp.copy(p).")
    taken = selection.accept.sum(-1, keepdims=True)[..., 0]
    left = xp.where(first_time(drafts), xp.gather(selection.residual, drafts), 0).sum(-1)
    return taken + (1 - taken) * left, taken


def _drawn(
    problem: Problem, rows: int, generator: np.random.Generator, cache_cells: int = EstimateSettings.cache_cells
) -> Array:
    """`rows` random drafts for every pair, (..., rows, k), in chunks of rows that fit a core's cache."""
    q, size = problem.q[..., None, :], int(np.prod(problem.batch))
    step = max(1, cache_cells // (problem.n * size))
    parts = [min(step, rows - done) for done in range(0, rows, step)]
    return np.concatenate(
        [
            draw(problem.law, xp.broadcast_to(q, (*problem.batch, part, problem.n)), problem.k, generator)
            for part in parts
        ],
        axis=-2,
    )


def closed_form(rule: SelectionRule, problem: Problem, optimum: Array | None = None) -> tuple[Array, Array] | None:
    """(accepted, taken), (...) each, or None where no formula is known. Exact on Fractions. k = 0 included.

    optimum: (...) of the problem, where the caller knows it.
    """
    if problem.k == 0:
        nothing = 0 * problem.p.sum(-1)
        return nothing, nothing
    return rule.closed_form(problem, optimum)


def evaluate_pairs(
    rule: SelectionRule,
    problem: Problem,
    samples: int,
    seed: int,
    place_of: Callable[[int], Place],
    optimum: Array | None = None,
) -> Acceptance:
    """Acceptance on many pairs (R, n) at a time, (R,) each. place_of: place of a row, which seeds its random drafts."""
    if not xp.is_exact(problem.p) and (form := closed_form(rule, problem, optimum)):
        return Acceptance(*form, 0 * form[0], "formula")
    stream = crc32(problem.law.name.encode())  # rules of one law share their draft tuples
    rows = []
    for row, (p, q) in enumerate(zip(problem.p, problem.q, strict=True)):
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*place_of(row), problem.k, stream)))
        alone = Problem(p, q, problem.k, problem.law)
        rows.append(expected_acceptance(rule, alone, samples, generator, None if optimum is None else optimum[row]))
    value, taken, error = (np.array([getattr(row, name) for row in rows]) for name in ("value", "taken", "error"))
    return Acceptance(value, taken, error, rows[0].method)
