"""The package's own loop as a method of the bench: on a stand-in for its `Llama`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from llm_demo.bench.auto import plain_method
from llm_demo.bench.llama_cpp.backend import Own
from ot_draft.decoding import DecodeOptions, SamplingParams


class Llama:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {"given": 0}

    def reset(self) -> None:
        self.said["reset"] = True

    def set_seed(self, seed: int) -> None:
        self.said["seed"] = seed

    def generate(self, prompt: list[int], **settings: Any) -> Iterator[int]:
        self.said |= {"prompt": prompt} | settings
        for token in count():
            self.said["given"] += 1
            yield token


def test_as_many_tokens_as_asked_for_come_from_the_law_asked_for() -> None:
    model = Llama()
    method = Own.like(plain_method(), "llama.cpp, its own", model=model)
    options = DecodeOptions(SamplingParams(0.7), max_tokens=5, stop=())
    tokens, calls, seconds = method.continued((3, 1), options, seed=9)
    assert (tokens, calls) == (5, 5) and seconds >= 0 and model.said["given"] == 5
    assert model.said["reset"] and model.said["seed"] == 9 and model.said["prompt"] == [3, 1]
    whole = {"temp": 0.7, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}  # nothing is cut off
    assert {name: model.said[name] for name in whole} == whole
