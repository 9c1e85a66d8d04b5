"""Draws without replacement, and behind them some tokens fixed beforehand: the children of a node, for rules that test them in turn.

The draws come first, because a fixed token that is tested before them scales what is left of the target up, p / (1 - p(T)), and so wastes
what the draws could have taken: behind them it takes what they leave. Of k children tested in turn, r draws and the tokens T, those of T
are accepted with p(T) in all, and the draws as if there were no T: by recursive rejection from q outside T.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument, InvalidDrafts
from .base import DraftLaw, Prefix, fixed_or_drawn, outside
from .fixed import ToldByNode
from .without_replacement import chance_of, lightest_first, prefixes


@dataclass(frozen=True)
class FixedLast(DraftLaw):
    """The last drafts are given tokens T, those before them draws from q without replacement outside T.

    tokens: distinct ids, in drafting order; with k or fewer drafts than tokens the first k are drafted, and nothing else. They may follow
    from q and from anything that is known before the draws, and must not be looked up in them.
    """

    remedy: ClassVar[str] = "take Traversal(), or NaiveTarget()"
    tokens: Prefix = ()

    def __post_init__(self) -> None:
        whole = all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in self.tokens)
        if not whole or len(set(self.tokens)) < len(self.tokens):
            raise InvalidArgument(f"FixedLast({self.tokens!r}): give distinct token ids, integers >= 0")

    def count(self, n: int, k: int) -> int:
        return min(n, k)

    def number(self, q: Array, k: int) -> Any:
        return min(len(self.tokens), k)

    def probability(self, q: Array, drafts: Array) -> Array:
        fixed, draws = self._parts(q, drafts.shape[-1])
        return chance_of(q, drafts[..., :draws], fixed) * xp.as_number((drafts[..., draws:] == fixed).all(-1), q)

    def draw(self, q: Array, uniforms: Array) -> Array:
        fixed, draws = self._parts(q, uniforms.shape[-1])
        drafts = xp.broadcast(xp.positions(0, q), (*xp.batch_shape(q, uniforms), 0))
        for place in range(draws):
            left = self._left(q, fixed, drafts)
            token = xp.where(xp.total(left) > 0, xp.inverse_cdf(left, uniforms[..., place : place + 1]), -1)
            drafts = xp.concatenate((drafts, token))
        return xp.concatenate((drafts, fixed))

    def order(self, p: Array, q: Array, k: int) -> Array:
        fixed, _ = self._parts(q, k)
        # A set without all fixed tokens holds no draft tuple.
        return lightest_first(p, xp.where(xp.members(fixed, q.shape[-1], q), -1, xp.ratio(p, q)))

    def along(self, q: Array, order: Array, k: int) -> Array:
        fixed, draws = self._parts(q, k)
        first = xp.members(fixed, q.shape[-1], q)
        is_fixed = xp.where(xp.take(xp.broadcast(first, q.shape), order), 1, 0)
        others = xp.argsort(is_fixed, stable=True)[..., : q.shape[-1] - fixed.shape[-1]]
        masses = prefixes(xp.take(q, xp.take(order, others)), draws)
        held = xp.concatenate((0 * is_fixed[..., :1], is_fixed.cumsum(-1)))
        return xp.where(held == fixed.shape[-1], xp.gather(masses, xp.positions(q.shape[-1] + 1, q) - held), 0)

    @property
    def spelling(self) -> str:
        return f"fixed-last:{'+'.join(map(str, self.tokens))}"

    @property
    def title(self) -> str:
        return "draws without replacement, fixed tokens behind them"

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        fixed, draws = self._parts(q, count)
        if earlier.shape[-1] >= draws:
            token = fixed[earlier.shape[-1] - draws :][:1] + 0 * token
            return xp.as_number(xp.members(token, q.shape[-1], q), q)
        return self._left(q, fixed, earlier)

    def at_place(self, q: Array, siblings: Array, place: Array, number: Any = None) -> Array:
        count = (siblings >= 0).sum(-1)[..., None]
        draws = count - number
        where_it_stands = xp.positions(siblings.shape[-1], siblings)
        gone = xp.where((where_it_stands < place) | (where_it_stands >= draws), siblings, -1)
        return fixed_or_drawn(q, xp.gather(siblings, place), place >= draws, gone)

    def _parts(self, q: Array, k: int) -> tuple[Array, int]:
        """The fixed drafts int (j,), and how many draws come before them."""
        fixed = self.tokens[:k]
        if fixed and max(fixed) >= q.shape[-1]:
            raise InvalidDrafts(
                f"FixedLast holds token {max(fixed)}, and the vocabulary is 0 .. {q.shape[-1] - 1}: give ids of its tokens"
            )
        return xp.integers(fixed, q), k - len(fixed)

    def _left(self, q: Array, fixed: Array, drawn: Array) -> Array:
        """Law of the next draw."""
        return outside(q, xp.concatenate((fixed, drawn)))


@dataclass(frozen=True)
class ByNodeLast(ToldByNode, FixedLast):
    """`FixedLast` at every node, with tokens and numbers that are told node by node: the tokens are the last children.

    What the numbers may depend on for `Traversal` to be lossless: proofs_checks/paths/traversed_trees.py.
    """

    last: ClassVar[bool] = True

    def at(self, prefix: Prefix) -> DraftLaw:
        return FixedLast(self.fixed_at(prefix))

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        raise InvalidDrafts(
            "ByNodeLast: the fixed tokens stand in the tree, as the last children of their node: ask `at(prefix)`"
        )
