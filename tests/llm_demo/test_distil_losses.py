"""Students of different losses: each loses what it is trained by, all see the same batches, and the table has a row for everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_distil import RECIPE, WHOLE, Tokenizer, tiny_target, tiny_texts

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import ot_draft as ot  # noqa: E402
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
    for k in (1, 4):
        found = losses.for_drafts(k)(p, q.log())
        assert torch.allclose(found, -ot.optimal_acceptance(p, q, k).log())
    assert torch.allclose(losses.LOSSES["total variation"](p, q.log()), (p - q).abs().sum(-1) / 2)


def test_a_row_for_every_loss_temperature_and_k(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"messages": [], "text": "a text of letters"}, {"messages": [], "text": "and one more"}]
    monkeypatch.setattr(losses, "read_entries", lambda file: entries)
    target = tiny_target()
    start = student(target, WHOLE, RECIPE)
    students = {name: losses.Student(start, loss, 1e-2) for name, loss in losses.LOSSES.items()}
    rows: list[Any] = losses.compare(Pair(target, start, Tokenizer()), students, start, 2)
    assert len(rows) == (len(students) + 1) * 2 * 4
    assert all(float(row["more"]) == 0 for row in rows)  # nothing is trained yet
    assert [float(row["acceptance"]) for row in rows[:4]] == sorted(float(row["acceptance"]) for row in rows[:4])


def test_texts_of_a_corpus(tmp_path: Path) -> None:
    file = tmp_path / "corpus.npz"
    np.savez(file, tokens=np.arange(12, dtype=np.uint16), starts=np.array([0, 5, 7]), first_written=np.array([2, 1, 3]))
    assert [(text.tokens, text.start) for text in losses.texts_of(file, 4)] == [([0, 1, 2, 3], 2), ([5, 6], 1)]
