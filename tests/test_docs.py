"""Every code block of the documents runs, and prints what stands below it.

```python blocks of a document run one after the other in one namespace; a ```text block right after one is its output. The
`ot-draft` lines of ```sh blocks run too; in blocks marked ```sh slow only their options are
looked up, and of the commands of llm_demo.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ot_draft.cli import main

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GALLERY = ROOT / "docs" / "gallery.md"  # tests/figures/test_gallery.py runs its Python and compares the figures
FENCE = re.compile(r"^```([\w{}-]+) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its mark, its text, and the text block that follows at once."""

    language: str
    mark: str
    text: str
    output: str | None


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    found = list(FENCE.finditer(text))
    after = {match.start(): match for match in found if match[1] == "text"}
    made = []
    for match in found:
        following = after.get(match.end() + len(re.match(r"\s*", text[match.end() :])[0]))  # type: ignore[index]
        made.append(Block(match[1], match[2], match[3], following[3] if following else None))
    return made


@pytest.mark.parametrize("document", sorted({*DOCUMENTS} - {GALLERY}), ids=lambda document: document.name)
def test_python_of_a_document(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": document.stem}
    for block in blocks(document):
        if block.language != "python":
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block.text, f"{document.name}: {block.text.strip()[:60]!r}", "exec"), names)
        if block.output is not None:
            assert said.getvalue().split() == block.output.split(), f"{document.name}: {block.text}"


LINES = [
    pytest.param(
        line,
        block.mark == "slow",
        id=f"{document.name}: {line}",
        marks=[pytest.mark.slow] if line.startswith("ot-draft check ") else [],  # quick: cli/test_cli_check.py
    )
    for document in DOCUMENTS
    for block in blocks(document)
    if block.language == "sh"
    for line in block.text.replace("\\\n", " ").splitlines()
    if line.startswith("ot-draft ")
]


@pytest.mark.parametrize(("line", "slow"), LINES)
def test_command_of_a_document(line: str, slow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line, comments=True)[1:]
    command = main.get_command(click.Context(main), words[0])
    assert command is not None, f"no command is called {words[0]}"
    if isinstance(command, click.Group) and len(words) > 1:
        command = command.commands[words[1]]
    else:
        command = command.make_context(
            words[0], words[1:], resilient_parsing=True
        ).command  # `audit servers` is another
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known | {"--help"}
    if not slow:
        _write_files_of_the_documents(tmp_path)
        monkeypatch.chdir(tmp_path)
        result = CliRunner().invoke(main, words)
        for file in tmp_path.glob("*.py"):
            sys.modules.pop(file.stem, None)  # the next command has a file of that name of its own
        assert result.exit_code in (0, 1), result.output  # 1: a check that fails on purpose


OF_LLM_DEMO = [
    pytest.param(line, id=f"{document.name}: {line}")
    for document in DOCUMENTS
    for block in blocks(document)
    if block.language == "sh"
    for line in block.text.replace("\\\n", " ").splitlines()
    if line.startswith("python -m llm_demo.")
]


@pytest.mark.parametrize("line", OF_LLM_DEMO)
def test_options_of_a_command_of_llm_demo(line: str) -> None:
    """It has them, and what it cannot do without is given."""
    pytest.importorskip("torch")
    words = shlex.split(line, comments=True)[2:]
    module = importlib.import_module(words[0])
    command = (importlib.import_module(f"{words[0]}.__main__") if hasattr(module, "__path__") else module).main
    names = {word.partition("=")[0] for word in words if word.startswith("--")}
    known = {name for parameter in command.params for name in parameter.opts}
    needed = [set(parameter.opts) for parameter in command.params if parameter.required]
    assert names <= known and all(each & names for each in needed), (names - known, needed)


def _write_files_of_the_documents(folder: Path) -> None:
    """A ```python block whose first line is a comment with a file's name is that file, for the commands."""
    for document in DOCUMENTS:
        for block in blocks(document):
            if block.language == "python" and (name := re.match(r"# (\w+\.py)\n", block.text)):
                (folder / name[1]).write_text(block.text)


def test_what_is_to_be_changed_stands_where_contributing_says() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## Where to change what")[1].split("\n## ")[0]
    named = re.findall(r"`(ot_draft/[\w/.]+)`(?:: `([\w.]+)`)?", table)
    assert len(named) > 10
    for path, name in named:
        assert (ROOT / path).exists(), path
        for part in name.split(".") if name else ():
            assert re.search(rf"^ *(def |class )?{part}\b", (ROOT / path).read_text(), re.MULTILINE), f"{path}: {name}"


def test_no_document_holds_a_language_that_nothing_checks() -> None:
    languages = {block.language for document in DOCUMENTS for block in blocks(document)}
    # tests/verify/vectors/test_readers.py compiles the C++ of vectors.md.
    assert languages <= {"python", "text", "sh", "cpp", "{toctree}", "{eval-rst}", "{raw}", "{results}", "{theorems}"}
