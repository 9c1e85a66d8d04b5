"""Files of the corpus: one per rule, one for the faults, and a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .conventions import CONVENTIONS
from .faults import FAULTS
from .make import Vector, vectors_of

VERSION = 2
TEXT, PARENT = {"type": "string"}, {"type": "integer", "minimum": -1}
ROW = {"type": "string", "pattern": r"^(masses:\d+:\d+|noise:\d+|((0x[01](\.[0-9a-f]+)?p-?\d+|-0x[01](\.[0-9a-f]+)?p-?\d+|nan) ?)*)$",
       "description": "hexadecimal floats; or masses:SEED:SHIFT or noise:SEED, generated as in readers/read.py"}  # fmt: skip
TOKENS = {"type": "array", "items": {"type": "integer"}}
FRACTION = {"type": "string", "pattern": r"^\d+/\d+$"}
ALL = {
    "id": TEXT, "level": {"enum": ["replay", "distribution", "joint"]}, "category": TEXT, "tokens": {"type": "integer", "minimum": 1},
    "p": {"type": "array", "items": ROW, "description": "target distributions at the root and after each draft token"},
    "q": {"type": ["array", "null"], "items": ROW,
          "description": "draft distributions by node (0: the root); null for deterministic draft tokens"},
    "drafts": TOKENS | {"description": "empty at the level joint"},
    "parents": {"type": "array", "items": PARENT, "description": "index of each draft token's parent, -1 for the root"},
    "detects": {"type": "array", "items": TEXT, "description": "faults that this vector detects"},
}  # fmt: skip
REPLAY = {
    "uniforms": ROW, "noise": {"type": "array", "items": ROW},
    "expected": {"type": "array", "items": TOKENS, "minItems": 1,
                 "description": "token lists that pass: one, or several for rows with NaN"},
    "error_allowed": {"type": "boolean", "description": "whether raising an error passes, too"},
}  # fmt: skip
OUTCOMES = {
    "distribution": {"type": "array", "items": {"type": "array", "prefixItems": [TOKENS, FRACTION], "minItems": 2, "maxItems": 2},
            "description": "every outcome with its probability; at the level joint, outcomes are draft tokens followed by emitted tokens"},
    "accepted": FRACTION | {"description": "expected number of accepted draft tokens"},
    "runs": {"type": "integer", "minimum": 1,
             "description": "number of runs; a false alarm, and a missed fault of `detects`, have probability at most 1e-6 each"},
}  # fmt: skip


def schema() -> dict[str, Any]:
    """The JSON schema of a file of vectors."""
    of_level = {"replay": REPLAY, "distribution": OUTCOMES, "joint": OUTCOMES}
    cases = [
        {"type": "object", "properties": ALL | more | {"level": {"const": level}}, "required": [*ALL, *more], "additionalProperties": False}
        for level, more in of_level.items()
    ]  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Test vectors for draft verifiers", "type": "object",
        "properties": {"version": {"const": VERSION}, "rule": TEXT, "convention": {"type": "object", "additionalProperties": TEXT},
                       "vectors": {"type": "array", "items": {"oneOf": cases}}},
        "required": ["version", "rule", "convention", "vectors"], "additionalProperties": False,
    }  # fmt: skip


def text_of_rule(rule: str, vectors: list[Vector]) -> str:
    """Text of a file of vectors, one line per vector."""
    head = json.dumps({"version": VERSION, "rule": rule, "convention": CONVENTIONS[rule]}, indent=1)
    lines = ",\n".join(json.dumps(vector, separators=(",", ":")) for vector in vectors)
    return f'{head[:-2]},\n "vectors": [\n{lines}\n]}}\n'


def text_of_faults(vectors: Iterable[Vector]) -> str:
    """Text of the file of faults, each with the vectors that detect it."""
    shown: dict[str, list[str]] = {name: [] for name in FAULTS}
    for vector in vectors:
        for name in vector["detects"]:
            shown[name].append(vector["id"])
    found = {
        name: {"description": each.description, "source": each.source or None, "rules": sorted(each.programs), "vectors": shown[name]}
        for name, each in FAULTS.items()
    }  # fmt: skip
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
    return f'{{"version": {VERSION}, "faults": {{\n{lines}\n}}}}\n'


def write(folder: Path, on_rule: Callable[[str], None] = lambda name: None) -> list[Path]:
    """Generate all vectors and write them into the folder: the same bytes on every machine."""
    folder.mkdir(parents=True, exist_ok=True)
    texts, everything = {"schema.json": json.dumps(schema(), indent=1) + "\n"}, []
    for rule in CONVENTIONS:
        vectors = vectors_of(rule)
        everything += vectors
        texts[f"{rule}.json"] = text_of_rule(rule, vectors)
        on_rule(rule)
    texts["faults.json"] = text_of_faults(everything)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]
