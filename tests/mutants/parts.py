"""Wrong parts of a step, to be exchanged for its right ones (`step.Step`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .step import Step, normal, plain_residual, ratio

Array = Any

# Uniforms.


def one_for_all_drafts(generator: Any, shape: Any) -> Array:
    return np.broadcast_to(generator.random((shape[0], 1)), shape)


def one_for_the_batch(generator: Any, shape: Any) -> Array:
    return np.broadcast_to(generator.random((1,) * len(shape)), shape)


def one_a_place(generator: Any, shape: Any) -> Array:
    return np.broadcast_to(generator.random((1, *shape[1:])), shape)


def of_bits(bits: int, up: int = 0) -> Any:
    """Multiples of 2^-bits, 0 among them; with up = 1 in the place of 0 they have 1."""
    return lambda generator, shape: (generator.integers(0, 2**bits, shape) + up) / 2**bits


def at_least(smallest: float) -> Any:
    return lambda generator, shape: np.maximum(generator.random(shape), smallest)


def shared_by(rows: Callable[[int], Array]) -> Any:
    """Rows i and rows(m)[i] have the same uniforms."""
    return lambda generator, shape: generator.random(shape)[rows(shape[0])]


class Again:
    """Uniforms that were drawn once, for this shape, or for anything: used at every call, or at so many."""

    def __init__(self, times: int) -> None:
        self.times, self.kept = times, {}

    def __call__(self, generator: Any, shape: Any) -> Array:
        used, values = self.kept.get(shape, (0, None))
        if used % self.times == 0:
            values = generator.random(shape)
        self.kept[shape] = used + 1, values
        return values


class Shared:
    """The uniforms of the acceptance tests again for the recovery."""

    def tests(self, generator: Any, shape: Any) -> Array:
        self.kept = generator.random(shape)
        return self.kept

    def recovery(self, generator: Any, shape: Any) -> Array:
        return self.kept[:, -1]


def with_shared() -> Step:
    noise = Shared()
    return Step(tests=noise.tests, recovery=noise.recovery)


def seeded_anew(generator: Any) -> Any:
    generator.random()
    return np.random.default_rng(0)


class Repeating(np.random.Generator):
    """Gives the same uniforms for the same shape."""

    def __init__(self, generator: Any) -> None:
        super().__init__(generator.bit_generator)
        self.kept: dict[Any, Array] = {}

    def random(self, size: Any = None, *args: Any) -> Any:
        if size not in self.kept:
            self.kept[size] = super().random(size)
        return self.kept[size]


class TwoOfOneSeed(np.random.Generator):
    """Two rows of every batch of 71 and more have the same uniforms."""

    def __init__(self, generator: Any) -> None:
        super().__init__(generator.bit_generator)

    def random(self, size: Any = None, *args: Any) -> Any:
        values = super().random(size, *args)
        if values.ndim and len(values) > 70:
            values[70] = values[13]
        return values


# Laws, of the law and of that of the row or place before.


def before(law: Array, row_before: Array) -> Array:
    return row_before


def tempered(temperature: float) -> Any:
    return lambda law, *_: normal(law ** (1 / temperature), law)


def one_hot(law: Array, *_: Array) -> Array:
    return np.eye(law.shape[-1])[law.argmax(-1)]


def mixed(share: float) -> Any:
    return lambda law, *_: (1 - share) * law + share / law.shape[-1]


def truncated(most: int) -> Any:
    """Only the likeliest tokens are left."""

    def kept(law: Array, *_: Array) -> Array:
        if law.shape[-1] <= most:
            return law
        least = np.sort(law, -1)[:, -most, None]
        return normal(np.where(law >= least, law, 0), law)

    return kept


def nucleus(top_p: float) -> Any:
    def kept(law: Array, *_: Array) -> Array:
        order = np.argsort(-law, axis=-1)
        sorted_mass = np.take_along_axis(law, order, -1)
        keep = np.zeros_like(law)
        np.put_along_axis(keep, order, (sorted_mass.cumsum(-1) - sorted_mass < top_p).astype(float), -1)
        return normal(law * keep, law)

    return kept


def above(share: float) -> Any:
    """Tokens below this share of the likeliest are cut."""
    return lambda law, *_: normal(np.where(law >= share * law.max(-1, keepdims=True), law, 0), law)


def rounded(parts: int) -> Any:
    return lambda law, *_: normal(np.round(law * parts), law)


def without(token: int) -> Any:
    return lambda law, *_: normal(law * (np.arange(law.shape[-1]) != token), law)


def bent(factor: float) -> Any:
    """Odds of the tokens of even id are too large by this factor."""
    return lambda law, *_: normal(law * np.where(np.arange(law.shape[-1]) % 2 == 0, factor, 1.0), law)


def logits_in_halves(law: Array, *_: Array) -> Array:
    mass = np.where(law > 0, np.exp(np.round(2 * np.log(np.where(law > 0, law, 1))) / 2), 0)
    return normal(mass, law)


class Stale:
    """The law of the call before, of the same shape."""

    def __init__(self) -> None:
        self.kept: dict[Any, Array] = {}

    def __call__(self, law: Array, *_: Array) -> Array:
        found = self.kept.get(law.shape, law)
        self.kept[law.shape] = law.copy()
        return found


# Odds: of the drafted token's p and q, and of the row p.


def times(factor: float) -> Any:
    return lambda p_x, q_x, p: ratio(p_x, q_x, p) * factor


def to_the_power(power: float) -> Any:
    return lambda p_x, q_x, p: ratio(p_x, q_x, p) ** power


def forced(share: float) -> Any:
    """So many of the drafts are taken whatever the odds."""
    return lambda p_x, q_x, p: np.maximum(ratio(p_x, q_x, p), share)


def at_most(largest: float) -> Any:
    return lambda p_x, q_x, p: np.minimum(ratio(p_x, q_x, p), largest)


def from_threshold(least: float) -> Any:
    """Taken whenever p / q is at least this, else tested."""
    return lambda p_x, q_x, p: np.where(p_x >= least * q_x, 1.0, ratio(p_x, q_x, p))


def upside_down(p_x: Array, q_x: Array, p: Array) -> Array:
    return ratio(q_x, p_x, p)


def not_divided(p_x: Array, q_x: Array, p: Array) -> Array:
    return p_x


def typical(p_x: Array, q_x: Array, p: Array) -> Array:
    """Medusa's: taken whenever p is at least min(.09, .3 exp(-entropy))."""
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1, keepdims=True)
    return (p_x >= np.minimum(0.09, 0.3 * np.exp(-entropy))).astype(float)


# Residuals, of p and q.


def target(p: Array, q: Array) -> Array:
    return p


def unclipped(p: Array, q: Array) -> Array:
    return normal(abs(p - q), p)


def half_taken(p: Array, q: Array) -> Array:
    return normal(np.maximum(p - q / 2, 0), p)


def floored(p: Array, q: Array) -> Array:
    """A small number is added, against division by 0."""
    return np.where(p > 0, np.maximum(p - q, 0) + 1e-2, 0)


def squared(p: Array, q: Array) -> Array:
    return normal(np.maximum(p - q, 0) ** 2, p)


def greedy(p: Array, q: Array) -> Array:
    return one_hot(plain_residual(p, q))


def over_the_batch(p: Array, q: Array) -> Array:
    left = np.maximum(p - q, 0)
    spare = np.maximum(left.mean(-1, keepdims=True).mean(0, keepdims=True), 1e-9)
    return np.where(p > 0, left + 0.1 * spare, 0)


def second_against_a_raw_residual(p: Array, q: Array) -> Array:
    """Of two drafts the second is tested against (p - q)+ that nobody has divided by its sum, and then p is drawn from."""
    second = np.minimum(q, np.maximum(p - q, 0))
    return second + (1 - second.sum(-1, keepdims=True)) * p


# The law of the token after a whole path, of p, q, and the p of the place before.


def of_target(p: Array, q: Array, p_before: Array) -> Array:
    return p


def of_draft(p: Array, q: Array, p_before: Array) -> Array:
    return q


def of_place_before(p: Array, q: Array, p_before: Array) -> Array:
    return p_before


# Outcomes.


def swapped(drafts: Array, flags: Array, token: Array) -> Any:
    """Each two neighbouring rows."""
    order = np.arange(len(token)) ^ 1
    return drafts, flags, token[np.where(order < len(token), order, len(token) - 1)]


def last_from_first(drafts: Array, flags: Array, token: Array) -> Any:
    token[-1] = token[0]
    return drafts, flags, token


def without_flags(drafts: Array, flags: Array, token: Array) -> Any:
    return drafts, flags & False, token


def first_equal_flagged(drafts: Array, flags: Array, token: Array) -> Any:
    """Of equal drafts the last is flagged, whichever was taken."""
    k = drafts.shape[1]
    equal = (drafts == token[:, None]) & flags.any(-1, keepdims=True)
    last = k - 1 - equal[:, ::-1].argmax(-1)
    return drafts, (np.arange(k) == last[:, None]) & equal, token


def other_draft_flagged(drafts: Array, flags: Array, token: Array) -> Any:
    return drafts, np.roll(flags, 1, axis=-1), token


def a_later_draft_kept(drafts: Array, flags: Array, token: Array) -> Any:
    return drafts, flags[:, ::-1], token


def one_more_kept(drafts: Array, flags: Array, token: Array) -> Any:
    """The draft that was refused is kept."""
    k = flags.shape[1]
    return drafts, np.arange(k) <= np.minimum(flags.sum(-1, keepdims=True), k), token


def one_less_kept(drafts: Array, flags: Array, token: Array) -> Any:
    """The last draft that was taken is lost, where there are two."""
    length = flags.sum(-1, keepdims=True)
    return drafts, np.arange(flags.shape[1]) < np.where(length > 1, length - 1, length), token


class TokenBefore:
    """Every 16th call gives the tokens of the call before again, where the shape is the same."""

    def __init__(self) -> None:
        self.calls, self.kept = 0, np.zeros(0)

    def __call__(self, drafts: Array, flags: Array, token: Array) -> Any:
        self.calls += 1
        again = self.calls % 16 == 0 and self.kept.shape == token.shape
        token = self.kept if again else token
        self.kept = token
        return drafts, flags, token


# Where a batch, the number of drafts or the vocabulary has another size; whole steps.


class Where(Step):
    """Wrong where the shape says so: the rest of the time plain."""

    def __init__(self, wrong: Step, here: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self.wrong, self.here = wrong, here

    def verify(self, p: Array, q: Array, drafts: Array, generator: Any, noise: Array = None) -> Any:
        step = self.wrong if self.here(p.shape, drafts.shape) else Step()
        return step.verify(p, q, drafts, generator, noise)


class FirstRows(Step):
    """Only so many rows are verified; the others take the draft. Or: only the others."""

    def __init__(self, rows: Callable[[int], Array]) -> None:
        super().__init__()
        self.unverified = rows

    def verify(self, p: Array, q: Array, drafts: Array, generator: Any, noise: Array = None) -> Any:
        token, taken = super().verify(p, q, drafts, generator, noise)
        wrong = self.unverified(len(p)) & (p[np.arange(len(p)), drafts[:, 0]] > 0)
        return np.where(wrong, drafts[:, 0], token), np.where(wrong, 0, taken)


class Deduplicated(Step):
    """Equal drafts are tested once: right without replacement, not for i.i.d. drafts, where the residual is taken k times."""

    def verify(self, p: Array, q: Array, drafts: Array, generator: Any, noise: Array = None) -> Any:
        m, k = drafts.shape
        taken, left, out = np.full(m, -1), p, q
        for i in range(k):
            x = drafts[:, i]
            new = ~(drafts[:, :i] == x[:, None]).any(-1)
            odds = ratio(left[np.arange(m), x], out[np.arange(m), x], left)
            taken = np.where((taken < 0) & new & (generator.random(m) < odds), i, taken)
            left = np.where(new[:, None], plain_residual(left, out), left)
        recovered = Step().verify(left, q, drafts[:, :0], generator)[0]
        return np.where(taken >= 0, drafts[np.arange(m), taken], recovered), taken


class Uncapped(Step):
    """The last test of a path uses the ratio of the whole path without the cap: HSD's released code, as a test of prefixes."""

    def path(self, p: Any, q: Any, k: int, generator: Any) -> Any:
        drafts = np.zeros((len(q()), 0), dtype=int)
        whole = np.ones(len(drafts))
        length, m = np.zeros(len(drafts), dtype=int), len(drafts)
        laws = []
        for t in range(k):
            laws.append((p(drafts), q(drafts)))
            x = self.draft(laws[-1][1], 1, generator)
            whole = whole * (laws[-1][0] / np.maximum(laws[-1][1], 1e-300))[np.arange(m), x[:, 0]]
            length = np.where(generator.random(m) < whole, t + 1, length)
            drafts = np.concatenate((drafts, x), -1)
        laws.append((p(drafts), 0 * p(drafts)))
        token = np.zeros(m, dtype=int)
        for t, (of_p, of_q) in enumerate(laws):
            found = Step().verify(plain_residual(of_p, of_q), of_q, drafts[:, :0], generator)[0]
            token = np.where(length == t, found, token)
        return drafts, np.arange(k) < length[:, None], token


@dataclass
class Drafting(Step):
    """Drafts that are changed once drawn: (drafts, q) -> drafts."""

    changed: Callable[[Array, Array], Array] = lambda drafts, q: drafts

    def draft(self, q: Array, k: int, generator: Any) -> Array:
        return self.changed(super().draft(q, k, generator), q)


def first_repeated(drafts: Array, q: Array) -> Array:
    return np.repeat(drafts[:, :1], drafts.shape[1], 1)


def in_order(drafts: Array, q: Array) -> Array:
    return np.sort(drafts, -1)


def last_row_again(drafts: Array, q: Array) -> Array:
    """The last row has the drafts of the first."""
    other = drafts[[0]] if (np.take_along_axis(q[-1:], drafts[:1], -1) > 0).all() else drafts[-1:]
    return np.concatenate((drafts[:-1], other))


def rows_of(*wrong: int) -> Callable[[int], Array]:
    return lambda m: np.isin(np.arange(m), [i % m for i in wrong])
