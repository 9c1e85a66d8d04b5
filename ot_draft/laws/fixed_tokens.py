"""Draft laws with fixed tokens: some drafts are decided before the draws, the others are drawn outside them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidDrafts
from . import sets
from .base import DraftLaw, Fact, Prefix, fixed_or_drawn, outside, padded, shares


class FixedTokensLaw(DraftLaw):
    """Draft laws with some distinct fixed tokens, the others draws from q outside them.

    The fixed tokens may depend on q and on all that is known before the draws, and must not depend on the draws. `FixedFirst` has
    them before the draws, `FixedLast` after them.

    Examples
    --------
    >>> import ot_draft as otd
    >>> isinstance(otd.Hybrid(top=1), otd.laws.FixedTokensLaw)
    True
    """

    @abstractmethod
    def n_fixed(self, q: Array, k: int) -> Any:
        """Return the number of fixed tokens among k drafts: an integer, or int (..., 1) if it depends on q."""

    @abstractmethod
    def conditional(self, q: Array, siblings: Array, index: Array, n_fixed: Any = None) -> Array:
        """As `DraftLaw.conditional`. Later siblings show which ones are fixed. n_fixed: int (..., 1) as at the draw, if known."""

    @property
    def n_fixed_is_constant(self) -> bool:
        """See the function of this name."""
        return True

    @property
    def n_fixed_by_node(self) -> bool:
        """See the function of this name."""
        return False


class FixedFirst(FixedTokensLaw):
    """Fixed tokens T first, then i.i.d. samples from q outside T. A subclass defines T by `n_fixed` and `fixed_drafts`.

    Examples
    --------
    >>> import ot_draft as otd
    >>> isinstance(otd.Hybrid(top=1), otd.laws.FixedFirst)
    True
    """

    facts: ClassVar[Fact] = Fact.INDEPENDENT_OUTSIDE_FIXED

    @abstractmethod
    def fixed_drafts(self, q: Array, k: int, n_fixed: Any = None) -> Array:
        """Return the fixed drafts, -1 at the indices that are drawn: (..., n) -> int (..., k). n_fixed: as at the draw, if known."""

    def draw(self, q: Array, uniforms: Array) -> Array:
        return self.draw_counted(q, uniforms)[0]

    def draw_counted(self, q: Array, uniforms: Array) -> tuple[Array, Any]:
        """Return what `draw` returns, and the number of fixed tokens before the draws: an integer, or int (..., 1)."""
        n_fixed = self.n_fixed(q, uniforms.shape[-1])
        fixed = self.fixed_drafts(q, uniforms.shape[-1], n_fixed)
        free = outside(q, fixed)
        drawn = xp.where(free.sum(-1, keepdims=True) > 0, xp.inverse_cdf(free, uniforms), -1)
        return xp.where(fixed >= 0, fixed, drawn), n_fixed

    def probability(self, q: Array, drafts: Array) -> Array:
        fixed = self.fixed_drafts(q, drafts.shape[-1])
        free = outside(q, fixed)
        drawn = xp.where(free.sum(-1, keepdims=True) > 0, xp.gather(free, drafts), xp.astype(drafts == -1, q.dtype))
        return xp.where(fixed >= 0, xp.astype(drafts == fixed, q.dtype), drawn).prod(-1)

    def conditional(self, q: Array, siblings: Array, index: Array, n_fixed: Any = None) -> Array:
        n_fixed = self.n_fixed(q, siblings.shape[-1]) if n_fixed is None else n_fixed
        indices = xp.arange(siblings.shape[-1], like=siblings)
        gone = xp.where((indices < index) & (indices < n_fixed), siblings, -1)
        return fixed_or_drawn(q, xp.gather(siblings, index), index < n_fixed, gone)

    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        fixed = self.fixed_drafts(q, k)
        # A set without all fixed tokens holds no draft tuple.
        return xp.argsort(xp.where(xp.members(fixed, q.shape[-1]), -1, xp.ratio(p, outside(q, fixed))))

    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        fixed = self.fixed_drafts(q, k)
        top = xp.members(fixed, q.shape[-1])
        topped = xp.prefix_sums(xp.take_along_axis(xp.astype(top, q.dtype), order))
        return xp.where(topped < topped[..., -1:], 0, shares(outside(q, fixed), order) ** _draws(q, fixed, top))

    def marginals(self, q: Array, k: int) -> Array:
        fixed = self.fixed_drafts(q, k)
        top = xp.members(fixed, q.shape[-1])
        return xp.where(top, 1, xp.at_least_one(outside(q, fixed), _draws(q, fixed, top)))

    def set_probabilities(self, q: Array, k: int) -> dict[int, Any]:
        fixed = self.fixed_drafts(q, k)
        return sets.independent(sets.bits_of(fixed), outside(q, fixed), sets.draws(self, q, k))


@dataclass(frozen=True)
class FixedTokensOfNodes(FixedTokensLaw):
    """Fixed tokens given per node: a `DraftTree` carries their numbers in `fixed_count`, and has them among its tokens.

    For a tree in plain form the draft law holds them: fixed has (prefix, tokens) for every prefix after which some are.
    """

    of_node: ClassVar[Any]  # makes the draft law of one node's children from its fixed tokens
    last: ClassVar[bool] = False  # whether they come after the draws
    fixed: tuple[tuple[Prefix, Prefix], ...] = ()

    def with_fixed_tokens(self, nodes: Iterable[tuple[Prefix, Prefix, int]]) -> DraftLaw:
        """Return the draft law of one tree in plain form; nodes: prefix, children, and the number of fixed ones among these."""
        starts = ((prefix, of, len(of) - number if self.last else 0, number) for prefix, of, number in nodes if number)
        return type(self)(fixed=tuple(sorted((prefix, of[i : i + number]) for prefix, of, i, number in starts)))

    def at(self, prefix: Prefix) -> DraftLaw:
        """Return the draft law of the children after these tokens."""
        of_node: DraftLaw = self.of_node(dict(self.fixed).get(prefix, ()))
        return of_node

    def n_fixed(self, q: Array, k: int) -> Any:
        raise InvalidDrafts(
            f"fixed_count must be set in the tree for {type(self).__name__}, got none. Pass DraftTree(..., fixed_count=...)."
        )

    @property
    def n_fixed_by_node(self) -> bool:
        return True


def fixed_part(law: DraftLaw, q: Array, k: int) -> Array:
    """The fixed drafts under a draft law with `Fact.INDEPENDENT_OUTSIDE_FIXED`, -1 where one is drawn: (..., n) -> int (..., k)."""
    first = fixed_first(law)
    if first is not None:
        return first.fixed_drafts(q, k)
    return padded(xp.broadcast_to(xp.arange(0, like=q), (*q.shape[:-1], 0)), k)


def fixed_first(law: DraftLaw) -> FixedFirst | None:
    """Return a draft law with `Fact.INDEPENDENT_OUTSIDE_FIXED` as a `FixedFirst`; None without fixed tokens. Else raises."""
    if isinstance(law, FixedFirst):
        return law
    if Fact.INDEPENDENT in law.facts:
        return None
    raise InvalidDrafts(
        f"law with Fact.INDEPENDENT_OUTSIDE_FIXED must name its fixed tokens, got {law!r}. Derive it from ot_draft.laws.FixedFirst."
    )


def law_at(law: DraftLaw, prefix: Prefix) -> DraftLaw:
    """Return the draft law of the children after these tokens: `law`, unless its fixed tokens are given per node."""
    return law.at(prefix) if isinstance(law, FixedTokensOfNodes) else law


def n_fixed_is_constant(law: DraftLaw) -> bool:
    """Whether equally many tokens are fixed for every q and every number of drafts that exceeds theirs."""
    return bool(getattr(law, "n_fixed_is_constant", True))


def n_fixed_by_node(law: DraftLaw) -> bool:
    """Whether drafted trees carry how many children of each node are fixed tokens, because q, or the drafter, decided it there."""
    return bool(getattr(law, "n_fixed_by_node", False))


def _draws(q: Array, fixed: Array, top: Array) -> Array:
    """Number (..., 1) of draws in addition to fixed drafts (..., k), the tokens bool (..., n); 0 if no other token is left."""
    return xp.where(top.all(-1, keepdims=True), 0, xp.astype(fixed < 0, q.dtype).sum(-1, keepdims=True))
