"""The texts of the table: prompts of all kinds in turn, every third one of the kinds of texts that repeat, and a place in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from llm_demo.prompts import Prompt, read_prompts
from ot_draft.decoding import DecodeOptions, Pair, SamplingParams, decode

KINDS = Path(__file__).parents[1] / "kinds.jsonl"
SEED = 16
TOGETHER = 5  # texts written in one batch: always the same ones, so that a text does not depend on where a run began
FIRST, LAST = 8, 40  # tokens that the target writes before a tree is drafted
HELD_OUT = (16, 8)  # the last prompts of each file: layers are chosen and ways are fitted on these


@dataclass(frozen=True)
class Context:
    """One place of one text, written by the target at a temperature."""

    text: int
    kind: str
    temperature: float
    tokens: tuple[int, ...]


def all_prompts(tokenizer: Any) -> tuple[list[Prompt], list[Prompt]]:
    """The prompts of the table in their order, and those held out."""
    plain, kinds = read_prompts(tokenizer), read_prompts(tokenizer, file=KINDS)
    held_out = plain[-HELD_OUT[0] :] + kinds[-HELD_OUT[1] :]
    plain, kinds = plain[: -HELD_OUT[0]], kinds[: -HELD_OUT[1]]
    mixed = [prompt for i, other in enumerate(kinds) for prompt in (*plain[2 * i : 2 * i + 2], other)]
    return mixed + plain[2 * len(kinds) :], held_out


def written(pair: Pair, prompts: Sequence[Prompt], temperature: float, first: int = 0) -> list[list[int]]:
    """What the target writes behind prompts, the first of which is number `first`."""
    rows = range(first, first + len(prompts))
    options = DecodeOptions(SamplingParams(temperature), max_tokens=LAST, seed=SEED, rows=rows)
    return decode(pair, [prompt.tokens for prompt in prompts], options=options).tokens


def contexts(pair: Pair, prompts: Sequence[Prompt], group: int, temperature: float) -> list[Context]:
    """The contexts of a group of `TOGETHER` texts: a prompt, and as many tokens of the answer as a draw says, if it has them."""
    first = group * TOGETHER
    of_group = prompts[first : first + TOGETHER]
    found = []
    for number, (prompt, answer) in enumerate(
        zip(of_group, written(pair, of_group, temperature, first), strict=True), first
    ):
        place = int(np.random.default_rng([SEED, number]).integers(FIRST, LAST))
        kept = answer[: min(place, max(len(answer) - 1, 0))]  # what ends the text has nothing behind it
        found.append(Context(number, prompt.kind, temperature, (*prompt.tokens, *kept)))
    return found
