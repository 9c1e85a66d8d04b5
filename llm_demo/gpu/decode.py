"""The bench and the distillation as parts of the run on a GPU: how much of them fits into the time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import ot_draft as otd
from llm_demo.bench.auto import plain_method
from llm_demo.bench.contenders import bench
from llm_demo.distil import command as distillation
from llm_demo.distil import train as distil_train
from llm_demo.gpu.checks import tiny_pair
from llm_demo.models.load import STATE_DRAFT_FILE, load_pair
from llm_demo.prompts import Prompt, read_prompts
from ot_draft.decoding import DecodeOptions, Pair, SamplingParams
from ot_draft.decoding.methods import Method, dynamic_method, method_called, shape_of

SETTINGS = [(1, 1.0), (1, 0.6), (8, 1.0)]  # batch, temperature: the most wanted first
TOKENS, SEED = 96, 9
PEERS = ((1, 4),)  # lengths of transformers' assisted generation
MOST = 200  # prompts
TREES = ("lookup", "adaptive")


class Letters:
    """A tokenizer of 16 tokens, for the dry run: the first letters of a text."""

    chat_template = None

    def __call__(self, text: str, **_: Any) -> Any:
        return SimpleNamespace(input_ids=[ord(letter) % 16 for letter in text[:8]])


def methods() -> list[Method]:
    """Plain decoding, one path of every length, eight paths, and trees."""
    one = [method_called("block", None, shape_of(1, length, None)) for length in (1, 2, 4)]
    many = [method_called(rule, None, shape_of(8, 4, None)) for rule in ("kseq", "optimal", "joint")]
    few = method_called("joint", None, shape_of(4, 2, None))
    return [plain_method(), *one, few, *many, *(dynamic_method(otd.trees.drafting.ALL[name](32)) for name in TREES)]


def bench_rows(device: torch.device, seconds: float, dry: bool) -> Iterator[dict[str, Any]]:
    """The bench at every setting, with as many prompts as its share of the time allows: two groups first, to see what one takes."""
    end = time.monotonic() + seconds
    if dry:
        prompts: Sequence[Prompt] = [Prompt("random", [1 + i, 2, 3]) for i in range(4)]
        options = DecodeOptions(SamplingParams(1.0), max_tokens=4, stop=())
        yield from bench(tiny_pair(), prompts, 2, options, grid=((1, 2), (2, 2)))
        return
    pair = load_pair(None, "states", "bfloat16", str(device))
    prompts = read_prompts(pair.tokenizer, MOST)
    for place, (batch, temperature) in enumerate(SETTINGS):
        options = DecodeOptions(SamplingParams(temperature), max_tokens=TOKENS, seed=SEED)
        allowed = (end - time.monotonic()) / (len(SETTINGS) - place)
        begin = time.monotonic()
        rows = bench(pair, prompts[: 2 * batch], batch, options, PEERS, methods())
        spent = time.monotonic() - begin
        groups = min(int(2 * (allowed - spent) / spent), MOST // batch)
        if groups > 2:
            rows = bench(pair, prompts[: groups * batch], batch, options, PEERS, methods())
        yield from rows


def distil(out: Path, device: torch.device, seconds: float, dry: bool) -> None:
    """Train the committed draft further and write it with the fields of its card; a tiny one in a dry run."""
    if dry:
        tiny = tiny_pair(dtype=torch.float32)
        tiny.target.lm_head.weight = tiny.target.get_input_embeddings().weight  # as in the embedded model
        pair = Pair(tiny.target, tiny.draft, Letters())
        draft, about = distillation.distil(
            pair, distil_train.Recipe(1, None, (1,), 2, 8), 8, 0.01, 2, say=lambda line: None
        )
        distillation.save(draft, about, out, "draft-dry-run")
        return
    sizes = ["--rows", "64", "--write", "1024", "--length", "224", "--states", "--start", str(STATE_DRAFT_FILE)]
    sizes += ["--prompts", "10"]
    minutes = max(seconds - 30, 20) / 60  # the rest is for loading and for the measurement on held-out prompts
    arguments = ["--out", str(out), "--device", str(device), "--dtype", "bfloat16", "--minutes", f"{minutes:.2f}"]
    distillation.main.main([*arguments, *sizes], standalone_mode=False)
