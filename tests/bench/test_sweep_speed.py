"""Rate of a sweep on two workers against two independent processes, each with a part of its own: run by `make bench` only.

OT_DRAFT_SWEEP_PAIRS: pairs of 1,000 tokens in all (default 40,000; a shard for every 50,000). The memory of the workers is printed with
their rate. A measurement, not a judgement: a slow or busy machine makes no test fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("joblib")
pytest.importorskip("pyarrow")

PAIRS, SHARD, N = int(os.environ.get("OT_DRAFT_SWEEP_PAIRS", "40000")), 50_000, 1000
RULES = "SpeculativeSampling,NaiveTarget,RecursiveRejection,KSeq,Optimal,Greedy"


def write_shard(file: Path, rows: int, seed: int) -> None:
    """Logits of related models: falling like 1/rank, with noise; float16, as captured ones are."""
    generator = np.random.default_rng(seed)
    target, draft = (np.empty((rows, N), dtype=np.float16) for _ in range(2))
    falling = -2.2 * np.log(np.arange(1, N + 1))
    for start in range(0, rows, 5000):
        size = (min(5000, rows - start), N)
        logits = falling + 3 * generator.standard_normal(size, dtype=np.float32)
        target[start : start + 5000] = logits
        draft[start : start + 5000] = 0.8 * logits + generator.standard_normal(size, dtype=np.float32)
    np.savez(file, target_logits=target, draft_logits=draft)


def sweep(out: Path, engine: str, *shards: Path) -> Any:
    """A process that sweeps the shards; one thread for each worker."""
    command = [sys.executable, "-m", "ot_draft", "sweep", *map(str, shards), "--out", str(out), "--rules", RULES]
    command += ["--k", "2,4,8", "--engine", engine, "--jobs", "2"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, **quiet)


def largest_worker(process: Any, over: Event, found: list[float]) -> None:
    """Memory of the largest process below this one, in MB, now and then until it is over."""
    while not over.wait(2):
        listed = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True).stdout
        table = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
        below = {process.pid}
        for _ in range(4):  # generations
            below |= {pid for pid, parent, _ in table if parent in below}
        found.append(max((memory / 1024 for pid, _, memory in table if pid in below), default=0.0))


def test_two_workers_against_two_processes(benchmark: Any, tmp_path: Path, capsys: Any) -> None:
    half = max(1, PAIRS // 2)
    shards = []
    for number, start in enumerate(range(0, PAIRS, min(SHARD, half))):
        shards.append(tmp_path / f"shard-{number:02}.npz")
        write_shard(shards[-1], min(SHARD, half, PAIRS - start), number)
    alone = shards[: max(2, min(4, len(shards)))]
    parts = alone[: len(alone) // 2], alone[len(alone) // 2 :]
    rows = {shard: len(np.load(shard, mmap_mode="r")["target_logits"]) for shard in shards}

    start = perf_counter()
    for process in [sweep(tmp_path / f"alone-{i}", "sequential", *part) for i, part in enumerate(parts)]:
        assert process.wait() == 0
    apart = sum(rows[shard] for shard in alone) / (perf_counter() - start)

    memory: list[float] = []

    def together() -> None:
        over, process = Event(), sweep(tmp_path / "together", "loky", *shards)
        watch = Thread(target=largest_worker, args=(process, over, memory))
        watch.start()
        assert process.wait() == 0
        over.set()
        watch.join()

    start = perf_counter()
    benchmark.pedantic(together, rounds=1)
    rate = PAIRS / (perf_counter() - start)
    benchmark.extra_info.update(rate=rate, ratio=rate / apart, target=0.8, largest_worker_mb=max(memory))
    quarters = [max(part) for part in np.array_split(memory, 4) if len(part)]
    with capsys.disabled():
        print(
            f"\nsweep, {PAIRS} pairs of {N} tokens, 6 rules, k = 2, 4, 8: {rate:.0f} pairs a second on two workers, {apart:.0f} by two"
            f" processes ({sum(rows[shard] for shard in alone)} pairs): ratio {rate / apart:.2f} (target .8);"
            f" largest process, MB, by quarters of the run: {' '.join(f'{mb:.0f}' for mb in quarters)}"
        )
