"""Fast forms give what their formulas give: rules, residuals, choices and draws, with and without `ot_draft.fast`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_problems import all_tuples, random_masses
from slow import slow

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft.dispatch import formulas_only
from ot_draft.fast import loops
from ot_draft.fast.loops import compiled
from ot_draft.laws.fixed_last import FixedLast
from ot_draft.rules.k_seq import division_factor
from ot_draft.sampling import choose

pytest.importorskip("numba")
N = 5_000  # over the size from which passes are compiled


def rows(dtype: type, seed: int = 90) -> tuple[Any, Any, Any]:
    """Two batches of pairs: near and far, with zeros; drafts with absent ones, refused ones and a row without any."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(2, 3, N)) * 3
    q = np.exp(logits) * (generator.random(logits.shape) > 0.1)
    p = np.exp(logits + generator.normal(size=logits.shape) * [[[0.1], [1.0], [3.0]]]) * (
        generator.random(q.shape) > 0.1
    )
    p, q = ((x / x.sum(-1, keepdims=True)).astype(dtype) for x in (p, q))
    drafts = generator.integers(-1, N, (2, 3, 6))
    drafts[0, 0] = -1
    drafts[1, 1] = np.argsort(np.where(q[1, 1] > 0, p[1, 1] / np.maximum(q[1, 1], 1e-30), np.inf))[:6]
    return p, q, drafts


@pytest.mark.parametrize("rule", otd.rules.ALL, ids=lambda rule: rule.name)
def test_every_rule_is_the_same_with_and_without_fast_forms(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems, for which fast forms do not pay: here they are taken at every size."""
    monkeypatch.setattr(loops, "MIN_TOKENS", 1)
    generator = np.random.default_rng(95)
    for n, k in ((3, 1), (4, 2), (4, 3)):
        p, q = (random_masses(generator, n, 64).astype(float) for _ in range(2))
        drafts = all_tuples(n, k)
        fast = rule(p, q, drafts)
        with formulas_only():
            formula = rule(p, q, drafts)
        np.testing.assert_allclose(fast.accept, formula.accept, atol=1e-9)
        np.testing.assert_allclose(fast.output(drafts), formula.output(drafts), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", [otd.rules.KSeq(), otd.rules.RecursiveRejection()], ids=lambda rule: rule.name)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_long_rows_are_the_same_with_and_without_fast_forms(kind: str, rule: Any, dtype: type) -> None:
    p, q, drafts = rows(dtype)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        p, q, drafts = (torch.from_numpy(x) for x in (p, q, drafts))
    fast = rule(p, q, drafts)
    with formulas_only():
        interpreted = rule(p, q, drafts)
    tolerance = 1e-9 if dtype is np.float64 else 2e-3  # factors differ by 1e-4, which a residual seldom used shows most
    assert fast.accept.dtype == interpreted.accept.dtype == p.dtype
    assert np.abs(np.asarray(fast.accept) - np.asarray(interpreted.accept)).max() <= tolerance
    assert np.abs(np.asarray(fast.output(drafts)) - np.asarray(interpreted.output(drafts))).max() <= tolerance
    assert np.abs(np.asarray(fast.residual).sum(-1) - 1).max() <= 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_or_not_is_one_residual(dtype: type) -> None:
    """Broadcast, with rows where nothing is left, and where what is left is next to nothing."""
    p, q, _ = rows(dtype)
    p[0, 0], q[0, 0] = 0, 0
    p[0, 0, 7] = 1
    q[0, 0, 7] = 1
    scale = np.array([[[1.0], [0.5], [2.0]], [[0.0], [1e9], [1.0]]], dtype)
    least = np.array([[[0.0], [0.25], [0.0]], [[0.0], [1e-38], [1.0]]], dtype)
    before = [x.copy() for x in (p, q, scale, least)]
    calls = [(p, q), (p, q, scale), (p, q, scale, least), (p[:1], q, scale[:, :1]), (p[0, 1], q[0, 2], scale)]
    fast = [xp.residual(*call) for call in calls]
    fast.append(xp.residual(p, q.copy(), out=q.copy()))
    assert all((x == y).all() for x, y in zip((p, q, scale, least), before, strict=True))
    with formulas_only():
        formulas = [xp.residual(*call) for call in [*calls, (p, q)]]
    for wanted, found in zip(formulas, fast, strict=True):
        assert found.dtype == wanted.dtype == dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=0)
    assert (fast[0][0, 0] == p[0, 0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_compiled_or_not_is_one_choice(kind: str, dtype: type) -> None:
    """Of rows that take the first draft, the last, none, at uniforms next to both ends; of a residual for many rows."""
    p, q, drafts = rows(dtype)
    generator = np.random.default_rng(94)
    drafts = np.stack([drafts] * 30, axis=-2)
    uniforms = generator.random((*drafts.shape[:-1], 2)).astype(dtype)
    uniforms[..., 0, :], uniforms[..., 1, :] = 0, np.nextafter(dtype(1), dtype(0))
    accept = generator.dirichlet(np.ones(7), drafts.shape[:-1])[..., :6].astype(dtype) * (drafts >= 0)
    accept[..., 2, :] = np.eye(6)[5]
    accept[..., 3, :] = 0
    residual = xp.residual(p, q)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        accept, residual, drafts, uniforms = (torch.from_numpy(x) for x in (accept, residual, drafts, uniforms))
    residuals = [residual[..., None, :], xp.broadcast_to(residual[..., None, :], (2, 3, 30, N)), residual[1, 1]]
    fast = [choose(otd.Selection(accept, left), drafts, uniforms) for left in residuals]
    with formulas_only():
        formulas = [choose(otd.Selection(accept, left), drafts, uniforms) for left in residuals]
    for wanted, found in zip(formulas, fast, strict=True):
        for x, y in zip(found, wanted, strict=True):
            assert x.dtype == y.dtype and tuple(x.shape) == tuple(y.shape) == (2, 3, 30)
        token, position = (np.asarray(x) for x in found)
        assert (position == np.asarray(wanted[1])).all() and {-1, 0, 5} <= set(position.ravel().tolist())
        # In float32 a sum may be rounded in another order, which moves a uniform over an end.
        assert (token != np.asarray(wanted[0])).mean() <= (0.02 if dtype is np.float32 else 0)


PLAIN, FIXED = otd.WithoutReplacement(), FixedLast((3, 4_100))


@pytest.mark.parametrize(
    ("kind", "law", "dtype"),
    [
        ("numpy", PLAIN, np.float32),
        ("torch", PLAIN, np.float64),
        ("numpy", FIXED, np.float64),
        ("torch", FIXED, np.float32),
        slow("numpy", PLAIN, np.float64),
        slow("torch", PLAIN, np.float32),
        slow("numpy", FIXED, np.float32),
        slow("torch", FIXED, np.float64),
    ],
)
def test_compiled_or_not_is_one_draw_without_replacement(kind: str, law: otd.DraftLaw, dtype: type) -> None:
    """Of many rows with one q, of a row that runs out, and of one whose heaviest token has all but a millionth."""
    generator = np.random.default_rng(93)
    q = rows(dtype)[1]
    q[0, 0] = 0
    q[0, 0, [7, 2_000, 4_099]] = dtype(0.5), dtype(0.25), dtype(0.25)
    q[1, 2] *= dtype(1e-6)
    q[1, 2, 4_096] = 1
    uniforms = generator.random((2, 3, 20, 6)).astype(dtype)
    uniforms[..., 0, :], uniforms[..., 1, :] = 0, np.nextafter(dtype(1), dtype(0))
    if kind == "torch":
        torch = pytest.importorskip("torch")
        q, uniforms = torch.from_numpy(q), torch.from_numpy(uniforms)
    masses_of = [q[..., None, :], xp.broadcast_to(q[..., None, :], (2, 3, 20, N)), q[0, 1], q[1, 2]]
    before = [np.asarray(x).copy() for x in masses_of]
    fast = [np.asarray(law.draw(x, uniforms)) for x in masses_of]
    assert all((np.asarray(x) == y).all() for x, y in zip(masses_of, before, strict=True))
    with formulas_only():
        formulas = [np.asarray(law.draw(x, uniforms)) for x in masses_of]
    for wanted, found in zip(formulas, fast, strict=True):
        assert found.shape == wanted.shape == (2, 3, 20, 6) and found.dtype == wanted.dtype
        assert all(len(set(row)) == 6 for row in found.reshape(-1, 6).tolist())
        # float32: sums are rounded in another order, which seldom moves a uniform over an end, but one next to 1.
        differ = (found != wanted).any(-1)
        assert not differ.any() if dtype is np.float64 else differ[..., 2:].mean() <= 0.03


def test_recursive_rejection_takes_bfloat16_in_torch() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(92)
    p, q = (torch.softmax(torch.randn(10, generator=generator), -1).bfloat16() for _ in range(2))
    drafts = torch.tensor([1, 2])
    found = otd.rules.RecursiveRejection()(p, q, drafts)
    wanted = otd.rules.RecursiveRejection()(p.float(), q.float(), drafts)
    assert found.residual.dtype == torch.bfloat16
    assert (found.residual.float() - wanted.residual).abs().max() < 0.02


def test_the_compiled_factor_is_valid_and_the_smallest() -> None:
    for seed in range(5):
        p, q, _ = rows(np.float64, seed)
        for k in (1, 2, 8, 32):
            count = np.full((2, 3, 1), float(k))
            factor = division_factor.division_factor(p, q, count)
            mass = np.minimum(p, factor * q).sum(-1, keepdims=True)
            room = mass + np.expm1(k * np.log1p(-mass / factor))  # what it exceeds 1 - (1 - mass / factor)^k by
            assert (room > -1e-13).all() and ((room < 1e-9) | (factor == 1)).all()


def test_a_function_that_cannot_be_kept_on_disk_is_compiled_all_the_same() -> None:
    """As in a container without a home, where the package's folder is read-only; here the function has no file."""
    made: dict[str, Any] = {}
    exec(compile("def twice(x):\n    return 2 * x", "<no file>", "exec"), made)
    twice = compiled(made["twice"])
    assert twice is not None and twice(3) == 6


def test_a_fault_in_a_fast_form_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatch asks the fast form, and `formulas_only` leaves it out."""
    p, q, drafts = rows(np.float64)
    monkeypatch.setattr("ot_draft.fast.recursive_rejection.MAX_KERNEL_DRAFTS", 0)
    monkeypatch.setattr("ot_draft.fast.recursive_rejection._passes", lambda p, q, present: (present, present, p[:, :1]))
    rule = otd.rules.RecursiveRejection()
    found = rule(p, q, drafts)
    with formulas_only():
        assert np.abs(found.accept - rule(p, q, drafts).accept).max() > 0.01
