"""Blocks of emitted tokens with their distributions, as arrays: the input of every test of the audit.

A distribution is kept as its most probable tokens, and the total probability of the others. The choice of the tokens depends on the
distribution alone, never on the emitted token: otherwise their probability would not be known before the token, and no bet on them
would be fair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ...arrays import Array
from .grouped import BINS, hashed
from .records import TOP, Token
from .rounding import EXACT, SMALLEST, VOCABULARY, decimals_of, relative_of

NO_TOKEN = -1  # padding of lists


@dataclass(frozen=True)
class Tokens:
    """T emitted tokens and the N most probable tokens of each of their distributions.

    token (T,): ids. ids, mass (T, N): listed tokens and their probabilities in descending order, -1 and 0 as padding. residual_mass
    (T,): probability of all others. own (T,): reported probability of the emitted token, NaN if unknown. request, position, batch (T,):
    sequence, position in it, and which requests ran together. step_offset (T,): number of tokens that the same step of speculative
    decoding emitted before, -1 if unknown. draft (T, N), draft_residual_mass (T,): the draft model's distribution on the same tokens,
    NaN if unknown. Before normalisation: total (T,), sum of the probabilities; size (T,), their number; whole (T,), whether these are
    all tokens; relative, decimals (T,): error by the number type, and number of decimals (`rounding`); completed (T,): whether the
    emitted token may be listed because it was emitted (`past.ListLengths`); gaps (T,): whether tokens may be omitted that are more
    probable than a listed one.
    """

    token: Array
    ids: Array
    mass: Array
    residual_mass: Array
    own: Array
    request: Array
    position: Array
    batch: Array
    step_offset: Array
    draft: Array
    draft_residual_mass: Array
    total: Array
    size: Array
    whole: Array
    relative: Array
    decimals: Array
    completed: Array
    gaps: Array

    def __len__(self) -> int:
        return len(self.token)

    def take(self, rows: Array) -> Tokens:
        """Return these rows, in this order."""
        return Tokens(*(getattr(self, field.name)[rows] for field in fields(self)))

    def cut(self, least: Array) -> Tokens:
        """Return the tokens without listed tokens of a probability up to least (T,); -1 keeps a row unchanged."""
        rows, kept = least >= 0, self.mass > least[:, None]
        mass, draft = np.where(kept, self.mass, 0.0), np.where(kept | np.isnan(self.draft), self.draft, 0.0)
        some = rows & kept.any(1)
        return replace(
            self,
            ids=np.where(kept | ~rows[:, None], self.ids, NO_TOKEN),
            mass=mass,
            residual_mass=np.where(rows, np.maximum(0.0, 1 - mass.sum(1)), self.residual_mass),
            draft=draft,
            draft_residual_mass=np.where(rows, np.maximum(0.0, 1 - draft.sum(1)), self.draft_residual_mass),
            total=np.where(rows, mass.sum(1), self.total),
            size=np.where(rows, kept.sum(1), self.size),
            relative=np.where(some, np.maximum(self.relative, relative_of(mass)), self.relative),
            decimals=np.where(some, np.minimum(self.decimals, decimals_of(mass)), self.decimals),
        )

    def at_temperature(self, temperature: float, tolerance: float, rounding: float = 0.0) -> Tokens:
        """Return the tokens with their distributions p at another temperature than 1, and the error of these in `relative`.

        With a = 1 / temperature and S the sum of p(x)^a over the listed tokens, the listed ones have p(x)^a / Z. Let n be the number of
        other tokens, r an upper bound on their total probability, and m one on the largest: the least listed probability, or r if the
        list has gaps. Then Z is from S to S + r m^(a - 1) for a > 1, and from S to S + n^(1 - a) r^a for a < 1. The middle is taken.
        Tokens that are listed with probability 0 count as others. tolerance, rounding: relative and absolute error of p.
        """
        power, listed = 1 / temperature, self.mass > 0
        top = self.mass.max(1, initial=0.0)
        top = np.where(top > 0, top, 1.0)  # divides all probabilities: their powers may be below all floats
        found = np.where(listed, self.mass / top[:, None], 0.0) ** power
        total = np.maximum(found.sum(1), 1e-300)
        least = np.where(listed, self.mass, np.inf).min(1, initial=1.0)
        step = np.maximum(np.where(self.decimals < EXACT, 10.0 ** -self.decimals.astype(float) / 2, 0.0), rounding)
        step = np.maximum(step, np.where(self.relative > 0, SMALLEST, 0.0))
        missing = np.where(self.whole, np.abs(1 - self.total), 0.0)  # of a sum of 1
        off = self.relative + tolerance + missing
        whole = self.whole & (self.residual_mass == 0)  # apart from tokens that are rounded to 0
        unlisted = np.where(self.whole, self.size - listed.sum(1), VOCABULARY)
        rest = np.where(
            whole,
            np.where(unlisted > 0, unlisted * step + missing, 0.0),
            self.residual_mass + off * self.total + self.size * step,
        )
        most = np.where(self.gaps, rest, np.minimum(least * (1 + off) + step, rest))
        most, rest = most / top, rest / top
        with np.errstate(over="ignore"):  # an infinite error is one
            others = rest * most ** (power - 1) if power > 1 else unlisted ** (1 - power) * rest**power
        error = np.expm1(np.minimum(2 * power * np.log1p(off + step / least), 1.0)) - tolerance + others / (2 * total)
        mass = found / (total + others / 2)[:, None]
        return replace(
            self,
            ids=np.where(listed | (others == 0)[:, None], self.ids, NO_TOKEN),
            mass=mass,
            residual_mass=np.where(others == 0, 0.0, np.maximum(1e-12, 1 - mass.sum(1))),
            own=np.full(len(self), math.nan),
            total=np.where(self.whole, 1.0, mass.sum(1)),
            relative=np.maximum(error, 0.0),
            decimals=np.full(len(self), EXACT),
        )

    @cached_property
    def slot(self) -> Array:
        """Index of the emitted token in its list, -1 if it is not listed: (T,)."""
        found = self.ids == self.token[:, None]
        return np.where(found.any(1), found.argmax(1), -1)

    @cached_property
    def by_rank(self) -> tuple[Array, Array]:
        """The interval [a, b) of the emitted token, when the unit interval is cut into the probabilities in descending order."""
        return self._interval(np.cumsum(self.mass, axis=1) - self.mass)

    @cached_property
    def by_id(self) -> tuple[Array, Array]:
        """The same for probabilities in the order of token ids, unlisted tokens last."""
        before = np.where(self.ids < self.token[:, None], self.mass, 0.0).sum(1)
        return self._interval(np.broadcast_to(before[:, None], self.mass.shape))

    @cached_property
    def shares(self) -> Array:
        """Parts of the emitted token's intervals, by rank and by id, in each of BINS parts of the unit interval: (T, 2 BINS)."""
        start, end = (BINS * np.stack(side, axis=1)[:, :, None] for side in zip(self.by_rank, self.by_id, strict=True))
        parts = np.clip(end - np.arange(BINS), 0.0, 1.0) - np.clip(start - np.arange(BINS), 0.0, 1.0)
        return (parts / np.maximum(end - start, 1e-300)).reshape(len(self), -1)

    @cached_property
    def with_rest(self) -> tuple[Array, Array]:
        """The target's and the draft model's distribution, NaN if unknown, with all unlisted tokens as the last one: (T, N + 1) each."""
        return np.column_stack([self.mass, self.residual_mass]), np.column_stack([self.draft, self.draft_residual_mass])

    @cached_property
    def by_uniform(self) -> Array:
        """The distribution of a token, given in which of BINS parts of the unit interval the uniform number lies that tests its draft.

        (T, BINS, N + 1), all unlisted tokens as the last one; p itself if q is unknown. Draft token x is accepted if the number is below
        p(x) / q(x), otherwise the token is from the residual distribution: the mean over the parts is p.
        """
        p, q = self.with_rest
        drafted: Array = np.where(np.isnan(q[:, :1]), p, q)
        ratio: Array = p / np.maximum(drafted, 1e-300)
        below = np.clip(BINS * ratio[:, None] - np.arange(BINS)[:, None], 0.0, 1.0)
        taken, residual = drafted[:, None] * below, np.maximum(p - drafted, 0.0)
        residual /= np.maximum(residual.sum(1, keepdims=True), 1e-300)
        found: Array = taken + np.maximum(1 - taken.sum(2, keepdims=True), 0.0) * residual[:, None]
        return found

    @cached_property
    def context(self) -> Array:
        """A hash of the distribution, the same for similar ones: its four most probable tokens, and sixteenths of the largest one."""
        return hashed(*self.ids[:, :4].T, np.rint(16 * self.mass[:, 0]))

    def along_ids(self, mass: Array) -> Array:
        """For every listed token, the probability of listed tokens of lower ids, plus half its own: (T, N) -> (T, N)."""
        order = self._order
        there = np.take_along_axis(mass, order, axis=1)
        found = np.empty_like(mass)
        np.put_along_axis(found, order, np.cumsum(there, axis=1) - there / 2, axis=1)
        return found

    @cached_property
    def _order(self) -> Array:
        return np.argsort(self.ids, axis=1)

    def _interval(self, starts: Array) -> tuple[Array, Array]:
        start = self.at_slot(starts, 1 - self.residual_mass)
        return start, np.minimum(start + self.at_slot(self.mass, self.residual_mass), 1.0)

    def at_slot(self, values: Array, otherwise: Array | float) -> Array:
        """Return values[t, slot t], and `otherwise` if the emitted token is not listed: (T, N) -> (T,)."""
        there = values[np.arange(len(self)), self.slot]
        return np.where(self.slot >= 0, there, otherwise)


def stack(rows: Sequence[Token]) -> Tokens:
    """Return the tokens as one block."""
    token, laws, own, request, position, batch, step_offset, draft = zip(*rows, strict=True)
    counts = np.array([len(law.mass) for law in laws])
    there = np.arange(max(counts.max(), 1)) < counts[:, None]  # columns of each row, from the left
    ids, mass, q = (np.full(there.shape, filler) for filler in (NO_TOKEN, -1.0, 0.0))
    ids[there] = np.concatenate([law.ids for law in laws])
    mass[there] = np.concatenate([law.mass for law in laws])
    known = np.array([law is not None for law in draft])
    if known.any():
        q[there & known[:, None]] = np.concatenate([law for law in draft if law is not None])
    q[~known] = math.nan
    order = np.lexsort((ids, -mass), axis=-1)[:, :TOP]  # padding comes last
    ids, mass, q = (np.take_along_axis(side, order, axis=1) for side in (ids, mass, q))
    mass = np.maximum(mass, 0.0)
    divisor, whole, size, error, completed, gaps = (
        np.array(column) for column in zip(*(law[2:] for law in laws), strict=True)
    )
    total = np.where(whole, divisor, mass.sum(1))
    relative, decimals = np.maximum(relative_of(mass), error), decimals_of(mass)
    mass /= divisor[:, None]
    rest = np.where(whole & (size <= TOP), 0.0, np.maximum(0.0, 1 - mass.sum(1)))
    numbers = (np.array(column, dtype=np.int64) for column in (token, request, position, batch, step_offset))
    named = dict(zip(("token", "request", "position", "batch", "step_offset"), numbers, strict=True))
    draft_rest = np.maximum(0.0, 1 - q.sum(1))
    return Tokens(ids=ids, mass=mass, residual_mass=rest, own=np.array(own), draft=q, draft_residual_mass=draft_rest, total=total,
                  size=size, whole=whole, relative=relative, decimals=decimals, completed=completed, gaps=gaps, **named)  # fmt: skip
