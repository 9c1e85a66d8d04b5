"""Draws without replacement, and behind them some tokens fixed beforehand: the children of a node, for rules that test them in turn.

The draws come first, because a fixed token that is tested before them scales what is left of the target up, p / (1 - p(T)), and so wastes
what the draws could have taken: behind them it takes what they leave. Of k children tested in turn, r draws and the tokens T, those of T
are accepted with p(T) in all, and the draws as if there were no T: by recursive rejection from q outside T.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument, InvalidDrafts
from .base import DraftLaw, Fact, Prefix, fixed_or_drawn
from .fixed_tokens import FixedTokensLaw, FixedTokensOfNodes
from .without_replacement import WithoutReplacement

__all__ = ["PerNodeFixedTokensLast"]


@dataclass(frozen=True)
class FixedLast(FixedTokensLaw, WithoutReplacement):
    """The last drafts are given tokens T, those before them draws from q without replacement outside T.

    tokens: distinct ids, in drafting order; with k or fewer drafts than tokens the first k are drafted, and nothing else; absent
    drafts, of which there are some beyond n, stand behind them. They may follow from q and from anything that is known before the draws,
    and must not be looked up in them.
    """

    facts: ClassVar[Fact] = Fact(0)
    tokens: Prefix = ()

    def __post_init__(self) -> None:
        whole = all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in self.tokens)
        if not whole or len(set(self.tokens)) < len(self.tokens):
            raise InvalidArgument(f"FixedLast({self.tokens!r}): give distinct token ids, integers >= 0")

    def n_fixed(self, q: Array, k: int) -> Any:
        return min(len(self.tokens), k)

    def fixed(self, q: Array, k: int) -> Array:
        fixed = self.tokens[:k]
        if fixed and max(fixed) >= q.shape[-1]:
            raise InvalidDrafts(
                f"FixedLast holds token {max(fixed)}, and the vocabulary is 0 .. {q.shape[-1] - 1}: give ids of its tokens"
            )
        return xp.integers(fixed, like=q)

    def probability(self, q: Array, drafts: Array) -> Array:
        fixed = self.fixed(q, drafts.shape[-1])
        k = drafts.shape[-1]
        count = self.count(q.shape[-1], k)
        last = drafts[..., count - len(fixed) : count]
        present = (drafts >= 0) == (xp.arange(k, like=drafts) < count)
        possible = (last == fixed).all(-1) & present.all(-1)
        return super().probability(q, drafts) * xp.astype(possible, q.dtype)

    @property
    def name(self) -> str:
        return f"fixed-last:{'+'.join(map(str, self.tokens))}"

    def canonical(self, k: int) -> DraftLaw:
        return self

    def conditional(self, q: Array, siblings: Array, place: Array, n_fixed: Any = None) -> Array:
        count = (siblings >= 0).sum(-1)[..., None]
        draws = count - (xp.minimum(count, self.n_fixed(q, siblings.shape[-1])) if n_fixed is None else n_fixed)
        where_it_stands = xp.arange(siblings.shape[-1], like=siblings)
        gone = xp.where((where_it_stands < place) | (where_it_stands >= draws), siblings, -1)
        return fixed_or_drawn(q, xp.gather(siblings, place), place >= draws, gone)


@dataclass(frozen=True)
class PerNodeFixedTokensLast(FixedTokensOfNodes, FixedLast):
    """`FixedLast` at every node, with tokens and numbers that are given per node: the tokens are the last children.

    What the numbers may depend on for `Traversal` to be lossless: proofs_checks/paths/traversed_trees.py.
    """

    of_node: ClassVar[Any] = FixedLast
    last: ClassVar[bool] = True
