"""Tokens per target call given a text: exact enumeration, and direct forward passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_models import tiny_pair  # noqa: E402

import ot_draft as otd  # noqa: E402
from llm_demo.bench import along_text, two_sizes  # noqa: E402
from llm_demo.bench.along_text import completion, expected_calls, row_of, survivors  # noqa: E402
from llm_demo.prompts import Prompt  # noqa: E402
from llm_demo.rows import read  # noqa: E402
from ot_draft.trees.rules.path_rule import decided  # noqa: E402

KSEQ = otd.trees.TokenWise(otd.rules.KSeq())


def random_model(seed: int, order: int = 1) -> otd.trees.MarkovModel:
    return otd.trees.MarkovModel.random(np.random.default_rng(seed), 3, order=order)


def chances_along(model: otd.trees.MarkovModel, text: tuple[int, ...], paths: int) -> list[Any]:
    return [survivors(model.target(text[:i]), model.draft(text[:i]), token, paths) for i, token in enumerate(text)]


def texts(model: otd.trees.MarkovModel, length: int) -> list[tuple[tuple[int, ...], Fraction]]:
    """Return all texts of positive probability under the target."""
    found = []
    for text in product(range(3), repeat=length):
        chance = Fraction(1)
        for i, token in enumerate(text):
            chance *= model.target(text[:i])[token]
        found += [(text, chance)] if chance else []
    return found


@pytest.mark.parametrize("seed", range(4))
def test_survivors_are_those_of_all_draft_lists(seed: int) -> None:
    model = random_model(seed)
    p, q = model.target(()), model.draft(())
    for m in (1, 2, 3):
        joint = np.zeros((3, m + 1), dtype=object)
        for drafts in product(range(3), repeat=m):
            output = otd.rules.KSeq()(p, q, np.array(drafts)).output(np.array(drafts))
            for token in range(3):
                joint[token, drafts.count(token)] += output[token] * np.prod(q[list(drafts)])
        for token in np.flatnonzero(p > 0):
            assert list(survivors(p, q, token, 3)[m - 1, : m + 1]) == list(joint[token] / p[token])


@pytest.mark.parametrize(("paths", "length"), [(1, 3), (2, 2), (3, 2)])
def test_the_mean_over_texts_is_the_exact_expected_length(paths: int, length: int) -> None:
    model = random_model(7)
    exact = otd.trees.evaluate(KSEQ, model, (paths, length)).expected_length
    found = Fraction(0)
    for text, chance in texts(model, length):
        _, accepted = expected_calls(chances_along(model, text, paths), 1, paths, length)
        found += chance * accepted[0]
    assert found == exact


@dataclass(frozen=True)
class After:
    """A model after some tokens."""

    model: otd.trees.MarkovModel
    context: tuple[int, ...]

    def target(self, prefix: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return self.model.target(self.context + prefix)

    def draft(self, prefix: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return self.model.draft(self.context + prefix)


def emitted(model: After, paths: int, length: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Return what one call emits, with its probability: over all draft tokens and all decisions."""
    shape = otd.trees.TreeShape.chains(paths, length)
    for one in product(product(range(3), repeat=length), repeat=paths):
        chance = prod(model.draft(way[:i])[way[i]] for way in one for i in range(length))
        if chance:
            # Nodes of `chains` are ordered by level.
            tokens = tuple(way[depth] for depth in range(length) for way in one)
            tree = otd.trees.tree.PlainTree(shape, tokens, otd.IID())
            for path, probability, following in decided(KSEQ, model, tree):
                for token in np.flatnonzero(following):
                    yield (*path, int(token)), chance * probability * following[token]


def test_calls_start_where_decoding_by_trees_starts_them() -> None:
    model, paths, length, starts = random_model(8), 2, 2, 3
    found = np.zeros(starts, dtype=object)
    for text, chance in texts(model, starts + length - 1):
        found += chance * expected_calls(chances_along(model, text, paths), starts, paths, length)[0]
    decoded, reached = [Fraction(0)] * starts, {(): Fraction(1)}
    while reached:
        text, weight = reached.popitem()
        decoded[len(text)] += weight
        for new, chance in emitted(After(model, text), paths, length):
            if len(text + new) < starts and chance:
                reached[text + new] = reached.get(text + new, 0) + weight * chance
    assert list(found) == decoded and 0 < decoded[1] < 1


def test_a_row_is_that_of_direct_passes_over_the_text() -> None:
    pair, prompt = tiny_pair(seed=3, n=60, layers=2), Prompt("code", [3, 1, 4, 1, 5])
    row = row_of(pair, 2, prompt, 0.6, 12)
    text, starts, _ = completion(pair, prompt.tokens, 0.6, 12, (2, 6, 0))
    target, draft = (
        (model(torch.tensor([[*prompt.tokens, *text]])).logits[0, 4:-1].double() / 0.6).softmax(-1).numpy()
        for model in (pair.target, pair.draft)
    )
    chances = [survivors(p, q, token, 8) for p, q, token in zip(target, draft, text, strict=True)]
    assert row["overlap"] == pytest.approx(np.minimum(target, draft).sum(-1).mean(), abs=1e-5)
    on_widest, _ = expected_calls(chances, starts, 8, 8)
    for k, length in two_sizes.SIZES:
        calls, accepted = expected_calls(chances, starts, k, length)
        assert row[f"calls {k}x{length}"] == pytest.approx(calls.sum(), abs=1e-4)
        assert row[f"accepted {k}x{length}"] == pytest.approx(calls @ accepted, abs=1e-4)
        assert row[f"accepted {k}x{length} on 8x8"] == pytest.approx(on_widest @ accepted, abs=1e-4)
        # Every call emits one token more than it accepts; the last one may pass the end of the text.
        assert starts <= row[f"calls {k}x{length}"] + row[f"accepted {k}x{length}"] <= starts + length


def test_completions_end_at_a_stop_token(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tiny_pair(seed=3, n=60, layers=2)
    whole, starts, targets = completion(pair, [1, 2], 1.0, 20, (5,))
    assert starts == 20 and len(whole) == len(targets) == 20 + along_text.L
    monkeypatch.setattr(pair.target.config, "eos_token_id", whole[6])
    again, starts, _ = completion(pair, [1, 2], 1.0, 20, (5,))
    first = whole.index(whole[6])
    assert starts == first + 1 and again == whole[: starts + along_text.L]


def test_the_command_continues_and_refuses_rows_of_other_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, pair = tmp_path / "table.csv", tiny_pair(seed=3, n=60, layers=2)
    prompts = [Prompt("chat", [i, 2]) for i in range(12)]
    monkeypatch.setattr(along_text, "load_pair", lambda *_, **__: pair)
    monkeypatch.setattr(along_text, "read_prompts", lambda *_, **__: prompts)
    options = ["--target", "p", "--draft", "q", "--out", str(out), "--tokens", "4"]
    for count in (1, 3):
        done = CliRunner().invoke(along_text.main, [*options, "--texts", str(count)])
        assert done.exit_code == 0, done.output
    rows = read(out)
    assert [row["text"] for row in rows] == ["0", "1", "2"]
    done = CliRunner().invoke(along_text.main, [*options, "--texts", "1", "--sample", "1"])
    assert done.exit_code == 0, done.output
    *first, another = read(out)
    assert (
        first == rows
        and (another["text"], another["sample"]) == ("0", "1")
        and another["overlap"] != rows[0]["overlap"]
    )
    done = CliRunner().invoke(along_text.main, ["--target", "other", *options[2:]])
    assert done.exit_code == 2 and "rows of others" in done.output
