"""Emitted tokens with the laws that were reported for them, as arrays: what every test of the audit reads.

A law is kept as its heaviest tokens and the rest, one number. Which tokens these are depends on the law alone, never on the token
that was emitted: otherwise the mass of "the tokens that we look at" would not be known beforehand, and no bet on it would be fair.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit
from .moments import BINS, mixed
from .rounding import OFF, decimals_of, explains, relative_of

TOP = 64  # tokens of a law that stay themselves
NO_TOKEN = -1
MOST_IDS = 2**62  # token ids (digests of texts too), positions and places are below
UNNAMED = -(2**62)  # the text of a token that names none
# What is known of a token beside its law, and what stands for unknown.
NUMBERS = {"request": UNNAMED, "position": -1, "batch": 0, "place": -1}


@dataclass(frozen=True)
class Tokens:
    """T emitted tokens and their laws, N heaviest tokens of each.

    token (T,): ids. ids, mass (T, N): the heaviest tokens in descending order, -1 and 0 where there are fewer. rest (T,): the mass
    of all others. own (T,): reported probability of the emitted token, NaN where nobody said it. request, position, batch (T,):
    which text, which place in it, which requests ran together. place (T,): how many tokens the same step of speculation had
    emitted before, -1 unknown. draft (T, N), draft_rest (T,): the draft model's law on the same tokens, NaN unknown.
    As reported, before anything was divided: total (T,), sum of the masses; size (T,), how many there were; whole (T,), whether these
    are all tokens; relative, decimals (T,): error by the number type, and decimals in print (`rounding`).
    """

    token: Array
    ids: Array
    mass: Array
    rest: Array
    own: Array
    request: Array
    position: Array
    batch: Array
    place: Array
    draft: Array
    draft_rest: Array
    total: Array
    size: Array
    whole: Array
    relative: Array
    decimals: Array

    def __len__(self) -> int:
        return len(self.token)

    def take(self, rows: Array) -> Tokens:
        """These rows, in this order."""
        return Tokens(*(getattr(self, field.name)[rows] for field in fields(self)))

    @cached_property
    def slot(self) -> Array:
        """Index of the emitted token among the heaviest, -1 where it is one of the rest: (T,)."""
        found = self.ids == self.token[:, None]
        return np.where(found.any(1), found.argmax(1), -1)

    @cached_property
    def by_rank(self) -> tuple[Array, Array]:
        """The interval [a, b) of the emitted token where the unit interval is cut into the masses, heaviest first."""
        return self._interval(np.cumsum(self.mass, axis=1) - self.mass)

    @cached_property
    def by_id(self) -> tuple[Array, Array]:
        """The same where the masses lie in the order of token ids, and the rest behind them."""
        before = np.where(self.ids < self.token[:, None], self.mass, 0.0).sum(1)
        return self._interval(np.broadcast_to(before[:, None], self.mass.shape))

    @cached_property
    def shares(self) -> Array:
        """Parts of the emitted token's intervals, by rank and by id, in each of BINS parts of the unit interval: (T, 2 BINS)."""
        start, end = (BINS * np.stack(side, axis=1)[:, :, None] for side in zip(self.by_rank, self.by_id, strict=True))
        parts = np.clip(end - np.arange(BINS), 0.0, 1.0) - np.clip(start - np.arange(BINS), 0.0, 1.0)
        return (parts / np.maximum(end - start, 1e-300)).reshape(len(self), -1)

    @cached_property
    def context(self) -> Array:
        """A number for the law, the same for nearly the same laws: its four heaviest tokens, and sixteenths of the heaviest mass: (T,)."""
        return mixed(*self.ids[:, :4].T, np.rint(16 * self.mass[:, 0]))

    def along_ids(self, mass: Array) -> Array:
        """For every listed token the mass of those before it in the order of ids, and half its own: (T, N) -> (T, N)."""
        order = self._order
        there = np.take_along_axis(mass, order, axis=1)
        found = np.empty_like(mass)
        np.put_along_axis(found, order, np.cumsum(there, axis=1) - there / 2, axis=1)
        return found

    @cached_property
    def _order(self) -> Array:
        return np.argsort(self.ids, axis=1)

    def _interval(self, starts: Array) -> tuple[Array, Array]:
        start = self.at_slot(starts, 1 - self.rest)
        return start, np.minimum(start + self.at_slot(self.mass, self.rest), 1.0)

    def at_slot(self, values: Array, otherwise: Array | float) -> Array:
        """values[t, slot t], and `otherwise` where the emitted token is one of the rest: (T, N) -> (T,)."""
        there = values[np.arange(len(self)), self.slot]
        return np.where(self.slot >= 0, there, otherwise)


def dense_block(token: Array, laws: Array, **known: Array) -> Tokens:
    """Emitted tokens (T,) and whole laws (T, n) as one block; known: request, position, batch, place (T,), draft (T, n)."""
    token, laws = whole_numbers(token, "tokens"), real_numbers(laws, "laws")
    if laws.ndim != 2 or token.shape != laws.shape[:1] or not laws.shape[1]:
        raise CannotAudit(f"{token.shape} tokens for laws of shape {laws.shape}: give (T,) and (T, n)")
    if unknown := sorted(set(known) - {*NUMBERS, "draft"}):
        raise CannotAudit(f"{unknown[0]!r} is not known: the names are {', '.join(NUMBERS)}, draft")
    total = _totals(laws, "law")
    outside = np.flatnonzero((token < 0) | (token >= laws.shape[1]))
    if len(outside):
        row = outside[0]
        raise CannotAudit(f"row {row}: token {token[row]} is not one of the {laws.shape[1]} of its law")
    numbers = {name: np.full(len(token), value) for name, value in NUMBERS.items()}
    numbers |= {name: whole_numbers(known[name], name) for name in NUMBERS if name in known}
    if wrong := [name for name, each in numbers.items() if each.shape != token.shape]:
        raise CannotAudit(f"{wrong[0]} has shape {numbers[wrong[0]].shape} for {len(token)} tokens: give (T,)")
    for name in ("position", "place"):
        if len(token) and not -1 <= numbers[name].min() <= numbers[name].max() < MOST_IDS:
            raise CannotAudit(
                f"{name} is {numbers[name].min()} to {numbers[name].max()}: give numbers from 0 on below {MOST_IDS}"
            )
    ids = np.argsort(-laws, axis=1, kind="stable")[:, :TOP]
    mass = np.take_along_axis(laws, ids, axis=1)
    relative, decimals = relative_of(mass), decimals_of(mass)
    mass = mass / total[:, None]
    rest = np.zeros(len(token)) if laws.shape[1] <= TOP else np.maximum(0.0, 1 - mass.sum(1))
    own = np.take_along_axis(laws, token[:, None], axis=1)[:, 0] / total
    draft, draft_rest = np.full(mass.shape, np.nan), np.full(len(token), np.nan)
    if "draft" in known:
        drawn = real_numbers(known["draft"], "draft laws")
        if drawn.shape != laws.shape:
            raise CannotAudit(f"draft laws of shape {drawn.shape} for laws of shape {laws.shape}: give the same")
        draft = np.take_along_axis(drawn / _totals(drawn, "draft law")[:, None], ids, axis=1)
        draft_rest = np.maximum(0.0, 1 - draft.sum(1))
    size, whole = np.full(len(token), laws.shape[1]), np.ones(len(token), dtype=bool)
    return Tokens(token=token, ids=ids, mass=mass, rest=rest, own=own, draft=draft, draft_rest=draft_rest, total=total, size=size,
                  whole=whole, relative=relative, decimals=decimals, **numbers)  # fmt: skip


def whole_numbers(values: Array, what: str) -> Array:
    """As int64; CannotAudit where they are of another kind: 3.7 is no token."""
    found = _array(values, what)
    if not found.size:
        return np.zeros(found.shape, dtype=np.int64)
    if found.dtype.kind not in "iu":
        raise CannotAudit(f"{what} are not whole numbers but {found.dtype}: give whole numbers")
    if found.dtype.kind == "u" and found.max() >= 2**63:
        raise CannotAudit(f"{what} hold {found.max()}: give numbers below 2^63")
    return found.astype(np.int64)


def real_numbers(values: Array, what: str) -> Array:
    """As float64; CannotAudit for complex numbers, texts, truth values and lists of unequal lengths."""
    found = _array(values, what)
    real = found.dtype.kind in "fiu" or (found.dtype == object and all(isinstance(each, Real) for each in found.flat))
    if not real:
        raise CannotAudit(f"{what} are of type {found.dtype}: give real numbers")
    try:
        return found.astype(np.float64)
    except OverflowError as error:
        raise CannotAudit(f"{what} are no numbers ({error}): give real numbers") from error


def _array(values: Array, what: str) -> Array:
    try:
        return np.asarray(values)
    except (
        TypeError,
        ValueError,
        RuntimeError,
        OverflowError,
    ) as error:  # ragged lists, tensors elsewhere or of other types
        raise CannotAudit(f"{what} are no array ({error}): give an array of numbers") from error


def _totals(laws: Array, what: str) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        total = laws.sum(axis=1)
    least = laws.min(axis=1)
    for row in np.flatnonzero(~(least >= 0) | ~(np.abs(total - 1) <= OFF)):
        if not (least[row] >= 0 and np.isfinite(total[row]) and explains(laws[row], laws.shape[1], True)):
            raise CannotAudit(
                f"row {row}: the {what} has sum {total[row]:.6g} and least entry {least[row]:.6g}: give probabilities"
            )
    return total
