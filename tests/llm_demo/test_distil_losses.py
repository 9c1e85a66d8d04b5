"""Students of different losses: each loses what it is trained by, all see the same batches, and the table has a row for everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_distil import RECIPE, WHOLE, Tokenizer, tiny_target, tiny_texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import ot_draft as otd  # noqa: E402
from llm_demo.distil import losses  # noqa: E402
from llm_demo.distil.train import student  # noqa: E402
from ot_draft.decoding import Pair  # noqa: E402


def test_every_student_comes_nearer_by_its_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "perf_counter", iter(np.arange(0, 10, 0.1)).__next__)  # 39 steps on any machine
    target = tiny_target()
    start = student(target, WHOLE, RECIPE)
    students = {name: losses.Student(start, loss, 1e-2) for name, loss in losses.LOSSES.items()}
    before = {name: value.clone() for name, value in start.state_dict().items()}
    torch.manual_seed(0)
    curve = list(losses.train(target, students, tiny_texts(target), 4, 20, 4.0, 1))
    assert len(curve) == 39
    for name in students:
        first, last = (np.mean([step[name] for step in part]) for part in (curve[:8], curve[-8:]))
        assert last < first, name
    assert all(torch.equal(value, before[name]) for name, value in start.state_dict().items())


def test_the_losses_are_what_they_are_called() -> None:
    p, q = torch.softmax(torch.randn(2, 5, 7, dtype=torch.float64), -1)
    text = torch.tensor([[0, 3, 6, -1, 2]])
    for k in (1, 4):
        found = losses.for_drafts(k)(p, q.log(), text)
        assert torch.allclose(found, -otd.optimal_acceptance(p, q, k).log())
    assert torch.allclose(losses.LOSSES["total variation"](p, q.log(), text), (p - q).abs().sum(-1) / 2)
    part = p[None] * 0.75  # a quarter of the target's mass, and the text's fourth token, are outside the subset
    wide = torch.cat((part, torch.full((1, 5, 1), 0.25)), -1), torch.cat((q[None], torch.zeros(1, 5, 1)), -1)
    wanted = otd.losses.accepted_length_loss(*wide, torch.tensor([[0, 3, 6, 7, 2]]))
    assert torch.allclose(losses.for_a_path(part, q[None].log(), text)[:, 0], wanted)


def test_a_row_for_every_loss_temperature_and_k(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"messages": [], "text": "a text of letters", "temperature": 1.0},
        {"messages": [], "text": "and one more", "temperature": 0.6},
    ]
    monkeypatch.setattr(losses, "read_entries", lambda file: entries)
    target = tiny_target()
    start = student(target, WHOLE, RECIPE)
    students = {name: losses.Student(start, loss, 1e-2) for name, loss in losses.LOSSES.items()}
    rows: list[Any] = losses.compare(Pair(target, start, Tokenizer()), students, start, 2)
    assert len(rows) == (len(students) + 1) * (2 * 4 + 1)
    assert all(float(row["more"]) == 0 for row in rows)  # nothing is trained yet
    by_k = [float(row["acceptance"]) for row in rows if row["loss"] == "before" and row["temperature"] == 1 == row["L"]]
    assert by_k == sorted(by_k) and len(by_k) == 4
    (length,) = (float(row["acceptance"]) for row in rows if row["loss"] == "before" and row["L"] == losses.LENGTH)
    assert by_k[0] / 2 < length < losses.LENGTH


def test_texts_of_a_corpus(tmp_path: Path) -> None:
    file = tmp_path / "corpus.npz"
    arrays = {"starts": np.array([0, 6, 8]), "first_written": np.array([2, 1, 3])}
    np.savez(file, tokens=np.arange(14, dtype=np.uint16), **arrays)
    assert [(text.tokens, text.start) for text in losses.texts_of(file, 7)] == [([0, 1, 2, 3, 4, 5], 2)]
    assert losses.texts_of(file, 5) == []
    np.savez(file, tokens=np.arange(14, dtype=np.uint16), temperature=np.array([0.6, 1, 1]), **arrays)
    assert losses.texts_of(file, 7) == []  # the first was drawn at another temperature
