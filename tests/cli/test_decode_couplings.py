"""`ot-draft decode` with watermarks and with drafts that are made of the target or of a chain; `ot-draft skip`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_folders import save_tiny_pair

from ot_draft.cli import main


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """--target T --draft D."""
    return save_tiny_pair(tmp_path_factory.mktemp("models"))


def decode(*words: str) -> Result:
    return CliRunner().invoke(main, ["decode", "--prompt", "a b c", "--max-tokens", "12", *words])


@pytest.mark.parametrize("words", [(), ("--rule", "race"), ("--rule", "KSeq", "--shape", "2x2")])
def test_a_watermark_is_told_with_each_text(models: list[str], words: tuple[str, ...]) -> None:
    result = decode(*models, "--draft-law", "watermark:secret", *words)
    assert result.exit_code == 0, result.output
    assert "watermark: z = " in result.stderr and "for 50 tokens" in result.stderr and "for 200 tokens" in result.stderr


def test_the_watermarked_text_is_the_same_without_the_draft_model(models: list[str]) -> None:
    target = models[: models.index("--draft")]
    texts = [
        decode(*words, "--draft-law", "watermark:secret").stdout for words in (models, [*target, "--draft", "exit:1"])
    ]
    assert texts[0] == texts[1] != decode(*models, "--draft-law", "watermark:other").stdout


def test_chains_and_layers_are_drafts(models: list[str]) -> None:
    target, draft = models[: models.index("--draft")], models[-1]
    for name in ("skip:0", "exit:1", f"chain:{draft},exit:1", "chain:exit:1,skip:0"):
        result = decode(
            *target, "--draft", name, *(("--shape", "1x3") if name.startswith("chain") else ("--rule", "block"))
        )
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--draft-law", "watermark:k", "--compare"), "one draft model and one rule"),
        (("--draft-law", "watermark:k", "--shape", "auto"), "paths of one size"),
        (("--draft-law", "watermark:k", "--rule", "joint"), "rule must not look at nodes below"),
        (("--draft-law", "watermark:"), "must not be empty"),
    ],
)
def test_what_does_not_go_with_a_watermark(models: list[str], words: tuple[str, ...], says: str) -> None:
    result = decode(*models, *words)
    assert result.exit_code == 2 and says in result.output


@pytest.mark.parametrize(
    ("draft", "words", "says"),
    [
        ("chain:exit:1", (), "Name two draft models"),
        ("chain:exit:1,exit:1", ("--shape", "2x4"), "other --shape than auto or 1xL"),
        ("slem:nowhere", ("--shape", "auto"), "draft one path by their own rule"),
        ("skip:9", (), "layers 0 to"),
        ("exit:x", (), "numbers of layers"),
    ],
)
def test_what_no_draft_is(models: list[str], draft: str, words: tuple[str, ...], says: str) -> None:
    result = decode(*models[: models.index("--draft")], "--draft", draft, *words)
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_layers_are_searched(models: list[str], tmp_path: Path) -> None:
    target = models[models.index("--target") + 1]
    result = CliRunner().invoke(
        main, ["skip", "--target", target, "--prompt", "a b c", "--max-tokens", "6", "--most", "1"]
    )
    assert (
        result.exit_code == 0 and "--draft skip:" in result.stdout and "acceptance of one draft token" in result.stdout
    ), result.output
