"""The `in_softmaxes` fixture: time a call in softmaxes of a float32 tensor; one table of all ratios at the end."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import pytest

ROUNDS, WARM_UP = 41, 3
ROWS = pytest.StashKey[list[str]]()


@pytest.fixture
def in_softmaxes(benchmark: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., float]]:
    """measure(name, logits, target, call, beside): median over rounds of call time / softmax time, on one thread.

    Every round times one softmax, one call, and one of `beside` if it is given, in turn, so that all see the same machine. With
    `beside` the ratio is what the call takes more. Once a test.
    """
    torch = pytest.importorskip("torch")

    def measure(
        name: str, logits: Any, target: float, call: Callable[[], Any], beside: Callable[[], Any] | None = None
    ) -> float:
        softmaxes: list[float] = []
        calls: list[float] = []

        def all_in_turn() -> None:
            start = perf_counter()
            torch.softmax(logits, -1)
            after = perf_counter()
            softmaxes.append(after - start)
            alone = 0.0
            if beside is not None:
                start = perf_counter()
                beside()
                alone = perf_counter() - start
            start = perf_counter()
            call()
            calls.append(perf_counter() - start - alone)

        benchmark.pedantic(all_in_turn, rounds=ROUNDS, warmup_rounds=WARM_UP)
        pairs = list(zip(softmaxes, calls, strict=True))[WARM_UP:]
        ratio = statistics.median(c / s for s, c in pairs)
        softmax, each = (1e3 * statistics.median(x) for x in zip(*pairs, strict=True))
        benchmark.extra_info.update(ratio=ratio, target=target)
        verdict = "  over" if ratio > target else ""
        line = f"{name:44} {softmax:7.2f} ms {each:8.2f} ms {ratio:7.1f} {target:7.0f}{verdict}"
        request.config.stash.setdefault(ROWS, []).append(line)
        return ratio

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield measure
    torch.set_num_threads(threads)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if rows := config.stash.get(ROWS, []):
        terminalreporter.section(f"in softmaxes of the same float32 tensor, one thread, medians of {ROUNDS} rounds")
        terminalreporter.write_line(f"{'':44} {'softmax':>10} {'call':>11} {'ratio':>7} {'target':>7}")
        for row in rows:
            terminalreporter.write_line(row)
