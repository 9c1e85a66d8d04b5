"""The comparison of trees with plain decoding, row by row, on a tiny pair in torch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from click.testing import CliRunner
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


def test_greedy_texts_behind_other_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one of them is decoded twice, and none behind the same beginning."""
    pair, prompts = tiny_pair(seed=3), list[list[int]]()

    def noted(pair: bits.Pair, prompt: list[int], tokens: int) -> bool:
        prompts.append(prompt)
        return len(prompts) != 2 and right(pair, prompt, tokens)

    right = bits.same_greedy
    monkeypatch.setattr(bits, "same_greedy", noted)
    monkeypatch.setattr(bits, "loaded", lambda name: pair)
    monkeypatch.setattr(
        bits, "read_prompts", lambda *_: [SimpleNamespace(tokens=PROMPT), SimpleNamespace(tokens=PROMPT[:3])]
    )
    told = CliRunner().invoke(bits.main, ["--texts", "2", "--times", "3", "--tokens", "8"])
    assert told.exit_code == 0 and "5 of 6 greedy completions equal" in told.output, told.output
    assert prompts[:2] == [PROMPT, PROMPT[:3]] and [len(prompt) for prompt in prompts] == [5, 3, 9, 7, 9, 7]
    assert prompts[2][:5] == prompts[4][:5] == PROMPT and len({tuple(prompt) for prompt in prompts}) == 6
