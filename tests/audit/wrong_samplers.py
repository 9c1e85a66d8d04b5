"""Samplers that are wrong in the ways that engines have been wrong, all on the pairs of `chains`.

TABLES: token-wise ones, whose bias is enumerated. RANDOMNESS: ones whose tokens have the right law one by one, and whose random
numbers are not independent of what came before; their bias given the past is computed along the run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ot_draft.arrays import Array

from .chains import Emitted, Pair, Tables, inverse, residual, right, whatever_was_refused, with_tables


def _p(pair: Pair) -> Array:
    return pair.rows(pair.p)


def _q(pair: Pair) -> Array:
    return pair.rows(pair.q)


def _point(laws: Array) -> Array:
    return np.eye(laws.shape[-1])[laws.argmax(-1)]


def _warm(law: Array, temperature: float) -> Array:
    mass = law ** (1 / temperature)
    return mass / mass.sum(-1, keepdims=True)


def _tested(p: Array, q: Array, drafted: Array) -> Tables:
    """Drafts from one law, tested as if they came from q, for the target p."""
    return Tables(drafted, np.minimum(1, p / q), whatever_was_refused(residual(p, q)), p)


def greedy_draft(pair: Pair) -> Tables:
    """The draft is the draft model's likeliest token, and tested as if it were drawn from q."""
    return _tested(_p(pair), _q(pair), _point(_q(pair)))


def greedy_draft_always_taken(pair: Pair) -> Tables:
    """The likeliest token of the draft model, taken whenever it is the target's likeliest too."""
    p, q = _p(pair), _q(pair)
    same = (_point(p) * _point(q)).sum(-1, keepdims=True) * np.ones_like(p)
    return Tables(_point(q), same, whatever_was_refused(p), p)


def stale_q(pair: Pair) -> Tables:
    """Tested against q of the place before."""
    return _tested(_p(pair), pair.rows(pair.q, 1), _q(pair))


def stale_p(pair: Pair) -> Tables:
    """Tested against the target's law of the place before."""
    return with_tables(_tested(pair.rows(pair.p, 1), _q(pair), _q(pair)), bonus=_p(pair))


def draft_of_another_temperature(pair: Pair) -> Tables:
    """Drafts drawn at temperature .7, tested against q at 1."""
    return _tested(_p(pair), _q(pair), _warm(_q(pair), 0.7))


def target_of_another_temperature(pair: Pair) -> Tables:
    """The target's law at temperature .9, reported at 1."""
    return _tested(_warm(_p(pair), 0.9), _q(pair), _q(pair))


def bonus_of_another_temperature(pair: Pair) -> Tables:
    """Only the token after an accepted path is drawn at temperature .7."""
    return with_tables(right(pair), bonus=_warm(_p(pair), 0.7))


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


def residual_is_target(pair: Pair) -> Tables:
    """A refused draft is followed by a draw from p."""
    return with_tables(right(pair), refused=whatever_was_refused(_p(pair)))


def residual_without_the_draft(pair: Pair) -> Tables:
    """A refused draft is followed by a draw from p without this token."""
    good, p = right(pair), _p(pair)
    law = whatever_was_refused(p) * (1 - np.eye(pair.n))
    return with_tables(good, refused=law / law.sum(-1, keepdims=True))


def residual_of_absolute_difference(pair: Pair) -> Tables:
    """|p - q| in the place of (p - q)+."""
    mass = np.abs(_p(pair) - _q(pair))
    return with_tables(right(pair), refused=whatever_was_refused(mass / mass.sum(-1, keepdims=True)))


def residual_with_a_floor(pair: Pair) -> Tables:
    """max(p - q, .01): tokens that should have no mass in the residual get some."""
    mass = np.maximum(_p(pair) - _q(pair), 0.01)
    return with_tables(right(pair), refused=whatever_was_refused(mass / mass.sum(-1, keepdims=True)))


def residual_greedy(pair: Pair) -> Tables:
    """The likeliest token of the residual."""
    good = right(pair)
    return with_tables(good, refused=whatever_was_refused(_point(good.refused[:, 0, :])))


def bonus_from_the_draft(pair: Pair) -> Tables:
    """The token after an accepted path comes from q."""
    return with_tables(right(pair), bonus=_q(pair))


def bonus_of_the_row_before(pair: Pair) -> Tables:
    """The token after an accepted path comes from the target's law one place earlier."""
    return with_tables(right(pair), bonus=pair.rows(pair.p, 1))


def bonus_greedy(pair: Pair) -> Tables:
    """The token after an accepted path is the target's likeliest."""
    return with_tables(right(pair), bonus=_point(_p(pair)))


def lenient(pair: Pair) -> Tables:
    """Thresholds below 1: drafts are taken with probability p / (.7 q)."""
    good = right(pair)
    return with_tables(good, accept=np.minimum(1, _p(pair) / (0.7 * _q(pair))))


def fixed_threshold(pair: Pair) -> Tables:
    """Drafts are taken whenever p / q is at least .5, else tested."""
    good = right(pair)
    return with_tables(good, accept=np.where(_p(pair) >= 0.5 * _q(pair), 1.0, good.accept))


def typical_acceptance(pair: Pair) -> Tables:
    """Medusa's: drafts are taken whenever p is at least min(.09, .3 exp(-entropy)); else a draw from p."""
    p = _p(pair)
    entropy = -(p * np.log(p)).sum(-1, keepdims=True)
    accept = (p >= np.minimum(0.09, 0.3 * np.exp(-entropy))).astype(float)
    return Tables(_q(pair), accept, whatever_was_refused(p), p)


def always_taken(pair: Pair) -> Tables:
    """No test at all."""
    return with_tables(right(pair), accept=np.ones_like(_p(pair)))


def ratio_upside_down(pair: Pair) -> Tables:
    """Drafts are taken with probability q / p."""
    return with_tables(right(pair), accept=np.minimum(1, _q(pair) / _p(pair)))


def forgotten_division(pair: Pair) -> Tables:
    """Drafts are taken with probability p, the division by q forgotten."""
    return with_tables(right(pair), accept=_p(pair))


def _nucleus(law: Array, top_p: float) -> Array:
    order = np.argsort(-law, axis=-1)
    sorted_mass = np.take_along_axis(law, order, -1)
    keep = np.zeros_like(law)
    np.put_along_axis(keep, order, (sorted_mass.cumsum(-1) - sorted_mass < top_p).astype(float), -1)
    mass = law * keep
    return mass / mass.sum(-1, keepdims=True)


def top_p_after_the_test(pair: Pair) -> Tables:
    """The residual and the bonus are cut to the nucleus of .9 after the test."""
    good = right(pair)
    return with_tables(
        good, refused=whatever_was_refused(_nucleus(good.refused[:, 0, :], 0.9)), bonus=_nucleus(good.bonus, 0.9)
    )


def top_k_bonus(pair: Pair) -> Tables:
    """The bonus is drawn from the four likeliest tokens."""
    p = _p(pair)
    mass = np.where(p >= np.sort(p, axis=-1)[:, [-4]], p, 0)
    return with_tables(right(pair), bonus=mass / mass.sum(-1, keepdims=True))


def min_p_target(pair: Pair) -> Tables:
    """Tokens below .02 of the likeliest are cut from the target, and reported as if they were not."""
    p = _p(pair)
    mass = np.where(p >= 0.02 * p.max(-1, keepdims=True), p, 0)
    return _tested(mass / mass.sum(-1, keepdims=True), _q(pair), _q(pair))


def coarse_target(pair: Pair) -> Tables:
    """The target's probabilities are rounded to 1/32."""
    mass = np.round(_p(pair) * 32)
    mass += (mass.sum(-1, keepdims=True) == 0) * _p(pair)
    return _tested(mass / mass.sum(-1, keepdims=True), _q(pair), _q(pair))


def banned_token(pair: Pair) -> Tables:
    """Token 3 never comes (a stop token that is masked), and is reported as if it could."""
    mass = _p(pair) * (np.arange(pair.n) != 3)
    return _tested(mass / mass.sum(-1, keepdims=True), _q(pair), _q(pair))


def repetition_penalty(pair: Pair) -> Tables:
    """The last token's mass is halved, and reported as if it were not."""
    states = np.arange(pair.n**2)
    mass = _p(pair) * np.where(np.arange(pair.n) == (states % pair.n)[:, None], 0.5, 1.0)
    return _tested(mass / mass.sum(-1, keepdims=True), _q(pair), _q(pair))


def two_drafts_one_residual(pair: Pair) -> Tables:
    """Two drafts, tested one after the other against the same p and q; the residual is that of one."""
    good = right(pair)
    again = np.einsum("sd,sdx->sx", good.draft * (1 - good.accept), good.refused)
    second = good.accepted() + again
    return with_tables(good, refused=whatever_was_refused(second / second.sum(-1, keepdims=True)))


TABLES: dict[str, Callable[[Pair], Tables]] = {
    make.__name__: make
    for make in (
        greedy_draft, greedy_draft_always_taken, stale_q, stale_p, draft_of_another_temperature, target_of_another_temperature,
        bonus_of_another_temperature, one_uniform_twice, residual_of_the_row_before, residual_is_target,
        residual_without_the_draft, residual_of_absolute_difference, residual_with_a_floor, residual_greedy,
        bonus_from_the_draft, bonus_of_the_row_before, bonus_greedy, lenient, fixed_threshold, typical_acceptance,
        always_taken, ratio_upside_down, forgotten_division, top_p_after_the_test, top_k_bonus, min_p_target,
        coarse_target, banned_token, repetition_penalty, two_drafts_one_residual,
    )
}  # fmt: skip


def _along(
    pair: Pair, share: float, requests: int, length: int, generator: np.random.Generator,
    number: Callable[[Array | None, Array | None], Array]
) -> tuple[Emitted, float]:  # fmt: skip
    """Plain sampling by inverse transform, where a `share` of the tokens use an old random number: text and mean bias.

    number(of the token before (R,), all of this position (R,)): the old numbers, NaN where there is none. Given the past, which
    determines the interval of the old number, the law of a token is the mixture of p and the overlap with that interval; its
    distance from p is what is averaged.
    """
    last, before = generator.integers(pair.n, size=requests), None
    columns, distances = [], []
    for _ in range(length):
        laws = pair.p[last]
        fresh = generator.random(requests)
        old = number(before, fresh)
        used = (generator.random(requests) < share) & ~np.isnan(old)
        uniforms = np.where(used, np.nan_to_num(old), fresh)
        token = inverse(laws, uniforms)
        distances.append(np.where(np.isnan(old), 0, share * (1 - np.take_along_axis(laws, token[:, None], 1)[:, 0])))
        columns.append((token, last * 0 - 1, last))
        before, last = uniforms, token
    return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True))), float(np.mean(distances))


def number_of_the_token_before(
    pair: Pair, share: float, requests: int, length: int, generator: np.random.Generator
) -> Emitted:
    """A share of the tokens is drawn with the random number of the token before."""
    return _along(
        pair,
        share,
        requests,
        length,
        generator,
        lambda before, now: np.full_like(now, np.nan) if before is None else before,
    )[0]


def number_of_the_neighbouring_request(
    pair: Pair, share: float, requests: int, length: int, generator: np.random.Generator
) -> Emitted:
    """A seed shared between requests: a share of the tokens is drawn with the number of the request beside it in the batch."""

    def beside(before: Array | None, now: Array) -> Array:
        old = np.full_like(now, np.nan)
        old[1::2] = now[: len(now) - 1 : 2]
        return old

    return _along(pair, share, requests, length, generator, beside)[0]


RANDOMNESS = {make.__name__: make for make in (number_of_the_token_before, number_of_the_neighbouring_request)}
