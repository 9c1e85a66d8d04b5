"""Validate the docstrings of public names with numpydoc: `make lint` runs `python tests/helpers/docstrings.py`.

The checks are those of `[tool.numpydoc_validation]` in pyproject.toml. docstrings_to_write.txt lists the public names that do not pass yet.
A name that passes is removed from the list: `python tests/helpers/docstrings.py --write`.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Iterable
from enum import EnumType
from pathlib import Path

from numpydoc.validate import validate

ROOT = Path(__file__).parents[2]
TO_WRITE = Path(__file__).with_name("docstrings_to_write.txt")
CHECKS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["numpydoc_validation"]["checks"])


def public_names() -> list[str]:
    """Return the functions and classes that docs/api.md lists, with their packages."""
    package, names = "", []
    for line in (ROOT / "docs" / "api.md").read_text().splitlines():
        if module := re.match(r"\.\. currentmodule:: ([\w.]+)$", line):
            package = module[1]
        elif name := re.match(r"   ([\w.]+)$", line):
            names.append(f"{package}.{name[1]}")
    return names


def found(name: str) -> object:
    """Return the object of a dotted name."""
    owner, _, last = name.rpartition(".")
    return getattr(importlib.import_module(owner), last)


def errors(name: str) -> list[str]:
    """Return the checks that the docstring of a name fails."""
    value = found(name)
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return []  # a constant or a type alias
    codes = CHECKS - ({"EX01", "RT01"} if inspect.isclass(value) else set())
    has_fields = inspect.isclass(value) and "Attributes\n" in (
        value.__doc__ or ""
    )  # a record, documented by its fields
    codes -= {"PR01"} if isinstance(value, EnumType) or has_fields else set()
    return [f"{code} {message}" for code, message in validate(name)["errors"] if code in codes]


def incomplete(names: Iterable[str]) -> list[str]:
    """Return the names whose docstrings fail a check."""
    return sorted(name for name in names if errors(name))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    failing, known = incomplete(public_names()), TO_WRITE.read_text().split()
    if "--write" in sys.argv:
        TO_WRITE.write_text("".join(f"{name}\n" for name in failing if name in known))
    for name in sorted(set(failing) - set(known)):
        print(name, *errors(name), sep="\n    ")
    for name in sorted(set(known) - set(failing)):
        print(f"{name} passes: remove it from {TO_WRITE.name}")
    sys.exit(failing != known)
