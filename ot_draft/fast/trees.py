"""Selection on token trees in one launch, by the kernels for a GPU."""

from typing import Any

from .. import arrays as xp
from ..trees.tree import DraftTree, PathSelection
from .kernels import wanted


def select_by_traversal(tree: DraftTree, draws: Any) -> PathSelection:
    """`trees.rules.batched_traversal.select_by_traversal`."""
    if not wanted(tree.p, tree.tokens):
        return NotImplemented
    from .kernels.trees import traversal

    return traversal(tree, xp.from_view(draws.uniforms, tree.p))


def select_token_wise(rule: Any, tree: DraftTree, draws: Any) -> PathSelection:
    """`trees.rules.token_wise.select_token_wise`."""
    if not wanted(tree.p, tree.tokens):
        return NotImplemented
    from .kernels.trees import token_wise

    return token_wise(rule, tree, xp.from_view(draws.uniforms, tree.p))
