"""A table of backends: `python -m llm_demo.bench.backends --out figures/data/bench_backends_cpu.csv`.

Every backend of `load_pair` but llama.cpp, which cannot read the embedded draft, in a process of its own, one after the other, several
times over: a target pass over 1, 2, ... new positions of one text with 128 tokens in the cache, the next one over as many and the first
one over another number (`changed_ms`: what it takes beyond that, median over the numbers), draft passes, whole steps of
`ot-draft decode`, plain and with one drafted token, seconds of loading, MB of the process, and MB of the packages that the backend takes
beside those of `llm`. Milliseconds by the clock, and by the processor's time (`cpu_`), which a busy machine does not stretch: of one
thread the two are the same on a quiet one. Lower quartiles, since many machines are slowed at times; of `changed_ms` the median.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import torch

from llm_demo.backends import BACKENDS, LLAMA_CPP
from llm_demo.machine import machine
from llm_demo.models.load import load_pair
from llm_demo.rows import write
from ot_draft.cli import progress_bar
from ot_draft.decoding import DecodeOptions, Drafting, Pair, SamplingParams, decode_steps
from ot_draft.decoding.language_model import language_model
from ot_draft.decoding.model import DecoderModel, hidden_before
from ot_draft.trees import BlockVerification

OUT = Path("figures/data/bench_backends_cpu.csv")
COMPARED = tuple(name for name in BACKENDS if name != LLAMA_CPP)  # those that read the embedded draft
POSITIONS = (1, 2, 3, 4, 5, 6, 8, 16, 32)
ROWS = (1, 2, 4, 8)  # of a draft pass
CONTEXT = 128
PACKAGES = {"openvino": ("openvino", "openvino-telemetry", "numba", "llvmlite")}  # by what a backend's name begins with
STEPS_OF_A_TEXT = 10
STEPS = {"plain_step_ms": Drafting.autoregressive(), "drafted_step_ms": Drafting.chains(1, 1, BlockVerification())}
Times = dict[str, list[float]]  # ms by column
Kind = tuple[str, int]  # a name and a number of threads


@torch.inference_mode()
def pass_times(pair: Pair, visits: int) -> Times:
    """Milliseconds of passes of the target by number of positions, and of the draft over one token, the sizes in turn."""
    draft = language_model(pair.draft, pair.n)
    target = language_model(pair.target, pair.n, draft.info.reads)
    slots = CONTEXT + max(POSITIONS)
    cache, own = target.cache(slots), draft.cache(slots)
    tokens, places = 1 + torch.arange(slots)[None] % 99, torch.arange(slots)[None]
    attention_mask = torch.ones(slots, slots, dtype=torch.bool).tril()[None]
    known = slice(0, CONTEXT)

    def read(model: DecoderModel, its: Any, at: slice, hidden: Any = None, last: int = 0) -> None:
        output = model.forward(its, tokens[:, at], places[:, at], places[:, at], attention_mask[:, at], last, hidden)
        if output.hidden is not None:
            its.keep_states(output.hidden, places[:, at])

    def drafted(rows: int) -> None:
        at = slice(CONTEXT, CONTEXT + rows)
        above = places[:, CONTEXT - 1 : CONTEXT].expand(1, rows)
        read(draft, own, at, own.states_at(above) if draft.info.reads else None)

    read(target, cache, known, last=1)
    read(draft, own, known, hidden_before(draft, cache, places[:, known]), last=1)
    sizes: dict[str, Callable[[], None]] = {
        f"ms_{number}": partial(read, target, cache, slice(CONTEXT, CONTEXT + number)) for number in POSITIONS
    }
    sizes |= {f"draft_ms_{number}": partial(drafted, number) for number in ROWS}
    found: Times = {}
    for visit in range(visits + 1):
        for column, one_pass in sizes.items():
            changed, again = timed(one_pass), timed(one_pass)
            if visit:  # the first takes memory, and compiles
                note(found, column, again)
            if visit and column.startswith("ms_") and int(column[3:]) not in target.call_sizes.fitted:
                note(found, "changed_ms", (changed[0] - again[0], changed[1] - again[1]))
    return found


def step_times(pair: Pair, visits: int) -> Times:
    """Milliseconds of whole steps, each kind in a text of its own, in turns; the first of a text is left out."""
    found: Times = {}
    options = DecodeOptions(SamplingParams(), max_tokens=2 * (STEPS_OF_A_TEXT + 1), stop=())
    for visit in range(-(-visits // 4) + 1):
        for column, drafting in STEPS.items():
            steps = decode_steps(pair, [[1] * CONTEXT], drafting, options)
            next(steps)
            for _ in range(STEPS_OF_A_TEXT):
                took = timed(partial(next, steps))
                if visit:
                    note(found, column, took)
    return found


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    began = perf_counter(), process_time()
    work()
    return perf_counter() - began[0], process_time() - began[1]


def note(found: Times, column: str, took: tuple[float, float]) -> None:
    """Add these seconds, as milliseconds."""
    for name, seconds in zip((column, f"cpu_{column}"), took, strict=True):
        found.setdefault(name, []).append(1000 * seconds)


def measured(backend: str, threads: int, visits: int) -> tuple[Times, str]:
    """What one process finds, and the law that its target has."""
    torch.set_num_threads(threads)
    began = perf_counter(), process_time()
    pair = load_pair(None, "states", assistant=None, backend=backend)
    found = {"load_s": [perf_counter() - began[0]], "cpu_load_s": [process_time() - began[1]]}
    found |= pass_times(pair, visits) | step_times(pair, visits)
    return found | {"memory_mb": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]}, pair.law


def in_turns(measure: Callable[..., Any], kinds: Sequence[Kind], turns: int, visits: int) -> Iterator[tuple[Kind, Any]]:
    """What measure(*kind, visits) finds in a process of its own, all kinds in every turn."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for kind in [*kinds] * turns:
            yield kind, pool.submit(measure, *kind, visits).result()


def quartiles(times: Times) -> dict[str, str]:
    """The lower ones, by column; of what a change takes the median."""
    return {
        column: f"{np.quantile(several, 0.5 if 'changed' in column else 0.25):.4g}" for column, several in times.items()
    }


def packages_of(backend: str) -> tuple[str, ...]:
    """Those that it takes."""
    return next((packages for name, packages in PACKAGES.items() if backend.startswith(name)), ())


def size_of(names: Sequence[str]) -> float:
    """MB of packages."""
    files = [Path(str(file.locate())) for name in names for file in metadata.files(name) or ()]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--backend", "names", multiple=True, type=click.Choice(COMPARED), help="Some [default: all].")
@click.option("--threads", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Processes of each.")
@click.option("--visits", default=12, show_default=True, type=click.IntRange(1), help="Rounds over all sizes in one.")
def main(out: Path, names: tuple[str, ...], threads: tuple[int, ...], turns: int, visits: int) -> None:
    """Measure, write OUT and print the table."""
    kinds = [(name, count) for count in threads for name in names or COMPARED]
    where = machine()
    times, laws = {kind: Times() for kind in kinds}, dict[Kind, str]()
    with progress_bar(turns * len(kinds), "processes") as advance:
        for kind, (found, law) in in_turns(measured, kinds, turns, visits):
            laws[kind] = law
            for column, several in found.items():
                times[kind].setdefault(column, []).extend(several)
            advance()
    rows = []
    for (name, count), columns in times.items():
        row: dict[str, Any] = {"backend": name, "threads": count, "law": laws[name, count]}
        row |= quartiles(columns) | {"packages_mb": f"{size_of(packages_of(name)):.0f}"}
        rows.append(row | where)
        click.echo(", ".join(f"{column} {value}" for column, value in row.items()))
    write(rows, out)


if __name__ == "__main__":
    main()
