"""Samplers whose tables are right, and whose random numbers or moments are not: what no look at one step shows.

Each takes a pair and a generator and gives a run of about TOKENS tokens at its own full strength.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from verify.server.chains import LENGTH, Emitted, Pair, inverse, right

from ot_draft.arrays import Array

TOKENS = 40_000
ROWS = 8  # requests of a batch
Generator = np.random.Generator
Run = Callable[[Pair, Generator], Emitted]


def plain(pair: Pair, numbers: Array, laws: Array | None = None) -> Emitted:
    """Sampling by inverse transform with these numbers (R, T); laws (n, n) by the last token, if not the target's."""
    generator = np.random.default_rng(0)
    last = generator.integers(pair.n, size=len(numbers))
    columns: list[tuple[Array, Array, Array]] = []
    for column in numbers.T:
        token = inverse((pair.p if laws is None else laws)[last], column)
        columns.append((token, np.full(len(numbers), -1), last))
        last = token
    return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))


def replicas_with_one_seed(pair: Pair, generator: Generator) -> Emitted:
    """Two replicas of four rows each and one seed: rows i and i + 4 draw with the same numbers, after other prompts."""
    numbers = generator.random((ROWS // 2, TOKENS // ROWS))
    return plain(pair, np.concatenate([numbers, numbers]))


def replicas_with_one_seed_and_one_prompt(pair: Pair, generator: Generator) -> Emitted:
    """The same, with the same prompts: rows i and i + 4 are identical."""
    half = plain(pair, generator.random((ROWS // 2, TOKENS // ROWS)))
    return Emitted(*(np.concatenate([side, side]) for side in (half.token, half.place, half.last)))


def one_number_for_the_batch(pair: Pair, generator: Generator) -> Emitted:
    return plain(pair, np.tile(generator.random(TOKENS // ROWS), (ROWS, 1)))


def a_batch_of_64_in_two_halves(pair: Pair, generator: Generator) -> Emitted:
    """Rows i and i + 32 have the same numbers."""
    numbers = generator.random((32, TOKENS // 64))
    return plain(pair, np.concatenate([numbers, numbers]))


def a_batch_drawn_without_replacement(pair: Pair, generator: Generator) -> Emitted:
    """The rows' numbers are stratified: one in each eighth of the unit interval."""
    strata = generator.permuted(np.tile(np.arange(ROWS)[:, None], TOKENS // ROWS), axis=0)
    return plain(pair, (strata + generator.random(strata.shape)) / ROWS)


def the_number_before_mirrored(pair: Pair, generator: Generator) -> Emitted:
    """Every second number is 1 less the one before (antithetic)."""
    numbers = generator.random((ROWS, TOKENS // ROWS))
    numbers[:, 1::2] = 1 - numbers[:, : numbers.shape[1] // 2 * 2 : 2]
    return plain(pair, numbers)


def numbers_of_seven_bits(pair: Pair, generator: Generator) -> Emitted:
    """Numbers are multiples of 1/128."""
    return plain(pair, np.floor(128 * generator.random((ROWS, TOKENS // ROWS))) / 128)


def numbers_that_are_zero_too_often(pair: Pair, generator: Generator) -> Emitted:
    """One number in 32 is 0: the token of the least id."""
    numbers = generator.random((ROWS, TOKENS // ROWS))
    return plain(pair, np.where(generator.random(numbers.shape) < 1 / 32, 0.0, numbers))


def numbers_below_one_half_too_often(pair: Pair, generator: Generator) -> Emitted:
    """A congruential generator that is warmed up badly: numbers of density 1.1 below a half."""
    numbers = generator.random((ROWS, TOKENS // ROWS))
    return plain(pair, np.where(numbers < 0.55, numbers / 1.1, 1 - (1 - numbers) / 0.9))


def one_seed_for_every_request(pair: Pair, generator: Generator) -> Emitted:
    """Each request starts with the same seed, and runs alone."""
    emitted = plain(pair, np.tile(generator.random(16), (TOKENS // 16, 1)))
    return replace(emitted, batch=np.arange(TOKENS // 16))


def numbers_of_the_batch_before(pair: Pair, generator: Generator) -> Emitted:
    """A generator that is not advanced: every second batch has the numbers of the one before."""
    emitted = plain(pair, np.repeat(generator.random((TOKENS // 32, 16)), 2, axis=0))
    return replace(emitted, batch=np.arange(TOKENS // 16))


def one_stream_with_offsets(pair: Pair, generator: Generator) -> Emitted:
    """All requests read one stream of numbers, each from 100 places further on."""
    stream, length = generator.random(TOKENS // ROWS + 100 * ROWS), TOKENS // ROWS
    return plain(pair, np.stack([stream[100 * row : 100 * row + length] for row in range(ROWS)]))


def the_number_two_before(pair: Pair, generator: Generator) -> Emitted:
    """Half of the numbers are those of two places before."""
    numbers = generator.random((ROWS, TOKENS // ROWS))
    for place in range(2, numbers.shape[1]):
        if place % 4 >= 2:
            numbers[:, place] = numbers[:, place - 2]
    return plain(pair, numbers)


def from_position_200_on(pair: Pair, generator: Generator) -> Emitted:
    """A cache that overflows: from position 200 on the law is that of another row."""
    numbers = generator.random((100, TOKENS // 100))
    return _switched(pair, numbers, lambda column, last: np.full(len(last), column >= 200))


def every_sixteenth_token(pair: Pair, generator: Generator) -> Emitted:
    """The edge of a page of the cache: every sixteenth token is drawn from another row's law."""
    return _switched(
        pair, generator.random((ROWS, TOKENS // ROWS)), lambda column, last: np.full(len(last), column % 16 == 15)
    )


def the_first_token_is_greedy(pair: Pair, generator: Generator) -> Emitted:
    """The token after the prompt is the likeliest."""
    emitted = plain(pair, generator.random((TOKENS // 16, 16)))
    token = emitted.token.copy()
    token[:, 0] = pair.p[emitted.last[:, 0]].argmax(1)
    rest = _continued(pair, token[:, 0], generator.random((TOKENS // 16, 15)))
    return Emitted(np.c_[token[:, :1], rest.token], emitted.place, np.c_[emitted.last[:, :1], rest.last])


def the_last_row_of_a_batch(pair: Pair, generator: Generator) -> Emitted:
    """Only the eighth row of a batch is drawn from another row's law."""
    return _switched(
        pair, generator.random((ROWS, TOKENS // ROWS)), lambda column, last: np.arange(len(last)) == ROWS - 1
    )


def after_rare_tokens(pair: Pair, generator: Generator) -> Emitted:
    """After tokens 0 to 2 the law is another row's."""
    return _switched(pair, generator.random((ROWS, TOKENS // ROWS)), lambda column, last: last < 3)


def repeats_a_token(pair: Pair, generator: Generator) -> Emitted:
    """With probability .03 the last token comes again."""
    return _forced(pair, generator, 0.03, lambda last, chosen: last)


def a_token_of_the_row_above(pair: Pair, generator: Generator) -> Emitted:
    """With probability .05 a row gets the token of the row above it in the batch."""
    return _forced(pair, generator, 0.05, lambda last, chosen: np.roll(chosen, 1))


def a_uniform_token(pair: Pair, generator: Generator) -> Emitted:
    """With probability .03 any token at all."""
    return _forced(pair, generator, 0.03, lambda last, chosen: generator.integers(pair.n, size=len(last)))


def _switched(pair: Pair, numbers: Array, wrong: Callable[[int, Array], Array]) -> Emitted:
    """Plain sampling; where `wrong` of column and last token, from the law of the token that is one higher."""
    last, columns = np.random.default_rng(0).integers(pair.n, size=len(numbers)), []
    for column, row in enumerate(numbers.T):
        source = np.where(wrong(column, last), (last + 1) % pair.n, last)
        columns.append((inverse(pair.p[source], row), np.full(len(row), -1), last))
        last = columns[-1][0]
    return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))


def _continued(pair: Pair, last: Array, numbers: Array) -> Emitted:
    columns = []
    for row in numbers.T:
        columns.append((inverse(pair.p[last], row), np.full(len(row), -1), last))
        last = columns[-1][0]
    return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))


def _forced(pair: Pair, generator: Generator, share: float, other: Callable[[Array, Array], Array]) -> Emitted:
    """Plain sampling, but a share of the tokens is replaced by other(last tokens, tokens chosen)."""
    last, columns = generator.integers(pair.n, size=ROWS), []
    for _ in range(TOKENS // ROWS):
        chosen = inverse(pair.p[last], generator.random(ROWS))
        token = np.where(generator.random(ROWS) < share, other(last, chosen), chosen)
        columns.append((token, np.full(ROWS, -1), last))
        last = token
    return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))


def _linked(link: Callable[[Array, Array, Array], Array]) -> Run:
    """Speculative sampling with right tables; link(fresh, before, place): the numbers (R, 3) that draw draft, test and other token."""

    def emitted(pair: Pair, generator: Generator) -> Emitted:
        rows, tables = 50, right(pair)
        state, place = generator.integers(pair.n**2, size=rows), np.zeros(rows, dtype=int)
        numbers, columns = generator.random((rows, 3)), []
        for _ in range(TOKENS // rows):
            numbers = link(generator.random((rows, 3)), numbers, place)
            draft = inverse(tables.draft[state], numbers[:, 0])
            taken = (numbers[:, 1] < tables.accept[state, draft]) & (place < LENGTH)
            laws = np.where((place == LENGTH)[:, None], tables.bonus[state], tables.refused[state, draft])
            token = np.where(taken, draft, inverse(laws, numbers[:, 2]))
            columns.append((token, place, state % pair.n))
            place = np.where(taken, place + 1, 0)
            state = state % pair.n * pair.n + token
        return Emitted(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))

    return emitted


def _column(fresh: Array, which: int, values: Array) -> Array:
    return np.stack([values if i == which else fresh[:, i] for i in range(3)], axis=1)


LINKED: dict[str, Run] = {
    "one test number for all requests at a place": _linked(
        lambda fresh, before, place: _column(fresh, 1, fresh[place, 1])
    ),
    "recovery with the draft's number": _linked(lambda fresh, before, place: _column(fresh, 2, fresh[:, 0])),
    "test with the draft's number": _linked(lambda fresh, before, place: _column(fresh, 1, fresh[:, 0])),
    "recovery with the test's number": _linked(lambda fresh, before, place: _column(fresh, 2, fresh[:, 1])),
    "one test number a step": _linked(
        lambda fresh, before, place: _column(fresh, 1, np.where(place > 0, before[:, 1], fresh[:, 1]))
    ),
    "one draft number a step": _linked(
        lambda fresh, before, place: _column(fresh, 0, np.where(place > 0, before[:, 0], fresh[:, 0]))
    ),
    "recovery with the last recovery": _linked(lambda fresh, before, place: _column(fresh, 2, before[:, 2])),
}
RUNS: dict[str, Run] = LINKED | {
    make.__name__.replace("_", " "): make
    for make in (
        replicas_with_one_seed, replicas_with_one_seed_and_one_prompt, one_number_for_the_batch, a_batch_of_64_in_two_halves,
        a_batch_drawn_without_replacement, the_number_before_mirrored, numbers_of_seven_bits, numbers_that_are_zero_too_often,
        numbers_below_one_half_too_often, one_seed_for_every_request, numbers_of_the_batch_before,
        one_stream_with_offsets, the_number_two_before, from_position_200_on, every_sixteenth_token,
        the_first_token_is_greedy, the_last_row_of_a_batch, after_rare_tokens, repeats_a_token, a_token_of_the_row_above, a_uniform_token,
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


REUSED = {make.__name__.replace("_", " "): make for make in (number_of_the_token_before, number_of_the_request_beside)}


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
    if name == "number of the token before":
        whole = np.einsum("a,ax,xax->", law, pair.p, distance)
    else:
        whole = np.einsum("c,a,ax,cax->", law, law, pair.p, distance) / 2
    if whole < bias:
        raise ValueError(f"all tokens with old numbers differ by {whole:.4f} only")
    return bias / float(whole)
