"""Reading of the corpus: a JSON file for each rule, and one for the faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"


def read(folder: Path = CORPUS) -> dict[str, list[dict[str, Any]]]:
    """Return the vectors of a folder by rule."""
    return {rule: content["vectors"] for rule, content in _files(folder).items()}


def read_conventions(folder: Path = CORPUS) -> dict[str, dict[str, str]]:
    """Return the convention of each rule: which random number is used where."""
    return {rule: content["convention"] for rule, content in _files(folder).items()}


def read_faults(folder: Path = CORPUS) -> dict[str, dict[str, Any]]:
    """Return the faults by name: `description`, `source`, `rules`, and `vectors`, the ids of those that find it."""
    faults: dict[str, dict[str, Any]] = json.loads((folder / "faults.json").read_text())["faults"]
    return faults


def _files(folder: Path) -> dict[str, dict[str, Any]]:
    contents = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return {content["rule"]: content for content in contents if "vectors" in content}
