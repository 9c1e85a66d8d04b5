"""A model's distributions p and q after prefixes, for drafting many trees."""

from __future__ import annotations

from typing import Any

from ..model import Path
from ..rules.path_rule import Nodes


class Rows:
    """A model's distributions: p and q computed together where the model can, else validated and remembered."""

    def __init__(self, model: Any) -> None:
        self.n = int(model.n) if hasattr(model, "pair") else Nodes.of(model).n
        self._nodes = None if hasattr(model, "pair") else Nodes.of(model)
        self._model = model
        self.root = getattr(model, "root", lambda number: ())

    @staticmethod
    def of(model: Any) -> Rows:
        """The model as Rows; itself if it is that already."""
        return model if isinstance(model, Rows) else Rows(model)

    def pair(self, prefix: Path, known: dict[Path, tuple[Any, Any]]) -> tuple[Any, Any]:
        """p and q (n,); `known`: the pairs computed for the same batch of trees, because chains share beginnings."""
        if self._nodes is not None:
            return self._nodes.target(prefix), self._nodes.draft(prefix)
        if prefix not in known:
            known[prefix] = self._model.pair(prefix)
        return known[prefix]
