"""Naive target sampling along a tree: follow the target, as far as the drafts have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...arrays import Array, from_view, settled, where
from ...laws import DraftLaw
from ...rules.naive_target import NaiveTarget
from ...selection import SelectionRule
from ..model import Model
from ..tree import Bounds, DraftTree, PathSelection
from .path_rule import Lengths, PathLaw, PathRule
from .token_wise import TokenWise
from .walk import Draws, Survivors


@dataclass(frozen=True)
class NaivePath(PathRule):
    """Draw the token from the target at every node, and go on while a child holds it.

    Valid under every law of the children; the only rule for trees that are no draw at all, such as top-k children, whichever
    way they were chosen. Every emitted token has the target's law given those before it, the drafts have no part in it.
    Source: the baseline of Miao et al., SpecInfer, 2024, section 4.3; the trees of EAGLE-2 under greedy drafting.
    """

    looks_ahead: ClassVar[bool] = False
    wants_tops: ClassVar[bool] = True

    @property
    def selection(self) -> SelectionRule:
        return TOKEN_WISE.rule

    @property
    def short_name(self) -> str:
        return TOKEN_WISE.short_name

    @property
    def command(self) -> str:
        return "naive"

    @property
    def label(self) -> str:
        return TOKEN_WISE.rule.label

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Every shape and every law will do."""

    def uniforms(self, bounds: Bounds) -> int:
        return bounds.length + 1

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        return TOKEN_WISE(model, drafts)

    def lengths(self, model: Model, drafts: Any) -> Lengths:
        return TOKEN_WISE.lengths(model, drafts)

    def output_law(self, tree: DraftTree, chosen: Array) -> Array:
        return Survivors(tree).along(chosen).target()

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        if not tree.bounds.size:  # plain decoding: there is nothing to follow
            token = from_view(draws.index(tree.p[:, 0], 0), tree.p)
            return PathSelection(0 * token[:, 0], tree.tokens, token)
        survivors = Survivors(tree)
        lives = survivors.lives()
        following = 0 * survivors.here
        for depth in range(tree.bounds.length + 1):
            token = draws.index(survivors.target(), depth, lives)
            following = where(lives, token, following)
            if depth == tree.bounds.length or settled(~(lives := survivors.go_on(token))):
                break
        return survivors.selection(survivors.here, following)


TOKEN_WISE = TokenWise(NaiveTarget())
