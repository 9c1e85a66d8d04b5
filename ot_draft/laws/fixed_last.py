"""Draws without replacement, then fixed tokens: children of a node, for rules that test them in order.

A fixed token that is tested before the draws scales the remaining target up, p / (1 - p(T)), and wastes mass that the draws could take.
After the draws it takes what they leave. Among k children, r draws and the tokens T, those of T are accepted with probability p(T) in
total, and the draws as if there were no T: by recursive rejection from q outside T.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from ..boundary import int_from
from ..errors import InvalidArgument, InvalidDrafts
from .base import DraftLaw, Fact, Prefix, fixed_or_drawn
from .fixed_tokens import FixedTokensLaw, FixedTokensOfNodes
from .without_replacement import WithoutReplacement

__all__ = ["PerNodeFixedTokensLast"]


@dataclass(frozen=True)
class FixedLast(FixedTokensLaw, WithoutReplacement):
    """The last drafts are given tokens T, those before them draws from q without replacement outside T.

    tokens: distinct ids, in drafting order. With at most as many drafts as tokens, the first k tokens are drafted and nothing else. Absent
    drafts come last. The tokens may depend on q and on anything that is known before the draws, and must not depend on the draws.
    """

    facts: ClassVar[Fact] = Fact(0)
    tokens: Prefix = ()

    def __post_init__(self) -> None:
        for token in self.tokens:
            int_from("each of tokens", token, 0)
        if len(set(self.tokens)) < len(self.tokens):
            raise InvalidArgument(f"tokens must be distinct, got {self.tokens!r}. Pass each token once.")

    def n_fixed(self, q: Array, k: int) -> Any:
        return min(len(self.tokens), k)

    def fixed(self, q: Array, k: int) -> Array:
        fixed = self.tokens[:k]
        if fixed and max(fixed) >= q.shape[-1]:
            raise InvalidDrafts(
                f"tokens of FixedLast must be token ids in 0 .. {q.shape[-1] - 1}, got {max(fixed)}. Correct the token id."
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

    def conditional(self, q: Array, siblings: Array, index: Array, n_fixed: Any = None) -> Array:
        count = (siblings >= 0).sum(-1)[..., None]
        draws = count - (xp.minimum(count, self.n_fixed(q, siblings.shape[-1])) if n_fixed is None else n_fixed)
        indices = xp.arange(siblings.shape[-1], like=siblings)
        gone = xp.where((indices < index) | (indices >= draws), siblings, -1)
        return fixed_or_drawn(q, xp.gather(siblings, index), index >= draws, gone)


@dataclass(frozen=True)
class PerNodeFixedTokensLast(FixedTokensOfNodes, FixedLast):
    """`FixedLast` at every node, with tokens and numbers that are given per node: the tokens are the last children.

    `Traversal` is lossless if the numbers satisfy the condition of proofs_checks/paths/traversed_trees.py.
    """

    of_node: ClassVar[Any] = FixedLast
    last: ClassVar[bool] = True
