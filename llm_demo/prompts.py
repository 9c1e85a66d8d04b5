"""The prompts of the measurements: 40 of each of five kinds, written for this project, in `prompts.jsonl`.

One JSON object a line: kind, source, licence, messages (of a chat, or none) and text (the beginning to be continued, or
empty). The kinds take turns, so that the first prompts of the file are a sample of all.
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
    """The first `count` prompts, all without it; messages go through the tokenizer's chat template. CannotDecode: there are fewer."""
    entries = read_entries(file)[:count]
    if count is not None and len(entries) < count:
        raise CannotDecode(f"{count} prompts: {file.name} has {len(entries)}; ask for no more")
    return [Prompt(e["kind"], [x for part in entry_tokens(e, tokenizer) for x in part]) for e in entries]
