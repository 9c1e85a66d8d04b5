"""Joint selection: one path is selected from the root down, and verified as a whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidDrafts
from ...laws import DraftLaw, Fact, outside
from ...laws.fixed_tokens import fixed_first, law_at, n_fixed_is_constant
from ...rules.optimal.rule import selection_probabilities
from ..model import Nodes, Path
from ..tree import Bounds, DraftTree, Forest, PathSelection, PlainTree
from .block_verification import PathVerifier, Walk, verify
from .path_rule import Outcome, PathRule, refuse, split_tops
from .survivors import Draws, Survivors

__all__ = ["Joint", "select_child"]

# Top tokens and number of draws at each node of the walk, which determine weights and distributions.
Key = tuple[tuple[Path, int], ...]
# The walk so far, its key, and the children of the nodes that hold its tokens.
State = tuple[Walk, Key, tuple[Forest, ...]]


@dataclass(frozen=True)
class Joint(PathRule):
    """Block verification of a path that is selected down the tree, token by token; nothing is rejected before the end.

    At every node, with the weight w of the walk so far, one child of the living nodes is selected by the optimal selection for the
    scaled target w p (`select_child`). Its token y, which has distribution m, changes the weight to min(1, w p(y) / m(y)), and all nodes
    that hold y stay live. The tests of block verification follow, with m instead of q (`verify`). Children must be i.i.d., such as K paths,
    or follow a hybrid draft law.

    Parameters
    ----------
    classes : int, optional
        Number of classes of tokens of nearly equal ratio in the batched form, which costs acceptance and never losslessness. By
        default 256 if the vocabulary is over 1,024 tokens, else all tokens. The plain form takes all tokens.

    Notes
    -----
    It is lossless for every m: given the walk to a node, its children are new samples, so that the selected token has distribution m,
    which is all that block verification requires. Expected accepted length: the sum of E[w_i]. For K = 1 it is block verification.
    Source: this project; checked exactly, by enumeration, with `otd.trees.evaluate`.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel.random(np.random.default_rng(0), 2, order=0)
    >>> otd.trees.evaluate(otd.trees.Joint(), model, (2, 1)).lossless
    True
    """

    classes: int | None = None

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        if Fact.INDEPENDENT_OUTSIDE_FIXED not in law.facts:
            raise refuse("Joint()", "IID() or Hybrid(top)", law)
        fixed_first(law)  # raises unless fixed tokens are known
        if not n_fixed_is_constant(law) and not bounds.is_even:
            raise InvalidDrafts(
                f"Joint(): all nodes of a level must have equally many children, or none, under {law!r}. Use Hybrid(top=j)."
            )

    def n_uniforms(self, bounds: Bounds) -> int:
        return bounds.length + 2

    def outcomes(self, nodes: Nodes, tree: PlainTree) -> list[Outcome]:
        return self._walk(nodes, tree.law, Walk.at_root(nodes.target(())), (), (tree.forest,))

    def _walk(self, nodes: Nodes, law: DraftLaw, walk: Walk, key: Key, lists: tuple[Forest, ...]) -> list[Outcome]:
        """Outcomes, given the walk so far and the children of the nodes that hold its tokens."""
        if not any(token >= 0 for children in lists for token, _ in children):
            return nodes.once(self, (law, walk.path, key), lambda: list(verify(walk)))
        return nodes.once(
            self,
            (law, walk.path, key, lists),
            lambda: [
                (path, chance * probability, following)
                for chance, further in self._steps(nodes, law, walk, key, lists)
                for path, probability, following in self._walk(nodes, law, *further)
            ],
        )

    def _steps(
        self, nodes: Nodes, law: DraftLaw, walk: Walk, key: Key, lists: tuple[Forest, ...]
    ) -> Iterator[tuple[Any, State]]:
        """Possible next tokens: the probability of each, and the state after it."""
        offered = tuple(tuple(token for token, _ in children) for children in lists)
        tops, draws = split_tops(law_at(law, walk.path), nodes.draft(walk.path), offered)
        here = (law, walk.path, key, tops, draws)
        choice, selected = nodes.once(self, here, lambda: _selection_at(nodes, walk, tops, draws))
        tokens, step = tops + draws, (tops, sum(token >= 0 for token in draws))
        for token in sorted(set(tokens) - {-1}):
            probability = sum(chance for chance, other in zip(choice, tokens, strict=True) if other == token)
            if probability != 0:
                alive = tuple(below for children in lists for drafted, below in children if drafted == token)
                yield probability, (walk.to(nodes, token, selected), (*key, step), alive)

    def _classes(self, n: int, most: int = 1024, classes: int = 256) -> int | None:
        """The number of classes; without one all tokens up to `most`.

        256 classes cost 2e-3 of the acceptance at a node of 151,936 tokens, 512 half of it.
        """
        return self.classes if self.classes is not None or n <= most else classes

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        survivors = Survivors(tree)
        classes = self._classes(tree.p.shape[-1])
        verifier = PathVerifier(survivors)
        for depth in range(tree.bounds.length):
            p, q = survivors.laws()
            target = verifier.scaled(p)
            offered = survivors.tops_and_draws(q)
            tops, drawn = (xp.from_view(x, p) for x in offered)
            choice, selected = select_child(target, q, tops, drawn, classes)
            token = xp.gather(xp.concat(offered, axis=-1), draws.index(choice, 2 + depth))
            verifier.add(target, selected, token)
            if xp.holds_without_sync(~survivors.go_on(token)):
                return verifier.accepted_path(draws)
        return verifier.accepted_path(draws)


def _selection_at(nodes: Nodes, walk: Walk, tops: Path, draws: Path) -> tuple[list[Any], Array]:
    """P(each child is selected | their tokens), and the distribution (n,) of the selected token."""
    p, q = nodes.target(walk.path), nodes.draft(walk.path)
    choice, selected = select_child(walk.weights[-1] * p, q, xp.integers(tops, like=p), xp.integers(draws, like=p))
    return choice.tolist(), selected


def select_child(target: Array, q: Array, tops: Array, draws: Array, classes: int | None = None) -> tuple[Array, Array]:
    """Return P(each child is selected), (..., j + r), tops first, and the distribution m (..., n) of the selected token.

    target: (..., n) masses w p with sum w <= 1. tops: int (..., j), distinct top tokens T of q. draws: (..., r), i.i.d. from q outside
    T; absent ones are -1. The probabilities sum to 1 (0 without a child), and m to their expectation.

    Without tops this is `selection_probabilities`. With tops, a draw x is selected from the distribution m_R that is optimal for w p
    outside T. Where m_R(x) > w p(x), a share of the excess moves to T in proportion to p, so that m = w p on T. Hence sum min(w p, m) is
    the optimum w p(T) + sum outside T of min(w p, m_R). Without draws T gets all, with m = p / p(T). Other shares are equally good for one
    token; on trees of 21 and 28 nodes, moving all the excess or only the highest part made no visible difference in 1,500 iterations.
    """
    if not tops.shape[-1]:
        return _select_draw(target, q, draws, classes)
    choice, m = _select_draw(xp.with_zeros_at(target, tops), outside(q, tops), draws, classes)
    over = xp.excess(m, target)
    spare, wanted = over.sum(-1, keepdims=True), xp.gather(target, tops)
    moved = xp.minimum(xp.divide(wanted.sum(-1, keepdims=True), spare, 0), 1)
    kept = xp.excess(m, over, moved, over)
    drawn, present = (draws >= 0).any(-1)[..., None], xp.astype(tops >= 0, q.dtype)
    share = xp.divide(wanted, wanted.sum(-1, keepdims=True), xp.divide(present, present.sum(-1, keepdims=True), 0))
    mass = xp.where(drawn, moved * spare, 1)
    choice = choice * xp.divide(xp.gather(kept, draws), xp.gather(m, draws), 0)
    choice = xp.concat(((1 - choice.sum(-1, keepdims=True)) * share, choice), axis=-1)
    return choice, xp.add_at(kept, tops, mass * share)


def _select_draw(target: Array, q: Array, draws: Array, classes: int | None) -> tuple[Array, Array]:
    """`selection_probabilities`, with a shortcut if no row has more than one draw: that one is selected, with distribution q."""
    present = draws >= 0
    if xp.holds_without_sync(xp.host_view(present).sum(-1) <= 1):
        drawn = present.any(-1)[..., None]
        return xp.astype(present, q.dtype), q if xp.holds_without_sync(drawn) else xp.where(drawn, q, 0)
    if not xp.on_host(draws) or draws.ndim == 1 or len(draws) == 1:
        return selection_probabilities(target, q, draws, classes)
    # On the host each row is solved by itself, and in a batch once for every number of draws in it.
    rows = [slice(row, row + 1) for row in range(len(draws))]
    choices, laws = zip(*(_select_draw(target[row], q[row], draws[row], classes) for row in rows), strict=True)
    return xp.namespace(q).concatenate(choices, 0), xp.namespace(q).concatenate(laws, 0)
