"""Trees of the draft's top tokens, where the draft is surest: the dynamic trees of EAGLE-2, and OPT-Tree."""

from __future__ import annotations

from dataclasses import dataclass

from ...arrays import Array, floats, gather, positions, small, top_tokens
from ...laws import ByNode, DraftLaw
from ..rules.naive_target import NaiveTarget
from ..rules.path_rule import PathRule
from .candidates import BestCandidates, Offer
from .dynamic_tree import TreeDraws


@dataclass(frozen=True)
class ConfidentTree(BestCandidates):
    """The `budget` nodes of largest probability of the way down to them under the draft, among those that a beam search comes past.

    most: top tokens of a node that are candidates. beam: likeliest nodes of a level that the draft model reads. least_gain: no further
    level where the last one raised the expected accepted length, as the draft sees it, by no more than this. least: nodes must be likelier.
    EAGLE-2: a beam of 10, 10 top tokens. OPT-Tree: `ConfidentTree.opt_tree`, a beam as wide as the budget, which finds the best
    tree of all (`confident_tree`), and the gain as the end. No child is a draw: naive target sampling is lossless, and
    so are `Joint` and `Optimal`, which cannot do better.
    Sources: Li et al., EAGLE-2, EMNLP 2024; Wang et al., OPT-Tree, TACL 2025.
    """

    budget: int
    length: int = 8
    most: int = 10
    beam: int = 10
    least_gain: float = 0.0
    least: float = 0.0

    @classmethod
    def opt_tree(cls, budget: int, length: int = 8, least_gain: float = 0.2) -> ConfidentTree:
        """The best tree of the draft's top tokens, as deep as it gains more than so many accepted tokens a level."""
        return cls(budget, length, budget, budget, least_gain)

    @property
    def law(self) -> DraftLaw:
        return ByNode()

    @property
    def rule(self) -> PathRule:
        return NaiveTarget()

    @property
    def draws(self) -> int:
        return 0

    @property
    def label(self) -> str:
        return "OPT-Tree" if self.least_gain else "EAGLE-2"

    def offer(self, q: Array, reached: Array, floor: Array, draws: TreeDraws, first: int) -> Offer:
        tokens = top_tokens(q, min(self.most, q.shape[-1]))
        values = reached[..., None] * small(floats(gather(q, tokens)))
        return Offer(small(tokens), values, values)

    def tops(self, parents: Array) -> Array:
        nodes = positions(parents.shape[-1] + 1, parents)
        return (parents[:, :, None] == nodes).sum(1) * (nodes < parents.shape[-1])
