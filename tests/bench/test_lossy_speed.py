"""Time of targets, of their certificate and of `Toward`, in softmaxes of the same tensor: run by `make bench` only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ot_draft as otd
from ot_draft import lossy, rules
from ot_draft.lossy.base import Target

torch = pytest.importorskip("torch")

N, K = 151_936, 8
CERTIFIED, MORE = 60, 2  # targets in softmaxes: KL with its certificate; what a target adds to the rule


def laws() -> tuple[Any, Any, Any]:
    """Logits, and p, q about as far apart as those of two language models."""
    generator = torch.Generator().manual_seed(71)
    logits = 3 * torch.randn((1, N), generator=generator)
    return logits, torch.softmax(logits, -1), torch.softmax(logits + torch.randn((1, N), generator=generator), -1)


@pytest.mark.parametrize("k", [1, 2, K])
def test_kl_with_its_certificate(in_softmaxes: Callable[..., float], k: int) -> None:
    logits, p, q = laws()
    ratio = in_softmaxes(
        f"frontier, KL .02, k = {k}", logits, CERTIFIED, lambda: otd.frontier(p, q, k, None, "kl", [0.02])
    )
    assert ratio <= CERTIFIED


@pytest.mark.parametrize("target", [lossy.Ratio(0.3), lossy.TotalVariation(0.05), lossy.KL(0.02)])
def test_toward_beside_its_rule(in_softmaxes: Callable[..., float], target: Target) -> None:
    logits, p, q = laws()
    drafts, rule = otd.draw(otd.IID(), q, K, torch.Generator().manual_seed(1)), rules.Optimal(classes=256)
    toward = lossy.Toward(target, rule)
    name = f"{target.name} beside Optimal(classes=256)"
    ratio = in_softmaxes(name, logits, MORE, lambda: toward(p, q, drafts), lambda: rule(p, q, drafts))
    if target == lossy.Ratio(0.3):
        assert ratio <= MORE


def test_optimal_by_classes(in_softmaxes: Callable[..., float]) -> None:
    """What `Toward` stands beside: here only for the table."""
    logits, p, q = laws()
    drafts = otd.draw(otd.IID(), q, K, torch.Generator().manual_seed(1))
    in_softmaxes("Optimal(classes=256)", logits, 12, lambda: rules.Optimal(classes=256)(p, q, drafts))
