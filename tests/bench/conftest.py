"""The `in_softmaxes` fixture: time a call in softmaxes of a float32 tensor; one table of all ratios at the end."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any

import pytest

ROUNDS, WARM_UP = 41, 3
ROWS = pytest.StashKey[list[str]]()


@pytest.fixture
def in_softmaxes(benchmark: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., float]]:
    """measure(name, logits, target, call, beside): call time / softmax time, on one thread; of the fastest rounds.

    Every round times one softmax, one call, and one of `beside` if it is given, in turn, so that all see the same machine. With
    `beside` the ratio is what the call takes more. Time is the thread's own, so that what else runs on the machine counts by the caches
    that it empties and no more; the table has the ratio of the medians, too. Once a test.
    """
    torch = pytest.importorskip("torch")

    def measure(
        name: str, logits: Any, target: float, call: Callable[[], Any], beside: Callable[[], Any] | None = None
    ) -> float:
        rounds: list[tuple[float, float, float]] = []

        def timed(what: Callable[[], Any]) -> float:
            start = thread_time()
            what()
            return thread_time() - start

        def all_in_turn() -> None:
            rounds.append((timed(lambda: torch.softmax(logits, -1)), timed(beside) if beside else 0.0, timed(call)))

        benchmark.pedantic(all_in_turn, rounds=ROUNDS, warmup_rounds=WARM_UP)
        columns = list(zip(*rounds[WARM_UP:], strict=True))
        softmax, alone, each = (1e3 * statistics.median(x) for x in columns)
        least, least_alone, least_each = (1e3 * min(x) for x in columns)
        ratio, fastest = (each - alone) / softmax, (least_each - least_alone) / least
        benchmark.extra_info.update(ratio=ratio, fastest=fastest, target=target)
        verdict = "  over" if fastest > target else ""
        line = f"{name:48} {softmax:7.2f} ms {each - alone:8.2f} ms {ratio:7.1f} {fastest:7.1f} {target:7g}{verdict}"
        request.config.stash.setdefault(ROWS, []).append(line)
        return fastest

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield measure
    torch.set_num_threads(threads)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if rows := config.stash.get(ROWS, []):
        terminalreporter.section(f"in softmaxes of the same float32 tensor, one thread, medians of {ROUNDS} rounds")
        terminalreporter.write_line(f"{'':48} {'softmax':>10} {'call':>11} {'ratio':>7} {'fastest':>7} {'target':>7}")
        for row in rows:
            terminalreporter.write_line(row)
