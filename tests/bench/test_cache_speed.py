"""What the engine does besides a model's layers: a token's keys and values into the cache, a head on the last of several positions."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ot_draft.decoding.cache import SlotCache  # noqa: E402
from ot_draft.decoding.draft_models import SubsetDraft  # noqa: E402

HEADS, WIDTH, SLOTS, HIDDEN = 3, 64, 256, 576


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 8, 64])
def test_writing_a_token(benchmark: Any, dtype: str, rows: int) -> None:
    cache = SlotCache(SLOTS)
    new = torch.randn(rows, 1, HEADS, WIDTH, dtype=getattr(torch, dtype)).transpose(1, 2)
    cache.slots = torch.full((rows, 1), 100)
    with torch.inference_mode():
        cache.update(new, new, 0)
        benchmark(cache.update, new, new, 0)


class States(torch.nn.Module):
    """A backbone that gives the same hidden states (rows, 2, HIDDEN) at once."""

    def __init__(self, rows: int, dtype: Any) -> None:
        super().__init__()
        self.last_hidden_state = torch.randn(rows, 2, HIDDEN, dtype=dtype)

    def forward(self, *_: Any, **__: Any) -> Any:
        return self


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 8, 64])
def test_the_heads_product_of_the_last_place(benchmark: Any, dtype: str, rows: int) -> None:
    kind = getattr(torch, dtype)
    embedding = torch.nn.Embedding(8192, HIDDEN, dtype=kind)
    draft = SubsetDraft(States(rows, kind), embedding, torch.arange(8192))
    with torch.inference_mode():
        benchmark(draft, torch.zeros(rows, 2, dtype=torch.long), last=1)
