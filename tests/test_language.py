"""Help texts, messages of `ot_draft.cli`, pages and the list of theorems use standard terms: they hold no wording of PATTERNS."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ot_draft.cli import main
from proofs_checks.formal.listed import THEOREMS

ROOT = Path(__file__).parents[1]
PATTERNS = {  # pattern: what to write instead
    r"\b(is|are) no (?!longer|more\b)[a-z]": "is not a X, must be Y",
    r"\b(is|are) none\b": "is not a X",
    r"\bso many\b": "N, up to N",
    r"\b(leave|left) .{1,60}\b(away|out)\b": "remove, omit",
    r"\bin words\b": "with a message",
    r"\bin the place of\b|\bin (its|their) place\b": "instead of",
    r"\bchooses? itself\b": "adaptive",
    r"\bby place\b|\bturned otherwise\b": "rotary embedding (RoPE)",
    r"\ba call\b|\btokens a (target )?call\b": "tokens per target call",
    r"\b(a second|a pair|a row|a text|a token|a core|a line|an answer) *[\].,:;)]": "per second, per pair",
    r"\b(float|8-bit|16-bit) rows\b|\brows of (whose )?products\b": "activations",
    r"\bin every bit\b|\bto the last bit\b": "bitwise identical",
    r"\blikeliest\b|\bheaviest\b": "most probable",
    r"\banew\b": "again",
    r"\bbeside\b": "compared with, in addition to",
    r"\bbehind\b": "after",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bplain (decoding|steps?|tokens?|ones?)\b": "autoregressive",
    r"\b(target|draft|output|own|their|its|one|whole|kept (its|their)) laws?\b(?<!draft law)(?<!draft laws)": "distribution",
    r"\bcoins?\b": "uniform random number",
    r"\brefused\b": "rejected (draft token), must be X (input)",
    r"\bof ours\b|\bof our own\b": "internal, built-in",
    r"\bgoes? by\b|\bas far as\b.*\bgo\b": "uses, within the range",
    r"^(Of|By|In|What|That) [a-z]": "name the subject",
}


def found(text: str) -> list[str]:
    """The wordings of PATTERNS in a text."""
    text = " ".join(text.split())
    return [f"{match[0]!r} -> {better}" for pattern, better in PATTERNS.items() if (match := re.search(pattern, text))]


def commands(command: click.Command, name: str = "ot-draft") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its name, groups included."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            if (inner := command.get_command(context, each)) is not None:
                yield from commands(inner, f"{name} {each}")


def every_command() -> dict[str, click.Command]:
    from ot_draft.cli.audit_servers import servers

    return dict(commands(main)) | {"ot-draft audit servers": servers}


@pytest.mark.parametrize("name", every_command())
def test_help_is_complete_and_in_standard_terms(name: str) -> None:
    command = every_command()[name]
    options = {each.opts[0]: each.help for each in command.params if isinstance(each, click.Option)}
    texts = options | {"help": command.help, "epilog": command.epilog or ""}
    assert [option for option, text in texts.items() if text is None] == []
    assert {option: found(text or "") for option, text in texts.items() if found(text or "")} == {}
    endings = {option: text for option, text in options.items() if not re.search(r"[.]$", text or "")}
    assert endings == {}


def messages(file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the string literals of a module that hold a space, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


@pytest.mark.parametrize("file", sorted((ROOT / "ot_draft" / "cli").rglob("*.py")), ids=lambda file: file.stem)
def test_messages_are_in_standard_terms(file: Path) -> None:
    assert {line: found(text) for line, text in messages(file) if " " in text and found(text)} == {}


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The style guide quotes the words to avoid.
NOT_TESTED = ("style.md",)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_in_standard_terms(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert page.name in NOT_TESTED or found(text) == []


def test_theorems_are_in_standard_terms() -> None:
    """docs/formal.md shows them."""
    texts = {each.title: f"{each.title}. {each.claim}" for each in THEOREMS}
    assert {title: found(text) for title, text in texts.items() if found(text)} == {}


def documented() -> Iterator[tuple[str, str]]:
    """Yield names and docstrings of public functions and classes, and of the public members of classes."""
    docstrings = pytest.importorskip("docstrings", exc_type=ImportError)
    for name in docstrings.public_names():
        value = docstrings.found(name)
        if getattr(value, "__module__", "").startswith("ot_draft"):
            members = vars(value) if inspect.isclass(value) else {}
            for member, each in {"": value, **{key: each for key, each in members.items() if key[0] != "_"}}.items():
                if member == "" or inspect.isroutine(each) or isinstance(each, property):
                    yield f"{name}.{member}".strip("."), each.__doc__ or ""


def test_docstrings_of_public_names_are_in_standard_terms() -> None:
    pytest.importorskip("transformers")
    texts = {name: re.sub(r"\ba row\b", "one row", text) for name, text in documented()}
    assert len(texts) > 150
    assert {name: found(text) for name, text in texts.items() if found(text)} == {}
