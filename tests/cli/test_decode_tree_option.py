"""`ot-draft decode --shape dynamic:N`: texts, pages, the comparison, and one clear line for what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ot_draft as otd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_folders import save_tiny_pair  # noqa: E402

from llm_demo.models.load import load_pair  # noqa: E402
from ot_draft.cli.decode.command import decode as command  # noqa: E402
from ot_draft.decoding import DecodeOptions, Drafting, Pair, SamplingParams, decode  # noqa: E402
from ot_draft.decoding.methods import dynamic_method, dynamic_methods  # noqa: E402

PROMPTS = ["--prompt", "a b c", "--prompt", "d e"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return save_tiny_pair(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def pair(models: list[str]) -> Pair:
    return load_pair(models[1], models[3])


def call(*words: str) -> Result:
    return CliRunner().invoke(command, words)


@pytest.mark.parametrize(
    ("tree", "rule"),
    [
        ("dynamic:6", None),
        ("dynamic:6:counted", "RecursiveRejectionWithoutReplacement"),
        ("dynamic:6:adaptive", "Optimal"),
        ("dynamic:6:eagle2", None),
        ("dynamic:6:opt-tree", "joint"),
        ("Dynamic:6:DySpec", None),
        ("dynamic:4:specdec", "SpeculativeSampling"),
    ],
)
def test_texts_are_the_engines(models: list[str], pair: Pair, tree: str, rule: str | None) -> None:
    sampling = ["--temperature", "0.8", "--top-k", "6", "--seed", "3", "--max-tokens", "9"]
    result = call(*models, *PROMPTS, *sampling, "--shape", tree, *(["--rule", rule] if rule else []))
    assert result.exit_code == 0, result.output
    method = dynamic_method(otd.trees.drafting.called(tree), rule)
    options = DecodeOptions(SamplingParams(0.8, top_k=6), max_tokens=9, seed=3)
    expected = decode(pair, [pair.encode("a b c"), pair.encode("d e")], method.drafting, options).tokens
    assert [line.split() for line in result.stdout.splitlines()] == [pair.text(text).split() for text in expected]


def test_the_page_and_the_audit_take_trees_of_several_shapes(models: list[str], tmp_path: Path) -> None:
    page, log = tmp_path / "page.html", tmp_path / "log.jsonl"
    words = ["--max-tokens", "9", "--out", str(page), "--audit", str(log)]
    for tree in ("dynamic:6", "dynamic:6:dyspec"):
        result = call(*models, *PROMPTS, "--shape", tree, *words)
        assert result.exit_code == 0, result.output
        assert "drafted tree" in page.read_text() and len(log.read_text().splitlines()) > 1
        log.unlink()


def test_the_comparison_measures_every_way(models: list[str]) -> None:
    words = ["--compare", "json", "--max-tokens", "6", "--shape", "dynamic:5:adaptive"]
    result = call(*models, *PROMPTS, *words, "--rule", "joint", "--rule", "naive")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["methods"]
    assert [row["rule"] for row in rows] == ["autoregressive", "joint", "naive"]
    assert all(row["nodes"] == 5 and row["verify"] > 0 and row["step"] > 0 for row in rows[1:])
    assert [method.drafts for method in dynamic_methods(5)] == [
        f"{name}, up to 5 nodes"
        for name in ("counted, with lookup", "counted", "adaptive", "EAGLE-2", "OPT-Tree", "DySpec", "SpecDec++")
    ]
    assert len({method.slug for method in dynamic_methods(5)}) == 7
    assert all(isinstance(method.drafting, Drafting) for method in dynamic_methods(5))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--shape", "dynamic"], "tree must be dynamic:NODES"),
        (["--shape", "dynamic:0"], "tree must be dynamic:NODES"),
        (["--shape", "dynamic:32:medusa"], "lookup, counted, adaptive, eagle2, opt-tree, dyspec, specdec"),
        (["--shape", "2;3"], "or dynamic:32"),
        (["--shape", "dynamic:8", "--draft-law", "iid"], "Remove --rule and --draft-law"),
        (["--shape", "dynamic:8", "--rule", "KSeq"], "valid on trees whose children follow"),
        (["--shape", "dynamic:8:dyspec", "--rule", "joint"], "valid on trees whose children follow"),
        (["--shape", "dynamic:8", "--rule", "joint"], "valid on trees whose children follow"),
        (["--shape", "dynamic:8:counted", "--prompt-lookup", "3"], "does not use prompt lookup"),
        (["--shape", "dynamic:8", "--rule", "best"], "rule must be a known name, got 'best'"),
        (["--shape", "dynamic:8", "--trace", "somewhere"], "trees of one shape"),
    ],
)
def test_what_does_not_fit_is_refused(models: list[str], words: list[str], text: str) -> None:
    result = call(*models, *PROMPTS, *words)
    assert result.exit_code != 0 and text in " ".join(result.output.split()), result.output
    assert "Traceback" not in result.output
    assert not Path("somewhere").exists()  # a command that is refused leaves nothing
