"""Fast paths of optimal selection against the slow ones: numba, all levels at once, classes; and a real vocabulary's size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_problems import SMALL_SIZES, all_tuples, random_masses
from slopes import slopes_of

import ot_draft as otd
from ot_draft.arrays import gather
from ot_draft.arrays import ratio_classes as grouping
from ot_draft.dispatch import formulas_only
from ot_draft.fast import ratio_classes as fast_grouping
from ot_draft.rules.optimal import device as parallel
from ot_draft.rules.optimal import levels as sweep
from ot_draft.rules.optimal.classes import at_levels
from ot_draft.rules.optimal.rule import selection_probabilities

torch = pytest.importorskip("torch")

VOCABULARY = 151_936


def softmax_pair(n: int, seed: int = 71) -> tuple[np.ndarray, np.ndarray]:
    """Two related models: the target's logits are the draft's, with noise, over a heavy-tailed vocabulary."""
    generator = np.random.default_rng(seed)
    logits = 3 * generator.standard_normal(n) + generator.standard_normal((2, n)) * 0.7
    p, q = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return p, q


def curves(p: np.ndarray, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Breakpoints, g and envelope for class masses in the order of p/q."""
    f, t = (np.concatenate(([0.0], np.cumsum(x))) for x in (p, q))
    g = t**k
    gain = g - f
    return t, g, f + np.minimum(np.maximum.accumulate(gain), np.maximum.accumulate(gain[::-1])[::-1])


def swept(t: np.ndarray, g: np.ndarray, envelope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    slope = np.diff(envelope) / np.diff(t)
    return sweep.levels(t, g, np.concatenate(([0.0], np.diff(slope), [0.0])))


def class_masses(generator: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """In the order of p/q, a third of the classes empty, total masses 1."""
    q = generator.dirichlet(np.full(number, 0.5)) * (generator.random(number) > 1 / 3)
    q[generator.integers(number)] += 0.1
    p = q * np.sort(generator.gamma(0.7, size=number))
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("number", [1, 2, 3, 5, 17, 64, 257])
def test_all_levels_at_once_are_those_of_the_sweep(number: int) -> None:
    generator = np.random.default_rng([72, number])
    for k in (1, 2, 3, 8):
        for _ in range(8):
            p, q = class_masses(generator, number)
            t, g, envelope = curves(p, q, k)
            found = parallel.levels_at_once(*(torch.from_numpy(x) for x in (t, g, envelope)))
            slope = parallel.slopes_of(torch.from_numpy(t), torch.from_numpy(g), found).numpy()
            first = np.flatnonzero(np.diff(t, prepend=-1.0) > 0)  # breakpoints in one place: the first stands for all
            level, exact = swept(t[first], g[first], envelope[first])
            if k > 1:
                assert np.abs(found.numpy()[first] - level)[1:-1].max(initial=0) <= 1e-9
            used = np.flatnonzero(q > 0)
            assert np.abs((slope[used] - exact) * q[used]).max() <= 1e-12


def test_slopes_for_any_levels_are_those_of_the_obvious_way() -> None:
    generator = np.random.default_rng(73)
    for number in (1, 2, 5, 40):
        for k in (1, 2, 6):
            t, g, _ = curves(*(generator.dirichlet(np.ones(number), 2)), k)
            level = generator.choice([0.0, 0.3, 0.7, 1.0, generator.random()], number + 1)
            level[[0, -1]] = 1
            found = parallel.slopes_of(*(torch.from_numpy(x) for x in (t, g, level))).numpy()
            assert np.abs((found - slopes_of(t, g, level)) * np.diff(t)).max() <= 1e-12


def parallel_choice(p: Any, q: Any, drafts: Any, classes: int | None) -> tuple[Any, Any]:
    """`selection_probabilities` as it runs off the CPU."""
    count = (drafts >= 0).sum(-1, keepdim=True).to(p.dtype)
    rank, level, selected = parallel.plan_in_parallel(p, q, count, drafts.shape[-1], classes)
    return at_levels(level, gather(rank, drafts), drafts >= 0), selected


@pytest.mark.parametrize("classes", [None, 16])
def test_the_parallel_plan_says_the_true_law_of_what_it_selects(classes: int | None) -> None:
    generator = np.random.default_rng(74)
    for n, k in SMALL_SIZES:
        p, q = (random_masses(generator, n, 256).astype(float) for _ in range(2))
        drafts = all_tuples(n, k)
        choice, m = parallel_choice(torch.tensor(p)[None], torch.tensor(q)[None], torch.tensor(drafts), classes)
        for count in range(k + 1):
            here = ((drafts >= 0) == (np.arange(k) < count)).all(-1)
            weight = q[drafts[here][:, :count]].prod(-1)
            law = sum(
                (np.bincount(drafts[here, i], weight * choice.numpy()[here, i], n) for i in range(count)), np.zeros(n)
            )
            assert np.abs(law - m.numpy()[here]).max() <= 1e-12
        lost = otd.optimal_acceptance(p, q, k) - np.minimum(p, m.numpy()[-1]).sum()  # the last tuple is whole
        assert -1e-12 <= lost <= (5e-3 if classes is None else 0.1)


def test_the_parallel_plan_needs_no_values() -> None:
    p = torch.empty((3, 1, 50), device="meta")
    count = torch.empty((3, 4, 1), device="meta")
    for classes in (None, 16):
        rank, level, m = parallel.plan_in_parallel(p, p, count, 4, classes)
        assert rank.shape == m.shape == (3, 4, 50) and level.shape[:2] == (3, 4)
        assert rank.dtype == torch.int64 and m.dtype == level.dtype == torch.float32 and m.device.type == "meta"


def test_the_sweep_is_the_same_without_numba() -> None:
    pytest.importorskip("numba")
    generator = np.random.default_rng(75)
    for number, k in ((16, 2), (400, 3), (1500, 8)):
        q = generator.dirichlet(np.ones(number)) + 1e-6
        p = q * np.sort(generator.gamma(0.7, size=number))
        t, g, envelope = curves(p / p.sum(), q / q.sum(), k)
        t[-1] = 1
        kinks = np.concatenate(([0.0], np.diff(np.diff(envelope) / np.diff(t)), [0.0]))
        zeros = [0.0] * len(t)
        slow = sweep._sweep(t.tolist(), g.tolist(), kinks.tolist(), zeros, zeros.copy())
        fast = sweep.levels(t, g, kinks)
        assert all(np.abs(np.array(a) - b).max() <= 1e-9 for a, b in zip(slow, fast, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_are_the_same_without_numba(dtype: Any) -> None:
    pytest.importorskip("numba")
    generator = np.random.default_rng(76)
    p, q = (generator.dirichlet(np.full(500, 0.1)).astype(dtype) * (generator.random(500) > 0.2) for _ in range(2))
    p, q = (x.astype(dtype) for x in (p, q))
    for classes, k in ((4, 1), (64, 2), (1024, 8)):
        layout = grouping.layout(classes, k)
        count, results = layout.number, []
        for way in (fast_grouping.by_ratio, grouping.by_ratio.__wrapped__):  # type: ignore[attr-defined]
            rank = np.full(500, -7)
            masses = way(p, q, layout, grouping.OFFSET, 0, rank)
            results.append((rank, *masses))
        for other in results[1:]:
            assert (
                (other[0] == results[0][0]).all()
                and rank.min() >= 0
                and rank[q > 0].max() < count
                and (rank[q <= 0] == count).all()
            )
            assert all(np.abs(a - b).max() <= 1e-12 for a, b in zip(other[1:], results[0][1:], strict=True))


@pytest.mark.parametrize("classes", [None, 64])
def test_the_rule_is_the_same_without_numba(classes: int | None) -> None:
    pytest.importorskip("numba")
    p, q = softmax_pair(600)
    drafts = np.random.default_rng(77).integers(0, 600, (50, 4))
    fast = otd.rules.Optimal(classes=classes)(p, q, drafts)
    with formulas_only():
        slow = otd.rules.Optimal(classes=classes)(p, q, drafts)
    assert np.abs(fast.accept - slow.accept).max() <= 1e-9 and np.abs(fast.residual - slow.residual).max() <= 1e-9


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("dtype", "classes", "loss"),
    [
        ("float64", None, 1e-6),
        ("float32", None, 1e-3),
        *((t, c, x) for t in ("float32", "float64") for c, x in ((1024, 1e-3), (256, 5e-3))),
    ],
)
def test_a_real_vocabulary(dtype: str, classes: int | None, loss: float, kind: str) -> None:
    k = 8
    p, q = (x.astype(dtype) for x in softmax_pair(VOCABULARY))
    drafts = np.random.default_rng(78).choice(VOCABULARY, (1, k), p=q.astype(float) / q.sum(dtype=float))
    alpha = otd.optimal_acceptance(p.astype(float) / p.sum(dtype=float), q.astype(float) / q.sum(dtype=float), k)
    make = np.asarray if kind == "numpy" else torch.from_numpy
    choice, m = selection_probabilities(make(p)[None], make(q)[None], make(drafts), classes)
    m = np.asarray(m, dtype=float)[0]
    assert abs(m.sum() - 1) <= (1e-6 if dtype == "float32" else 1e-12) and m.min() >= 0
    assert abs(np.asarray(choice).sum() - 1) <= 1e-6
    assert alpha - np.minimum(p, m).sum() <= loss


@pytest.mark.parametrize(("classes", "loss"), [(None, 5e-3), (1024, 1e-3)])
def test_a_real_vocabulary_in_parallel(classes: int | None, loss: float) -> None:
    p, q = softmax_pair(VOCABULARY)
    _, m = parallel_choice(*(torch.from_numpy(x)[None] for x in (p, q)), torch.arange(8)[None], classes)
    assert abs(m.sum() - 1) <= 1e-12 and m.min() >= 0
    assert 0 <= otd.optimal_acceptance(p, q, 8) - np.minimum(p, m.numpy()[0]).sum() <= loss
