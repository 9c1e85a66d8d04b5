"""One text, read by both models: the logits of the token after each context, as arrays of a shard that `ot-draft sweep` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...data.merge import on_top_tokens
from ...decoding import CannotDecode, DecodeOptions, Pair, SamplingParams, decode
from ...decoding.loop import AUTOREGRESSIVE
from ...decoding.pair import entry_tokens

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Reading:
    """The part of a text that is read, and the way it is stored.

    sample: tokens that the target writes behind each text, which is then its prompt and not looked at (0: the text is looked at).
    context: tokens of a window, into which longer texts are cut. positions: contexts of a window, evenly spaced (0: all).
    skip: tokens that stand before the first context. store: "logits" in `number`, or "laws" at the temperature; top: tokens whose
    laws are kept, all others going into classes of nearly equal p/q (0: all are kept). temperature: also of what is sampled.
    """

    sample: int = 0
    context: int = 512
    positions: int = 32
    skip: int = 8
    store: str = "logits"
    number: str = "float32"
    top: int = 0
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Window:
    """Tokens in a row, those from `first` on being looked at; of which text, and where in it they begin."""

    tokens: list[int]
    first: int
    text: int
    begin: int = 0


def read_texts(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Texts with what stands before them: a .jsonl holds one a line (text, or messages and text), another file is one text."""
    entries: list[dict[str, Any]] = []
    for file in files:
        content = _text_of(file)
        if file.suffix != ".jsonl":
            entries.append({"text": content, "messages": None})
            continue
        for number, line in enumerate(content.split("\n"), 1):  # others that end a line may stand within a text
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise CannotDecode(
                    f"{file}, line {number} must be a JSON object ({error}). Write one per line."
                ) from error
            if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
                wanted = "a JSON object with a string `text`, and optional `messages`"
                raise CannotDecode(f"{file}, line {number} must be {wanted}. Correct the line.")
            entries.append({"messages": None} | entry)
    return entries


def _text_of(file: Path) -> str:
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = f"{file}, line {content[: error.start].count(10) + 1}"
        raise CannotDecode(
            f"{line} must be UTF-8, got byte {content[error.start]:#04x}. Save the text as UTF-8."
        ) from error


def windows(entries: list[dict[str, Any]], pair: Pair, reading: Reading) -> list[Window]:
    """The pieces to read, in order; nothing of it depends on what was captured before."""
    planned = []
    for text, entry in enumerate(entries):
        prompt, completion = entry_tokens(entry, pair.tokenizer)
        if reading.sample:
            planned.append(Window(prompt or completion, len(prompt), text))
            continue
        tokens = [*prompt, *completion]
        for begin in range(0, len(tokens), reading.context):
            cut = tokens[begin : begin + reading.context]
            first = max(len(prompt) - begin, reading.skip, 1)
            if first < len(cut):
                planned.append(Window(cut, first, text, begin))
    return planned


@torch.inference_mode()
def capture_window(pair: Pair, window: Window, reading: Reading) -> Arrays:
    """Arrays of one shard, a row a context; `token` is what followed, `position` how many tokens of the text stand before it."""
    tokens, first = window.tokens, window.first
    if reading.sample:
        sampling = SamplingParams(temperature=reading.temperature)
        options = DecodeOptions(sampling, max_tokens=reading.sample, seed=reading.seed, rows=[window.text])
        first = len(tokens)
        tokens = tokens + decode(pair, [tokens], AUTOREGRESSIVE, options).tokens[0]
    places = list(range(first, len(tokens)))
    if 0 < reading.positions < len(places) and not reading.sample:
        places = [places[number * len(places) // reading.positions] for number in range(reading.positions)]
    target, draft = (logits.double().cpu() for logits in pair.logits_along(tokens, places))
    stored = _stored(target, draft, reading)
    index, text = np.array(places), np.full(len(places), window.text)
    about = {"token": np.array(tokens)[index], "position": index + window.begin, "text": text}
    return stored | {name: values.astype(np.int32) for name, values in about.items()}


def _stored(target: torch.Tensor, draft: torch.Tensor, reading: Reading) -> Arrays:
    if reading.store == "logits":
        # The largest logit becomes 0: float16 is then finest where the masses are.
        logits = {"target_logits": target, "draft_logits": draft}
        return {name: (x - x.amax(-1, keepdim=True)).numpy().astype(reading.number) for name, x in logits.items()}
    laws = (SamplingParams(temperature=reading.temperature).masses(x).numpy() for x in (target, draft))
    if not reading.top:
        return dict(zip(("p", "q"), laws, strict=True))
    merged = [on_top_tokens(p, q, reading.top) for p, q in zip(*laws, strict=True)]
    p, q, slots = (np.stack(rows) for rows in zip(*merged, strict=True))
    return {"p": p, "q": q, "slots": slots}  # slots: the token of each column, TAIL for a class
