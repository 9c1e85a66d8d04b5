"""Prompts and contexts of the table: every third prompt has a repetitive completion; each prompt has one context."""

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
TOGETHER = 5  # size of the fixed batches of completions, so that a completion does not depend on where a run began
FIRST, LAST = 8, 40  # range of the number of completion tokens before a tree is drafted
HELD_OUT = (16, 8)  # number of last prompts of each file, on which layers are chosen and methods are fitted


@dataclass(frozen=True)
class Context:
    """A prompt with the first tokens of the target's completion at a temperature."""

    text: int
    kind: str
    temperature: float
    tokens: tuple[int, ...]


def all_prompts(tokenizer: Any) -> tuple[list[Prompt], list[Prompt]]:
    """Return the prompts of the table in their order, and the held-out prompts."""
    plain, kinds = read_prompts(tokenizer), read_prompts(tokenizer, file=KINDS)
    held_out = plain[-HELD_OUT[0] :] + kinds[-HELD_OUT[1] :]
    plain, kinds = plain[: -HELD_OUT[0]], kinds[: -HELD_OUT[1]]
    mixed = [prompt for i, other in enumerate(kinds) for prompt in (*plain[2 * i : 2 * i + 2], other)]
    return mixed + plain[2 * len(kinds) :], held_out


def written(pair: Pair, prompts: Sequence[Prompt], temperature: float, first: int = 0) -> list[list[int]]:
    """Return the target's completions of prompts, the first of which is number `first`."""
    rows = range(first, first + len(prompts))
    options = DecodeOptions(SamplingParams(temperature), max_tokens=LAST, seed=SEED, rows=rows)
    return decode(pair, [prompt.tokens for prompt in prompts], options=options).tokens


def contexts(pair: Pair, prompts: Sequence[Prompt], group: int, temperature: float) -> list[Context]:
    """Return the contexts of a group of `TOGETHER` prompts: a prompt and a random number of tokens of its completion, if it has them."""
    first = group * TOGETHER
    of_group = prompts[first : first + TOGETHER]
    found = []
    for number, (prompt, answer) in enumerate(
        zip(of_group, written(pair, of_group, temperature, first), strict=True), first
    ):
        length = int(np.random.default_rng([SEED, number]).integers(FIRST, LAST))
        kept = answer[: min(length, max(len(answer) - 1, 0))]  # no token follows the last one
        found.append(Context(number, prompt.kind, temperature, (*prompt.tokens, *kept)))
    return found
