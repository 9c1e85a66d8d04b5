"""What a draft law is: the joint law of the k drafts given q, and everything that other rooms ask of it.

Mixing laws up is the commonest bug of the field, hence a law is an object, and a rule says which law it is valid under. A law
knows the probability of a draft tuple, how to draw one from given uniforms, the law of each draft given those before it, and an
order of the tokens among whose prefixes H a minimum cut is found (alpha* = 1 + min_H p(H) - Q(all drafts in H)).

Where q has no mass left to draw from, every law draws uniformly from the tokens not drafted yet (Sequoia's rule); when no
token is left, the draft is absent (-1).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidDrafts
from . import sets

Prefix = tuple[int, ...]


class DraftLaw(ABC):
    """Joint law of k drafts given q. Shapes: q (..., n), drafts (..., k), token sets bool (..., n).

    Four methods make a law; whatever else is asked of it has an answer here that is right for every law, and that a law
    replaces where it knows a quicker or a stronger one.
    """

    # Whether the first draft is a draw from q, whatever comes after it.
    first_follows_q: ClassVar[bool] = False
    # Whether the drafts other than fixed top tokens are i.i.d. draws from q outside them.
    independent: ClassVar[bool] = False
    # Whether an absent draft says nothing about the others, so that it may stand anywhere in the list.
    absent_anywhere: ClassVar[bool] = False
    # Path rules for trees of this law, in the words of an error.
    remedy: ClassVar[str] = "take NaiveTarget(), which is valid under every law"

    @abstractmethod
    def draw(self, q: Array, uniforms: Array) -> Array:
        """Drafts made from k independent uniforms in [0, 1): (..., n), (..., k) -> int (..., k)."""

    @abstractmethod
    def child(self, q: Array, siblings: Array, place: Array, number: Any = None) -> Array:
        """Law (..., n) of the draft at this place, int (..., 1), given those before it.

        siblings: int (..., C) all drafts in drawing order, -1 beyond the last; of the later ones no more is read than which are
        fixed ones, which are no draws. number: int (..., 1), how many these are, as at the draw, if known.
        """

    @abstractmethod
    def order(self, p: Array, q: Array, k: int) -> Array:
        """An order of the tokens among whose prefixes is a token set that attains the minimum cut: int (..., n)."""

    @abstractmethod
    def along(self, q: Array, order: Array, k: int) -> Array:
        """P(all drafts among the first i tokens of an order), for every i: (..., n), int (..., n) -> (..., n + 1)."""

    def probability(self, q: Array, drafts: Array) -> Array:
        """Probability of each draft tuple, in drawing order: (..., n), (..., k) -> (...)."""
        chance = xp.full(xp.batch_shape(q, drafts), 1, q)
        for place in range(drafts.shape[-1]):
            token = drafts[..., place : place + 1]
            law = self.child(q, drafts, 0 * token + place)
            drawn = xp.where(xp.total(law) > 0, xp.gather(law, token), xp.as_number(token == -1, q))
            chance = chance * drawn[..., 0]
        return chance

    def inside(self, q: Array, token_set: Array, k: int) -> Array:
        """Probability that all k drafts lie in the set: (..., n), bool (..., n) -> (...)."""
        shape = (*xp.batch_shape(q, token_set), q.shape[-1])
        members = xp.as_number(xp.broadcast(token_set, shape), xp.positions(0, q))
        first = xp.argsort(-members, stable=True)
        return xp.gather(self.along(xp.broadcast(q, shape), first, k), xp.total(members))[..., 0]

    # For how many drafts it is defined, and how many are drawn.

    def check(self, k: int) -> None:
        """Raise InvalidDrafts where the law is not defined for k drafts."""

    def is_defined(self, k: int) -> bool:
        """Whether the law exists for k drafts (SpecHub's: k = 2 only)."""
        try:
            self.check(k)
        except InvalidDrafts:
            return False
        return True

    def count(self, n: int, k: int) -> int:
        """Number of drafts that are really there among n tokens; the other k - count are absent (-1)."""
        return k

    @property
    def runs_out(self) -> bool:
        """Whether q can run out of mass before all drafts are drawn; what is drafted then is a convention."""
        return not self.all_independent

    # Its name, and how the command line spells it.

    @property
    def name(self) -> str:
        """Name in tables."""
        return type(self).__name__

    @property
    def spelling(self) -> str:
        """Name on the command line and in files: `without-replacement`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.name).lower()

    @property
    def title(self) -> str:
        """What heads the law's part of a table."""
        return self.spelling

    # What other laws it agrees with.

    def plain(self, k: int) -> DraftLaw:
        """The law of k drafts under its plainest name: one draft without replacement is IID()."""
        return self

    @property
    def set_law(self) -> DraftLaw | None:
        """A law of fixed tokens and independent draws that drafts the same token sets; None where none is known."""
        return self if self.independent else None

    # The law as the nodes of a drafted tree carry it.

    def told(self, nodes: Iterable[tuple[Prefix, Prefix, int]]) -> DraftLaw:
        """The law of a tree in plain form; nodes: prefix, children, and how many of these are fixed, as the drafting decided (`ByNode`)."""
        return self

    def at(self, prefix: Prefix) -> DraftLaw:
        """The law of the children drafted after these tokens: this one, unless the drafting decided node by node."""
        return self

    # The fixed top tokens, if there are any.

    def number(self, q: Array, k: int) -> Any:
        """How many of k drafts are fixed top tokens of q: an integer, or int (..., 1) where q decides."""
        return 0

    @property
    def all_independent(self) -> bool:
        """Whether no draft depends on another: those of several nodes make one list of the law."""
        return self.independent and self.first_follows_q

    @property
    def fixes_tops(self) -> bool:
        """Whether some drafts may be fixed tokens, and the others independent draws: `number` says how many, `top_drafts` which."""
        return self.independent and not self.first_follows_q

    @property
    def number_by_q(self) -> bool:
        """Whether `number` depends on q: then a drafted tree carries it from the draw on."""
        return False

    @property
    def same_number(self) -> bool:
        """Whether equally many top tokens are fixed for every q and every number of drafts that exceeds theirs."""
        return True

    def draw_with_number(self, q: Array, uniforms: Array) -> tuple[Array, Any]:
        """`draw`, and `number` as it was at the draw."""
        return self.draw(q, uniforms), self.number(q, uniforms.shape[-1])

    def top_drafts(self, q: Array, k: int, number: Any = None) -> Array:
        """The fixed drafts, -1 at the positions that are drawn: (..., n) -> int (..., k). number: as at the draw, if known."""
        return padded(xp.broadcast(xp.positions(0, q), (*q.shape[:-1], 0)), k)

    # What the optimum and the linear program ask.

    def drafted(self, q: Array, k: int) -> Array | None:
        """P(token y is among the drafts) for every y, (..., n); None where that takes long."""
        n = q.shape[-1]
        return 1 - self.inside(q[..., None, :], ~np.eye(n, dtype=bool), k)

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        """P(the drafted tokens are exactly S), for Fractions (n,) and every S of positive probability, as a mask of bits.

        By enumeration of n^k tuples here. Raises InvalidArgument beyond `sets.MAX_SETS` sets.
        """
        return sets.enumerated(self, q, k)


def outside(q: Array, drawn: Array) -> Array:
    """Law of the next draw without replacement: q outside the drawn tokens, normalised. (..., n), int (..., i) -> (..., n).

    Absent ones (-1) count for nothing. Uniform outside them where q has no mass left there; all zeros where no token is left.
    """
    left = xp.cleared(q, drawn)
    mass = xp.total(left)
    if xp.settled(mass > 0):
        return left / mass
    fresh = xp.cleared(1 + 0 * q, drawn)
    return xp.divide(left, mass, xp.divide(fresh, xp.total(fresh), 0))


def fixed_or_drawn(q: Array, token: Array, fixed: Array, gone: Array) -> Array:
    """Law (..., n) of a draft: the token itself, int (..., 1), where it is a fixed one, bool (..., 1), else q outside those gone."""
    if xp.settled(~fixed):
        return q if xp.settled(gone < 0) else outside(q, gone)
    certain = xp.as_number(xp.members(token, q.shape[-1], q), q)
    return certain if xp.settled(fixed) else xp.where(fixed, certain, outside(q, gone))


def shares(q: Array, order: Array) -> Array:
    """Share of q among the first i tokens of an order, for every i: (..., n), int (..., n) -> (..., n + 1), the last exactly 1."""
    sums = xp.prefix_sums(xp.take(q, order))
    return sums / xp.where(sums[..., -1:] == 0, 1, sums[..., -1:])


def padded(drafts: Array, k: int) -> Array:
    """Drafts in k columns, the missing ones absent: int (..., i) -> int (..., k)."""
    # Not from a list: a CUDA graph takes nothing from the host.
    missing = k - drafts.shape[-1]
    absent = xp.broadcast(0 * xp.positions(missing, drafts) - 1, (*drafts.shape[:-1], missing))
    return xp.concatenate((drafts, absent))
