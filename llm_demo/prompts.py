"""Prompts of the measurements: 40 of each of five kinds, written for this project, in `prompts.jsonl`.

Each line is a JSON object with kind, source, licence, messages (of a chat, or none) and text (the beginning to be continued, or empty).
The kinds alternate, so that the first prompts of the file are a sample of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_demo.data.continue_prompts import read_entries
from ot_draft.decoding import CannotDecode
from ot_draft.decoding.pair import entry_tokens

FILE = Path(__file__).with_name("prompts.jsonl")


@dataclass(frozen=True)
class Prompt:
    """One prompt as token ids, and its kind."""

    kind: str
    tokens: list[int]


def read_prompts(tokenizer: Any, count: int | None = None, file: Path = FILE) -> list[Prompt]:
    """Return the first `count` prompts of a file, by default all; messages are formatted with the tokenizer's chat template.

    Raises CannotDecode if the file has fewer prompts.
    """
    entries = read_entries(file)[:count]
    if count is not None and len(entries) < count:
        raise CannotDecode(
            f"number of prompts must be at most {len(entries)} with {file.name}, got {count}. Use fewer prompts."
        )
    return [Prompt(e["kind"], [x for part in entry_tokens(e, tokenizer) for x in part]) for e in entries]
