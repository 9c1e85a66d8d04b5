"""Table of backends: `python -m llm_demo.bench.backends --out figures/data/bench_backends_cpu.csv`.

Backends: all of `load_pair` but llama.cpp, which cannot read the embedded draft. Each runs in a separate process, one at a time, and the
processes are repeated. Measured are:

* a target forward pass over 1, 2, ... new positions of one sequence with 128 tokens in the cache, after a pass over as many positions;
* `changed_ms`: extra time of such a pass after one over another number of positions, median over the numbers;
* forward passes of the draft, and whole steps of `ot-draft decode`, autoregressive and with one draft token;
* seconds of loading, MB of the process, and MB of the packages that the backend requires in addition to those of the extra `llm`.

Times are wall-clock milliseconds, and CPU milliseconds (`cpu_`), which other load does not lengthen; with one thread on an idle machine the
two are equal. Values are lower quartiles, because other load slows some repetitions, but the median for `changed_ms`.
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
COMPARED = tuple(name for name in BACKENDS if name != LLAMA_CPP)  # backends that read the embedded draft
POSITIONS = (1, 2, 3, 4, 5, 6, 8, 16, 32)
ROWS = (1, 2, 4, 8)  # numbers of tokens of a draft forward pass
CONTEXT = 128
PACKAGES = {"openvino": ("openvino", "openvino-telemetry", "numba", "llvmlite")}  # by prefix of the backend's name
STEPS_OF_A_TEXT = 10
STEPS = {"plain_step_ms": Drafting.autoregressive(), "drafted_step_ms": Drafting.chains(1, 1, BlockVerification())}
Times = dict[str, list[float]]  # ms by column
Kind = tuple[str, int]  # a name and a number of threads


@torch.inference_mode()
def pass_times(pair: Pair, visits: int) -> Times:
    """Return milliseconds of forward passes: of the target by number of positions, and of the draft by number of tokens, interleaved."""
    draft = language_model(pair.draft, pair.n)
    target = language_model(pair.target, pair.n, draft.info.reads)
    slots = CONTEXT + max(POSITIONS)
    cache, own = target.cache(slots), draft.cache(slots)
    tokens, positions = 1 + torch.arange(slots)[None] % 99, torch.arange(slots)[None]
    attention_mask = torch.ones(slots, slots, dtype=torch.bool).tril()[None]
    known = slice(0, CONTEXT)

    def read(model: DecoderModel, its: Any, at: slice, hidden: Any = None, last: int = 0) -> None:
        output = model.forward(
            its, tokens[:, at], positions[:, at], positions[:, at], attention_mask[:, at], last, hidden
        )
        if output.hidden is not None:
            its.keep_states(output.hidden, positions[:, at])

    def drafted(rows: int) -> None:
        at = slice(CONTEXT, CONTEXT + rows)
        above = positions[:, CONTEXT - 1 : CONTEXT].expand(1, rows)
        read(draft, own, at, own.states_at(above) if draft.info.reads else None)

    read(target, cache, known, last=1)
    read(draft, own, known, hidden_before(draft, cache, positions[:, known]), last=1)
    sizes: dict[str, Callable[[], None]] = {
        f"ms_{number}": partial(read, target, cache, slice(CONTEXT, CONTEXT + number)) for number in POSITIONS
    }
    sizes |= {f"draft_ms_{number}": partial(drafted, number) for number in ROWS}
    found: Times = {}
    for visit in range(visits + 1):
        for column, one_pass in sizes.items():
            changed, again = timed(one_pass), timed(one_pass)
            if visit:  # the first visit allocates memory and compiles
                note(found, column, again)
            if visit and column.startswith("ms_") and int(column[3:]) not in target.call_sizes.fitted:
                note(found, "changed_ms", (changed[0] - again[0], changed[1] - again[1]))
    return found


def step_times(pair: Pair, visits: int) -> Times:
    """Return milliseconds of whole steps, each kind in a separate sequence, interleaved; the first step of a sequence is excluded."""
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
    """Return wall-clock and CPU seconds."""
    began = perf_counter(), process_time()
    work()
    return perf_counter() - began[0], process_time() - began[1]


def note(found: Times, column: str, took: tuple[float, float]) -> None:
    """Append these seconds, as milliseconds."""
    for name, seconds in zip((column, f"cpu_{column}"), took, strict=True):
        found.setdefault(name, []).append(1000 * seconds)


def measured(backend: str, threads: int, visits: int) -> tuple[Times, str]:
    """Return the measurements of one process, and the description of the target's arithmetic (`Pair.law`)."""
    torch.set_num_threads(threads)
    began = perf_counter(), process_time()
    pair = load_pair(None, "states", assistant=None, backend=backend)
    found = {"load_s": [perf_counter() - began[0]], "cpu_load_s": [process_time() - began[1]]}
    found |= pass_times(pair, visits) | step_times(pair, visits)
    return found | {"memory_mb": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]}, pair.law


def in_turns(measure: Callable[..., Any], kinds: Sequence[Kind], turns: int, visits: int) -> Iterator[tuple[Kind, Any]]:
    """Yield the results of measure(*kind, visits) in a separate process each, all kinds in every turn."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for kind in [*kinds] * turns:
            yield kind, pool.submit(measure, *kind, visits).result()


def quartiles(times: Times) -> dict[str, str]:
    """Return the lower quartiles by column, but the median of `changed_ms`."""
    return {
        column: f"{np.quantile(several, 0.5 if 'changed' in column else 0.25):.4g}" for column, several in times.items()
    }


def packages_of(backend: str) -> tuple[str, ...]:
    """Return the packages that a backend requires."""
    return next((packages for name, packages in PACKAGES.items() if backend.startswith(name)), ())


def size_of(names: Sequence[str]) -> float:
    """Return the size of packages in MB."""
    files = [Path(str(file.locate())) for name in names for file in metadata.files(name) or ()]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--backend", "names", multiple=True, type=click.Choice(COMPARED), help="Backends [default: all].")
@click.option("--threads", multiple=True, default=(1, 2), show_default=True, type=click.IntRange(1))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Number of processes per backend.")
@click.option(
    "--visits", default=12, show_default=True, type=click.IntRange(1), help="Rounds over all sizes per process."
)
def main(out: Path, names: tuple[str, ...], threads: tuple[int, ...], turns: int, visits: int) -> None:
    """Measure all backends, write OUT and print the table."""
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
