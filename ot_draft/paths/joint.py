"""Joint selection: one path is selected on the way down, and verified as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..arrays import Array, integers
from ..rules.optimal import select_draft
from .block_verification import Walk, verify
from .model import Model, Path
from .path_rule import Nodes, PathLaw, PathRule, add, merge, read

State = tuple[Walk, Path]  # the walk, and the number of survivors at each of its nodes: they determine weights and laws


@dataclass(frozen=True)
class Joint(PathRule):
    """Block verification of a path that is selected from K i.i.d. paths, token by token; nothing is refused before the end.

    At every node, with the weight w of the walk so far, one survivor is selected by the optimal selection for the scaled
    target w p. Its token y, which was selected by the law m, takes the weight to min(1, w p(y) / m(y)); the survivors
    that hold y go on. At the end of the path come the tests of block verification with m in the place of q (`verify`).
    Expected accepted length: the sum of E[w_i]. For K = 1, block verification.
    Source: this project; checked exactly, by enumeration, with `ot.paths.evaluate`.
    """

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        nodes, paths = read(model, drafts)
        return self._walk(nodes, (Walk.at_root(nodes.target(())), ()), paths)

    def _below(self, nodes: Nodes, state: State, survivors: tuple[Path, ...]) -> PathLaw:
        walk, counts = state
        return nodes.once(self, (walk.path, counts, survivors), lambda: self._walk(nodes, state, survivors))

    def _walk(self, nodes: Nodes, state: State, survivors: tuple[Path, ...]) -> PathLaw:
        """Law of what is emitted, given the walk so far and the paths that begin with it."""
        law: PathLaw = {}
        walk, counts = state
        depth = len(walk.path)
        if depth == len(survivors[0]):
            for length, probability, following in verify(walk):
                add(law, probability, walk.path[:length], following)
            return law
        tokens = tuple(path[depth] for path in survivors)
        choice, selected = nodes.once(self, (walk.path, counts, tokens), lambda: _select(nodes, walk, tokens))
        for token in sorted(set(tokens)):
            probability = sum(chance for chance, other in zip(choice, tokens, strict=True) if other == token)
            if probability != 0:
                alive = tuple(path for path in survivors if path[depth] == token)
                further = walk.to(nodes, token, selected), (*counts, len(survivors))
                merge(law, probability, self._below(nodes, further, alive))
        return law


def _select(nodes: Nodes, walk: Walk, tokens: Path) -> tuple[list[Any], Array]:
    """Probability that each survivor is selected, given their next tokens, and the law (n,) of the selected token."""
    p, q = nodes.target(walk.path), nodes.draft(walk.path)
    choice, selected = select_draft(walk.weights[-1] * p, q, integers(tokens, p))
    return choice.tolist(), selected
