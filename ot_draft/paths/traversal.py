"""Traversal verification on K paths: block verification of one path after the other, each against what the last ones left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arrays import Array, one
from .block_verification import Walk, verify
from .model import Model
from .path_rule import PathLaw, PathRule, add, read


@dataclass(frozen=True)
class Traversal(PathRule):
    """Test every node from the leaves upward; a refused node is taken off the tree, and its parent's target shrinks.

    The tree is K chains that share nothing but the root: equal beginnings stay apart, because the root's children are then
    K i.i.d. tokens. A chain that is refused down to its first token leaves norm((p - q)+) as the target at the root for the
    next one; what the last one leaves is the law of the output. For K = 1, block verification.
    Source: Weng et al., Traversal verification for speculative tree decoding, NeurIPS 2025.
    """

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        nodes, paths = read(model, drafts)
        law: PathLaw = {}
        root: Array = nodes.target(())  # the target that is left at the root
        refused = one(root)  # probability that all chains so far were refused
        for path in paths:
            *accepted, (_, rest, left) = verify(Walk.along(nodes, path, root))
            for length, probability, following in accepted:
                add(law, refused * probability, path[:length], following)
            refused, root = refused * rest, left
        add(law, refused, (), root)
        return law
