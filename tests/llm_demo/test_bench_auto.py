"""The bench of the shape that chooses itself: rows for every kind and for all, whom it is compared with, and that plain is the measure."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tiny_models import tiny_pair

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from click.testing import CliRunner  # noqa: E402

from llm_demo.bench import auto  # noqa: E402
from llm_demo.data.continue_prompts import read_entries  # noqa: E402
from llm_demo.models.load import missing_packages  # noqa: E402
from llm_demo.prompts import Prompt  # noqa: E402
from ot_draft.decoding import CannotDecode, DecodeOptions, Pair  # noqa: E402

PROMPTS = [Prompt("chat", [1, 2, 3]), Prompt("code", [4, 5, 4, 5]), Prompt("chat", [6, 1, 1]), Prompt("code", [7])]
SHORT = DecodeOptions(max_tokens=5, stop=())


def test_forty_texts_of_four_kinds() -> None:
    entries = read_entries(auto.KINDS)
    assert Counter(entry["kind"] for entry in entries) == dict.fromkeys(
        ("chat", "editing", "code", "documentation"), 10
    )


def test_a_row_for_every_kind_and_method() -> None:
    pair = tiny_pair()
    rows = auto.bench(pair, PROMPTS, 1, SHORT, auto.contenders(pair, 1, "plain"), lambda done: None)
    assert [(row["kind"], row["method"].split()[0]) for row in rows] == [
        (kind, method) for kind in ("chat", "code", "all") for method in ("autoregressive", "auto")
    ]
    for row in rows:
        assert row["groups"] == (4 if row["kind"] == "all" else 2)
        assert bool(row["shapes"]) == (row["method"] != "autoregressive")
        if row["method"] == "autoregressive":
            assert [float(row[name]) for name in ("ratio", "low", "high")] == [1, 1, 1]
    assert len(auto.show(rows).splitlines()) == len(rows)


def test_the_same_methods_by_other_models_have_rows_of_their_own() -> None:
    """A draft that is the target gives all that it drafts, whatever the pair of the other rows accepts."""
    pair, sure = tiny_pair(), Pair(*2 * (tiny_pair().target,))
    shape = auto.method_called("block", None, auto.shape_of(1, 3, None))
    methods = [
        shape,
        *auto.beside(sure, "sure", [auto.plain_method(), auto.auto_method()]),
        auto.OfOtherModels.like(shape, sure, "sure"),
    ]
    options = DecodeOptions(max_tokens=8, stop=())
    rows = {
        row["method"]: row
        for row in auto.bench(pair, PROMPTS, 1, options, methods, lambda done: None)
        if row["kind"] == "all"
    }
    assert list(rows) == [
        "autoregressive", "block 1 × 3, i.i.d.", "autoregressive sure", "auto chosen in every step, sure", "block 1 × 3, i.i.d., sure"
    ]  # fmt: skip
    assert (
        float(rows["block 1 × 3, i.i.d., sure"]["tokens_a_call"])
        == 4
        > float(rows["block 1 × 3, i.i.d."]["tokens_a_call"])
    )
    assert rows["auto chosen in every step, sure"]["shapes"] and not rows["autoregressive sure"]["shapes"]


@pytest.mark.parametrize(
    ("against", "batch", "methods"), [("all", 1, 9), ("shapes", 1, 6), ("peers", 1, 4), ("all", 2, 6)]
)
def test_whom_it_is_compared_with(against: str, batch: int, methods: int) -> None:
    assert len(auto.contenders(tiny_pair(), batch, against)) == methods


@pytest.mark.parametrize(("words", "tokens"), [((), 5), (("--loaded-for", "1000"), 1000)])
def test_a_process_of_its_own_is_loaded_for_its_text(
    words: tuple[str, ...], tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or for as many tokens as are named, which without such processes means nothing."""
    given = list[Any]()

    def loaded(**named: Any) -> Any:
        given.append(named["tokens"])
        raise CannotDecode("so far")

    monkeypatch.setattr(auto, "load_pair", loaded)
    words = ("--tokens", "5", *words, "--out", str(tmp_path / "fresh.csv"))
    done = CliRunner().invoke(auto.main, ["--fresh", *words])
    assert given == [tokens] and "so far" in done.output
    if "--loaded-for" in words:
        assert "Add --fresh" in CliRunner().invoke(auto.main, words).output


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages()), reason="the real models are not installed")
def test_every_text_in_a_process_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "fresh.csv"
    words = ["--fresh", "--texts", "2", "--tokens", "4", "--temperature", "1", "--against", "plain", "--threads", "1"]
    done = CliRunner().invoke(auto.main, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(row["kind"], row["groups"], row["fresh"]) for row in rows if row["method"] == "autoregressive"] == [
        ("chat", "1", "True"), ("editing", "1", "True"), ("all", "2", "True")
    ]  # fmt: skip
    assert all(bool(row["shapes"]) == row["method"].startswith("auto ") for row in rows)
