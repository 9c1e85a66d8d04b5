"""Time of a target call by new positions and by batch size: `python -m llm_demo.bench.latency --out figures/data/latency_cpu.csv`.

Axis `positions`: 1, 2, 4, ... new positions of one sequence, as for a draft tree. Axis `rows`: 1, 2, 4, ... sequences with one new position
each. The time is the target's part of a decoding step (forward pass and softmax; CUDA graphs on CUDA). Axis `draft`: the draft's part of a
step that drafts one token on 1, 4, ... paths. Each row also has the seconds of loading and the peak memory of the process in MB.
`llm_demo.bench.backends` compares backends.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

import click
import torch

import ot_draft as otd
from llm_demo.backends import BACKENDS, LLAMA_CPP
from llm_demo.machine import machine
from llm_demo.models.load import load_pair
from llm_demo.rows import write
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, decode_steps
from ot_draft.decoding.load import DTYPES

OUT = Path("figures/data/latency_cpu.csv")
POSITIONS = (1, 2, 4, 8, 16, 32, 64, 128)
ROWS = (1, 2, 4, 8, 16, 32, 64)
CONTEXT = 128
PATHS = (1, 4)
STEPS = 4  # steps per visit; the first one is excluded


def verify_times(pair: Pair, positions: int, rows: int, context: int, steps: int = STEPS) -> list[float]:
    """Return milliseconds of the target's part of a few steps: `rows` sequences of `context` tokens, with `positions` new ones each."""
    shape = otd.trees.TreeShape((0,) * (positions - 1))  # the root, and tokens below it
    drafting = Drafting(otd.trees.FixedTree(shape), otd.trees.NaivePath()) if shape.size else Drafting.autoregressive()
    prompts = [[1 + (row + position) % 99 for position in range(context)] for row in range(rows)]
    options = DecodeOptions(max_tokens=4 * steps, stop=())
    timed = list(islice(decode_steps(pair, prompts, drafting, options), steps))[1:]
    return [1000 * step.seconds.verify for step in timed]


def draft_times(pair: Pair, paths: int, context: int, steps: int = STEPS) -> list[float]:
    """Return milliseconds of the draft's part of a few steps that draft one token on each of `paths` paths."""
    prompt = [1 + position % 99 for position in range(context)]
    drafting, options = Drafting.chains(paths, 1, otd.trees.NaivePath()), DecodeOptions(max_tokens=4 * steps, stop=())
    return [
        1000 * step.seconds.draft for step in list(islice(decode_steps(pair, [prompt], drafting, options), steps))[1:]
    ]


def latency(
    pair: Pair,
    positions: Sequence[int] = POSITIONS,
    rows: Sequence[int] = ROWS,
    context: int = CONTEXT,
    visits: int = 5,
    progress: Callable[[str], None] = lambda done: None,
) -> list[dict[str, object]]:
    """Return a row for every number of positions and of rows, with median and quartiles in ms; sizes are interleaved, `visits` times."""
    sizes = [("positions", number, 1) for number in positions] + [("rows", 1, number) for number in rows]
    sizes += [("draft", number, 1) for number in PATHS if pair.draft is not None]
    times: dict[tuple[str, int, int], list[float]] = {size: [] for size in sizes}
    for visit in range(visits):
        for size in sizes:
            drafting = size[0] == "draft"
            times[size] += draft_times(pair, size[1], context) if drafting else verify_times(pair, *size[1:], context)
        progress(f"visit {visit + 1} of {visits}")
    table: list[dict[str, object]] = []
    for size, measured in times.items():
        ranked = sorted(measured)
        quartiles = {"low_ms": ranked[len(ranked) // 4], "high_ms": ranked[3 * len(ranked) // 4]}
        numbers = {"ms": median(ranked)} | quartiles
        axis, per_row, texts = size
        table.append(
            {"axis": axis, "positions": per_row, "rows": texts, "context": context}
            | {name: f"{value:.5g}" for name, value in numbers.items()}
        )
    return table


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded model].")
@click.option("--draft", help="Draft model: directory, GGUF file or hub name.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)))
@click.option("--backend", default="auto", show_default=True, type=click.Choice(("auto", *BACKENDS)))
@click.option(
    "--context", default=CONTEXT, show_default=True, type=click.IntRange(1), help="Number of tokens in the cache."
)
@click.option("--visits", default=5, show_default=True, type=click.IntRange(1), help="Rounds over all sizes.")
@click.option("--threads", type=click.IntRange(1), help="Number of torch threads on the CPU [default: of torch].")
def main(
    out: Path,
    target: str | None,
    draft: str | None,
    device: str,
    dtype: str,
    backend: str,
    context: int,
    visits: int,
    threads: int | None,
) -> None:
    """Measure all sizes and write OUT."""
    if threads:
        torch.set_num_threads(threads)
    try:
        began = perf_counter()
        own = (
            "lookup" if backend == LLAMA_CPP else "states"
        )  # the embedded draft reads hidden states, which llama.cpp does not provide
        pair = load_pair(target, draft or (None if target else own), dtype, device, backend=backend)
        where = machine(device) | {"dtype": dtype, "backend": pair.backend, "load_s": f"{perf_counter() - began:.3g}"}
        rows = latency(pair, context=context, visits=visits, progress=lambda said: click.echo(said, err=True))
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    memory = {"memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}
    write([row | where | memory for row in rows], out)
    for row in rows:
        what = "paths drafted" if row["axis"] == "draft" else "positions"
        click.echo(f"{row['positions']:>4} {what}, {row['rows']:>3} rows: {row['ms']} ms")
    click.echo(f"loaded in {where['load_s']} s, {memory['memory_mb']} MB")


if __name__ == "__main__":
    main()
