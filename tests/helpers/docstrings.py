"""Validate the docstrings of public names with numpydoc.

The checks are those of `[tool.numpydoc_validation]` in pyproject.toml.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from enum import EnumType
from pathlib import Path

from numpydoc.validate import validate

ROOT = Path(__file__).parents[2]
RECORDS = {"ot_draft.trees.FastestTree", "ot_draft.data.Sweep"} | {
    f"ot_draft.decoding.benchmark.{name}" for name in ("Comparison", "Measured", "MethodCosts")
}
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
    is_own = getattr(value, "__module__", "").startswith("ot_draft")  # not an alias, as Array of typing.Any
    if not is_own or not (inspect.isroutine(value) or inspect.isclass(value)):
        return []
    codes = set(CHECKS)
    if inspect.isclass(value):
        is_record = "Attributes\n" in (value.__doc__ or "") or name in RECORDS  # made by functions, not by users
        codes -= {"RT01"} | ({"PR01"} if isinstance(value, EnumType) or is_record else set())
        codes -= {"EX01"} if is_record or inspect.isabstract(value) or issubclass(value, Exception) else set()
    return [f"{code} {message}" for code, message in validate(name)["errors"] if code in codes]


def incomplete() -> dict[str, list[str]]:
    """Return the checks that docstrings of public names fail, by name."""
    return {name: failed for name in public_names() if (failed := errors(name))}
