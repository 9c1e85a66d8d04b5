"""api.md lists what is public, docstrings of public names are numpydoc, and links have a text."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS], ids=lambda page: page.name)
def test_a_forge_shows_what_sphinx_shows(page: Path) -> None:
    """No link without a text, which Sphinx alone fills in; in README and CONTRIBUTING no directive."""
    text = page.read_text()
    assert re.findall(r"(?<!\!)\[\]\([^)]*\)", FENCED.sub("", text)) == []
    assert page.parent != ROOT or ("```{" not in text and "<img" not in text)


def listed() -> dict[str, list[str]]:
    """The names of api.md by package: a heading, and the entries of its autosummary."""
    found: dict[str, list[str]] = {}
    package = ""
    for line in (ROOT / "docs" / "api.md").read_text().splitlines():
        if module := re.match(r"\.\. currentmodule:: ([\w.]+)$", line):
            package = module[1]
        elif name := re.match(r"   ([\w.]+)$", line):
            inner, _, last = name[1].rpartition(".")
            found.setdefault(".".join(filter(None, (package, inner))), []).append(last)
    return found


def public(package: str) -> dict[str, object]:
    """Name -> object of what a package says that it exports, without other packages."""
    module = importlib.import_module(package)
    objects = {name: getattr(module, name, module) for name in module.__all__}  # a module may be unloaded
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


def test_docstrings_of_public_names_are_complete() -> None:
    pytest.importorskip("numpydoc")
    import docstrings

    assert docstrings.incomplete() == {}
