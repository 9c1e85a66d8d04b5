"""The documents are short and plain: words in all, words of a sentence, characters of a line; and api.md lists what is public."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
MOST_WORDS = 18_000  # of docs/*.md, without code and generated tables, as `wc -w` counts
MOST_README_WORDS = 1_300
MOST_SENTENCE = 30
MOST_CHARACTERS = 120
MOST_NAMES = 140
GENERATED = {"court.md", "published.md"}  # their tables are not counted: a command writes them
PROSE = [ROOT / "README.md", *DOCS]

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
UNIT = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)|\|")  # paragraphs, list items, cells of tables
SHORT_FORMS = re.compile(r"\b(i\.i\.d|et al|e\.g|i\.e|vs|Fig|cf)\.(?!\s+[A-Z])")


def sentences(markdown: str) -> list[str]:
    """Sentences of the running text: no code, no headings; a formula, a piece of code or a link's address is one word at most."""
    text = FENCED.sub("\n\n", markdown)
    text = re.sub(r"^(#.*|---.*|    .*|!\[.*)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]+\$|`[^`]+`", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = SHORT_FORMS.sub(lambda short: short[1].replace(".", ""), text)
    return [
        " ".join(sentence.split())
        for unit in UNIT.split(text)
        for sentence in re.split(r"(?<=[.!?])[\"*_)\]]*\s+|:\s*\n", unit)
        if re.search(r"\w", sentence)
    ]


def words(text: str) -> int:
    """Words that hold a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def counted_text(page: Path) -> str:
    """What somebody wrote for readers: no blocks of code, no tables that a command writes."""
    text = FENCED.sub("", page.read_text())
    return re.sub(r"^\|.*$", "", text, flags=re.MULTILINE) if page.name in GENERATED else text


def test_the_documents_are_not_longer_than_a_reader_bears() -> None:
    counted = {page.name: len(counted_text(page).split()) for page in DOCS}
    assert sum(counted.values()) <= MOST_WORDS, counted
    assert len((ROOT / "README.md").read_text().split()) <= MOST_README_WORDS


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    long = [(words(sentence), sentence) for sentence in sentences(page.read_text()) if words(sentence) > MOST_SENTENCE]
    assert long == []


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_lines_fit_a_screen(page: Path) -> None:
    long = [line for line in page.read_text().splitlines() if len(line) > MOST_CHARACTERS]
    assert long == []


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS], ids=lambda page: page.name)
def test_a_forge_shows_what_sphinx_shows(page: Path) -> None:
    """No link without a text, which Sphinx alone fills in; in README and CONTRIBUTING no directive."""
    text = page.read_text()
    assert re.findall(r"(?<!\!)\[\]\([^)]*\)", FENCED.sub("", text)) == []
    assert page.parent != ROOT or ("```{" not in text and "<img" not in text)


OTHER_NAMES = re.compile(
    r"\b(?:the embedded draft\b(?! models)|drafts? (?:that|which) reads?|earlier draft\b|(?:the )?draft before\b)"
)


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.name)
def test_an_embedded_draft_has_one_name(page: Path) -> None:
    """*Token draft* and *state draft*: three models went by names like "the embedded draft" and "the draft before"."""
    assert OTHER_NAMES.findall(re.sub(r"\s+", " ", page.read_text())) == []


def test_a_long_sentence_is_seen() -> None:
    long = " ".join(["word"] * 31)
    assert [words(each) for each in sentences(f"# Title of words\n\nShort one. {long}\n{long}. End\n\n- {long}")] == [
        2,
        62,
        1,
        31,
    ]
    assert sentences("By $a + b$ and `ot.x y`, see [this page](x.md): drafts are i.i.d. here.") == [
        "By code and code, see [this page]: drafts are iid here."
    ]
    assert [words(cell) for cell in sentences(f"| a | {long} |\n|---|---|\n| b | c |\n")] == [1, 31, 1, 1]


def listed() -> dict[str, list[str]]:
    """The names of api.md by package: a heading, then a line a name."""
    found: dict[str, list[str]] = {}
    package = ""
    for line in (ROOT / "docs" / "api.md").read_text().splitlines():
        if heading := re.match(r"##+ ([\w.]+)$", line):
            package = f"ot_draft.{heading[1]}".removesuffix(".ot_draft")
        elif name := re.match(r"- `([\w.]+)`: ", line):
            inner, _, last = name[1].rpartition(".")
            found.setdefault(".".join(filter(None, (package, inner))), []).append(last)
    return found


def public(package: str) -> dict[str, object]:
    """Name -> object of what a package says that it exports, without other packages."""
    module = importlib.import_module(package)
    objects = {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in objects.items() if not inspect.ismodule(value)}


def test_every_listed_name_is_public() -> None:
    assert {package: [n for n in names if n not in public(package)] for package, names in listed().items()} == {
        package: [] for package in listed()
    }


@pytest.mark.parametrize("package", sorted(set(listed()) - {"ot_draft"}))
def test_every_public_name_is_listed(package: str) -> None:
    assert sorted(public(package)) == sorted(listed()[package])


def test_every_public_name_stands_in_some_list() -> None:
    """`ot_draft` itself: laws, checks and targets are in it too, and listed once, with their packages."""
    shown = {id(public(package)[name]) for package, names in listed().items() for name in names}
    assert [name for name, value in public("ot_draft").items() if id(value) not in shown] == []


def test_public_names_are_few() -> None:
    assert sum(map(len, listed().values())) <= MOST_NAMES
