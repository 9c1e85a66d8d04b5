"""Drafted trees in plain form: nested tuples of tokens, for theory in Fractions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..laws import IID, DraftLaw
from .model import Path
from .tree import TreeShape

Forest = tuple[tuple[int, Any], ...]  # the children of a node in drawing order: token, and the child's own children


@dataclass(frozen=True)
class PlainTree:
    """One drafted tree without its distributions, which a model gives: what path rules in plain form take.

    tokens: of nodes 1 .. N of the shape, -1 where absent; law: the law that the children of every node were drawn by.
    """

    shape: TreeShape
    tokens: Path
    law: DraftLaw = IID()

    @classmethod
    def of_paths(cls, paths: tuple[Path, ...]) -> PlainTree:
        """K drafted paths of one length, i.i.d., that share nothing but the root."""
        length = len(paths[0])
        tokens = tuple(path[depth] for depth in range(length) for path in paths)
        return cls(TreeShape.chains(len(paths), length), tokens)

    @property
    def forest(self) -> Forest:
        """The children of the root, and theirs."""
        return self._below(0)

    def _below(self, node: int) -> Forest:
        return tuple(
            (token, self._below(child) if token >= 0 else ())
            for child in self.shape.children(node)
            for token in (self.tokens[child - 1],)
        )
