"""Wrong samplers and steps: the faults of engines, and their kin, as changes of `mutants.Step`. Each has its kind and its check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mutants import Step, normal, plain_residual

import ot_draft as ot

Array = Any


@dataclass(frozen=True)
class Planted:
    """name; make() gives a new wrong function; by: checks of which one fails; form: "sampler", "step" or "path"; options."""

    name: str
    make: Callable[[], Any]
    by: tuple[str, ...]
    form: str = "sampler"
    options: dict[str, Any] = field(default_factory=dict)

    def report(self, **options: Any) -> Any:
        step = self.make()
        called = {"sampler": lambda: step.sampler, "step": lambda: step, "path": lambda: step.path}[self.form]()
        check = ot.check_sampler if self.form == "sampler" else ot.check_step
        path = {"path": True} if self.form == "path" else {}
        return check(called, batched=True, **{"seconds": None, **path, **self.options, **options})


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
    """The uniforms of the acceptance tests again for the recovery, or their complements."""

    def tests(self, generator: Any, shape: Any) -> Array:
        self.kept = generator.random(shape)
        return self.kept

    def recovery(self, generator: Any, shape: Any) -> Array:
        return self.kept[:, -1]


def with_shared(**more: Any) -> Step:
    noise = Shared()
    return Step(tests=noise.tests, recovery=noise.recovery, **more)


def seeded_anew(generator: Any) -> Any:
    generator.random()
    return np.random.default_rng(0)


# Laws.


def row_before(law: Array) -> Array:
    return np.roll(law, 1, axis=0)


def tempered(power: float) -> Any:
    return lambda law: law**power / (law**power).sum(-1, keepdims=True)


def one_hot(law: Array) -> Array:
    return np.eye(law.shape[-1])[law.argmax(-1)]


def mixed(share: float) -> Any:
    return lambda law: (1 - share) * law + share / law.shape[-1]


def truncated(most: int) -> Any:
    """Only the likeliest tokens are left."""

    def kept(law: Array) -> Array:
        if law.shape[-1] <= most:
            return law
        least = np.sort(law, -1)[:, -most, None]
        return normal(np.where(law >= least, law, 0), law)

    return kept


class Stale:
    """The law of the call before, of the same shape."""

    def __init__(self) -> None:
        self.kept: dict[Any, Array] = {}

    def __call__(self, law: Array) -> Array:
        before = self.kept.get(law.shape, law)
        self.kept[law.shape] = law.copy()
        return before


# Odds and residuals.


def times(factor: float) -> Any:
    return lambda ratio: ratio * factor


def forced(share: float) -> Any:
    """So many of the drafts are taken whatever the odds."""
    return lambda ratio: np.maximum(ratio, share)


def at_most(largest: float) -> Any:
    return lambda ratio: np.minimum(ratio, largest)


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


def over_the_batch(p: Array, q: Array) -> Array:
    left = np.maximum(p - q, 0)
    spare = np.maximum(left.mean(-1, keepdims=True).mean(0, keepdims=True), 1e-9)
    return np.where(p > 0, left + 0.1 * spare, 0)


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


# Where a batch, the number of drafts or the vocabulary has another size.


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
            with np.errstate(all="ignore"):
                ratio = np.nan_to_num(left[np.arange(m), x] / out[np.arange(m), x], nan=0.0, posinf=np.inf)
            taken = np.where((taken < 0) & new & (generator.random(m) < ratio), i, taken)
            left = np.where(new[:, None], plain_residual(left, out), left)
        recovered = Step().verify(left, q, drafts[:, :0], generator)[0]
        return np.where(taken >= 0, drafts[np.arange(m), taken], recovered), taken


class Uncapped(Step):
    """The last test of a path uses the ratio of the whole path without the cap: HSD's released code, as a test of prefixes."""

    def path(self, p: Any, q: Any, k: int, generator: Any) -> Any:
        drafts = np.zeros((len(q()), 0), dtype=int)
        ratio = np.ones(len(drafts))
        length, m = np.zeros(len(drafts), dtype=int), len(drafts)
        laws = []
        for t in range(k):
            laws.append((p(drafts), q(drafts)))
            x = self.draft(laws[-1][1], 1, generator)
            ratio = ratio * (laws[-1][0] / np.maximum(laws[-1][1], 1e-300))[np.arange(m), x[:, 0]]
            length = np.where(generator.random(m) < ratio, t + 1, length)
            drafts = np.concatenate((drafts, x), -1)
        laws.append((p(drafts), 0 * p(drafts)))
        token = np.zeros(m, dtype=int)
        for t, (of_p, of_q) in enumerate(laws):
            found = Step().verify(plain_residual(of_p, of_q), of_q, drafts[:, :0], generator)[0]
            token = np.where(length == t, found, token)
        return drafts, np.arange(k) < length[:, None], token


LAW = ("output_law",)
ANY_LAW = ("output_law", "possible_tokens", "possible_step", "joint_law", "declared_law", "given_drafts")
TIED = ("independent_steps", "output_law", "small_batches")
RULE = {"rule": ot.rules.RecursiveRejection()}
TOKENWISE = {"rule": ot.rules.SpeculativeSampling()}


def step(**faults: Any) -> Callable[[], Step]:
    return lambda: Step(**faults)


OF_LAW = [  # wrong law of the token, given laws and drafts: compared on the corners
    Planted("one uniform for all drafts", step(tests=one_for_all_drafts), LAW),
    Planted("one uniform for test and recovery", with_shared, LAW),
    Planted("uniforms of 4 bits", step(tests=of_bits(4)), LAW),
    Planted("uniforms of 8 bits", step(tests=of_bits(8)), LAW),
    Planted("uniforms of 4 bits, 1 for 0", step(tests=of_bits(4, 1)), LAW),
    Planted("recovery with 4 bits", step(recovery=of_bits(4)), LAW),
    Planted("uniforms not below 0.01", step(tests=at_least(0.01)), LAW),
    Planted("odds x 1.05", step(odds=times(1.05)), LAW),
    Planted("odds x 1.15", step(odds=times(1.15)), LAW),
    Planted("odds x 0.95", step(odds=times(0.95)), LAW),
    Planted("odds at most 0.95", step(odds=at_most(0.95)), LAW),
    Planted("5 % of the drafts forced", step(odds=forced(0.05)), ANY_LAW),
    Planted("odds to the power 0.9", step(odds=lambda ratio: ratio**0.9), LAW),
    Planted("residual is p", step(residual=target), LAW),
    Planted("residual |p - q|", step(residual=unclipped), LAW + ANY_LAW),
    Planted("residual p - q/2", step(residual=half_taken), LAW),
    Planted("residual + 0.01", step(residual=floored), LAW),
    Planted("residual squared", step(residual=squared), LAW),
    Planted("residual not updated between drafts", step(updates=False), LAW),
    Planted("q tempered by 0.9", step(q_seen=tempered(1 / 0.9)), LAW),
    Planted("q squared", step(q_seen=tempered(2)), LAW),
    Planted("q one-hot", step(q_seen=one_hot), LAW),
    Planted("q mixed with 2 % uniform", step(q_seen=mixed(0.02)), LAW),
    Planted("p tempered by 0.95", step(p_seen=tempered(1 / 0.95)), LAW),
    Planted("p mixed with 1 % uniform: top-k lost", step(p_seen=mixed(0.01)), ANY_LAW),
    Planted("equal drafts tested once", Deduplicated, LAW),
    Planted("drafts drawn at 0.9", step(drafted=tempered(1 / 0.9)), ("declared_law",), "step"),
]


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


@dataclass
class Drafting(Step):
    """Drafts that are changed once drawn: (drafts, q) -> drafts."""

    changed: Callable[[Array, Array], Array] = lambda drafts, q: drafts

    def draft(self, q: Array, k: int, generator: Any) -> Array:
        return self.changed(super().draft(q, k, generator), q)


def last_row_again(drafts: Array, q: Array) -> Array:
    """The last row has the drafts of the first."""
    other = drafts[[0]] if (np.take_along_axis(q[-1:], drafts[:1], -1) > 0).all() else drafts[-1:]
    return np.concatenate((drafts[:-1], other))


def together(m: int) -> Callable[[Any, Any], bool]:
    return lambda p, drafts: p[0] == m


def rows_of(*wrong: int) -> Callable[[int], Array]:
    return lambda m: np.isin(np.arange(m), [i % m for i in wrong])


ANYHOW = Step(odds=forced(1.0))
OTHERS = [
    Planted("one uniform for the batch", step(tests=one_for_the_batch), TIED),
    Planted("one uniform a place for all rows", step(tests=one_a_place), TIED),
    Planted("all rows recover from one uniform", step(recovery=one_for_the_batch), TIED),
    Planted("rows i and i + 4 share", step(tests=shared_by(lambda m: np.arange(m) & ~4)), TIED),
    Planted("rows 64 apart share", step(tests=shared_by(lambda m: np.arange(m) % 64)), TIED),
    Planted(
        "rows i and m - 1 - i share",
        step(tests=shared_by(lambda m: np.minimum(np.arange(m), m - 1 - np.arange(m)))),
        TIED,
    ),
    Planted("two requests of one seed", step(generator=TwoOfOneSeed), TIED, "step"),
    Planted("uniforms kept for 8 calls", lambda: Step(tests=Again(8), recovery=Again(8)), (*TIED, "reproducible")),
    Planted("uniforms used in two calls", lambda: Step(tests=Again(2)), (*TIED, "reproducible")),
    Planted("seeded anew in every call", step(generator=seeded_anew), TIED),
    Planted("q of the call before", lambda: Step(q_seen=Stale()), LAW),
    Planted("p of the call before", lambda: Step(p_seen=Stale()), ANY_LAW),
    Planted("q of the row before", step(q_seen=row_before), LAW),
    Planted("p of the row before", step(p_seen=row_before), ANY_LAW),
    Planted("rows swapped", step(after=swapped), ANY_LAW),
    Planted("the last row has the first one's token", step(after=last_from_first), ANY_LAW + TIED),
    Planted(
        "tokens of the call before, now and then", lambda: Step(after=TokenBefore()), (*ANY_LAW, *TIED, "reproducible")
    ),
    Planted("residual mixed over the batch", step(residual=over_the_batch), LAW),
    Planted("a batch of one takes every draft", lambda: Where(ANYHOW, together(1)), ANY_LAW + TIED),
    Planted("a batch of two: residual is p", lambda: Where(Step(residual=target), together(2)), ("small_batches",)),
    Planted("five rows: residual is p", lambda: Where(Step(residual=target), together(5)), ("small_batches",)),
    Planted("k > 4: residual is p", lambda: Where(Step(residual=target), lambda p, d: d[1] > 4), LAW),
    Planted("n > 64: the 64 likeliest only", lambda: Where(Step(p_seen=truncated(64)), lambda p, d: p[1] > 64), LAW),
    Planted("n > 64: residual is p", lambda: Where(Step(residual=target), lambda p, d: p[1] > 64), LAW),
    Planted("row 0 not verified", lambda: FirstRows(rows_of(0)), ANY_LAW + TIED),
    Planted("the last row not verified", lambda: FirstRows(rows_of(-1)), ANY_LAW + TIED),
    Planted("every seventh row not verified", lambda: FirstRows(lambda m: np.arange(m) % 7 == 6), ANY_LAW + TIED),
    Planted("rows from 64 on not verified", lambda: FirstRows(lambda m: np.arange(m) >= 64), ANY_LAW + TIED),
    # Drafting and verifying.
    Planted("the draft's noise again", step(race=True, shared=True), LAW, "step", {"k": 1}),
    Planted(
        "the draft's noise again, rule named",
        step(race=True, shared=True),
        ("output_law", "given_drafts"),
        "step",
        {"k": 1, **RULE},
    ),
    Planted("drafts and tests from one uniform", step(generator=Repeating), ANY_LAW, "step", {"k": 1}),
    Planted("greedy drafts", step(drafted=one_hot), ("declared_law",), "step"),
    Planted("drafts mixed with 5 % uniform", step(drafted=mixed(0.05)), ("possible_step",), "step"),
    Planted(
        "one draft repeated",
        lambda: Drafting(changed=lambda x, q: np.repeat(x[:, :1], x.shape[1], 1)),
        ("declared_law",),
        "step",
    ),
    Planted("sorted drafts", lambda: Drafting(changed=lambda x, q: np.sort(x, -1)), ("declared_law",), "step"),
    Planted(
        "drafts of the last row are those of the first",
        lambda: Drafting(changed=last_row_again),
        TIED + ANY_LAW,
        "step",
    ),
    Planted("equal drafts tested once", Deduplicated, LAW, "step"),
    Planted("acceptance of another draft flagged", step(after=other_draft_flagged), ("possible_step",), "step"),
    Planted("acceptance not flagged", step(after=without_flags), ("given_drafts",), "step", RULE),
    Planted("another equal draft flagged", step(after=first_equal_flagged), ("given_drafts",), "step", RULE),
    # Paths.
    Planted("path: the draft's noise again", step(race=True, shared=True), LAW, "path"),
    Planted("path: one uniform for all places and drafts", step(generator=Repeating), ANY_LAW, "path"),
    Planted("path: bonus token of the last draft's place", step(bonus=-1), ANY_LAW, "path"),
    Planted("path: residual of the first place", step(place_of_residual=lambda t: 0), ANY_LAW, "path"),
    Planted("path: q of the place before", step(place_of_q=lambda t: max(t - 1, 0)), ANY_LAW, "path"),
    Planted("path: drafts at 0.9", step(drafted=tempered(1 / 0.9)), ANY_LAW, "path"),
    Planted("path: odds x 1.05", step(odds=times(1.05)), ANY_LAW, "path"),
    Planted("path: residual is p", step(residual=target), ANY_LAW, "path"),
    Planted("path: the refused draft kept", step(after=one_more_kept), ANY_LAW, "path"),
    Planted("path: the last draft lost", step(after=one_less_kept), ANY_LAW, "path"),
    Planted("path: flags the other way round", step(after=a_later_draft_kept), ANY_LAW, "path"),
    Planted("path: ratio of the whole path, not capped", Uncapped, ANY_LAW, "path"),
    Planted("path: one uniform a place for all rows", step(tests=one_a_place), TIED, "path"),
    Planted("path: q one-hot", step(q_seen=one_hot), ANY_LAW, "path"),
]
PLANTED = OF_LAW + OTHERS
