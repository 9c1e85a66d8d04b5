"""A path rule, for ot_draft/trees/rules/first_step.py."""

from collections.abc import Iterator
from dataclasses import dataclass

from ot_draft import arrays as xp
from ot_draft.laws import DraftLaw
from ot_draft.trees.model import Nodes
from ot_draft.trees.rules.path_rule import Outcome, PathRule
from ot_draft.trees.rules.survivors import Draws, Survivors
from ot_draft.trees.tree import Bounds, DraftTree, PathSelection, PlainTree


@dataclass(frozen=True)
class FirstStep(PathRule):
    """Draw one token from the target, and one more where a child of the root holds it. Valid under every law."""

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        """Every shape and every law will do."""

    def n_uniforms(self, bounds: Bounds) -> int:
        return 2

    def outcomes(self, nodes: Nodes, tree: PlainTree) -> Iterator[Outcome]:
        drafted = sorted({token for token, _ in tree.forest} - {-1})
        p = nodes.target(())
        for token in drafted:
            yield (token,), p[token], nodes.target((token,))
        others = xp.with_zeros_at(p, xp.integers(drafted, like=p))
        yield (), others.sum(), xp.normalise(others, others)

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        survivors = Survivors(tree)
        following = draws.index(survivors.target(), 0)
        if tree.bounds.length:
            lives = survivors.go_on(following)
            following = xp.where(lives, draws.index(survivors.target(), 1), following)
        return survivors.selection(survivors.here, following)
