"""The compiled loop of block verification selects what the array operations select, and has the law of the plain form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.dispatch import formulas_only
from ot_draft.fast import block_verification, loops
from ot_draft.trees.model import Nodes
from ot_draft.trees.tree import DraftTree, PathSelection, PlainTree, TreeBounds

pytest.importorskip("numba")
N = 5_000  # over the size from which passes are compiled
RULE = otd.trees.BlockVerification()


def trees(texts: int, length: int, dtype: type, seed: int) -> DraftTree:
    """Paths of laws that are near and far, with zeros in both; some end early."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(texts, length + 1, N)) * 3
    q = np.exp(logits[:, :length]) * (generator.random((texts, length, N)) > 0.3)
    p = np.exp(logits + generator.normal(size=logits.shape) * generator.choice([0, 0.1, 1, 3], (texts, 1, 1)))
    p *= generator.random(p.shape) > 0.1
    p, q = ((x / x.sum(-1, keepdims=True)).astype(dtype) for x in (p, q))
    tokens = np.array([[generator.choice(N, p=row / row.sum(dtype=float)) for row in text] for text in q.astype(float)])
    ends = generator.integers(0, length + 2, (texts, 1))
    tokens = np.where(np.arange(length) < ends, tokens, -1)
    return otd.trees.TreeShape.chains(1, length).tree(tokens, p, q)


def same(one: PathSelection, other: PathSelection) -> Any:
    """Whether each text has the same selection, (B,)."""
    names = ("length", "nodes", "tokens")
    pairs = [(np.asarray(getattr(one, name)), np.asarray(getattr(other, name))) for name in names]
    assert all(a.dtype == b.dtype and a.shape == b.shape for a, b in pairs)
    return np.all([(a == b).reshape(len(a), -1).all(-1) for a, b in pairs], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_compiled_or_not_the_same_is_selected(kind: str, length: int, dtype: type) -> None:
    tree = trees(64, length, dtype, length)
    uniforms = np.random.default_rng(7).random((64, 2)).astype(dtype)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        tokens, p, q, uniforms = (torch.from_numpy(x) for x in (tree.tokens, tree.p, tree.q, uniforms))
        wide = torch.cat((q, q.new_ones(64, 2, N)), 1)  # rows beyond the last with children, as a drafter has them
        tree = tree.bounds.tree(tokens, p, wide[:, : length + 1])
    fast = RULE.select(tree, uniforms)
    assert kind == "numpy" or torch.is_tensor(fast.tokens)
    with formulas_only():
        slow = RULE.select(tree, uniforms)
    # Where a uniform lies within rounding of a boundary the two may differ: not at all in float64, seldom in float32.
    assert same(fast, slow).sum() >= (64 if dtype is np.float64 else 63)
    assert len(np.unique(np.asarray(slow.length))) == length + 1


def test_paths_that_stop_by_themselves_and_copies_of_one() -> None:
    tree = trees(64, 3, np.float64, 1)
    ends = (tree.tokens >= 0).sum(-1, keepdims=True)
    parents = np.where(np.arange(3) < ends, np.arange(3), 3)
    data = DraftTree(parents, tree.tokens, tree.p, tree.q, TreeBounds(3, 5, 1))
    uniforms = np.random.default_rng(2).random((64, 2))
    copies = tree.rows(slice(0, 1)).repeated(64)
    found = RULE.select(data, uniforms), RULE.select(copies, uniforms)
    refused = block_verification.select(RULE, copies, None)
    assert refused is NotImplemented  # it would take the memory of 64 trees
    with formulas_only():
        wanted = RULE.select(data, uniforms), RULE.select(copies, uniforms)
    assert same(found[0], wanted[0]).all() and found[0].nodes.shape == (64, 5)
    assert same(found[1], wanted[1]).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_loop_has_the_law_of_the_plain_form(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four tokens, over a grid of both uniforms: a cell of it is what no frequency can be wrong by for each boundary."""
    generator, grid = np.random.default_rng(seed), 300
    laws = generator.dirichlet(np.ones(4), (2, 13)) * (generator.random((2, 13, 4)) > 0.25)
    laws[:, :, 0] += 0.01
    laws /= laws.sum(-1, keepdims=True)
    places = {
        prefix: i
        for i, prefix in enumerate([(), *((a,) for a in range(4)), *((a, b) for a in range(2) for b in range(4))])
    }

    class Model:
        def target(self, prefix: tuple[int, ...]) -> Any:
            return laws[0, places[prefix]]

        def draft(self, prefix: tuple[int, ...]) -> Any:
            return laws[1, places[prefix]]

    tokens = (int(generator.choice(2, p=laws[1, 0, :2] / laws[1, 0, :2].sum())), int(generator.choice(4, p=laws[1, 1])))
    tokens = tokens if seed else (tokens[0], -1)
    way = [(), tokens[:1], tokens if seed else ()]
    shape = otd.trees.TreeShape.chains(1, 2)
    cells = (np.arange(grid) + 0.5) / grid
    uniforms = np.stack(np.meshgrid(cells, cells), -1).reshape(-1, 2)
    p, q = (np.repeat(np.stack([laws[side, places[each]] for each in way])[None], len(uniforms), 0) for side in (0, 1))
    tree = shape.tree(np.repeat([tokens], len(uniforms), 0), p, q)
    monkeypatch.setattr(loops, "MIN_TOKENS", 1)
    few = block_verification.select(RULE, tree.rows(slice(0, 2)), type("", (), {"uniforms": uniforms[:2]}))
    assert few is not NotImplemented
    emitted, counts = np.unique(RULE.select(tree, uniforms).tokens, axis=0, return_counts=True)
    found = {tuple(row[row >= 0].tolist()): count / len(uniforms) for row, count in zip(emitted, counts, strict=True)}
    wanted = RULE(Nodes.of(Model()), PlainTree(shape, tokens))
    assert set(found) == {law for law, mass in wanted.items() if mass > 0}
    assert all(abs(found[law] - wanted[law]) < 6 / grid for law in found)
