"""Time of the parts of a step, also where the device works on while the program has gone ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Stopwatch:
    """Marks the beginning and the end of named parts; on CUDA with events, which do not make the program wait."""

    def __init__(self, device: torch.device) -> None:
        self.on_cuda = device.type == "cuda"
        self._parts: list[tuple[str, Any, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = self._now()
        yield
        self._parts.append((name, begin, self._now()))

    def read(self) -> dict[str, float]:
        """Seconds by name since the last reading; on CUDA this waits for the device."""
        seconds: dict[str, float] = {}
        for name, begin, end in self._parts:
            if self.on_cuda:
                end.synchronize()
            lasted = begin.elapsed_time(end) / 1000 if self.on_cuda else end - begin
            seconds[name] = seconds.get(name, 0.0) + lasted
        self._parts.clear()
        return seconds

    def _now(self) -> Any:
        if not self.on_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
