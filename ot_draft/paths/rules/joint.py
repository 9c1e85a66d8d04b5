"""Joint selection: one path is selected on the way down, and verified as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...arrays import Array, gather, integers, namespace, one, settled, unsmall
from ...errors import InvalidDrafts
from ...laws import DraftLaw
from ..model import Model, Path
from ..plain import Forest
from ..tree import Bounds, DraftTree, PathSelection
from .children import select_child, split_tops
from .fits import refuse
from .path_rule import Lengths, Nodes, PathLaw, PathRule, add, count, merge, read
from .verification import PathVerifier, Walk, verify
from .walk import Draws, Survivors

FEW = 1024  # tokens up to which `select` solves without classes
CLASSES = 256  # of tokens of nearly equal ratio, beyond: they cost 2e-3 of the acceptance at a node of 151,936 tokens, 512 half of it
# Top tokens and number of draws at each node of the walk: they determine weights and laws.
Key = tuple[tuple[Path, int], ...]
# The walk so far, its key, and the children of the nodes that hold its tokens.
State = tuple[Walk, Key, tuple[Forest, ...]]


@dataclass(frozen=True)
class Joint(PathRule):
    """Block verification of a path that is selected down the tree, token by token; nothing is refused before the end.

    At every node, with the weight w of the walk so far, one child of the living nodes is selected by the optimal selection for the
    scaled target w p (`select_child`). Its token y, which was selected by the law m, takes the weight to
    min(1, w p(y) / m(y)); all nodes that hold y live on. At the end come the tests of block verification with m in the
    place of q (`verify`). Trees whose children are i.i.d., K paths among them, or follow a hybrid law.
    classes: of tokens of nearly equal ratio in the batched form, which costs acceptance and never validity; None
    stands for 256 where the vocabulary is over 1,024 tokens, and else for all tokens. The plain form takes all tokens.

    Why it is lossless, for whatever m: given the walk to a node, its children are drawn anew, so that the selected token has the
    law m, and block verification asks no more of the law that its path was drawn by. Expected accepted length: the sum of
    E[w_i]. For K = 1, block verification.
    Source: this project; checked exactly, by enumeration, with `ot.paths.evaluate` and `evaluate`.
    """

    classes: int | None = None

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        if not law.independent:
            raise refuse("Joint()", "IID() or Hybrid(top)", law)
        if not law.same_number and not bounds.is_even:
            raise InvalidDrafts(
                f"Joint(): under {law!r} all nodes of a level need equally many children, or none; take Hybrid(top=j)"
            )

    def uniforms(self, bounds: Bounds) -> int:
        return bounds.length + 2

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        nodes, tree = read(model, drafts)
        self.check(tree.shape, tree.law)
        return self._walk(nodes, tree.law, Walk.at_root(nodes.target(())), (), (tree.forest,))

    def _walk(self, nodes: Nodes, law: DraftLaw, walk: Walk, key: Key, lists: tuple[Forest, ...]) -> PathLaw:
        """Law of what is emitted, given the walk so far and the children of the nodes that hold its tokens."""
        return nodes.once(self, (law, walk.path, key, lists), lambda: self._further(nodes, law, walk, key, lists))

    def _further(self, nodes: Nodes, law: DraftLaw, walk: Walk, key: Key, lists: tuple[Forest, ...]) -> PathLaw:
        emitted: PathLaw = {}
        if not any(token >= 0 for children in lists for token, _ in children):
            for length, probability, following in verify(walk):
                add(emitted, probability, walk.path[:length], following)
            return emitted
        for probability, further in self._steps(nodes, law, walk, key, lists):
            merge(emitted, probability, self._walk(nodes, law, *further))
        return emitted

    def _steps(
        self, nodes: Nodes, law: DraftLaw, walk: Walk, key: Key, lists: tuple[Forest, ...]
    ) -> Iterator[tuple[Any, State]]:
        """The tokens that may be selected next: the probability of each, and the state it leads to."""
        offered = tuple(tuple(token for token, _ in children) for children in lists)
        tops, draws = split_tops(law.at(walk.path), nodes.draft(walk.path), offered)
        choice, selected = nodes.once(
            self, (law, walk.path, key, tops, draws), lambda: _select(nodes, walk, tops, draws)
        )
        tokens, step = tops + draws, (tops, sum(token >= 0 for token in draws))
        for token in sorted(set(tokens) - {-1}):
            probability = sum(chance for chance, other in zip(choice, tokens, strict=True) if other == token)
            if probability != 0:
                alive = tuple(below for children in lists for drafted, below in children if drafted == token)
                yield probability, (walk.to(nodes, token, selected), (*key, step), alive)

    def lengths(self, model: Model, drafts: Any) -> Lengths:
        nodes, tree = read(model, drafts)
        self.check(tree.shape, tree.law)
        found: Lengths = {}
        start: State = Walk.at_root(nodes.target(())), (), (tree.forest,)
        states = [(one(nodes.target(())), start)]
        while states:
            chance, state = states.pop()
            if any(token >= 0 for children in state[2] for token, _ in children):
                steps = self._steps(nodes, tree.law, *state)
                states += [(chance * probability, further) for probability, further in steps]
            else:
                for length, probability, _ in verify(state[0]):
                    count(found, length, chance * probability)
        return found

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        survivors = Survivors(tree)
        classes = self.classes if self.classes is not None or tree.p.shape[-1] <= FEW else CLASSES
        verifier = PathVerifier(survivors)
        for depth in range(tree.bounds.length):
            p, q = survivors.laws()
            target = verifier.scaled(p)
            offered = survivors.tops_and_draws(q)
            tops, drawn = (unsmall(x, p) for x in offered)
            choice, selected = select_child(target, q, tops, drawn, classes)
            token = gather(namespace(offered[0]).concatenate(offered, -1), draws.index(choice, 2 + depth))
            verifier.add(target, selected, token)
            if settled(~survivors.go_on(token)):
                return verifier.select(draws)
        verifier.end(survivors.target())
        return verifier.select(draws)


def _select(nodes: Nodes, walk: Walk, tops: Path, draws: Path) -> tuple[list[Any], Array]:
    """Probability that each child is selected, given their tokens, and the law (n,) of the selected token."""
    p, q = nodes.target(walk.path), nodes.draft(walk.path)
    choice, selected = select_child(walk.weights[-1] * p, q, integers(tops, p), integers(draws, p))
    return choice.tolist(), selected
