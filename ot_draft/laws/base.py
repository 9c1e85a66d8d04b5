"""Draft laws: joint distributions of k drafts given q.

The commonest bug of multi-draft verification is a rule under the wrong draft law. A draft law is therefore an object, and a rule names the
ones that it is valid under. A draft law has the probability of a draft tuple, draws one from given uniforms, and has the distribution
of each draft given those before it. It also orders the tokens so that some prefix H of the order is a minimum cut
(alpha* = 1 + min_H p(H) - Q(all drafts in H)).

Where q has no mass left, every draft law draws uniformly from the tokens not drafted yet, as in Sequoia. Without such a token the draft is
absent (-1).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from enum import Flag, auto
from typing import Any, ClassVar, cast

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidDrafts
from . import sets

Prefix = tuple[int, ...]


class Fact(Flag):
    """Properties of a draft law that code may rely on. A property that a draft law does not declare must not be assumed.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.laws.Fact.INDEPENDENT in otd.IID().facts
    True
    """

    FIRST_FOLLOWS_Q = auto()  # the first draft is a draw from q, whatever comes after it
    ABSENT_ANYWHERE = auto()  # an absent draft says nothing about the others, so that it may stand anywhere in the list
    INDEPENDENT = auto()  # the drafts are independent draws from q
    # The first drafts are fixed tokens, of which there may be none, the others independent draws from q outside them: `fixed_part`.
    INDEPENDENT_OUTSIDE_FIXED = auto()
    NEVER_RUNS_OUT = (
        auto()
    )  # q has mass left until all drafts are drawn; where it has not, what is drafted is a convention


class DraftLaw(ABC):
    """Joint distribution of k draft tokens given the draft distribution q.

    Four methods make a law: `draw`, `conditional`, `cut_order` and `prefix_probabilities`. The others have a default that is right for
    every law, and that a law replaces if it knows a faster one. Laws with fixed tokens derive from `FixedTokensLaw`. A law may also have
    methods `check`, `canonical`, `set_probabilities` and `marginals`, for the functions `check_defined` and of these names.

    See Also
    --------
    Fact : What may be counted on under a law.

    Notes
    -----
    Shapes: q (..., n), drafts (..., k), token sets bool (..., n).

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.Hybrid(top=1).name, otd.WithoutReplacement().name
    ('hybrid:1', 'without-replacement')
    """

    facts: ClassVar[Fact] = Fact(0)

    @abstractmethod
    def draw(self, q: Array, uniforms: Array) -> Array:
        """Return drafts from k independent uniforms in [0, 1): (..., n), (..., k) -> int (..., k)."""

    @abstractmethod
    def conditional(self, q: Array, siblings: Array, index: Array) -> Array:
        """Return the distribution (..., n) of the draft at an index, int (..., 1), given siblings before it, int (..., C), -1 beyond."""

    @abstractmethod
    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        """Return an order of the tokens, int (..., n), of which some prefix attains the minimum cut."""

    @abstractmethod
    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        """Return P(all drafts among the first i tokens of an order), for every i: (..., n), int (..., n) -> (..., n + 1)."""

    def probability(self, q: Array, drafts: Array) -> Array:
        """Return the probability of each draft tuple, in drawing order: (..., n), (..., k) -> (...)."""
        chance = xp.full(xp.batch_shape(q, drafts), 1, like=q)
        for index in range(drafts.shape[-1]):
            token = drafts[..., index : index + 1]
            next_token = self.conditional(q, drafts, 0 * token + index)
            is_left = next_token.sum(-1, keepdims=True) > 0
            drawn = xp.where(is_left, xp.gather(next_token, token), xp.astype(token == -1, q.dtype))
            chance = chance * drawn[..., 0]
        return chance

    def count(self, n: int, k: int) -> int:
        """Return the number of drafts that are present among n tokens; the other k - count are absent (-1)."""
        return k

    @property
    def name(self) -> str:
        """Name on the command line, in files and in tables: `without-replacement`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(self).__name__).lower()


def check_defined(law: DraftLaw, k: int) -> None:
    """Raise an error if the draft law is not defined for k drafts.

    Parameters
    ----------
    law : DraftLaw
        Joint distribution of the draft tokens.
    k : int
        Number of draft tokens.

    Raises
    ------
    InvalidDrafts
        If the law is not defined for k drafts.

    Examples
    --------
    >>> from ot_draft.laws import SpecHubLaw, check_defined
    >>> check_defined(SpecHubLaw(), 2)
    """
    check = getattr(law, "check", None)
    if check is not None:
        check(k)


def is_defined(law: DraftLaw, k: int) -> bool:
    """Return whether k drafts are possible under a draft law.

    Parameters
    ----------
    law : DraftLaw
        Joint distribution of the draft tokens.
    k : int
        Number of draft tokens.

    Returns
    -------
    defined : bool
        Whether it is.

    Examples
    --------
    >>> from ot_draft.laws import SpecHubLaw, is_defined
    >>> is_defined(SpecHubLaw(), 2), is_defined(SpecHubLaw(), 3)
    (True, False)
    """
    try:
        check_defined(law, k)
    except InvalidDrafts:
        return False
    return True


def canonical(law: DraftLaw, k: int) -> DraftLaw:
    """Return the simplest draft law with the same distribution of k drafts.

    Parameters
    ----------
    law : DraftLaw
        Joint distribution of the draft tokens.
    k : int
        Number of draft tokens.

    Returns
    -------
    law : DraftLaw
        The draft law itself if no simpler one is known.

    Examples
    --------
    >>> from ot_draft.laws import WithoutReplacement, canonical
    >>> canonical(WithoutReplacement(), 1), canonical(WithoutReplacement(), 2)
    (IID(), WithoutReplacement())
    """
    own = getattr(law, "canonical", None)
    return law if own is None else cast(DraftLaw, own(k))


def set_probabilities(law: DraftLaw, q: Array, k: int) -> dict[int, Any]:
    """Return the distribution of the set of drafted tokens.

    Parameters
    ----------
    law : DraftLaw
        Joint distribution of the draft tokens.
    q : array of Fraction, shape (n,)
        Draft distribution.
    k : int
        Number of draft tokens.

    Returns
    -------
    probabilities : dict of int to Fraction
        Probability of every set that can be drafted, by the set as a mask of bits.

    Raises
    ------
    InvalidArgument
        If there are more than 200,000 sets, or too many draft tuples to enumerate.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import numpy as np
    >>> from ot_draft.laws import IID, set_probabilities
    >>> set_probabilities(IID(), np.array([F(3, 4), F(1, 4)]), 2)
    {1: Fraction(9, 16), 3: Fraction(3, 8), 2: Fraction(1, 16)}
    """
    own = getattr(law, "set_probabilities", None)
    return sets.enumerated(law, q, k) if own is None else cast(dict[int, Any], own(q, k))


def probability_inside(law: DraftLaw, q: Array, token_set: Array, k: int) -> Array:
    """Return the probability that all k drafts lie in a token set.

    Parameters
    ----------
    law : DraftLaw
        Joint distribution of the draft tokens.
    q : array of shape (..., n)
        Draft distribution.
    token_set : bool array of shape (..., n)
        The set.
    k : int
        Number of draft tokens.

    Returns
    -------
    probability : array of shape (...)
        Exact for Fractions.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft.laws import IID, probability_inside
    >>> float(probability_inside(IID(), np.array([0.75, 0.25]), np.array([True, False]), 2))
    0.5625
    """
    shape = (*xp.batch_shape(q, token_set), q.shape[-1])
    members = xp.where(xp.broadcast_to(token_set, shape), 1, 0)
    first = xp.argsort(-members, stable=True)
    return xp.gather(law.prefix_probabilities(xp.broadcast_to(q, shape), first, k), members.sum(-1, keepdims=True))[
        ..., 0
    ]


def marginals(law: DraftLaw, q: Array, k: int) -> Array | None:
    """Return the probability that each token is among the drafts.

    Parameters
    ----------
    law : DraftLaw
        Joint distribution of the draft tokens.
    q : array of shape (..., n)
        Draft distribution.
    k : int
        Number of draft tokens.

    Returns
    -------
    probabilities : array of shape (..., n), or None
        None if the computation takes long (`WithoutReplacement`).

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import numpy as np
    >>> from ot_draft.laws import IID, marginals
    >>> marginals(IID(), np.array([F(3, 4), F(1, 4)]), 2).tolist()
    [Fraction(15, 16), Fraction(7, 16)]
    """
    own = getattr(law, "marginals", None)
    if own is not None:
        return cast("Array | None", own(q, k))
    return 1 - probability_inside(law, q[..., None, :], ~np.eye(q.shape[-1], dtype=bool), k)


def outside(q: Array, drawn: Array) -> Array:
    """Return the distribution of the next draw without replacement: q outside the drawn tokens, normalised.

    Parameters
    ----------
    q : array of shape (..., n)
        Draft distribution.
    drawn : int array of shape (..., i)
        Tokens that are drawn already; -1 is skipped.

    Returns
    -------
    following : array of shape (..., n)
        Uniform outside the drawn tokens if q has no mass left there; all zeros if no token is left.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft.laws import outside
    >>> outside(np.array([0.5, 0.25, 0.25]), np.array([0])).tolist()
    [0.0, 0.5, 0.5]
    """
    left = xp.with_zeros_at(q, drawn)
    mass = left.sum(-1, keepdims=True)
    if xp.holds_without_sync(mass > 0):
        return left / mass
    fresh = xp.with_zeros_at(1 + 0 * q, drawn)
    return xp.divide(left, mass, xp.divide(fresh, fresh.sum(-1, keepdims=True), 0))


def fixed_or_drawn(q: Array, token: Array, fixed: Array, gone: Array) -> Array:
    """Law (..., n) of a draft: the token itself, int (..., 1), where it is a fixed one, bool (..., 1), else q outside those gone."""
    if xp.holds_without_sync(~fixed):
        return q if xp.holds_without_sync(gone < 0) else outside(q, gone)
    certain = xp.astype(xp.members(token, q.shape[-1]), q.dtype)
    return certain if xp.holds_without_sync(fixed) else xp.where(fixed, certain, outside(q, gone))


def shares(q: Array, order: Array) -> Array:
    """Share of q among the first i tokens of an order, for every i: (..., n), int (..., n) -> (..., n + 1), the last exactly 1."""
    sums = xp.prefix_sums(xp.take_along_axis(q, order))
    return sums / xp.where(sums[..., -1:] == 0, 1, sums[..., -1:])


def padded(drafts: Array, k: int) -> Array:
    """Drafts in k columns, the missing ones absent: int (..., i) -> int (..., k)."""
    # Not from a list: a CUDA graph takes nothing from the host.
    missing = k - drafts.shape[-1]
    absent = xp.broadcast_to(0 * xp.arange(missing, like=drafts) - 1, (*drafts.shape[:-1], missing))
    return xp.concat((drafts, absent), axis=-1)
