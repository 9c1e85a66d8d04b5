"""Tokens per target call on a pair of two sizes: the same control flow on tiny random models, against direct passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_models import tiny_llama, tiny_pair  # noqa: E402

import ot_draft as otd  # noqa: E402
from llm_demo.bench import two_sizes  # noqa: E402
from llm_demo.bench.trees.draws import SharedDraws  # noqa: E402
from llm_demo.bench.trees.growth import draft_together  # noqa: E402
from llm_demo.bench.trees.measure import DraftLaws  # noqa: E402
from llm_demo.bench.trees.prefixes import PrefixLogits  # noqa: E402
from llm_demo.bench.two_sizes import COLUMNS, PROMPTS, SIZES, WALK, WALKS, Contexts, Run, gather, part, table  # noqa: E402
from llm_demo.data import capture  # noqa: E402
from llm_demo.data.continue_prompts import read_entries  # noqa: E402
from llm_demo.prompts import Prompt  # noqa: E402
from llm_demo.rows import read  # noqa: E402
from ot_draft.data import read_pairs  # noqa: E402
from ot_draft.decoding import CannotDecode, Pair  # noqa: E402
from ot_draft.trees import TreeShape  # noqa: E402

N = 600  # tokens: more than are kept of a context
TEXT = (3, 1, 4, 1, 5)
PROMPT = Prompt("code", list(TEXT))
BY_CHILD = (0.7, 0.5, 0.3, 0.2)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return tiny_pair(seed=3, n=N, layers=2)


@pytest.fixture(scope="module")
def run(pair: Pair) -> Run:
    return Run(pair, {1.0: BY_CHILD, 0.6: BY_CHILD}, "p q", tokens=12, every=2)


@pytest.fixture(scope="module")
def made(run: Run) -> tuple[dict[str, Any], list[capture.Context]]:
    return run.text(0, PROMPT, 1.0)


def logits(model: Any, text: tuple[int, ...]) -> Any:
    return model(torch.tensor([text])).logits[0, -1]


def test_a_text_goes_on_with_what_was_read_of_it() -> None:
    model = tiny_llama(5, 24, 2)
    reader = PrefixLogits(model, TEXT, 24, room=6)  # too few slots for all that follows: the cache grows
    reader.at([(7,), (2, 9), (2, 3), (2, 9, 9)])
    text = TEXT
    for new in ((2, 9, 1), (), (4,), (5, 6, 7)):
        reader.go_on(new)
        text += new
        for prefix in ((), (8,), (8, 1), (3,)):
            assert torch.allclose(reader.at([prefix])[0], logits(model, text + prefix), atol=1e-10)


def test_prompts_of_four_kinds_in_turn() -> None:
    entries = read_entries(PROMPTS)
    kinds = ["chat", "editing", "code", "documentation"]
    assert [entry["kind"] for entry in entries] == kinds * (len(entries) // 4)
    assert all(len(entry["messages"]) == 1 and not entry["text"] for entry in entries)  # by the chat template
    assert len({entry["messages"][0]["content"] for entry in entries}) == len(entries)


def test_a_part_of_a_tree_is_the_tree_of_fewer_draws(pair: Pair) -> None:
    shapes = two_sizes.tree_shapes(BY_CHILD)
    whole = two_sizes.union(list(shapes.values()))
    draftings = [otd.trees.FixedTree(shape, otd.WithoutReplacement()) for shape in (whole, *shapes.values())]
    laws = DraftLaws(PrefixLogits(pair.draft, TEXT, N), 1.0)
    of_whole, *alone = draft_together(draftings, laws, lambda: SharedDraws(5))
    assert len(shapes) == 2 * len(SIZES) and all(shape.size <= k * depth for (_, k, depth), shape in shapes.items())
    for shape, tree in zip(shapes.values(), alone, strict=True):
        assert part(of_whole, shape) == tree
    assert whole.size < sum(shape.size for shape in shapes.values())


def test_a_row_has_every_rule_at_every_size(made: tuple[dict[str, Any], list[capture.Context]]) -> None:
    row, _ = made
    assert set(row) == {*two_sizes.ABOUT, *COLUMNS} and len(COLUMNS) == 4 + 24 + 32
    assert row["tokens"] >= 12 and row["trees"] > 1 and row["distinct_trees"] == -(-row["trees"] // 2)
    assert row["tokens"] == pytest.approx(row["trees"] * (1 + row["decoded"]), abs=1e-3)
    for k, depth in SIZES:
        for rule in two_sizes.ON_PATHS if k > 1 else two_sizes.ON_ONE:
            assert 0 <= row[f"{rule.name} {k}x{depth}"] <= depth
    one = row["TokenWise(SpeculativeSampling) 1x8"]
    for form in (two_sizes.EVEN, two_sizes.SEQUOIA):  # the same draws, and one draft is verified in one way
        assert row[f"TokenWise(RecursiveRejectionWithoutReplacement) 1x8 {form}"] == pytest.approx(one, abs=2e-5)
    assert row["TokenWise(HeadAndTail) 1x8 even"] == pytest.approx(one, abs=2e-5)


def test_the_other_rules_lengths_are_those_on_all_tokens(pair: Pair) -> None:
    """Against the rules' plain form on the whole vocabulary, at one context."""
    contexts = Contexts(pair, TEXT, 1.0)
    (paths,), merged = contexts.trees([two_sizes.CHAINS], 9)

    class Whole:
        def target(self, prefix: tuple[int, ...]) -> np.ndarray:
            return np.asarray(logits(pair.target, TEXT + prefix).double().softmax(-1).numpy())

        def draft(self, prefix: tuple[int, ...]) -> np.ndarray:
            return np.asarray(logits(pair.draft, TEXT + prefix).double().softmax(-1).numpy())

    found = two_sizes.on_paths(paths, merged)
    two = part(paths, TreeShape.chains(2, 4))
    for rule in two_sizes.ON_PATHS:
        plain = otd.trees.tree.PlainTree(TreeShape(two.parents), two.tokens, two.law)
        exact = sum(n * chance for n, chance in otd.trees.rules.lengths(rule, Whole(), plain).items())
        assert found[f"{rule.name} 2x4"] == pytest.approx(exact, abs=2e-3)


def test_what_is_decoded_is_what_the_table_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, only in (("ON_PATHS", (WALK,)), ("PATHS", (8,)), ("DEPTHS", (8,))):  # the others are not compared
        monkeypatch.setattr(two_sizes, name, only)
    drawn, expected = [], []
    run = Run(tiny_pair(seed=3, n=60, layers=2), {1.0: BY_CHILD}, "p q", tokens=16, every=1000)
    for number in range(1, 9):
        row, _ = run.text(number, PROMPT, 1.0)
        drawn.append(row["decoded"])
        expected.append(row[WALKS[f"{WALK.name} 8x8"].name])
    gaps = np.array(drawn) - np.array(expected)
    assert abs(gaps.mean()) < 4 * gaps.std(ddof=1) / len(gaps) ** 0.5
    assert np.mean(expected) > 0


@pytest.mark.parametrize("walk", list(WALKS))
def test_every_walk_decodes_alone(pair: Pair, walk: str) -> None:
    run = Run(pair, {0.6: BY_CHILD}, "p q", WALKS[walk], tokens=10, evaluate=False)
    row, kept = run.text(3, PROMPT, 0.6)
    assert row["walk"] == walk and row["tokens"] >= 10 and not kept and not set(COLUMNS) & set(row)


def test_kept_contexts_are_positions_of_the_text(
    pair: Pair, run: Run, made: tuple[dict[str, Any], list[capture.Context]]
) -> None:
    _, kept = made
    wanted = two_sizes.kept_positions(0, 1.0, run.tokens)
    assert {context.position - len(TEXT) for context in kept} == wanted and len(kept) >= 3
    first = min(kept, key=lambda context: context.position)
    assert first.position - len(TEXT) in wanted and first.p.shape == (2, capture.KEPT + 32)
    at_start = Contexts(pair, TEXT, 1.0).context(len(TEXT), ())
    p = logits(pair.target, TEXT).double().softmax(-1).numpy()
    assert np.allclose(at_start.p[0, : capture.KEPT], p[at_start.tokens[: capture.KEPT]], atol=1e-12)


def test_a_table_goes_on_and_takes_no_other_models(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_sizes, "ON_PATHS", (WALK,))  # the columns of the other rules stay empty
    run = replace(run, tokens=3, every=2)
    out, prompts = tmp_path / "table.csv", [PROMPT, Prompt("chat", [7, 7]), Prompt("editing", [9])]
    assert table(run, prompts[:2], (1.0, 0.6), out, seconds=0) == 1  # interrupted after one text
    assert table(run, prompts[:2], (1.0, 0.6), out) == 3
    rows = read(out)
    assert [(row["text"], row["temperature"]) for row in rows] == [
        ("0", "1.0"),
        ("0", "0.6"),
        ("1", "1.0"),
        ("1", "0.6"),
    ]
    again = tmp_path / "again.csv"
    table(run, prompts[:1], (1.0, 0.6), again)  # the rows before and after the interruption
    assert read(again) == rows[:2]
    pairs = tmp_path / "pairs.npz"
    count = gather(rows, out.with_suffix(".contexts"), pairs, json.dumps({}))
    stored = read_pairs(pairs)
    assert (
        len(stored) == 2 * count
        and set(stored.group) == {"1.0", "0.6"}
        and set(stored.labels["kind"]) == {"code", "chat"}
    )
    other = Run(run.pair, run.by_child, "other models", tokens=12)
    with pytest.raises(CannotDecode, match="rows of others"):
        table(other, prompts, (1.0,), out)


def test_a_text_that_ends_at_once_has_no_contexts(tmp_path: Path) -> None:
    file = tmp_path / "contexts" / "0_1.npz"
    two_sizes.write_contexts(file, [])
    assert two_sizes.read_contexts(file) == []


def test_plans_are_measured_once(pair: Pair, tmp_path: Path) -> None:
    file, held_out = tmp_path / "plans.json", [Prompt("chat", [5, i]) for i in range(3)]
    found = two_sizes.plans(file, pair, held_out, (1.0,))
    assert len(found[1.0]) == 16 and 0 < found[1.0][0] < 1
    assert two_sizes.plans(file, None, [], (1.0,)) == found  # type: ignore[arg-type]


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    options = ["--target", str(tmp_path / "none.gguf"), "--draft", "none.gguf", "--out", str(tmp_path / "t.csv")]
    done = CliRunner().invoke(two_sizes.main, [*options, "--backend", "torch"])
    assert done.exit_code == 2 and "none.gguf" in done.output
