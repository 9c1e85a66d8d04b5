"""Emitted tokens with the laws that were reported for them, as arrays: what every test of the audit reads.

A law is kept as its heaviest tokens and the rest, one number. Which tokens these are depends on the law alone, never on the token
that was emitted: otherwise the mass of "the tokens that we look at" would not be known beforehand, and no bet on it would be fair.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from ..arrays import Array
from ..errors import CannotAudit

TOP = 64  # tokens of a law that stay themselves
OFF = 1e-3  # by how much the masses of a law may miss 1, from float16 and printed digits
NO_TOKEN = -1


@dataclass(frozen=True)
class Tokens:
    """T emitted tokens and their laws, N heaviest tokens of each.

    token (T,): ids. ids, mass (T, N): the heaviest tokens in descending order, -1 and 0 where there are fewer. rest (T,): the mass
    of all others. own (T,): reported probability of the emitted token, NaN where nobody said it. request, position, batch (T,):
    which text, which place in it, which requests ran together. place (T,): how many tokens the same step of speculation had
    emitted before, -1 unknown. draft (T, N), draft_rest (T,): the draft model's law on the same tokens, NaN unknown.
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
    token, laws = np.asarray(token, dtype=np.int64), np.asarray(laws, dtype=np.float64)
    if laws.ndim != 2 or token.shape != laws.shape[:1]:
        raise CannotAudit(f"{token.shape} tokens for laws of shape {laws.shape}: give (T,) and (T, n)")
    laws = _checked(laws, "law")
    outside = np.flatnonzero((token < 0) | (token >= laws.shape[1]))
    if len(outside):
        row = outside[0]
        raise CannotAudit(f"row {row}: token {token[row]} is not one of the {laws.shape[1]} of its law")
    ids = np.argsort(-laws, axis=1, kind="stable")[:, :TOP]
    mass = np.take_along_axis(laws, ids, axis=1)
    rest = np.zeros(len(token)) if laws.shape[1] <= TOP else np.maximum(0.0, 1 - mass.sum(1))
    own = np.take_along_axis(laws, token[:, None], axis=1)[:, 0]
    draft, draft_rest = np.full(mass.shape, np.nan), np.full(len(token), np.nan)
    if "draft" in known:
        whole = _checked(np.asarray(known["draft"], dtype=np.float64), "draft law")
        draft = np.take_along_axis(whole, ids, axis=1)
        draft_rest = np.maximum(0.0, 1 - draft.sum(1))
    count = np.arange(len(token))
    default = {"request": 0 * count, "position": 0 * count - 1, "batch": 0 * count, "place": 0 * count - 1}
    names = {name: np.asarray(known.get(name, value), dtype=np.int64) for name, value in default.items()}
    return Tokens(token=token, ids=ids, mass=mass, rest=rest, own=own, draft=draft, draft_rest=draft_rest, **names)


def _checked(laws: Array, what: str) -> Array:
    total = laws.sum(axis=1)
    wrong = np.flatnonzero(~(laws.min(axis=1) >= 0) | ~(np.abs(total - 1) <= OFF))
    if len(wrong):
        row = wrong[0]
        least = laws[row].min()
        raise CannotAudit(
            f"row {row}: the {what} has sum {total[row]:.6g} and least entry {least:.6g}: give probabilities"
        )
    return laws / total[:, None]
