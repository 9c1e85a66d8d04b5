"""The comparison of trees with plain decoding, row by row, on a tiny pair in torch."""

from __future__ import annotations

import pytest
from tiny_models import tiny_pair

torch = pytest.importorskip("torch")

from llm_demo.bench import bits  # noqa: E402

PROMPT = [3, 1, 4, 1, 5]


def test_every_row_of_every_tree_is_compared() -> None:
    """All are as near as rounding lets them be; another model is told apart."""
    pair, other = tiny_pair(seed=3), tiny_pair(seed=4)
    far, equal, from_other = bits.compared(pair, PROMPT, 12, 1, other).T
    assert len(far) % (bits.SHAPE.size + 1) == 0 and len(far) >= 18
    assert far.max() < 1e-6 and from_other.min() > 1e-3
    assert torch.equal(equal == 1, far == 0)


def test_a_law_of_another_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sibling read in the place of the node, in a tree deep enough to have one above others."""
    pair, right = tiny_pair(seed=3), bits.at_nodes

    def wrong(plain: bits.OneByOne, step: bits.Step, place: int) -> torch.Tensor:
        laws = right(plain, step, place)
        return laws[[0, 2, 1, 3, 4, 5]]

    monkeypatch.setattr(bits, "at_nodes", wrong)
    rows = bits.compared(pair, PROMPT, 30, 1).view(-1, bits.SHAPE.size + 1, 3)
    differ = rows[..., 0].amax(0) > 1e-4
    assert differ.tolist() == [False, True, True, False, False, False]
    assert not rows[:, 1:3, 1].all()
