"""The kernels for the GPU against the rules in float64, on the CPU, through Triton's interpreter; and that they compile.

Kernels round like float32 and take the drafts' classes and factors as they find them, hence tolerances; what they promise exactly
(an empty draft is not taken, a token without mass is not drawn) is compared with ==.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.fast import kernels
from ot_draft.verify.rule.strategies import PAIRS, subnormal_pairs

torch = pytest.importorskip("torch")
if not kernels.installed():
    pytest.skip("triton is not installed: pip install triton", allow_module_level=True)

import triton.language as tl  # noqa: E402
import triton.runtime.interpreter as interpreter  # noqa: E402

from ot_draft.arrays import astype, gather, inverse_cdf  # noqa: E402
from ot_draft.arrays.ratio_classes import ClassLayout, layout  # noqa: E402
from ot_draft.fast.kernels import draw, excess  # noqa: E402
from ot_draft.fast.kernels import optimal as classes  # noqa: E402
from ot_draft.rules.coupling import couple  # noqa: E402
from ot_draft.rules.optimal.classes import at_levels  # noqa: E402
from ot_draft.rules.optimal.host import by_count  # noqa: E402

FLOAT32 = 2e-6  # sums of float32
FACTOR = 2e-4  # acceptance that K-SEQ's factor, rounded up, may cost, and recursive rejection by its bounds


@pytest.fixture(autouse=True)
def fast_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter's scan by any function goes number by number; this one goes slice by slice."""

    def scan(self: Any, given: Any) -> Any:
        (x,) = given
        data = np.moveaxis(x.handle.data, self.axis, 0)
        out = np.empty_like(data)
        for i, row in enumerate(data):
            out[i] = row if not i else np.maximum(out[i - 1], row)
        return [self.to_tensor(np.ascontiguousarray(np.moveaxis(out, 0, self.axis)), x.dtype)]

    monkeypatch.setattr(interpreter.ScanOps, "generic_scan", scan)


def laws(seed: int, rows: int, n: int, k: int, spread: float = 1.0) -> tuple[Any, Any, Any]:
    """p, q, and drafts of which some are absent: one in row 1, all in row 2."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, n, generator=generator)
    p, q = torch.softmax(logits, -1), torch.softmax(logits + spread * torch.randn(rows, n, generator=generator), -1)
    drafts = otd.draw(otd.IID(), q, k, generator)
    if rows > 2:
        drafts[1, 0], drafts[2] = -1, -1
    return p, q, drafts


EDGES = (*PAIRS, *subnormal_pairs())


def boundary_cases(k: int) -> tuple[Any, Any, Any]:
    """All boundary cases as rows of eight tokens; drafts in their reach, and others that only an invalid sampler draws."""
    p, q = np.zeros((2, len(EDGES), 8))
    for row, (target, draft) in enumerate(EDGES):
        p[row, : len(target)], q[row, : len(draft)] = np.array(target, float), np.array(draft, float)
    p, q = (torch.tensor(x, dtype=torch.float32) for x in (p, q))
    return p, q, otd.draw(otd.IID(), q, k, torch.Generator().manual_seed(k))


def exact(p: Any, q: Any) -> tuple[Any, Any]:
    """float64 with sums of 1."""
    return tuple(x.double() / x.double().sum(-1, keepdim=True) for x in (p, q))


def holds(p: Any, q: Any, accept: Any, residual: Any) -> None:
    """Accept and residual are probabilities."""
    assert (accept >= 0).all() and (accept.sum(-1) <= 1 + FLOAT32).all()
    assert (residual >= 0).all() and ((residual.sum(-1) - 1).abs() <= 1e-5).all()


RULES = [(otd.rules.KSeq(), excess.k_seq), (otd.rules.RecursiveRejection(), excess.recursive_rejection)]
PROBLEMS = [laws(1, 2, 300, 1), laws(2, 3, 700, 2), laws(3, 3, 1500, 8), boundary_cases(1), boundary_cases(4)]
IDS = ["k=1", "k=2", "k=8", "boundary cases, k=1", "boundary cases, k=4"]


@pytest.mark.parametrize(("rule", "kernel"), RULES, ids=lambda x: getattr(x, "name", ""))
@pytest.mark.parametrize("problem", PROBLEMS, ids=IDS)
def test_rules_of_few_passes(rule: Any, kernel: Any, problem: Any) -> None:
    p, q, drafts = problem
    accept, residual = kernel(p, q, drafts)
    holds(p, q, accept, residual)
    wanted = rule(*exact(p, q), drafts)
    assert (accept[drafts < 0] == 0).all()
    assert ((accept - wanted.accept).abs() <= 10 * FACTOR).all()
    loss = (wanted.accept - accept).sum(-1)
    assert (loss <= 10 * FACTOR).all() and loss.mean() <= FACTOR
    left = 1 - wanted.accept.sum(-1, keepdim=True)  # what is never drawn from does not matter
    assert (left * (residual - wanted.residual).abs() <= 10 * FACTOR).all()


@pytest.mark.parametrize(("rule", "kernel"), RULES, ids=lambda x: getattr(x, "name", ""))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_their_output_is_the_target(rule: Any, kernel: Any, k: int) -> None:
    """Over all draft tuples of three tokens: up to float32 rounding, whatever the factor and the bounds are."""
    generator = torch.Generator().manual_seed(k)
    weights = torch.rand(2, 3, generator=generator) ** 3
    p, q = weights / weights.sum(-1, keepdim=True)
    drafts = torch.cartesian_prod(*[torch.arange(3)] * k).reshape(-1, k)
    accept, residual = kernel(p, q, drafts)
    law = otd.Selection(accept.double(), residual.double()).output(drafts)
    assert torch.allclose(
        (gather(q, drafts).double().prod(-1, keepdim=True) * law).sum(0), p.double(), atol=FLOAT32, rtol=0
    )


def test_recursive_rejection_steps_no_further_than_the_mass_that_is_left() -> None:
    """Else it would take more than there is. The steps come from chords, which are not below E between their points."""
    p, q, drafts = laws(7, 2, 400, 8)
    points, sums = torch.empty(2, excess.POINTS), torch.empty(2, 1, excess.POINTS)
    excess._excess_sums[2, 1](p, q, drafts, points, sums, 400, 8, 512, FIRST=True, K=8, BLOCK=512)
    excess._recursive_step[(2,)](p, q, drafts, points, sums, None, None, 400, 8, LAST=False, K=8, PARTS=1)
    s = points[:, :9].double()
    left = (p[:, None].double() - s[:, 1:, None] * q[:, None].double()).clamp(min=0).sum(-1)
    steps = s[:, 2:] - s[:, 1:-1]
    assert (s[:, :2] == torch.tensor([0.0, 1.0])).all() and torch.equal(points[:, 8:], points[:, 8:9].expand(-1, 8))
    assert (steps <= left[:, :-1] + FLOAT32).all() and (steps >= 0.8 * left[:, :-1]).all()


def by_sweep(p: Any, q: Any, drafts: Any) -> tuple[Any, Any]:
    """choice and m by the sweep on the host, with the kernels' classes: the highest are one."""
    found = layout(256, drafts.shape[-1])
    number = max(1 << (found.number - 2).bit_length(), 256) - 1
    rank, level, selected = by_count(
        p, q, astype(drafts >= 0, p.dtype).sum(-1, keepdims=True), ClassLayout(found.first, found.shift, number)
    )
    return at_levels(level, gather(rank, drafts).long(), drafts >= 0), selected


NEAR = laws(6, 8, 60, 4, spread=0.15)  # drafts in classes side by side


@pytest.mark.parametrize("problem", [PROBLEMS[1], PROBLEMS[2], PROBLEMS[4], NEAR], ids=[IDS[1], IDS[2], IDS[4], "near"])
def test_optimal_selection(problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "TILE", tl.constexpr(256))  # few large programs, for the interpreter's sake
    p, q, drafts = problem
    choice, selected = by_sweep(p, q, drafts)
    chance, m = classes.selection_probabilities(p, q, drafts, None)
    assert (m - selected).abs().max() <= FLOAT32 and (chance - choice).abs().max() <= 10 * FLOAT32
    selection = classes.selection(p, q, drafts, None)
    accept, residual = selection.accept, selection.residual
    holds(p, q, accept, residual)
    wanted = couple(p, selected.clone(), choice, drafts)
    assert (accept - wanted.accept).abs().max() <= 10 * FLOAT32
    left = 1 - wanted.accept.sum(-1, keepdim=True)
    assert (left * (residual - wanted.residual).abs()).max() <= 10 * FLOAT32


def test_rows_that_stand_apart_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws at the root of a batch of trees, a view: as their copy, and nothing is written between them."""
    monkeypatch.setattr(classes, "TILE", tl.constexpr(256))
    p, q, drafts = laws(9, 3, 600, 3)
    p, q = (torch.stack((law, torch.rand_like(law), torch.full_like(law, 0.5)), 1) for law in (p, q))
    kept = p.clone(), q.clone()
    found, wanted = (classes.selection(a[:, 0], b[:, 0], drafts, None) for a, b in ((p, q), kept))
    copied = classes.selection(p[:, 0].contiguous(), q[:, 0].contiguous(), drafts, None)
    for one in (found, wanted):
        assert torch.equal(one.accept, copied.accept) and torch.equal(one.residual, copied.residual)
    assert torch.equal(p, kept[0]) and torch.equal(q, kept[1]) and p[:, 0].stride(0) == 3 * 600
    same = classes.selection_probabilities(
        p[:1, 0].expand(3, -1), q[:, 0], drafts, None
    )  # one row for all: no step from one to the next
    assert torch.equal(same[1], classes.selection_probabilities(p[:1, 0].repeat(3, 1), q[:, 0], drafts, None)[1])


def test_a_scaled_target_as_joint_selection_gives_it() -> None:
    p, q, drafts = laws(4, 1, 600, 3)
    choice, selected = by_sweep(0.4 * p, q, drafts)
    chance, m = classes.selection_probabilities(0.4 * p, q, drafts, None)
    assert (m - selected).abs().max() <= FLOAT32 and (chance - choice).abs().max() <= 10 * FLOAT32


@pytest.mark.parametrize("n", [1, 7, 1024, 2500])
def test_drawing(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(n)
    mass = torch.randint(0, 3, (3, n), generator=generator).float()  # sums are exact; a third of the tokens has no mass
    mass[:, 0] += mass.sum(-1) == 0
    uniform = torch.rand(3, 4, generator=generator)
    uniform[0, :2] = torch.tensor([0.0, 1 - 2.0**-24])
    found = draw.inverse_cdf(mass, uniform)
    monkeypatch.setenv("OT_DRAFT_TRITON", "0")
    assert torch.equal(found, inverse_cdf(mass.double(), uniform.double()))
    assert (mass.gather(-1, found) > 0).all()


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q, drafts = laws(5, 3, 200, 2)
    monkeypatch.delenv("OT_DRAFT_TRITON", raising=False)
    assert not kernels.wanted(p, drafts)  # on the CPU
    monkeypatch.setenv("OT_DRAFT_TRITON", "1")
    assert (
        kernels.wanted(p, drafts) and not kernels.wanted(p.double(), drafts) and not kernels.wanted(p.numpy(), drafts)
    )
    assert not kernels.wanted(p[:0], drafts[:0]) and not kernels.wanted(p, drafts[:, :0])
    assert not kernels.wanted(p.to("meta"), drafts)
    for rule, kernel in RULES:
        selection, (accept, residual) = rule(p, q, drafts), kernel(p, q, drafts)
        assert torch.equal(selection.accept, accept) and torch.equal(selection.residual, residual)
    monkeypatch.setenv("OT_DRAFT_TRITON", "0")
    assert not kernels.wanted(p, drafts)


def test_every_kernel_compiles_for_a_gpu() -> None:
    """For compute capability 9.0, which takes no GPU. In a process of its own: the interpreter cannot be left again."""
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    file = Path(__file__).with_name("compile_kernels.py")
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= {
        "_excess_sums",
        "_class_masses",
        "_levels",
        "_kinks",
        "_draw",
        "_traverse",
        "_walk",
        "_add_norm",
        "_rotate_and_write",
        "_scores",
        "_draw_children",
    }
