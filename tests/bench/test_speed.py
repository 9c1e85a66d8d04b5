"""Time of the near-linear rules and of the optimum beside one pass over memory, in softmaxes of the same tensor: run by `make bench` only.

A measurement, not a judgement: a slow or busy machine makes no test fail, and the table says what is over its target.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

import ot_draft as otd

torch = pytest.importorskip("torch")

N = 151_936
# Targets in softmaxes by the number of rows: a rule with drawing its token, and the optimum.
RULES = {
    otd.rules.KSeq(): {1: 5, 16: 3},
    otd.rules.RecursiveRejection(): {1: 5, 16: 3},
    otd.rules.Optimal(classes=256): {1: 8, 16: 2.5},
}
OPTIMUM = 20


def laws(batch: int) -> tuple[Any, Any, Any]:
    """Logits, and p, q about as far apart as those of two language models."""
    generator = torch.Generator().manual_seed(71)
    logits = 3 * torch.randn((batch, N), generator=generator)
    other = logits + torch.randn((batch, N), generator=generator)
    return logits, torch.softmax(logits, -1), torch.softmax(other, -1)


def refused(p: Any, q: Any, k: int) -> Any:
    """Drafts that are hardly taken: what the target likes least, compared with the draft model."""
    return (p / q).topk(k, largest=False).indices


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_rule_and_drawing_the_token(in_softmaxes: Callable[..., float], rule: Any, batch: int, k: int) -> None:
    logits, p, q = laws(batch)
    drafts, generator = refused(p, q, k), torch.Generator().manual_seed(72)
    call = lambda: otd.sample(rule, p, q, drafts, generator)  # noqa: E731
    in_softmaxes(f"sample, {rule.name}, batch {batch}, k = {k}", logits, RULES[rule][batch], call)


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("k", [1, 8])
def test_optimal_acceptance(in_softmaxes: Callable[..., float], batch: int, k: int) -> None:
    logits, p, q = laws(batch)
    in_softmaxes(
        f"optimal_acceptance, batch {batch}, k = {k}", logits, OPTIMUM, lambda: otd.optimal_acceptance(p, q, k)
    )


@pytest.mark.parametrize("batch", [1, 16])
def test_one_pass(in_softmaxes: Callable[..., float], batch: int) -> None:
    """What no rule falls below that writes its residual: p and q are read once, a row is written."""
    logits, p, q = laws(batch)
    into = torch.empty_like(p)
    in_softmaxes(f"p and q read, a row written, batch {batch}", logits, inf, lambda: torch.sub(p, q, out=into))
