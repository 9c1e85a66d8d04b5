"""Decoding of ot_draft with backend llama.cpp, and llama.cpp's generation, in one process: `python -m llm_demo.bench.llama_cpp.backend`.

The backend uses the token-only draft as a GGUF file. The other side is `generate` of llama-cpp-python's `Llama`, with the same file and
number of threads. Both are interleaved prompt by prompt; prefill is excluded. Ratios are to autoregressive decoding of ot_draft.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import torch

from llm_demo.bench import auto
from llm_demo.bench.llama_cpp.draft_file import TYPES, write_draft
from llm_demo.bench.llama_cpp.method import LLAMA
from llm_demo.machine import machine
from llm_demo.models.load import DRAFT_FILE, TARGET_FILE, target_directory
from llm_demo.prompts import read_prompts
from ot_draft import MissingPackage
from ot_draft.cli import progress_bar
from ot_draft.decoding import CannotDecode, DecodeOptions, SamplingParams, load_pair
from ot_draft.decoding.benchmark.peers import OneByOne
from ot_draft.decoding.methods import auto_method, method_called, shape_of

CONTEXT = 2048  # tokens
ONE_PATH = (("speculativesampling", 1), ("block", 2))


@dataclass(frozen=True)
class Own(OneByOne):
    """Autoregressive decoding with a `Llama` of llama-cpp-python."""

    model: Any = field(default=None, compare=False)

    def continued(self, prompt: Sequence[int], options: DecodeOptions, seed: int) -> tuple[int, int, float]:
        """Generate a completion, and measure the time from the first token on, which excludes prefill. Stop tokens are ignored."""
        sampling = options.sampling
        self.model.reset()
        self.model.set_seed(seed)
        made = self.model.generate(
            list(prompt),
            temp=sampling.temperature,
            top_k=sampling.top_k or 0,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            repeat_penalty=1.0,
        )
        next(made)
        began = perf_counter()
        count = 1 + sum(1 for _ in islice(made, options.max_tokens - 1))
        return count, count, perf_counter() - began


@click.command()
@click.option(
    "--texts", default=4, show_default=True, type=click.IntRange(1), help="Number of prompts; four kinds alternate."
)
@click.option(
    "--tokens", default=48, show_default=True, type=click.IntRange(2), help="Maximum number of new tokens per prompt."
)
@click.option("--temperature", default=1.0, show_default=True, type=click.FloatRange(0))
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1))
@click.option(
    "--draft-type",
    default=TYPES[0],
    show_default=True,
    type=click.Choice(TYPES),
    help="Type of the GGUF draft's matrices.",
)
def main(texts: int, tokens: int, temperature: float, threads: int, draft_type: str) -> None:
    """Measure all methods and print a line for every kind and method."""
    torch.set_num_threads(threads)
    try:
        target = target_directory() / TARGET_FILE
        with tempfile.TemporaryDirectory() as folder:
            draft = Path(folder) / "draft.gguf"
            write_draft(target, DRAFT_FILE, draft, draft_type)
            pair = load_pair(str(target), str(draft), backend="llama.cpp")
        import llama_cpp

        settings = {"n_threads": threads, "n_threads_batch": threads, "n_ctx": CONTEXT, "flash_attn": True}
        own = llama_cpp.Llama(str(target), verbose=False, **settings)
        prompts = read_prompts(pair.tokenizer, texts, auto.KINDS)
        methods = [method_called(rule, None, shape_of(1, length, None)) for rule, length in ONE_PATH]
        methods += [auto_method(), Own.like(auto.plain_method(), f"{LLAMA}, its own", model=own)]
        options = DecodeOptions(SamplingParams(temperature), max_tokens=tokens, seed=auto.SEED, stop=())
        with progress_bar(texts * (1 + len(methods)) + 2, "texts") as advance:
            rows = auto.bench(pair, prompts, 1, options, methods, lambda done: advance())
    except (CannotDecode, MissingPackage, ImportError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(", ".join(f"{name}: {value}" for name, value in machine().items()))
    click.echo(f"law: {pair.law}")
    click.echo(auto.show(rows))


if __name__ == "__main__":
    main()
