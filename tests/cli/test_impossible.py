"""Places where nothing can be written, and numbers that nobody means: refused in one line, before any work is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ot_draft.cli import main

NOWHERE = ["--target", "./nowhere", "--draft", "./nowhere"]  # models that are not there: the error would be another one
DECODE = ["decode", *NOWHERE, "--prompt", "a b", "--rule", "joint"]
COMPARE = ["compare", "--p", "1/2,1/2", "--q", "1/4,3/4", "--jobs", "1"]


def refusal(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), (words, result.exception, result.output)
    return result.stderr.splitlines()[-1]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where no file can be: below a file, in a loop of links, with too long a name, where the system allows none."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a b c d e f g h i j k l m n")
    Path("loop").symlink_to("pool")
    Path("pool").symlink_to("loop")
    return ["text.txt/x.jsonl", "loop/x.jsonl", "x" * 300, "/proc/x.jsonl"]


@pytest.mark.parametrize("option", ["--audit", "--out", "--trace"])
def test_decode_refuses_before_the_models_are_loaded(option: str, places: list[str]) -> None:
    for place in (*places, *([] if option == "--trace" else ["nowhere/x.jsonl"])):
        assert option in refusal(*DECODE, option, place)
    fine = "fine.svg" if option == "--out" else "fine"
    assert "target './nowhere' does not exist" in refusal(*DECODE, option, fine)  # and nothing is left behind
    assert not Path(fine).is_file() and sorted(path.name for path in Path().glob(".ot*")) == []


def test_decode_refuses_one_name_for_two_files(places: list[str]) -> None:
    assert "must be distinct" in refusal(*DECODE, "--out", "text.html", "--audit", "text.html")
    assert "one .html and one .svg file at most" in refusal(*DECODE, "--out", "a.html", "--out", "b.html")


def test_what_is_there_stays_as_it_is(places: list[str]) -> None:
    page = Path("page.html")
    page.write_text("old")
    refusal(*DECODE, "--out", "page.html")
    assert page.read_text() == "old"
    Path("link.html").symlink_to("later.html")
    refusal(*DECODE, "--out", "link.html")
    assert Path("link.html").is_symlink() and not Path("later.html").exists()


def test_folders_of_the_other_commands(places: list[str]) -> None:
    for place in places:
        assert "--out" in refusal(*COMPARE, "--out", place)
        assert "--out" in refusal("sweep", "text.txt", "--out", place)
        assert "--out" in refusal("capture", *NOWHERE, "--text", "text.txt", "--out", place)


@pytest.mark.parametrize(
    "words",
    [
        [*COMPARE, "--k", "1000000"],
        [*COMPARE, "--k", "1" + 40 * "0"],
        [*COMPARE, "--samples", "99999999999999"],
        [*COMPARE, "--lp-limit", "99999999999999"],
        [*COMPARE, "--jobs", "1000000"],
        [*DECODE, "--shape", "1000000x4"],
        [*DECODE, "--shape", "4x1" + 40 * "0"],
        [*DECODE, "--shape", "1000000x1000000"],
        [*DECODE, "--shape", "1000,1000,1000"],
        [*DECODE, "--shape", "dynamic:100000000"],
        [*DECODE, "--max-tokens", "1000000000000"],
        ["decode", *NOWHERE, "--prompt", "a", "--draft", "lookup", "--prompt-lookup", "100000000"],
        ["plan", "--costs", "costs.json", "--paths", "1000000"],
        ["plan", "--costs", "costs.json", "--length", "1000000"],
        ["plan", "--costs", "costs.json", "--vocabulary", "1000000000000"],
        ["plan", "--costs", "costs.json", "--iterations", "1000000000000"],
        ["capture", *NOWHERE, "--text", "text.txt", "--out", "out", "--temperature", "nan"],
        ["capture", *NOWHERE, "--text", "text.txt", "--out", "out", "--temperature", "-1"],
    ],
    ids=lambda words: f"{words[0]} {' '.join(words[-2:])[:24]}",
)
def test_numbers_that_nobody_means(words: list[str], places: list[str]) -> None:
    Path("costs.json").write_text(json.dumps({"verify": {"1": 1, "65": 1.4}, "draft": {"1": 0.06, "8": 0.08}}))
    told = refusal(*words)
    assert "nowhere" not in told and any(word in told for word in ("must", "range", "needs", "give")), told


def test_many_drafts_of_a_small_pair_are_answered() -> None:
    result = CliRunner().invoke(main, [*COMPARE, "--k", "256", "--rules", "Optimal,KSeq,RecursiveRejection", "--csv"])
    assert result.exit_code == 0
    assert {line.split(",")[1] for line in result.stdout.splitlines()[1:]} == {"256"}


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "", "--out", "out"], ["sweep", "pairs.npz", "--out", ""], ["capture", "--text", "text.txt", "--out", ""],
        [*COMPARE, "--out", ""],
        ["conform", "vllm", "--models", ""], ["plan", "--costs", ""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_empty_name_is_not_the_folder_where_one_is(words: list[str], places: list[str]) -> None:
    before = sorted(Path().iterdir())
    assert "must be a path, got ''" in refusal(*words)
    assert sorted(Path().iterdir()) == before
