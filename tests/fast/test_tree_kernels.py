"""Selection on trees in one launch against the same path rules in array operations and float64, by Triton's interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.fast import kernels
from ot_draft.laws.fixed_last import FixedLast, PerNodeFixedTokensLast
from ot_draft.trees import NaivePath, TokenWise, Traversal, TreeShape
from ot_draft.trees.tree import TreeBounds

torch = pytest.importorskip("torch")
if not kernels.installed():
    pytest.skip("triton is not installed: pip install triton", allow_module_level=True)

from counted_operations import Counted, Launched  # noqa: E402

from ot_draft.fast.kernels import trees  # noqa: E402

K_SEQ, RECURSIVE = TokenWise(otd.rules.KSeq()), TokenWise(otd.rules.RecursiveRejection())
WITHOUT = TokenWise(otd.rules.RecursiveRejectionWithoutReplacement())
TRAVERSED = (
    otd.IID(),
    otd.WithoutReplacement(),
    otd.Hybrid(2),
    otd.Hybrid(-1),
    otd.laws.Fixed((3, 5)),
    FixedLast((4,)),
)
CASES = [(Traversal(), law) for law in TRAVERSED]
CASES += [(K_SEQ, otd.IID()), (RECURSIVE, otd.IID()), (WITHOUT, otd.WithoutReplacement()), (NaivePath(), otd.Hybrid(1))]


def random_shape(generator: np.random.Generator, size: int) -> TreeShape:
    parents: list[int] = []
    for node in range(size):
        least = parents[-1] if parents else 0
        parents.append(int(generator.integers(least, min(least + 3, node + 1))))
    return TreeShape(tuple(parents))


def distributions(generator: Any, shape: tuple[int, ...], kind: int) -> Any:
    """Softmax of random logits; with zeros; one-hot; nearly one-hot; uniform."""
    *batch, n = shape
    x = torch.softmax(3 * torch.randn(shape, generator=generator), -1)
    if kind == 1:
        x = x * (torch.rand(shape, generator=generator) < 0.3)
        x[..., 0] += x.sum(-1) == 0
    if kind == 2:
        x = torch.nn.functional.one_hot(torch.randint(n, batch, generator=generator), n).float()
    if kind == 3:
        x = x**8 * 1e-20
        x[..., 1 % n] = 1
    if kind == 4:
        x = torch.ones(shape)
    return x / x.sum(-1, keepdim=True)


def drafted(law: Any, q: Any, shape: TreeShape, generator: Any) -> Any:
    tokens = torch.full((len(q), shape.size), -1)
    for node in range(shape.size):
        if children := shape.children(node):
            drawn = otd.draw(law, q[:, node], len(children), generator)
            tokens[:, children.start - 1 : children.stop - 1] = drawn
    return tokens


def exact(x: Any) -> Any:
    return x.double() / x.double().sum(-1, keepdim=True)


def agree(rule: Any, tree: Any, uniforms: Any, patch: pytest.MonkeyPatch) -> None:
    """The kernel selects what the array form selects."""
    precise = otd.trees.DraftTree(
        tree.parents, tree.tokens, exact(tree.p), exact(tree.q), tree.bounds, tree.law, tree.fixed_count
    )
    patch.setenv("OT_DRAFT_TRITON", "0")
    wanted = rule.select(precise, uniforms.double())
    patch.setenv("OT_DRAFT_TRITON", "1")
    found = rule.select(tree, uniforms)
    for name in ("length", "nodes", "tokens"):
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "BLOCK", 64)


@pytest.mark.parametrize("size", [1, 9, 64])
@pytest.mark.parametrize(("rule", "law"), CASES, ids=str)
def test_random_trees(rule: Any, law: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With absent nodes where the law lets any draft be absent."""
    if size == 64 and isinstance(rule, Traversal) and law != otd.IID():
        size = 24
    generator = torch.Generator().manual_seed(size)
    shape = random_shape(np.random.default_rng(size), size)
    if rule == WITHOUT:
        shape = TreeShape.by_level((3, 2, 1)[: 1 + size // 5])
    p, q = (distributions(generator, (2 if size < 10 else 1, shape.size + 1, 130), 0) for _ in range(2))
    p = 0.4 * p + 0.6 * q
    tokens = drafted(law, q, shape, generator)
    if law == otd.IID():
        tokens[torch.rand(tokens.shape, generator=generator) < 0.1] = -1
    uniforms = torch.rand(len(p), rule.n_uniforms(shape), generator=generator)
    agree(rule, shape.tree(tokens, p, q, law), uniforms, monkeypatch)


@pytest.mark.parametrize(("rule", "law"), CASES, ids=str)
def test_boundary_distributions(rule: Any, law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of kinds as the roots of a batch: one-hot, without overlap, equal, with zeros, q used up before all draws are made."""
    shape, generator = TreeShape((0, 0, 0)), torch.Generator().manual_seed(5)
    rows = [
        (distributions(generator, (4, 8), i), distributions(generator, (4, 8), j)) for i in range(5) for j in range(5)
    ]
    rows = rows[::3] + [(row, row) for _, row in rows[1:4]]
    p, q = (torch.stack([row[side] for row in rows]) for side in (0, 1))
    tokens = drafted(law, q, shape, generator)
    uniforms = torch.rand(len(p), rule.n_uniforms(shape), generator=generator)
    uniforms[::6], uniforms[1::6] = 0, 0.999
    agree(rule, shape.tree(tokens, p, q, law), uniforms, monkeypatch)


def test_trees_as_data_with_numbers_of_fixed_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parents, absent nodes and fixed_count differ from tree to tree; one tree is empty."""
    bounds, generator = TreeBounds(5, 3, 3), torch.Generator().manual_seed(1)
    parents = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 2, 5, 5], [5, 5, 5, 5, 5]])
    p, q = (distributions(generator, (3, 6, 90), 0) for _ in range(2))
    counts = torch.tensor([[2, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    tokens = torch.tensor([[7, 8, 9, 3, 4], [1, 2, 3, -1, -1], [-1, -1, -1, -1, -1]])
    for law in (otd.laws.PerNodeFixedTokens(), PerNodeFixedTokensLast(), otd.IID()):
        fixed = None if law == otd.IID() else counts
        tree = otd.trees.DraftTree(parents, tokens, p, q, bounds, law, fixed)
        for rule in (Traversal(), NaivePath()):
            for seed in range(2):
                uniforms = torch.rand(3, rule.n_uniforms(bounds), generator=torch.Generator().manual_seed(seed))
                agree(rule, tree, uniforms, monkeypatch)


@pytest.mark.parametrize(("rule", "law"), CASES, ids=str)
def test_any_memory_layout(rule: Any, law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposed tensors and slices of larger ones."""
    shape, generator = TreeShape((0, 0, 1, 1) if rule != WITHOUT else (0, 0)), torch.Generator().manual_seed(4)
    p, q = (distributions(generator, (16, shape.size + 1, 20), 0) for _ in range(2))
    p = 0.4 * p + 0.6 * q
    tokens = drafted(law, q, shape, generator)
    larger = torch.zeros(16, shape.size + 1, 27)
    larger[..., 3:23] = p
    tree = shape.tree(tokens.T.contiguous().T, larger[..., 3:23], q.mT.contiguous().mT, law)
    assert tree.q.stride(-1) > 1
    agree(rule, tree, torch.rand(16, rule.n_uniforms(shape), generator=generator), monkeypatch)


@pytest.mark.parametrize(("rule", "law"), CASES, ids=str)
def test_number_of_launched_operations(rule: Any, law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most ten, however many nodes there are."""
    found = []
    for shape in (TreeShape.chains(2, 2), TreeShape.chains(8, 8)):
        p = torch.full((1, shape.size + 1, 8), 1 / 8)
        tree = shape.tree(torch.zeros(1, shape.size, dtype=torch.int64), p, p, law)
        uniforms = torch.rand(1, rule.n_uniforms(shape))
        launched = Launched()
        for name in ("_traverse", "_walk"):
            monkeypatch.setattr(trees, name, launched)
        monkeypatch.setenv("OT_DRAFT_TRITON", "1")
        with Counted() as counted:
            rule.select(tree, uniforms)
        assert launched.count == 1
        found.append(counted.count + launched.count)
    assert found[0] == found[1] <= 10
