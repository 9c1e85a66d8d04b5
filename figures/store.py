"""Cache of an earlier run: the key of its data, and a record of date, machine and command."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import os
import platform
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import ot_draft as otd
from figures import scripts
from llm_demo.machine import processor

FOLDER = Path(__file__).parent
LIBRARY = FOLDER.parent / "ot_draft"
OTHER_TOOLS = ("cli", "verify")  # parts of the library that no figure computes with
PACKAGES = ("numpy", "scipy", "matplotlib", "torch", "numba")


def key(name: str, full: bool) -> str:
    """Return a hash of what the data of a figure depend on: script and imports, inputs, library, options."""
    sources = [_file(module).read_bytes() for module in sorted(modules(name))]
    trees = any(b"otd.trees" in source for source in sources)
    digest = hashlib.sha256(f"{otd.__version__} {full} {_library(trees)}".encode())
    for source in sources:
        digest.update(source)
        for data in sorted((FOLDER / "data").iterdir()):
            if data.name.encode() in source:
                digest.update(data.read_bytes())
    return digest.hexdigest()


def modules(name: str) -> set[str]:
    """Return the script of a figure and all modules of figures/ that it imports, directly or not: 'acceptance.temperature'."""
    imported, left = set(), [scripts.MODULES[name]]
    while left:
        module = left.pop()
        if module not in imported and _file(module).is_file():
            imported.add(module)
            left += _imports(_file(module).read_text(encoding="utf-8"))
    return imported


def _file(module: str) -> Path:
    return FOLDER.joinpath(*module.split(".")).with_suffix(".py")


def _imports(source: str) -> list[str]:
    """Return possible modules of figures/ among the imports of a source; in `from a import b` the module is a, or a.b."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("figures."):
            inside = str(node.module).removeprefix("figures").removeprefix(".")
            names += [inside, *(f"{inside}.{alias.name}".removeprefix(".") for alias in node.names)]
    return [name for name in names if name]


@cache
def _library(trees: bool) -> str:
    digest = hashlib.sha256()
    for file in sorted(LIBRARY.rglob("*.py")):
        if file.relative_to(LIBRARY).parts[0] not in (*OTHER_TOOLS, *(() if trees else ("trees",))):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def record_file(out: Path, name: str) -> Path:
    """Return the file of a figure's record."""
    return out / f"{name}.made.json"


def record(out: Path, name: str) -> dict[str, Any]:
    """Return the record of an earlier run; empty without one."""
    try:
        stored = json.loads(record_file(out, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def is_current(out: Path, name: str, full: bool) -> bool:
    """Return whether data and images exist and have the current key."""
    files = [out / f"{name}{suffix}" for suffix in (".csv", ".svg", ".png")]
    return all(file.is_file() for file in files) and record(out, name).get("key") == key(name, full)


def write_record(out: Path, name: str, full: bool, seconds: float) -> None:
    """Write the record of a figure, once all of its files exist."""
    fields = {"key": key(name, full), "full": full, "seconds": round(seconds, 1), **where()}
    record_file(out, name).write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")


def where() -> dict[str, str]:
    """Return date, versions and machine as text."""
    versions = {"ot_draft": otd.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": ", ".join(f"{package} {version}" for package, version in versions.items()),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
    }
