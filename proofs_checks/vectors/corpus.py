"""The corpus as files: one file for each rule, one for the faults, and a JSON schema for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .conventions import CONVENTIONS
from .faults import FAULTS
from .make import Vector, vectors_of

VERSION = 1
TEXT, PLACE = {"type": "string"}, {"type": "integer", "minimum": -1}
ROW = {"type": "string", "pattern": r"^(masses:\d+:\d+|noise:\d+|((0x[01](\.[0-9a-f]+)?p-?\d+|-0x[01](\.[0-9a-f]+)?p-?\d+|nan) ?)*)$",
       "description": "hexadecimal floats; or masses:SEED:SHIFT or noise:SEED, which readers/read.py says how to make"}  # fmt: skip
TOKENS = {"type": "array", "items": {"type": "integer"}}
FRACTION = {"type": "string", "pattern": r"^\d+/\d+$"}
ALL = {
    "id": TEXT, "level": {"enum": ["replay", "law", "joint"]}, "place": TEXT, "tokens": {"type": "integer", "minimum": 1},
    "p": {"type": "array", "items": ROW, "description": "the target's row at the root, and behind each draft"},
    "q": {"type": ["array", "null"], "items": ROW, "description": "the law of the drafts, by the node that they stand behind"},
    "drafts": TOKENS | {"description": "empty at the level joint"},
    "parents": {"type": "array", "items": PLACE, "description": "at which draft each hangs, -1 at the root"},
    "kills": {"type": "array", "items": TEXT, "description": "the planted faults that fail this vector"},
}  # fmt: skip
REPLAY = {
    "uniforms": ROW, "noise": {"type": "array", "items": ROW},
    "expected": {"type": "array", "items": TOKENS, "minItems": 1, "description": "what may be emitted: one list, but for NaN rows"},
    "refusal": {"type": "boolean", "description": "whether an error is an answer, too"},
}  # fmt: skip
LAW = {
    "law": {"type": "array", "items": {"type": "array", "prefixItems": [TOKENS, FRACTION], "minItems": 2, "maxItems": 2},
            "description": "every outcome, at the level joint drafts and then what is emitted, with its probability"},
    "accepted": FRACTION | {"description": "expected number of kept drafts"},
    "runs": {"type": "integer", "minimum": 1, "description": "after so many, both errors are at most 1e-6 for the faults named"},
}  # fmt: skip


def schema() -> dict[str, Any]:
    """The JSON schema of a file of vectors."""
    of_level = {"replay": REPLAY, "law": LAW, "joint": LAW}
    cases = [
        {"type": "object", "properties": ALL | more | {"level": {"const": level}}, "required": [*ALL, *more], "additionalProperties": False}
        for level, more in of_level.items()
    ]  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Test vectors for verifiers of drafts", "type": "object",
        "properties": {"version": {"const": VERSION}, "rule": TEXT, "convention": {"type": "object", "additionalProperties": TEXT},
                       "vectors": {"type": "array", "items": {"oneOf": cases}}},
        "required": ["version", "rule", "convention", "vectors"], "additionalProperties": False,
    }  # fmt: skip


def text_of_rule(rule: str, vectors: list[Vector]) -> str:
    """A file of vectors, a line a vector."""
    head = json.dumps({"version": VERSION, "rule": rule, "convention": CONVENTIONS[rule]}, indent=1)
    lines = ",\n".join(json.dumps(vector, separators=(",", ":")) for vector in vectors)
    return f'{head[:-2]},\n "vectors": [\n{lines}\n]}}\n'


def text_of_faults(vectors: Iterable[Vector]) -> str:
    """The faults, each with the vectors that show it."""
    shown: dict[str, list[str]] = {name: [] for name in FAULTS}
    for vector in vectors:
        for name in vector["kills"]:
            shown[name].append(vector["id"])
    found = {
        name: {"modelled": each.modelled, "source": each.source or None, "rules": sorted(each.programs), "vectors": shown[name]}
        for name, each in FAULTS.items()
    }  # fmt: skip
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
    return f'{{"version": {VERSION}, "faults": {{\n{lines}\n}}}}\n'


def write(folder: Path, on_rule: Callable[[str], None] = lambda name: None) -> list[Path]:
    """Make all vectors anew and write them into the folder: the same bytes on every machine."""
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
