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


def second_draft_against_a_raw_residual(pair: Pair) -> Tables:
    """Two drafts; the second is tested against (p - q)+ that nobody has divided by its sum, and then p is drawn from."""
    good, p, q = right(pair), _p(pair), _q(pair)
    second = np.minimum(q, np.maximum(p - q, 0))
    return with_tables(good, refused=whatever_was_refused(second + (1 - second.sum(-1, keepdims=True)) * p))


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
    mass = _p(pair) * factor
    return _tested(mass / mass.sum(-1, keepdims=True), _q(pair), _q(pair))


def odds_bent_by_context(pair: Pair) -> Tables:
    """Odds of the tokens of even id are 20 % too large after tokens of even id, too small after the others."""
    states, even = np.arange(pair.n**2)[:, None], np.arange(pair.n) % 2 == 0
    return _bent(pair, np.where(even, np.where(states % 2 == 0, 1.2, 1 / 1.2), 1.0))


def odds_bent_by_parity(pair: Pair) -> Tables:
    """Odds of the tokens of even id are 20 % too large."""
    return _bent(pair, np.where(np.arange(pair.n) % 2 == 0, 1.2, 1.0))


def likeliest_bent_by_context(pair: Pair) -> Tables:
    """Odds of the likeliest token are 20 % too large or too small, by the context."""
    states = np.arange(pair.n**2)[:, None]
    return _bent(pair, np.where(_point(_p(pair)) > 0, np.where(states % 2 == 0, 1.2, 1 / 1.2), 1.0))


def logits_of_half_steps(pair: Pair) -> Tables:
    """Logarithms of the target are rounded to halves."""
    return _bent(pair, np.exp(np.round(2 * np.log(_p(pair))) / 2) / _p(pair))


def q_mixed_in(pair: Pair) -> Tables:
    """The target is mixed with a tenth of the draft's law."""
    mass = 0.9 * _p(pair) + 0.1 * _q(pair)
    return _tested(mass, _q(pair), _q(pair))


TABLES: dict[str, Callable[[Pair], Tables]] = {
    make.__name__: make
    for make in (
        greedy_draft, greedy_draft_always_taken, stale_q, stale_p, draft_of_another_temperature, target_of_another_temperature,
        bonus_of_another_temperature, one_uniform_twice, residual_of_the_row_before, residual_is_target,
        residual_without_the_draft, residual_of_absolute_difference, residual_with_a_floor, residual_greedy,
        bonus_from_the_draft, bonus_of_the_row_before, bonus_greedy, lenient, fixed_threshold, typical_acceptance,
        always_taken, ratio_upside_down, forgotten_division, top_p_after_the_test, top_k_bonus, min_p_target,
        coarse_target, banned_token, repetition_penalty, second_draft_against_a_raw_residual, noise_of_the_draft_again,
        odds_bent_by_context, odds_bent_by_parity, likeliest_bent_by_context, logits_of_half_steps, q_mixed_in,
    )
}  # fmt: skip


def _along(
    pair: Pair, share: float, shape: tuple[int, int], generator: np.random.Generator, old: Callable[[Array, Array], Array]
) -> Emitted:  # fmt: skip
    """Plain sampling by inverse transform, (requests, length), where a `share` of the tokens use an old random number.

    old(numbers of the tokens before, fresh numbers of this position): the old ones (R,), NaN where there is none.
    """
    requests, length = shape
    last, before = generator.integers(pair.n, size=requests), np.full(requests, np.nan)
    columns: list[tuple[Array, Array, Array]] = []
    for _ in range(length):
        fresh = generator.random(requests)
        numbers = old(before, fresh)
        used = (generator.random(requests) < share) & ~np.isnan(numbers)
        before = np.where(used, np.nan_to_num(numbers), fresh)
        token = inverse(pair.p[last], before)
        columns.append((token, np.full(requests, -1), last))
        last = token
    return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))


def number_of_the_token_before(
    pair: Pair, share: float, shape: tuple[int, int], generator: np.random.Generator
) -> Emitted:
    """A share of the tokens is drawn with the random number of the token before."""
    return _along(pair, share, shape, generator, lambda before, fresh: before)


def number_of_the_request_beside(
    pair: Pair, share: float, shape: tuple[int, int], generator: np.random.Generator
) -> Emitted:
    """A seed shared between requests: a share of every second request's tokens is drawn with its neighbour's number."""

    def beside(before: Array, fresh: Array) -> Array:
        numbers = np.full_like(fresh, np.nan)
        numbers[1::2] = fresh[: len(fresh) - 1 : 2]
        return numbers

    return _along(pair, share, shape, generator, beside)


RANDOMNESS = {make.__name__: make for make in (number_of_the_token_before, number_of_the_request_beside)}


def share_of_old_numbers(name: str, pair: Pair, bias: float) -> float:
    """The share that gives this mean total variation a token, given the token that the old number drew.

    Given that token's interval W the old number is uniform in W, and the new token x has probability |I_x and W| / |W|; enumerated
    over the last tokens of both and over W.
    """
    law = np.linalg.matrix_power(pair.p, 200)[0]
    end = pair.p.cumsum(1)
    start, lengths = end - pair.p, pair.p[:, None, None, :]
    low = np.maximum(start[:, None, None, :], start[None, :, :, None])
    common = np.maximum(np.minimum(end[:, None, None, :], end[None, :, :, None]) - low, 0)
    there = common / pair.p[None, :, :, None]  # now's last token, then's last token, then's token, now's token
    distance = np.abs(there - lengths).sum(-1) / 2
    if name == "number_of_the_token_before":
        whole = np.einsum("a,ax,xax->", law, pair.p, distance)
    else:
        whole = np.einsum("c,a,ax,cax->", law, law, pair.p, distance) / 2
    if whole < bias:
        raise ValueError(f"all tokens with old numbers differ by {whole:.4f} only")
    return bias / float(whole)
