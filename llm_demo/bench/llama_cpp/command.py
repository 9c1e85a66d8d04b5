"""llama.cpp and ot_draft on the same GGUF file, in one run: `python -m llm_demo.bench.llama_cpp --out FILE`.

The prompts are those of `llm_demo.bench.auto`; all methods are interleaved prompt by prompt, with the same number of threads. Both engines
read the quantised weights of the file if ot_draft has OpenVINO. Otherwise ot_draft reads float32 weights, five times as many bytes; the
columns `weights` and `target_megabytes` state which. Prefill is excluded for both. llama.cpp uses the embedded draft as a GGUF file, whose
head is the whole embedding.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import torch

from llm_demo.bench import auto
from llm_demo.bench.llama_cpp.draft_file import TYPES, weights, write_draft
from llm_demo.bench.llama_cpp.method import LLAMA, RULES, LlamaCpp
from llm_demo.bench.llama_cpp.server import Settings, llama_server, version
from llm_demo.machine import machine
from llm_demo.models.load import DRAFT_FILE, TARGET_FILE, load_pair, target_directory
from llm_demo.prompts import Prompt, read_prompts
from llm_demo.rows import Row, write
from ot_draft.cli import progress_bar
from ot_draft.decoding import CannotDecode, DecodeOptions, Pair, SamplingParams
from ot_draft.decoding.methods import Method, auto_method, method_called, shape_of

OURS = "ot_draft"
PLAIN = {OURS: "autoregressive", LLAMA: RULES["none"]}
OF_FILE = "openvino", "openvino-float"  # backends that read a file's weights as they are
ONE_PATH = (("speculativesampling", 1), ("block", 2))
LENGTHS = (1, 2, 3)  # 3 is llama.cpp's default
SERVERS = (("none", 1), ("ngram", 1), *((drafts, length) for drafts in ("greedy", "drawn") for length in LENGTHS))
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
ROOM = 64  # positions of a server's context beyond the longest text


def contenders(servers: Sequence[Method]) -> list[Method]:
    """Return all methods but autoregressive decoding of ot_draft."""
    return [
        *(method_called(rule, None, shape_of(1, length, None)) for rule, length in ONE_PATH),
        auto_method(),
        *servers,
    ]


@contextmanager
def serving(python: str, target: Path, layers: Path, kind: str, threads: int, context: int) -> Iterator[list[Method]]:
    """Run llama.cpp's servers, one for each of SERVERS, with the embedded draft as a GGUF file, until the block ends."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        draft = folder / "draft.gguf"
        write_draft(target, layers, draft, kind)
        methods: list[Method] = []
        for drafts, length in SERVERS:
            settings = Settings(str(target), drafts, str(draft), length, threads, context)
            log = folder / f"{drafts}-{length}.txt"
            methods.append(LlamaCpp.by(drafts, length, stack.enter_context(llama_server(python, settings, log))))
        yield methods


def bench(
    pair: Pair, prompts: Sequence[Prompt], options: DecodeOptions, servers: Sequence[Method], progress: Any
) -> list[Row]:
    """Return rows for every kind of prompt and for all.

    ratio: to autoregressive decoding of ot_draft. of_its_plain: ratio to autoregressive decoding of the same engine.
    """
    rows = auto.bench(pair, prompts, 1, options, contenders(servers), progress)
    rates = {(row["kind"], row["method"]): float(row["tokens_a_second"]) for row in rows}
    for row in rows:
        engine = LLAMA if row["method"].startswith(LLAMA) else OURS
        own = rates[row["kind"], PLAIN[engine]]
        row |= {"engine": engine, "of_its_plain": f"{float(row['tokens_a_second']) / own:.4g}"}
    return rows


@click.command()
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file of the table.")
@click.option("--target", type=FILE, help="GGUF file of a Llama [default: the embedded model].")
@click.option(
    "--draft", type=FILE, help="Safetensors file of draft layers for the target [default: the embedded draft]."
)
@click.option(
    "--texts", default=8, show_default=True, type=click.IntRange(1), help="Number of prompts; four kinds alternate."
)
@click.option(
    "--tokens", default=48, show_default=True, type=click.IntRange(2), help="Maximum number of new tokens per prompt."
)
@click.option("--temperature", multiple=True, type=float, default=(1.0, 0.6), show_default=True)
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(1), help="Number of threads of each engine."
)
@click.option(
    "--draft-type",
    default=TYPES[0],
    show_default=True,
    type=click.Choice(TYPES),
    help="Type of the GGUF draft's matrices.",
)
@click.option("--llama-python", default=sys.executable, help="Python executable with xllamacpp [default: this one].")
def main(out: Path, target: Path | None, draft: Path | None, llama_python: str, **options: Any) -> None:
    """Measure all methods, write OUT and print a line for every kind and method."""
    torch.set_num_threads(options["threads"])
    try:
        engine = f"xllamacpp {version(llama_python)}"
        target, layers = target or target_directory() / TARGET_FILE, draft or DRAFT_FILE
        pair = load_pair(str(target), str(layers))
        prompts = read_prompts(pair.tokenizer, options["texts"], auto.KINDS)
        where = machine() | {"tokens": options["tokens"], "draft_type": options["draft_type"]}
        where["versions"] += f", {engine}"
        read = read_weights(target, pair.backend in OF_FILE)
        context = max(len(prompt.tokens) for prompt in prompts) + options["tokens"] + ROOM
        rows: list[Row] = []
        with serving(llama_python, target, layers, options["draft_type"], options["threads"], context) as servers:
            for temperature in options["temperature"]:
                decoding = DecodeOptions(SamplingParams(temperature), max_tokens=options["tokens"], seed=auto.SEED)
                total = len(prompts) * (1 + len(contenders(servers))) + 2
                with progress_bar(total, f"temperature {temperature}") as step:
                    rows += bench(pair, prompts, decoding, servers, lambda done, step=step: step())
                write([row | read[row["engine"]] | where for row in rows], out)
    except (CannotDecode, OSError, ImportError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(auto.show(rows))


def read_weights(target: Path, of_file: bool) -> dict[str, Row]:
    """Return types and megabytes of the target weights that each engine reads per call. of_file: ot_draft reads the quantised weights."""
    count, size, types = weights(target)
    theirs = {"weights": types, "target_megabytes": f"{size / 1e6:.1f}"}
    floats = {"weights": f"F32, from {types}", "target_megabytes": f"{4 * count / 1e6:.1f}"}
    return {OURS: theirs if of_file else floats, LLAMA: theirs}
