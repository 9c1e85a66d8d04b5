"""Heads on a tiny target: the loss of plain passes, laws that know neither the drawn token nor the path, and the table's numbers."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import tiny_llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("safetensors.torch")

from figures.heads import model  # noqa: E402
from figures.heads import table as bench  # noqa: E402
from figures.heads.model import Heads  # noqa: E402
from figures.heads.table import HeadLogits  # noqa: E402
from llm_demo.bench.trees.summary import cells  # noqa: E402
from llm_demo.bench.trees.texts import Context  # noqa: E402
from llm_demo.distil import hidden_states  # noqa: E402
from llm_demo.distil.hidden_states import HiddenStates  # noqa: E402
from llm_demo.distil.text import Text  # noqa: E402
from llm_demo.rows import read  # noqa: E402

N, SCORED = 12, (0, 1, 2, 4, 5, 7, 8, 11)
PROMPT = (3, 1, 4, 1, 5)


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_llama(3, N, 3, torch.float32, tie_word_embeddings=True)


@pytest.fixture(scope="module")
def heads(target: Any) -> Heads:
    """With blocks that differ from place to place."""
    made = Heads(target.get_input_embeddings().weight, torch.tensor(SCORED))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_(0, 0.3, generator=generator)
    return made


@pytest.fixture(scope="module")
def known(target: Any, tmp_path_factory: pytest.TempPathFactory) -> HiddenStates:
    generator = np.random.default_rng(0)
    texts = [Text(generator.integers(N, size=length).tolist(), 2) for length in (9, 7, 8, 6)]
    made = HiddenStates.begin(tmp_path_factory.mktemp("states"), texts, target, 2, 0)
    for batch in made.batches:
        hidden_states.read(target, made, batch)
    return made


def plain_loss(target: Any, heads: Heads, known: HiddenStates, batch: np.ndarray, ahead: int) -> float:
    """Place after place: the cross-entropy of the head to the law that the target has so many tokens later."""
    found = []
    for number in batch:
        text = known.texts[number]
        tokens = torch.tensor([text.tokens])
        laws = target(tokens).logits[0].softmax(-1)[:, list(SCORED)]
        states = target.model(tokens).last_hidden_state[0]
        for place in range(text.start - 1, len(text.tokens) - ahead):
            q = heads(states[place : place + 1], ahead - 1)[0].log_softmax(-1)
            found.append(float(-(laws[place + ahead] * q).sum()))
    return float(np.mean(found))


def test_the_loss_is_that_of_plain_passes(target: Any, heads: Heads, known: HiddenStates) -> None:
    batch = known.batches[0]
    with torch.no_grad():
        found = model.loss(heads, known, batch).tolist()
        wanted = [plain_loss(target, heads, known, batch, ahead) for ahead in (1, 2)]
    assert found == pytest.approx(wanted, rel=2e-3)
    assert abs(wanted[0] - wanted[1]) > 0.01  # so that places exchanged would be seen


def test_training_lowers_the_loss(target: Any, known: HiddenStates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "HELD_BACK", 0)
    monkeypatch.setattr(model, "SCORED", len(SCORED))
    monkeypatch.setattr(model, "held_back_means", lambda heads, known, batches: [])
    trained = model.train(target, known, minutes=0.02)
    fresh = Heads(target.get_input_embeddings().weight, trained.tokens)
    with torch.no_grad():
        before, after = (sum(model.loss(h, known, batch).sum() for batch in known.batches) for h in (fresh, trained))
    assert after < before - 0.05


def test_laws_know_neither_the_drawn_token_nor_the_path(target: Any, heads: Heads, tmp_path: Path) -> None:
    heads.write(tmp_path / "heads.safetensors")
    again = Heads.read(tmp_path / "heads.safetensors", target)
    logits = HeadLogits(target, again, PROMPT)
    first, second, other, third = logits.at([(), (7,), (2,), (7, 4)])
    assert torch.equal(second, other) and torch.equal(second, third) and not torch.equal(first, second)
    assert torch.equal(first, HeadLogits(target, again, (*PROMPT[:-1], 9)).at([()])[0])
    assert not torch.equal(first, HeadLogits(target, again, (*PROMPT[:-2], 9, 5)).at([()])[0])
    with torch.no_grad():
        state = target.model(torch.tensor([PROMPT])).last_hidden_state[0, -2:-1]
        wanted = heads(state, 0)[0]
    assert torch.allclose(first[list(SCORED)], wanted, atol=2e-2)
    assert sorted(torch.isinf(first).nonzero()[:, 0].tolist()) == sorted(set(range(N)) - set(SCORED))


def test_the_table_holds_the_best_trees_and_goes_on(
    target: Any, heads: Heads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BUDGETS", (2, 8))  # as many as tokens are there
    places = [Context(0, "random", temperature, PROMPT) for temperature in bench.TEMPERATURES]
    out = tmp_path / "heads.csv"
    bench.table(target, heads, places[:1], out, N)
    bench.table(target, heads, places, out, N)
    rows = read(out)
    budgets = [(row["temperature"], row["nodes"]) for row in rows]
    assert budgets == [("1.0", "2"), ("1.0", "8"), ("0.6", "2"), ("0.6", "8")]
    row = rows[0]
    p = target(torch.tensor([PROMPT])).logits[0, -1].softmax(-1).tolist()
    masses = {(x,): p[x] for x in range(N)}
    for x in range(N):
        behind = target(torch.tensor([[*PROMPT, x]])).logits[0, -1].softmax(-1).tolist()
        masses |= {(x, y): p[x] * behind[y] for y in range(N)}
    trees = [pair for pair in combinations(masses, 2) if all(len(v) == 1 or v[:1] in pair for v in pair)]
    best = max(sum(masses[v] for v in pair) for pair in trees)
    assert float(row[bench.BEST_FIXED]) == pytest.approx(best, abs=1e-4)
    logits = HeadLogits(target, heads, PROMPT)
    m1, m2 = (law.softmax(-1).tolist() for law in logits.at([(), (0,)]))
    guess = {(x,): m1[x] for x in range(N)} | {(x, y): m1[x] * m2[y] for x, y in product(range(N), repeat=2)}
    tree = max(trees, key=lambda pair: sum(guess[v] for v in pair))
    assert float(row["likeliest products"]) == pytest.approx(sum(masses[v] for v in tree), abs=1e-4)
    chain = (int(np.argmax(m1)),), (int(np.argmax(m1)), int(np.argmax(m2)))
    assert float(row["argmax path"]) == pytest.approx(sum(masses[v] for v in chain), abs=1e-4)
    assert "| argmax path |" in bench.as_markdown(cells(rows))
