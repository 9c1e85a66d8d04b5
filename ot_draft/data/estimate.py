"""Mean acceptance of a rule: by a formula, by enumeration, else estimated from random drafts; and it says which.

Two notions, which the papers mix up:

* *accepted*: the output is one of the drafted tokens, whichever way it got there. This is what the optimum bounds.
* *taken*: the rule takes a draft, E[sum_i accept_i]. What the residual puts on drafted tokens does not count. K-SEQ's bound
  is about this one. The two are equal where the residual has no mass on refused tokens, as for most rules here.

The formulas stand with the rules (`SelectionRule.closed_form`). Every one is held against `evaluate` in
tests/data/test_expected_acceptance.py, and against random drafts on real pairs.

Every estimate has a stream of random numbers of its own, so that nothing depends on what else is computed, nor in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..exact import evaluate
from ..problem import Problem
from ..sampling import draw
from ..selection import SelectionRule, first_time

__all__ = ["expected_acceptance"]

Method = Literal["formula", "enumerated", "estimated"]

FLOAT_CELLS = 1 << 18  # draft tuples times tokens that are enumerated: some milliseconds in floats,
EXACT_CELLS = 1 << 15  # and a second or so in Fractions
# Rows times tokens at a time: what fits a core's cache takes half the time. But a rule on the host plans for the pair once a time, which
# takes longer than all rows, and these have one residual.
SAMPLE_CELLS = 1 << 15

Place = tuple[int, ...]  # of a pair: the first numbers of its stream's key


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
    cells = problem.n ** (1 + problem.law.count(problem.n, problem.k)) * int(np.prod(problem.batch))
    if xp.is_exact(problem.p) and cells <= EXACT_CELLS:
        return _enumerate(rule, problem)
    if form := closed_form(rule, problem, optimum):
        return Acceptance(*form, 0 * form[0], "formula")
    if xp.is_exact(problem.p):
        p, q = (masses.astype(np.float64) for masses in (problem.p, problem.q))
        return expected_acceptance(rule, Problem(p, q, problem.k, problem.law), samples, generator)
    if cells <= FLOAT_CELLS:
        return _enumerate(rule, problem)
    return _estimate(rule, problem, samples, generator or np.random.default_rng(0))


def _enumerate(rule: SelectionRule, problem: Problem) -> Acceptance:
    evaluation = evaluate(rule, problem)
    return Acceptance(evaluation.acceptance, evaluation.accept.sum(-1), 0 * evaluation.acceptance, "enumerated")


def _estimate(rule: SelectionRule, problem: Problem, samples: int, generator: np.random.Generator) -> Acceptance:
    step = samples if rule.cost.on_host else max(1, SAMPLE_CELLS // (problem.n * int(np.prod(problem.batch))))
    parts = [_sampled(rule, problem, min(step, samples - done), generator) for done in range(0, samples, step)]
    accepted, taken = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    error = accepted.std(-1, ddof=1) / np.sqrt(samples) if samples > 1 else np.inf + 0 * accepted[..., 0]
    return Acceptance(accepted.mean(-1), taken.mean(-1), error, "estimated")


def _sampled(rule: SelectionRule, problem: Problem, rows: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Acceptance given the drafts, and the part that is taken, for `rows` random drafts: (..., rows) each."""
    p, q = problem.p[..., None, :], problem.q[..., None, :]
    drafts = _drawn(problem, rows, generator)
    selection = rule(p, q, drafts)
    taken = selection.accept.sum(-1, keepdims=True)[..., 0]
    left = xp.where(first_time(drafts), xp.gather(selection.residual, drafts), 0).sum(-1)
    return taken + (1 - taken) * left, taken


def _drawn(problem: Problem, rows: int, generator: np.random.Generator) -> Array:
    """`rows` random drafts for every pair, (..., rows, k), in chunks of rows that fit a core's cache."""
    q, size = problem.q[..., None, :], int(np.prod(problem.batch))
    step = max(1, SAMPLE_CELLS // (problem.n * size))
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
    stream = crc32(f"{rule.name} {problem.law.name}".encode())
    rows = []
    for row, (p, q) in enumerate(zip(problem.p, problem.q, strict=True)):
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*place_of(row), problem.k, stream)))
        alone = Problem(p, q, problem.k, problem.law)
        rows.append(expected_acceptance(rule, alone, samples, generator, None if optimum is None else optimum[row]))
    value, taken, error = (np.array([getattr(row, name) for row in rows]) for name in ("value", "taken", "error"))
    return Acceptance(value, taken, error, rows[0].method)
