"""Time of the rules on a device compared with its memory bandwidth: bytes, share of the copy bandwidth, time in units of softmax."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import torch

import ot_draft as otd

SIZES = [(rows, n) for n in (151_936, 32_000) for rows in (64, 1, 8, 512)]  # sizes with targets come first
DRAFTS = 8
REPEATS, WARM_UP = 25, 3
FLUSH = 256 << 20  # bytes written before every run, several times the L2 cache of any GPU
COPY = 1 << 30  # bytes read by the copy that measures the bandwidth
TARGETS = {  # max. time in units of softmax, by number of rows of 151,936 tokens, with 8 drafts
    64: {"KSeq": 3, "RecursiveRejection": 3, "Optimal": 6, "Joint, one node": 8},
    1: {"KSeq": 6, "RecursiveRejection": 6, "Optimal": 10, "Joint, one node": 15},
}
SWITCH = "OT_DRAFT_TRITON"
Row = dict[str, Any]


class Timer:
    """Median times in microseconds. On CUDA: events around the replay of a graph, after flushing the caches; otherwise wall-clock time."""

    def __init__(self, device: torch.device, repeats: int = REPEATS) -> None:
        self.device, self.repeats = device, repeats
        self._memory = torch.empty(FLUSH // 4 if self.on_cuda else 1, device=device)

    @property
    def on_cuda(self) -> bool:
        return self.device.type == "cuda"

    def __call__(self, call: Callable[[], Any]) -> float:
        """Return the time of one call, which must not synchronise, because it is recorded in a CUDA graph."""
        replay = self._recorded(call) if self.on_cuda else call
        for _ in range(WARM_UP):
            replay()
        return median(self._once(replay) for _ in range(self.repeats))

    def _recorded(self, call: Callable[[], Any]) -> Callable[[], Any]:
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                call()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    def _once(self, replay: Callable[[], Any]) -> float:
        self._memory.fill_(1.0)
        if not self.on_cuda:
            start = time.perf_counter()
            replay()
            return 1e6 * (time.perf_counter() - start)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)


def copy_bandwidth(timer: Timer, size: int = COPY) -> float:
    """Return the bytes per second, read and written, of a large copy inside the device's memory."""
    source = torch.rand(size // 4, device=timer.device)
    target = torch.empty_like(source)
    return 2 * size / (1e-6 * timer(lambda: target.copy_(source)))


def laws(rows: int, n: int, device: torch.device) -> tuple[Any, Any, Any, Any]:
    """Return logits, p, q and drafts; the distance of p and q is similar to that of two language models."""
    generator = torch.Generator(device).manual_seed(rows + n)
    logits = 3 * torch.randn(rows, n, generator=generator, device=device)
    other = logits + torch.randn(rows, n, generator=generator, device=device)
    p, q = torch.softmax(logits, -1), torch.softmax(other, -1)
    return logits, p, q, otd.draw(otd.IID(), q, DRAFTS, generator)


def calls(p: Any, q: Any, drafts: Any) -> dict[str, Callable[[], Any]]:
    """Return the timed functions. Joint: one node with eight children, from both distributions to the token, including verification."""
    shape = otd.trees.TreeShape.chains(DRAFTS, 1)
    joint = otd.trees.Joint()
    tree = shape.tree(drafts, p[:, None].expand(-1, DRAFTS + 1, -1), q[:, None])
    numbers = torch.rand(len(p), joint.n_uniforms(shape), device=p.device)
    k_seq, recursive, optimal = otd.rules.KSeq(), otd.rules.RecursiveRejection(), otd.rules.Optimal(classes=256)
    return {
        "KSeq": lambda: k_seq(p, q, drafts),
        "RecursiveRejection": lambda: recursive(p, q, drafts),
        "Optimal": lambda: optimal(p, q, drafts),
        "Joint, one node": lambda: joint.select(tree, numbers),
        "draw": lambda: otd.IID().draw(q, numbers[:, :1]),
    }


def roofline(
    device: torch.device, seconds: float, sizes: list[tuple[int, int]] | None = None, repeats: int = REPEATS
) -> Iterator[Row]:
    """Yield a row for every rule, size and implementation (torch alone, with kernels), until the time limit in seconds.

    bytes: p and q read once and the residual written once (for a draw: q read), the minimum of any implementation. copy_share: these
    bytes per second divided by those of a copy.
    """
    begin = time.perf_counter()
    timer = Timer(device, repeats)
    bandwidth = copy_bandwidth(timer, COPY if timer.on_cuda else 1 << 20)
    for rows, n in SIZES if sizes is None else sizes:
        logits, p, q, drafts = laws(rows, n, device)
        softmax = timer(partial(torch.softmax, logits, -1))
        for name, call in calls(p, q, drafts).items():
            for way in ("torch", "triton"):
                if time.perf_counter() - begin > seconds:
                    return
                size = (4 if name == "draw" else 12) * rows * n
                row = {"rule": name, "way": way, "rows": rows, "tokens": n, "drafts": DRAFTS, "bytes": size}
                yield row | _timed(timer, call, way) | {"softmax_us": f"{softmax:.5g}", "copy_gb_s": f"{bandwidth / 1e9:.5g}"}  # fmt: skip


def _timed(timer: Timer, call: Callable[[], Any], way: str) -> Row:
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "0"
    if way == "triton":
        os.environ.pop(SWITCH)  # the default
    try:
        return {"us": f"{timer(call):.5g}", "error": ""}
    except (RuntimeError, ValueError) as error:  # for example out of memory, or a kernel that cannot be recorded
        return {"us": "", "error": str(error).splitlines()[0][:200]}
    finally:
        os.environ.pop(SWITCH, None)
        if before is not None:
            os.environ[SWITCH] = before


def with_ratios(row: Row) -> Row:
    """Return the row with its share of the copy bandwidth, its time in units of softmax, and the target if there is one."""
    if not row["us"]:
        return row | {"copy_share": "", "softmaxes": "", "target": ""}
    time_us = float(row["us"])
    share = row["bytes"] / (1e-6 * time_us) / (1e9 * float(row["copy_gb_s"]))
    target = TARGETS.get(row["rows"], {}).get(row["rule"], "") if row["tokens"] == 151_936 else ""
    return row | {"copy_share": f"{share:.3f}", "softmaxes": f"{time_us / float(row['softmax_us']):.3g}", "target": target}  # fmt: skip
