"""Laws with fixed tokens: some drafts are tokens that were decided beforehand, the others are draws outside them."""

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
    """Some of the drafts are distinct tokens fixed beforehand, the others draws from q outside them.

    The fixed ones may depend on q and on all that was known before the draws, and not on the draws. `FixedFirst` puts them before
    the samples, `FixedLast` after them.
    """

    @abstractmethod
    def n_fixed(self, q: Array, k: int) -> Any:
        """Number of fixed tokens among k drafts: an integer, or int (..., 1) where q decides."""

    @abstractmethod
    def conditional(self, q: Array, siblings: Array, place: Array, n_fixed: Any = None) -> Array:
        """As `DraftLaw.conditional`; of later siblings is read which are fixed ones. n_fixed: int (..., 1) as at the draw, if known."""

    @property
    def n_fixed_is_constant(self) -> bool:
        """Whether equally many tokens are fixed for every q and every number of drafts that exceeds theirs."""
        return True

    @property
    def n_fixed_by_node(self) -> bool:
        """Whether a drafted tree carries the number of every node from the draw on, because q, or the drafter, decided it there."""
        return False


class FixedFirst(FixedTokensLaw):
    """The first drafts are fixed tokens T, the others i.i.d. draws from q outside T. A law says which by `n_fixed` and `fixed_drafts`."""

    facts: ClassVar[Fact] = Fact.INDEPENDENT_OUTSIDE_FIXED

    @abstractmethod
    def fixed_drafts(self, q: Array, k: int, n_fixed: Any = None) -> Array:
        """The fixed drafts, -1 at the places that are drawn: (..., n) -> int (..., k). n_fixed: as at the draw, if known."""

    def draw(self, q: Array, uniforms: Array) -> Array:
        return self.draw_counted(q, uniforms)[0]

    def draw_counted(self, q: Array, uniforms: Array) -> tuple[Array, Any]:
        """`draw`, and `n_fixed` as it was at the draw."""
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

    def conditional(self, q: Array, siblings: Array, place: Array, n_fixed: Any = None) -> Array:
        n_fixed = self.n_fixed(q, siblings.shape[-1]) if n_fixed is None else n_fixed
        where_it_stands = xp.arange(siblings.shape[-1], like=siblings)
        gone = xp.where((where_it_stands < place) & (where_it_stands < n_fixed), siblings, -1)
        return fixed_or_drawn(q, xp.gather(siblings, place), place < n_fixed, gone)

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
        """P(token y is among the drafts) for every y, (..., n)."""
        fixed = self.fixed_drafts(q, k)
        top = xp.members(fixed, q.shape[-1])
        return xp.where(top, 1, xp.at_least_one(outside(q, fixed), _draws(q, fixed, top)))

    def set_probabilities(self, q: Array, k: int) -> dict[int, Any]:
        fixed = self.fixed_drafts(q, k)
        return sets.independent(sets.bits_of(fixed), outside(q, fixed), sets.draws(self, q, k))


@dataclass(frozen=True)
class FixedTokensOfNodes(FixedTokensLaw):
    """Fixed tokens given per node: a `DraftTree` carries their numbers in `fixed_count`, and has them among its tokens.

    A tree in plain form has them in the law: fixed holds (prefix, tokens) for every prefix after which some are.
    """

    of_node: ClassVar[Any]  # the law of the children of one node, made from its fixed tokens
    last: ClassVar[bool] = False  # whether they stand behind the draws
    fixed: tuple[tuple[Prefix, Prefix], ...] = ()

    def with_fixed_tokens(self, nodes: Iterable[tuple[Prefix, Prefix, int]]) -> DraftLaw:
        """The law of one tree in plain form; nodes: prefix, children, and how many of these are fixed."""
        starts = ((prefix, of, len(of) - number if self.last else 0, number) for prefix, of, number in nodes if number)
        return type(self)(fixed=tuple(sorted((prefix, of[i : i + number]) for prefix, of, i, number in starts)))

    def at(self, prefix: Prefix) -> DraftLaw:
        """The law of the children drafted after these tokens."""
        of_node: DraftLaw = self.of_node(dict(self.fixed).get(prefix, ()))
        return of_node

    def n_fixed(self, q: Array, k: int) -> Any:
        raise InvalidDrafts(
            f"{type(self).__name__}: how many children are fixed is given with the tree: give DraftTree(..., fixed_count=...)"
        )

    @property
    def n_fixed_by_node(self) -> bool:
        return True


def law_at(law: DraftLaw, prefix: Prefix) -> DraftLaw:
    """The law of the children drafted after these tokens: this one, unless their fixed tokens are given per node."""
    return law.at(prefix) if isinstance(law, FixedTokensOfNodes) else law


def fixed_part(law: DraftLaw, q: Array, k: int) -> Array:
    """The fixed drafts under a law with `Fact.INDEPENDENT_OUTSIDE_FIXED`, -1 at the places that are drawn: (..., n) -> int (..., k)."""
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


def n_fixed_is_constant(law: DraftLaw) -> bool:
    """Whether equally many tokens are fixed for every q and every number of drafts that exceeds theirs; so it is where none are."""
    return not isinstance(law, FixedTokensLaw) or law.n_fixed_is_constant


def carries_n_fixed(law: DraftLaw) -> bool:
    """Whether drafted trees carry how many children of each node are fixed tokens."""
    return isinstance(law, FixedTokensLaw) and law.n_fixed_by_node


def _draws(q: Array, fixed: Array, top: Array) -> Array:
    """Number (..., 1) of draws beside the fixed drafts, (..., k), which are these tokens, bool (..., n): none where no other is left."""
    return xp.where(top.all(-1, keepdims=True), 0, xp.astype(fixed < 0, q.dtype).sum(-1, keepdims=True))
