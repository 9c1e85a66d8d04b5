"""Time of optimal selection in softmaxes of the same tensor, the loss that its classes cost beside it: run by `make bench` only.

A measurement, not a judgement: a slow or busy machine makes no test fail, and the table says what is over its target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ot_draft as otd
from ot_draft.rules.optimal.rule import selection_probabilities

torch = pytest.importorskip("torch")

N, K = 151_936, 8
# Loss -> softmaxes a row. A number of classes is held against the strictest loss that it keeps; the exact rule has no target.
TARGETS = {1e-3: 40, 5e-3: 15}
WITHOUT_REPLACEMENT = 25


def laws(batch: int) -> tuple[Any, Any, Any, Any]:
    """Logits, p and q about as far apart as those of two language models, and i.i.d. drafts."""
    generator = torch.Generator().manual_seed(73)
    logits = 3 * torch.randn((batch, N), generator=generator)
    other = logits + torch.randn((batch, N), generator=generator)
    p, q = torch.softmax(logits, -1), torch.softmax(other, -1)
    return logits, p, q, otd.draw(otd.IID(), q, K, generator)


def loss(p: Any, q: Any, drafts: Any, classes: int | None) -> float:
    """Optimum minus sum of min(p, m), m being the law of the selected token: the mean over at most four rows."""
    p, q, drafts = p[:4], q[:4], drafts[:4]
    _, selected = selection_probabilities(p, q, drafts, classes)
    p, q, selected = (x.double() / x.double().sum(-1, keepdim=True) for x in (p, q, selected))
    return float((otd.optimal_acceptance(p, q, K) - torch.minimum(p, selected).sum(-1)).mean())


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("classes", [256, 512, 1024, 4096, None])
def test_optimal_selection(in_softmaxes: Callable[..., float], batch: int, classes: int | None) -> None:
    if classes is None and batch > 1:
        pytest.skip("row by row: the same as one row")
    logits, p, q, drafts = laws(batch)
    lost = loss(p, q, drafts, classes)
    targets = [softmaxes for limit, softmaxes in TARGETS.items() if lost < limit]
    target = max(targets) if classes and targets else float("inf")
    rule = otd.rules.Optimal(classes=classes)
    name = f"Optimal, {batch} rows, {classes or 'no'} classes, loss {lost:.1e}"
    in_softmaxes(name, logits, target, lambda: rule(p, q, drafts))


@pytest.mark.parametrize("batch", [1, 64])
def test_k_seq_beside_it(in_softmaxes: Callable[..., float], batch: int) -> None:
    logits, p, q, drafts = laws(batch)
    rule = otd.rules.KSeq()
    in_softmaxes(f"KSeq, {batch} rows", logits, TARGETS[5e-3], lambda: rule(p, q, drafts))


@pytest.mark.parametrize("batch", [1, 16])
def test_without_replacement(in_softmaxes: Callable[..., float], batch: int) -> None:
    logits, p, q, _ = laws(batch)
    rule = otd.rules.HeadAndTail(classes=256)
    drafts = otd.draw(rule.law, q, 4, torch.Generator().manual_seed(74))
    in_softmaxes(f"HeadAndTail, {batch} rows, k = 4", logits, WITHOUT_REPLACEMENT, lambda: rule(p, q, drafts))
