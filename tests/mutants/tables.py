"""A planted fault as a token-wise sampler on a pair of Markov models: four tables, from which its bias is enumerated (`audit.chains`)."""

from __future__ import annotations

import numpy as np
from verify.server.chains import Pair, Tables, residual, right, whatever_was_refused, with_tables

from ot_draft.arrays import Array

from . import parts
from .step import Step, normal, same


def of_step(step: Step, pair: Pair) -> Tables:
    """What speculative sampling with the parts of this step does in every state; the row before is that of the token before."""
    p, q, p_before, q_before = _p(pair), _q(pair), pair.rows(pair.p, 1), pair.rows(pair.q, 1)
    seen_p = p if step.p_seen is same else step.p_seen(p, p_before)
    seen_q = q if step.q_seen is same else step.q_seen(q, q_before)
    accept = np.minimum(1, step.odds(seen_p, seen_q, seen_p))
    refused = whatever_was_refused(normal(step.residual(seen_p, seen_q), seen_p))
    if step.without_draft:
        refused = refused * (1 - np.eye(pair.n))
        refused = refused / refused.sum(-1, keepdims=True)
    last = seen_p if step.last is None else step.last(p, q, p_before)
    return Tables(step.drafted(q), accept, refused, last)


def _p(pair: Pair) -> Array:
    return pair.rows(pair.p)


def _q(pair: Pair) -> Array:
    return pair.rows(pair.q)


# Those that are not one part exchanged: by the context, or by the random number that refused the draft.


def greedy_draft_always_taken(pair: Pair) -> Tables:
    """The likeliest token of the draft model, taken whenever it is the target's likeliest too."""
    p, q = _p(pair), _q(pair)
    same = (parts.one_hot(p) * parts.one_hot(q)).sum(-1, keepdims=True) * np.ones_like(p)
    return Tables(parts.one_hot(q), same, whatever_was_refused(p), p)


def one_uniform_twice(pair: Pair) -> Tables:
    """The random number that refused the draft draws the token in its place too: it is known to be large."""
    good = right(pair)
    law = good.refused[:, 0, :]
    ends = law.cumsum(-1)
    low = good.accept[:, :, None]
    left = np.clip(ends[:, None, :], low, 1) - np.clip((ends - law)[:, None, :], low, 1)
    total = left.sum(-1, keepdims=True)
    return with_tables(good, refused=np.where(total > 0, left / np.where(total > 0, total, 1), good.refused))


def residual_of_the_row_before(pair: Pair) -> Tables:
    """The residual is that of the place before."""
    wrong = residual(pair.rows(pair.p, 1), pair.rows(pair.q, 1))
    return with_tables(right(pair), refused=whatever_was_refused(wrong))


def top_p_after_the_test(pair: Pair) -> Tables:
    """The residual and the bonus are cut to the nucleus of .9 after the test."""
    good, cut = right(pair), parts.nucleus(0.9)
    return with_tables(good, refused=whatever_was_refused(cut(good.refused[:, 0, :])), bonus=cut(good.bonus))


def repetition_penalty(pair: Pair) -> Tables:
    """The last token's mass is halved, and reported as if it were not."""
    states = np.arange(pair.n**2)
    return _bent(pair, np.where(np.arange(pair.n) == (states % pair.n)[:, None], 0.5, 1.0))


def shared_noise(p: Array, q: Array) -> Array:
    """The law of the token in a refused draft's place where draft and this one are drawn with the same exponential noise E: (S, n).

    The draft has the least E / q. That least is an exponential number M whatever the draft, and E = q M + F with fresh exponential F,
    so that in the race of E / r, r the residual, token x starts at M times q(x) / r(x), and then wins at the rate r(x). With tokens in the
    order of s = q / r, R and Q the sums of r and q over the first so many: P(x) = sum over the intervals of s from s(x) on of the
    integral of r(x) / (1 + R s - Q)^2.
    """
    r = residual(p, q)
    start = np.where(r > 0, q / np.where(r > 0, r, 1), np.inf)
    order = np.argsort(start, axis=-1)
    s, sorted_r, sorted_q = (np.take_along_axis(side, order, -1) for side in (start, r, q))
    rate, debt = np.cumsum(sorted_r, -1), np.cumsum(np.where(np.isfinite(s), sorted_q, 0), -1)
    begin = np.where(np.isfinite(s), s, 0)
    end = np.concatenate([s[:, 1:], np.full((len(s), 1), np.inf)], axis=-1)
    value = 1 / (1 + rate * begin - debt)
    at_end = np.where(np.isfinite(end), 1 / (1 + rate * np.where(np.isfinite(end), end, 0) - debt), 0.0)
    inside = np.where(np.isfinite(s), (value - at_end) / rate, 0.0)
    law = np.empty_like(r)
    np.put_along_axis(law, order, sorted_r * np.cumsum(inside[:, ::-1], -1)[:, ::-1], -1)
    return law


def noise_of_the_draft_again(pair: Pair) -> Tables:
    """The exponential noise that drew the draft draws the token in its place too (an engine did)."""
    return with_tables(right(pair), refused=whatever_was_refused(shared_noise(_p(pair), _q(pair))))


def _bent(pair: Pair, factor: Array) -> Tables:
    return of_step(Step(p_seen=lambda p, before: normal(p * factor, p)), pair)


def odds_bent_by_context(pair: Pair) -> Tables:
    """Odds of the tokens of even id are 20 % too large after tokens of even id, too small after the others."""
    states, even = np.arange(pair.n**2)[:, None], np.arange(pair.n) % 2 == 0
    return _bent(pair, np.where(even, np.where(states % 2 == 0, 1.2, 1 / 1.2), 1.0))


def likeliest_bent_by_context(pair: Pair) -> Tables:
    """Odds of the likeliest token are 20 % too large or too small, by the context."""
    states = np.arange(pair.n**2)[:, None]
    return _bent(pair, np.where(parts.one_hot(_p(pair)) > 0, np.where(states % 2 == 0, 1.2, 1 / 1.2), 1.0))


def q_mixed_in(pair: Pair) -> Tables:
    """The target is mixed with a tenth of the draft's law."""
    return of_step(Step(p_seen=lambda p, before: 0.9 * p + 0.1 * _q(pair)), pair)
