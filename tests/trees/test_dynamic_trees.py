"""Dynamic trees as data: the law of what is emitted by exact enumeration, planted errors, and the slow obvious forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from ot_draft import arrays
from ot_draft.arrays import integers, namespace, where
from ot_draft.laws import PerNodeFixedTokens, outside
from ot_draft.selection import valid_under
from ot_draft.trees.drafting import candidates, counted, level_tree
from ot_draft.trees.drafting.baselines import ConfidentTree, SampledTree, StoppedGrowth
from ot_draft.trees.drafting.candidates import Offer
from ot_draft.trees.drafting.counted_acceptance import CountedAcceptance, LookedUpAcceptance
from ot_draft.trees.drafting.growing import Growing, Grown, grow_all
from ot_draft.trees.model import Nodes, SimulatedModel

PAIRS = Path(__file__).parents[2] / "figures" / "data" / "smollm2_pairs.npz"
OPTIMAL = otd.trees.TokenWise(otd.rules.Optimal(law=PerNodeFixedTokens()))
WITHOUT = otd.trees.TokenWise(otd.rules.RecursiveRejectionWithoutReplacement())
NAIVE = otd.trees.NaivePath()
ONE = otd.trees.TokenWise(otd.rules.SpeculativeSampling())
TRAVERSAL = otd.trees.Traversal()


# Where q is flat two children, where it is steep one.
FEW = CountedAcceptance(
    of_node=((0.4, 0.35), (0.6, 0.2), (0.8, 0.05)),
    of_share=((0.5, 1.0, 1.5), (0.8, 1.0, 1.2)),
    typical=(0.6, 0.2),
    edges=(0.5, 0.75),
)
# Where the draft has little mass on a looked-up token it is not worth one of few nodes.
SELDOM = LookedUpAcceptance(first=(0.05, 0.6), further=(0.05, 0.7), edges=(0.35,))


@dataclass(frozen=True)
class LookedUp(otd.trees.LookupTree):
    """With tokens that are always found."""

    found: tuple[int, ...] = ()

    def growing(self, draws: Any) -> Growing:
        draws.given = draws.root + integers([self.found], like=draws.root)
        return super().growing(draws)


DRAFTINGS: dict[str, tuple[otd.trees.TreeDrafter, tuple[otd.trees.PathRule, ...]]] = {
    "ours, drawn": (otd.trees.AdaptiveTree(4, 2, 3, spread=1.0), (otd.trees.Joint(), OPTIMAL, NAIVE, TRAVERSAL)),
    "ours, fixed": (otd.trees.AdaptiveTree(4, 3, 3, spread=0.0), (otd.trees.Joint(), OPTIMAL, NAIVE)),
    "ours, counted": (otd.trees.CountedTree(4, 3, FEW), (TRAVERSAL, WITHOUT, NAIVE)),
    "lookup and model": (LookedUp(5, 3, FEW, found=(1, 0)), (TRAVERSAL, NAIVE)),
    "lookup, seldom": (LookedUp(3, 3, FEW, SELDOM, found=(1, 0)), (TRAVERSAL, NAIVE)),
    "EAGLE-2": (ConfidentTree(5, 3, 2, 2), (NAIVE, otd.trees.Joint(), OPTIMAL)),
    "OPT-Tree": (ConfidentTree.opt_tree(5, 3, 0.2), (NAIVE, OPTIMAL)),
    "DySpec": (SampledTree(4, 2, 2, 4), (WITHOUT, NAIVE, TRAVERSAL)),
    "DySpec, narrow": (SampledTree(4, 3, 2, 1, min_value=0.1), (WITHOUT,)),
    "SpecDec++": (otd.trees.StoppedPath(3, 0.5), (otd.trees.BlockVerification(), ONE, otd.trees.Joint())),
}
EACH = pytest.mark.parametrize("name", DRAFTINGS)


def model_of(seed: int) -> otd.trees.MarkovModel:
    """Two or three tokens, of order 0 to 2."""
    return otd.trees.MarkovModel.random(np.random.default_rng([seed, 41]), 2 + seed % 2, seed % 3)


@EACH
@pytest.mark.parametrize("seeds", [range(8), slow(range(8, 100))], ids=str)
def test_every_rule_keeps_the_targets_law_exactly(name: str, seeds: range) -> None:
    drafting, rules = DRAFTINGS[name]
    shapes = set()
    for seed in seeds:
        model = model_of(seed)
        trees = list(drafting.every_tree(Nodes.of(model)))
        assert sum(probability for _, probability in trees) == 1
        shapes.update(tree.shape for tree, _ in trees)
        for rule in rules:
            assert otd.trees.evaluate(rule, model, drafting).lossless, (seed, rule.name)
    assert len(shapes) > 1


@dataclass(frozen=True)
class ByItsToken(SampledTree):
    """The planted error: a child's value knows its own token, so that likely tokens are kept and others are not."""

    def offer(self, q: Any, reached: Any, floor: Any, draws: Any, first: int) -> Offer:
        offer = super().offer(q, reached, floor, draws, first)
        falling = np.minimum.accumulate(offer.reached, -1)
        return Offer(offer.tokens, falling, falling)


@dataclass(frozen=True)
class StopsBefore(otd.trees.StoppedPath):
    """The planted error: a token that will be refused is not drafted at all."""

    def growing(self, draws: Any) -> Growing:
        return LooksAtItsToken(self, draws)


class LooksAtItsToken(StoppedGrowth):
    def grow(self, q: Any) -> None:
        super().grow(q)
        last = self.drafting.bounds.length - self.levels - 1
        token = self._tokens[:, last : last + 1]
        unlikely = np.take_along_axis(q[:, 0], np.maximum(token, 0), -1) < 0.4
        self._tokens[:, last : last + 1] = np.where(unlikely, -1, token)
        self._parents[:, last : last + 1][unlikely] = self.drafting.bounds.size
        self._slots = self.slots = np.where(unlikely, -1, self.slots)


@dataclass(frozen=True)
class DrawsAnother(LookedUp):
    """The planted error: tokens are drawn by another law than the rule is told, q squared."""

    def growing(self, draws: Any) -> Growing:
        growing = super().growing(draws)
        growing._draws = Squared(draws)  # type: ignore[attr-defined]
        return growing


class Squared:
    def __init__(self, draws: Any) -> None:
        self._draws = draws

    def __getattr__(self, name: str) -> Any:
        return getattr(self._draws, name)

    def tokens(self, mass: Any, *how: Any) -> Any:
        return self._draws.tokens(mass**2, *how)


@dataclass(frozen=True)
class DropsZero(otd.trees.AdaptiveTree):
    """The planted error: the last draw of a node is taken back if it is token 0."""

    def growing(self, draws: Any) -> Growing:
        return Drops(self, draws)


class Drops(level_tree.LevelGrowth):
    def _children(self, q: Any, numbers: Any, count: Any, tops: Any) -> Any:
        children, masses = super()._children(q, numbers, count, tops)
        place = np.arange(children.shape[-1])
        again = (place == count - 1) & (place >= tops) & (children == 0) & (count > 1)
        return np.where(again, np.roll(children, 1, -1), children), masses  # the one before it, twice


PLANTED: list[tuple[otd.trees.TreeDrafter, otd.trees.PathRule]] = [
    (ByItsToken(3, 2, 3, 4), WITHOUT),
    (ByItsToken(3, 2, 3, 4), TRAVERSAL),
    (DrawsAnother(4, 2, FEW, found=(1,)), TRAVERSAL),
    (StopsBefore(2, 1.0), ONE),
    (StopsBefore(2, 1.0), otd.trees.BlockVerification()),
    (DropsZero(4, 2, 3, spread=1.0), otd.trees.Joint()),
    (DropsZero(4, 2, 3, spread=1.0), OPTIMAL),
]


@pytest.mark.parametrize(("drafting", "rule"), PLANTED, ids=lambda value: type(value).__name__)
def test_a_dependence_on_the_childs_own_token_is_found(
    drafting: otd.trees.TreeDrafter, rule: otd.trees.PathRule
) -> None:
    assert not all(otd.trees.evaluate(rule, model_of(seed), drafting).lossless for seed in range(12))


def test_a_rule_that_uses_the_number_of_children_is_refused_on_trees_drawn_one_by_one() -> None:
    drafting = DRAFTINGS["DySpec"][0]
    for rule in (otd.trees.Joint(), OPTIMAL, otd.trees.TokenWise(otd.rules.KSeq())):
        assert not otd.trees.rules.fits(rule, drafting.bounds, drafting.law)
    assert not otd.trees.rules.fits(
        otd.trees.TokenWise(otd.rules.RecursiveRejection()), otd.trees.AdaptiveTree(4).bounds, PerNodeFixedTokens()
    )


def simulated(name: str, seed: int, batch: int = 3) -> tuple[Any, list[Any], np.ndarray]:
    drafting = LARGER[name]
    model = SimulatedModel(n=40)
    uniforms = np.random.default_rng(seed).random((batch, drafting.counts.n_uniforms))
    return model, [model.root(10 * seed + i) for i in range(batch)], uniforms


LARGER: dict[str, otd.trees.TreeDrafter] = {
    "ours": otd.trees.AdaptiveTree(12, 5, 6),
    "ours, counted": otd.trees.CountedTree(12, 5),
    "lookup and model": LookedUp(12, 5, found=(3, 1, 4, 1)),
    "EAGLE-2": ConfidentTree(12, 5, 4, 3),
    "OPT-Tree": ConfidentTree.opt_tree(12, 6, 0.1),
    "DySpec": SampledTree(12, 5, 5, 4),
    "SpecDec++": otd.trees.StoppedPath(7),
}
EACH_LARGER = pytest.mark.parametrize("name", LARGER)


def grown_on(name: str, model: Any, roots: list[Any], uniforms: np.ndarray) -> Grown:
    return grow_all(otd.trees.drafting.begin(LARGER[name], uniforms), roots, lambda prefix: model.pair(prefix)[1])


def same(one: Grown, other: Grown, rows: slice = slice(None)) -> None:
    for field, value in vars(one).items():
        assert np.array_equal(np.asarray(value), np.asarray(getattr(other, field))[rows]), field


@EACH_LARGER
def test_a_row_of_a_batch_is_the_tree_alone(name: str) -> None:
    model, roots, uniforms = simulated(name, 1)
    whole = grown_on(name, model, roots, uniforms)
    for row, root in enumerate(roots):
        alone = grown_on(name, model, [root], uniforms[row : row + 1])
        same_tree(alone, whole, row)


def same_tree(alone: Grown, whole: Grown, row: int) -> None:
    """The slots may differ: those of a batch leave room for its widest tree."""
    for field in ("tokens", "parents", "fixed_count"):
        assert np.array_equal(getattr(alone, field)[0], getattr(whole, field)[row]), field
    assert np.array_equal(alone.slots[0] >= 0, whole.slots[row] >= 0)


@EACH_LARGER
def test_an_accelerator_which_is_asked_nothing_grows_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, roots, uniforms = simulated(name, 2)
    here = grown_on(name, model, roots, uniforms)
    elsewhere = SimpleNamespace(**vars(arrays) | {"on_host": lambda x: False})
    for module in (candidates, level_tree, counted):
        monkeypatch.setattr(module, "xp", elsewhere)
    there = grown_on(name, model, roots, uniforms)
    for row in range(len(roots)):
        same_tree(type(here)(**{k: v[row : row + 1] for k, v in vars(here).items()}), there, row)


@EACH_LARGER
def test_torch_grows_the_same_and_meta_is_asked_nothing(name: str) -> None:
    torch = pytest.importorskip("torch")
    drafting = LARGER[name]
    generator = np.random.default_rng(3)
    uniforms = generator.random((2, drafting.counts.n_uniforms))
    mine, theirs = (
        otd.trees.drafting.begin(drafting, uniforms),
        otd.trees.drafting.begin(drafting, torch.from_numpy(uniforms)),
    )
    while mine.levels:
        assert np.array_equal(mine.slots, theirs.slots) and np.array_equal(mine.above, theirs.above)
        q = generator.dirichlet(np.full(30, 0.1), mine.slots.shape)
        mine.grow(q)
        theirs.grow(torch.from_numpy(q))
    same(mine.grown(), theirs.grown())
    nowhere = otd.trees.drafting.begin(drafting, torch.empty((2, drafting.counts.n_uniforms), device="meta"))
    while nowhere.levels:
        assert nowhere.slots.shape[1] <= drafting.counts.n_draft_slots
        nowhere.grow(torch.empty((2, nowhere.slots.shape[1], 30), device="meta"))
    grown = nowhere.grown()
    assert grown.tokens.shape == grown.parents.shape == (2, drafting.bounds.size)
    assert grown.fixed_count.shape == grown.slots.shape == (2, drafting.bounds.size + 1)


@EACH_LARGER
def test_nodes_are_numbered_breadth_first_and_were_read_where_they_have_children(name: str) -> None:
    model, roots, uniforms = simulated(name, 4)
    drafting = LARGER[name]
    grown = grown_on(name, model, roots, uniforms)
    for row in range(len(roots)):
        there = grown.tokens[row] >= 0
        count = int(there.sum())
        assert there[:count].all() and (grown.parents[row, count:] == drafting.bounds.size).all()
        shape = otd.trees.TreeShape(
            tuple(grown.parents[row, :count].tolist())
        )  # raises where they are not breadth first
        assert shape.length <= drafting.bounds.length and max(shape.branching) <= drafting.bounds.max_children
        slots = [grown.slots[row, node] for node in range(count + 1) if len(shape.children(node)) > 0]
        assert min(slots) >= 0 and len(set(slots)) == len(slots) and max(slots) < drafting.counts.n_draft_slots


def prefixes(tree: otd.trees.DraftTree, row: int = 0) -> set[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.tokens[row].tolist(), tree.parents[row].tolist(), strict=True):
        if token >= 0:
            found.append((*found[parent], token))
    return set(found[1:])


def best_first(model: Any, root: tuple[int, ...], budget: int, length: int) -> set[tuple[int, ...]]:
    """The likeliest prefixes under the draft, by search with a heap: no child is likelier than its parent."""
    found: set[tuple[int, ...]] = set()
    heap: list[tuple[float, tuple[int, ...]]] = [(-1.0, ())]
    while heap and len(found) <= budget:
        value, prefix = heappop(heap)
        found.add(prefix)
        masses = enumerate(model.draft((*root, *prefix)).tolist()) if len(prefix) < length else ()
        for token, mass in masses:
            heappush(heap, (value * mass, (*prefix, token)))
    return found - {()}


def test_a_beam_as_wide_as_the_budget_finds_the_best_tree() -> None:
    model = SimulatedModel(n=40)
    for seed in range(5):
        best = best_first(model, model.root(seed), 12, 4)
        wide = otd.trees.drafting.draft_trees(ConfidentTree(12, 4, 12, 12), model, [model.root(seed)], np.zeros((1, 0)))
        assert prefixes(wide) == best
        law = wide.q[0, 0]
        narrow = otd.trees.drafting.draft_trees(ConfidentTree(12, 4, 2, 1), model, [model.root(seed)], np.zeros((1, 0)))
        assert len([prefix for prefix in prefixes(narrow) if len(prefix) == 1]) <= 2 < len(np.unique(law))


def test_opt_tree_ends_where_the_gain_does() -> None:
    model = SimulatedModel(n=40)
    depths = []
    for gain in (0.0, 0.1, 0.3, 2.0):
        tree = otd.trees.drafting.draft_trees(
            ConfidentTree.opt_tree(12, 8, gain), model, [model.root(1)], np.zeros((1, 0))
        )
        depths.append(max(map(len, prefixes(tree))))
    assert depths == sorted(depths, reverse=True) and depths[0] > depths[-1] == 1


def test_dyspec_with_a_wide_beam_draws_where_the_estimate_is_best_of_all() -> None:
    """Replayed with a heap, with the tokens that were drawn."""
    model, drafting = SimulatedModel(n=30), SampledTree(10, 4, 10, 10)
    for seed in range(5):
        uniforms = np.random.default_rng(seed).random((1, drafting.counts.n_uniforms))
        tree = otd.trees.drafting.draft_trees(drafting, model, [model.root(seed)], uniforms)
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(tree.parents[0].tolist(), 1):
            children.setdefault(parent, []).append(node)
        depth, heap, count = {0: 0}, [(-1.0, 0, 0)], 0
        heapify(heap)
        while heap and count < drafting.bounds.size:
            value, node, place = heappop(heap)
            assert place < len(children.get(node, [])), "the best is not in the tree"
            child, count = children[node][place], count + 1
            elder = tree.tokens[0, [other - 1 for other in children[node][:place]]]
            mass = float(outside(tree.q[0, node], elder.astype(np.int64))[tree.tokens[0, child - 1]])
            depth[child] = depth[node] + 1
            if depth[child] < drafting.bounds.length:
                heappush(heap, (value * mass, child, 0))
            heappush(heap, (value * (1 - mass), node, place + 1))
        assert count == int((tree.tokens >= 0).sum())


def test_a_path_ends_where_a_refusal_is_likely() -> None:
    model = SimulatedModel(n=30)
    for threshold in (0.1, 0.5, 0.9):
        drafting = otd.trees.StoppedPath(6, threshold)
        uniforms = np.random.default_rng(5).random((20, 6))
        roots = [model.root(i) for i in range(20)]
        tree = otd.trees.drafting.draft_trees(drafting, model, roots, uniforms)
        chain = otd.trees.drafting.draft_trees(otd.trees.FixedTree.chains(1, 6), model, roots, uniforms)
        lengths = drafting.lengths(chain)
        assert np.array_equal((tree.tokens >= 0).sum(-1), lengths)
        assert np.array_equal(np.where(np.arange(6) < lengths[:, None], chain.tokens, -1), tree.tokens)


ONE_DRAFT = [rule for rule in otd.rules.ALL if valid_under(rule, otd.IID(), 1)]


@pytest.mark.parametrize("rule", ONE_DRAFT, ids=lambda rule: rule.name)
def test_a_path_that_might_have_ended_is_selected_from_as_a_chain(rule: otd.SelectionRule) -> None:
    """Its one draft of a level stands among places for more."""
    model = SimulatedModel(n=12)
    roots = [model.root(i) for i in range(20)]
    path, chain = otd.trees.StoppedPath(3, threshold=1.0), otd.trees.FixedTree.chains(1, 3)
    token_wise, generator = otd.trees.TokenWise(rule), np.random.default_rng(6)
    drawn, chosen = generator.random((20, 3)), generator.random((20, token_wise.n_uniforms(chain.bounds)))
    one, other = (
        token_wise.select(otd.trees.drafting.draft_trees(drafting, model, roots, drawn), chosen)
        for drafting in (path, chain)
    )
    assert other.length.any() and np.array_equal(one.length, other.length)
    assert np.array_equal(one.tokens, other.tokens)


def test_the_usual_prediction_is_that_of_the_real_pair() -> None:
    with np.load(PAIRS, allow_pickle=False) as data:
        p, q = (data[name].reshape(-1, data[name].shape[-1]) for name in "pq")
    usual = otd.trees.StoppedPath(4)
    assert usual.fitted(p, q).accepted == pytest.approx(usual.accepted, abs=0.006)
    assert usual.fitted(q, q).accepted == pytest.approx([1] * 9)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ConfidentTree(0), "budget must be .* at least 1, got 0"),
        (lambda: SampledTree(4, 0), "length must be .* at least 1, got 0"),
        (lambda: otd.trees.CountedTree(0), "budget must be .* at least 1, got 0"),
        (lambda: otd.trees.AdaptiveTree(2.5), "budget must be .* got 2.5"),  # type: ignore[arg-type]
        (lambda: otd.trees.StoppedPath(4, 1.5), "got threshold=1.5"),
        (lambda: otd.trees.StoppedPath(4, 0.5, (0.1,), (0.2,)), "accepted have one entry more than edges"),
        (
            lambda: otd.trees.drafting.draft_trees(
                otd.trees.StoppedPath(4), SimulatedModel(n=5), [(0,)], np.zeros((1, 3))
            ),
            r"uniforms must have shape \(B, 4\)",
        ),
    ],
)
def test_errors(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(otd.DraftSelectionError, match=text):
        make()


def test_namespaces_are_not_mixed() -> None:
    """`where` on an empty comparison gives integers in both kinds: what `SampledTree` begins its list of children with."""
    torch = pytest.importorskip("torch")
    for made in (np.zeros((1, 1, 3)), torch.zeros((1, 1, 3))):
        empty = where(made[..., :0] < 0, 0, 0)
        assert str(empty.dtype).endswith("int64") and namespace(empty) is namespace(made)
