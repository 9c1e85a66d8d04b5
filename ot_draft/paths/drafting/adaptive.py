"""Our dynamic tree: level by level, the budget goes where the draft says that it helps, from q and what was drawn above alone.

At every level the draft estimates how likely each node is reached, and what one more child of it would add to the acceptance: the
estimate of `Hybrid("auto")`, for every number of children and of top tokens among them. How much of the budget the level gets is
decided by a forest that is only imagined: below every possible child hangs the tree that would grow if all nodes were
like the average one of this level; the best nodes of that forest are counted, as many as are left, and those among them that lie in
this level are drafted, all at once. The numbers depend on levels above, never on a draw of the same level or below: that
is what `Joint` and `Optimal` need to be lossless (proofs_checks/paths/adapted_trees.py). Equal siblings are one place: the first
holds the children of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...arrays import (
    Array,
    argsort,
    double,
    gather,
    inverse_cdf,
    is_exact,
    maximum,
    minimum,
    namespace,
    on_host,
    positions,
    prefix_minimum,
    prefix_sums,
    smallest,
    take,
    top_masses,
    top_tokens,
    total,
    where,
)
from ...laws import ByNode, StandIn, outside
from ..model import Model, Path
from ..rules.path_rule import Nodes
from ..tree import DraftTree, FreeShape, TreeShape
from .plans import History, Plan
from .trees import Rows

Chosen = tuple[Array, Array]  # number of children, and of top tokens among them: int (B, W) each


@dataclass(frozen=True)
class AdaptiveTree:
    """Draft at most `budget` nodes, at most `length` deep and `most` children a node, as many where as the draft's q says.

    estimator: the stand-in for the target, of which q's top tokens carry the mass; closer to q than that of `Hybrid("auto")`,
    because it has to say, too, how likely each token is (`StandIn.fitted` makes one for a draft). Lossless with `Joint`,
    `TokenWise(Optimal(law=ByNode()))` and `NaiveTarget`, and, one tree at a time (`one_shape`), with `Traversal`.
    """

    budget: int
    length: int = 8
    most: int = 12
    estimator: StandIn = field(default=StandIn(head=128, power=0.8, seen=0.9))
    spread: float = 0.5  # weight of a target spread out like the stand-in; the rest, of one token drawn from it
    typical: tuple[
        float, ...
    ] = ()  # what each child of a node adds on average, where it is known; else as on the level drafted

    @property
    def shape(self) -> FreeShape:
        """The bounds of its trees."""
        return FreeShape(nodes=self.budget, deepest=self.length, most=self.most)

    def numbers(self, q: Array, reached: Array, left: Array, levels: int) -> Chosen:
        """Children of every node of a level: q (B, W, n), chance that each is reached (B, W), nodes left int (B, 1).

        levels: how many may still be drafted, that of the children included.
        """
        gains, tops = self._gains(q)
        weights = (reached[..., None] * gains).reshape(len(reached), -1)
        average = (reached[..., None] * gains).sum(-2) / maximum(total(reached), 1e-300)
        for place, gain in enumerate(self.typical):  # numbers, not an array: nothing is copied to the device
            average[..., place] = gain
        drafted = self._drafted(weights, self._imagined(average, levels - 1), left)
        count = drafted.reshape(gains.shape).sum(-1)
        return count, gather(tops, count[..., None])[..., 0]

    def below(self, q: Array, tokens: Array, tops: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is: (..., n), int (..., C) children, (..., 1), (..., 1) -> (..., C).

        A fixed token is reached where the target draws it; of a drawn one, its mass is shared by the chance that it was drawn.
        """
        c = self._mass(q, gather(q, tokens))
        fixed = positions(tokens.shape[-1], tokens) < tops
        drawn = gather(outside(q, where(fixed, tokens, -1)), tokens)
        caught = 1 - (1 - minimum(drawn, 1)) ** maximum(count - tops, 0)
        shared = self.spread * minimum(c / where(caught > 0, caught, 1), 1) + (1 - self.spread) * c
        return where(tokens < 0, 0, where(fixed, c, where(caught > 0, shared, 0)))

    def draft(self, model: Any, roots: Sequence[Path], uniforms: np.ndarray) -> DraftTree:
        """A tree after each of B prefixes; uniforms (B, N) in [0, 1), one for every node."""
        rows, batch = Rows.of(model), len(roots)
        known: dict[Path, tuple[Any, Any]] = {}
        prefixes: list[dict[int, Path]] = [{0: root} for root in roots]
        growing = Growing(self, uniforms)
        p, q = (np.zeros((batch, self.budget + 1, rows.n)) for _ in range(2))
        while True:
            nodes = growing.nodes
            for row, node in zip(*np.nonzero(nodes >= 0), strict=True):
                place = int(nodes[row, node])
                if place:
                    parent = int(growing.parents[row, place - 1])
                    prefixes[row][place] = (*prefixes[row][parent], int(growing.tokens[row, place - 1]))
                p[row, place], q[row, place] = rows.pair(prefixes[row][place], known)
            if growing.levels == 0 or not (nodes >= 0).any():
                break
            growing.grow(q[np.arange(batch)[:, None], np.maximum(nodes, 0)])
        return growing.tree(p, q)

    def _gains(self, q: Array) -> Chosen:
        """What each further child adds to the estimated acceptance (..., most), and the number of top tokens among 0 .. most children."""
        acceptance, tops = self._acceptances(q)
        return maximum(prefix_minimum(acceptance[..., 1:] - acceptance[..., :-1]), 0), tops

    def plan(self, model: Model) -> Plan:
        """The same drafting in plain form, one prefix after the other, for exact work: `ot.paths.evaluate_plan`."""
        nodes = Nodes.of(model)

        def step(history: History) -> tuple[Path, Path, int] | None:
            drafted = {expansion.prefix: expansion for expansion in history}
            level: dict[Path, float] = {(): 1.0}
            left, levels = self.budget, self.length
            while level and left and levels:
                q = np.stack([nodes.draft(prefix) for prefix in level]).astype(np.float64)
                reached = np.array([list(level.values())])
                (counts,), (tops,) = self.numbers(q[None], reached, np.array([[left]]), levels)
                below: dict[Path, float] = {}
                for (prefix, chance), law, count, number in zip(level.items(), q, counts, tops, strict=True):
                    fixed = tuple(top_tokens(law, min(self.most, len(law)))[:number].tolist())
                    if not count:
                        continue
                    if prefix not in drafted:
                        return prefix, fixed, int(count - number)
                    tokens = np.array(fixed + drafted[prefix].drawn)
                    chances = chance * self.below(law, tokens, np.array([number]), np.array([count]))
                    for token, further in zip(tokens.tolist(), chances.tolist(), strict=True):
                        below.setdefault((*prefix, token), further)
                    left -= len(tokens)
                level, levels = below, levels - 1
            return None

        return step

    def fitted(self, p: Array, q: Array) -> AdaptiveTree:
        """The same with the stand-in and the spread that fit pairs of a target and its draft, numpy (rows, n).

        The stand-in is the likeliest; with the spread, one draw is estimated to be accepted as often as it is; the forest below
        is imagined as the pairs are on average.
        """
        found = replace(self, estimator=StandIn.fitted(p, q, self.estimator.head))
        head, c = found._head(q)
        all_of_it, one_token = minimum(c, head).sum(-1).mean(), (c * head).sum(-1).mean()
        accepted = minimum(p, q).sum(-1).mean()
        spread = (accepted - one_token) / max(all_of_it - one_token, 1e-9)
        found = replace(found, spread=float(min(max(spread, 0.0), 1.0)), typical=())
        return replace(found, typical=tuple(found._gains(q)[0].mean(0).tolist()))

    def _acceptances(self, q: Array) -> tuple[Array, Array]:
        """Estimated acceptance for 0 .. most children with the best number of top tokens, and that number: (..., most + 1) each."""
        head, c = self._head(q)
        most = min(self.most, q.shape[-1] - 1)
        covered, drawn = prefix_sums(c), prefix_sums(head)
        rest = 1 - drawn[..., : most + 1]
        rest = where(rest > 1e-12, rest, 1)[..., None]
        place = positions(drawn.shape[-1], head)
        j = positions(most + 1, head)[:, None]
        inside = minimum(maximum((drawn[..., None, :] - drawn[..., : most + 1, None]) / rest, 0), 1)
        missed = 1 - minimum(head[..., None, :] / rest, 1)
        beyond = place >= j
        all_in, none = where(beyond, inside, 0) * 0 + 1, missed * 0 + 1
        table = []  # by number of draws: (..., j)
        for _ in range(self.most + 1):
            spread_out = 1 + smallest(where(beyond, covered[..., None, :] - all_in, 0))[..., 0]
            caught = where(beyond[:, :-1], c[..., None, :] * (1 - none), 0).sum(-1)
            one_token = covered[..., : most + 1] + caught
            table.append(self.spread * spread_out + (1 - self.spread) * one_token)
            all_in, none = all_in * inside, none * missed
        best, which = [], []
        for k in range(self.most + 1):
            options = [table[k - number][..., number : number + 1] for number in range(min(k, most) + 1)]
            options = namespace(head).concatenate(options, -1)
            which.append(options.argmax(-1)[..., None])
            best.append(gather(options, which[-1]))
        join = namespace(head).concatenate
        return join(best, -1), join(which, -1)

    def _head(self, q: Array) -> tuple[Array, Array]:
        """The largest masses of q in falling order, and the stand-in's on the same tokens, float64: (..., head) each."""
        q = q.astype(float) if is_exact(q) else double(q)
        head = top_masses(q, min(max(self.estimator.head, self.most), q.shape[-1]))
        c = where(head > 0, 1, 0) * head**self.estimator.power
        return head, self.estimator.seen * c / total(c)

    def _mass(self, q: Array, masses: Array) -> Array:
        """The stand-in's mass of tokens by their masses under q."""
        head, c = self._head(q)
        largest = head[..., :1] ** self.estimator.power
        masses = masses.astype(float) if is_exact(masses) else double(masses)
        return minimum(where(masses > 0, 1, 0) * masses**self.estimator.power * c[..., :1] / largest, 1)

    def _imagined(self, average: Array, levels: int) -> Array:
        """Chances that the nodes of an average node's tree are reached, itself (1) included, the largest first: (B, at most budget)."""
        join = namespace(average).concatenate
        alone = average[:, :1] * 0 + 1
        tree = alone
        for _ in range(levels):
            further = (average[:, :, None] * tree[:, None, :]).reshape(len(average), -1)
            tree = join((alone, top_masses(further, min(self.budget, further.shape[-1]))), -1)
        return tree

    def _drafted(self, weights: Array, tree: Array, left: Array) -> Array:
        """Which possible children (B, W C) are drafted: those of the level among the best of the imagined forest. bool."""
        order = argsort(-weights, stable=True)
        best = take(weights, order)[:, : self.budget]
        forest = (best[:, :, None] * tree[:, None, :]).reshape(len(best), -1)
        forest = top_masses(forest, min(self.budget, forest.shape[-1]))
        least = gather(forest, minimum(left, forest.shape[-1]) - 1)  # 0 where nothing is left: then `left` bounds
        number = minimum(total(where((best >= least) & (best > 0), 1, 0)), left)
        return argsort(order) < number


def one_shape(tree: DraftTree) -> DraftTree:
    """A batch of one tree whose shape is data, as one of a `TreeShape` without absent nodes: on the host, for rules that need it."""
    assert tree.parents is not None and tree.tops is not None, "a tree of AdaptiveTree"
    number = int((tree.tokens[0] >= 0).sum())
    shape = TreeShape(tuple(tree.parents[0, :number].tolist()))
    p, q = tree.p[:, : number + 1], tree.q[:, : number + 1]
    return DraftTree(shape, tree.tokens[:, :number], p, q, tree.law, tree.tops[:, : q.shape[1]])


class Growing:
    """A batch of trees level by level, as data: nothing is asked of the device.

    tokens, parents: int (B, N), -1 and N where nothing was drafted yet; tops: int (B, N + 1). nodes: int (B, W), the places of the
    present level, -1 where there is none, and for siblings equal to an elder one; levels: how many may still grow.
    """

    def __init__(self, drafting: AdaptiveTree, uniforms: Array) -> None:
        self.drafting, self._uniforms = drafting, uniforms
        size = drafting.budget
        self.levels = drafting.length if size else 0
        empty = 0 * positions(size + 1, uniforms) + where(uniforms[:, :1] < 0, 0, 0)  # (B, N + 1)
        self._tokens, self._parents, self.tops = empty - 1, empty + size, empty
        self._used = empty[:, :1]
        self.nodes = empty[:, :1]
        self._reached = 1.0 + 0 * uniforms[:, :1]

    @property
    def tokens(self) -> Array:
        return self._tokens[:, :-1]

    @property
    def parents(self) -> Array:
        return self._parents[:, :-1]

    def grow(self, q: Array) -> None:
        """Draft the level below, by q (B, W, n) at the present nodes (any law where there is none)."""
        drafting, size = self.drafting, self.drafting.budget
        count, tops = drafting.numbers(q, self._reached, size - self._used, self.levels)
        place = positions(drafting.most, count)
        present = (place < count[..., None]).reshape(len(count), -1)
        kept = argsort(where(present, 0, 1), stable=True)[:, : min(size, present.shape[-1])]
        if on_host(kept):  # where it can be asked how many there are, the rest of the level is left out
            kept = kept[:, : max(int(present.sum(-1).max()) if len(present) else 0, 1)]
        there, parent = take(present, kept), kept // drafting.most
        slot = where(there, self._used + positions(kept.shape[-1], kept), size)
        uniforms = gather(self._uniforms, where(there, slot, -1))
        spread = 0 * (place + count[..., None]) + 0.0 * uniforms[:, :1, None]
        spread = _written(spread.reshape(len(kept), -1), kept, uniforms).reshape(*count.shape, drafting.most)
        children = self._draw(q, spread, count[..., None], tops[..., None])
        reached = self._reached[..., None] * drafting.below(q, children, tops[..., None], count[..., None])
        children, reached = (x.reshape(len(kept), -1) for x in (children, reached))
        tokens = where(there, take(children, kept), -1)
        self._tokens = _written(self._tokens, slot, tokens)
        self._parents = _written(self._parents, slot, where(there, take(maximum(self.nodes, 0), parent), size))
        self.tops = _written(self.tops, where(self.nodes >= 0, self.nodes, size), tops)
        self._used = self._used + total(where(there, 1, 0))
        elder = (tokens[:, :, None] == tokens[:, None, :]) & (parent[:, :, None] == parent[:, None, :])
        index = positions(kept.shape[-1], kept)
        alone = there & ~(elder & (index[:, None] > index)).any(-1)
        self.nodes = where(alone, slot + 1, -1)
        self._reached = where(alone, take(reached, kept), 0.0)
        self.levels -= 1

    def _draw(self, q: Array, uniforms: Array, count: Array, tops: Array) -> Array:
        """Children (B, W, C): top tokens first, then draws outside them; -1 beyond their number."""
        most = uniforms.shape[-1]
        ranked = top_tokens(q, min(most, q.shape[-1]))
        place = positions(most, count)
        fixed = where(place[: ranked.shape[-1]] < tops, ranked, -1)
        drawn = inverse_cdf(outside(q, fixed), uniforms)
        if ranked.shape[-1] < most:
            ranked = namespace(q).concatenate((ranked, drawn[..., ranked.shape[-1] :]), -1)
        return where(place < count, where(place < tops, ranked, drawn), -1)

    def tree(self, p: Array, q: Array) -> DraftTree:
        """The drafted trees, with p (B, N + 1, n) and q (B, at least N, n) at their nodes."""
        return DraftTree(self.drafting.shape, self.tokens, p, q, ByNode(), self.tops[:, : q.shape[1]], self.parents)


def _written(x: Array, index: Array, values: Array) -> Array:
    """A copy of x (B, m) with the values at the indices (B, i); the last column may take what is of no use."""
    if hasattr(x, "scatter"):
        return x.scatter(-1, index, values)
    out = x.copy()
    np.put_along_axis(out, index, values, -1)
    return out
