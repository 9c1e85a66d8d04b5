"""`--draft ngram`: what is looked up is a function of the text before, forced drafts are found by it, right servers are not."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from slow import slow
from test_ngrams import by_search

from ot_draft.arrays import Array
from ot_draft.cli import main
from ot_draft.verify.server.answers import Answer, Emitted
from ot_draft.verify.server.lookup import LookupLaws

from .chains import random_pair
from .completions_server import Generate, serving

pytest.importorskip("httpx")
N = 32
texts = st.lists(st.integers(0, 2), max_size=14)


def answer(tokens: list[int]) -> Answer:
    nothing = np.zeros(0)
    return Answer(tuple(Emitted(token, 0.0, nothing, nothing) for token in tokens), "length")


def slowly(text: list[int], most: int) -> int:
    """The token that an n-gram of the text drafts, by the slow search."""
    place, size = by_search(text, most)
    return text[place] if size else LookupLaws.nothing


@given(texts, texts, st.integers(1, 4))
def test_what_is_looked_up_is_found_by_searching_the_text_before(
    prompt: list[int], tokens: list[int], most: int
) -> None:
    rows = LookupLaws(most).rows(prompt, answer(tokens), 16)
    assert rows.tolist() == [slowly([*prompt, *tokens[:t]], most) for t in range(len(tokens))]


@given(texts, texts, texts)
def test_it_depends_on_the_tokens_before_alone(prompt: list[int], tokens: list[int], other: list[int]) -> None:
    laws = LookupLaws()
    one, two = (laws.rows(prompt, answer([*tokens, *rest]), 32) for rest in ([0], [1, *other]))
    assert one.tolist() == two[: len(tokens) + 1].tolist()


def test_its_law_is_sure_of_one_token_or_unknown() -> None:
    laws, ids, mass = LookupLaws(), np.array([4, 7, 2]), np.array([0.5, 0.2, 0.1])
    assert laws.on(LookupLaws.nothing, ids, mass) is None
    assert [laws.on(row, ids, mass).tolist() for row in (7, 5)] == [[0, 1, 0], [0, 0, 0]]
    assert laws.overlap == pytest.approx(0.1)
    assert laws.rows("a text", answer([1, 2, 1, 3]), 4).tolist() == [
        LookupLaws.nothing,
        LookupLaws.nothing,
        LookupLaws.nothing,
        2,
    ]


def forcing(share: float) -> Generate:
    """Plain sampling by the last token, but for a share of the places that take the token that is looked up."""
    p, generator, lock = random_pair(0, N).p, np.random.default_rng(0), threading.Lock()

    def generate(fields: dict[str, Any]) -> tuple[Array, Array]:
        text, laws = list(fields["prompt"]), []
        with lock:
            for _ in range(fields["max_tokens"]):
                law, draft = p[text[-1]], slowly(text, 3)
                forced = draft != LookupLaws.nothing and generator.random() < share
                text.append(draft if forced else int(generator.choice(N, p=law)))
                laws.append(law)
        return np.array(text[len(fields["prompt"]) :]), np.stack(laws)

    return generate


def audited(share: float, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    (prompts := folder / "prompts.txt").write_text(
        "".join(f"{[i, j, i, j, i]}\n" for i in range(3) for j in range(3, 6))
    )
    asked = ("--prompts", str(prompts), "--tokens", "4000", "--length", "32", "--concurrency", "8")
    with serving(forcing(share)) as (url, _):
        done = CliRunner().invoke(main, ["audit", url, *asked, *more, "--json", str(folder / "a.json")])
    return done.exit_code, json.loads((folder / "a.json").read_text())


def test_forced_drafts_are_found_by_what_is_looked_up(tmp_path: Path) -> None:
    without, _ = audited(0.12, tmp_path)
    status, report = audited(0.12, tmp_path, "--draft", "ngram:3")
    assert without == 0 and status == 1, report
    assert "of n-grams of up to 3 tokens" in report["tried"]["draft distribution"]


@pytest.mark.parametrize("looked_up", [slow("ngram"), "ngram:3"])
def test_a_right_server_is_not_biased(looked_up: str, tmp_path: Path) -> None:
    status, report = audited(0.0, tmp_path, "--draft", looked_up)
    assert status == 0 and report["outcomes"][0]["evidence"]["log_largest"] < 6


@pytest.mark.parametrize("named", ["ngram:0", "ngram:x", "ngrams"])
def test_other_words_are_no_folders(named: str) -> None:
    done = CliRunner().invoke(main, ["audit", "http://127.0.0.1:9", "--draft", named])
    assert done.exit_code == 2 and "does not exist" in done.output
