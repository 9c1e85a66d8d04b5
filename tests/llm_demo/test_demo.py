"""`python -m llm_demo`: the demo takes the device that there is, unless told, and says so."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from llm_demo.__main__ import demo


@pytest.mark.parametrize(
    ("words", "gpu", "taken"),
    [
        ((), True, ("cuda", "bfloat16")),
        ((), False, ("cpu", "float32")),
        (("--device", "cpu"), True, ("cpu", "float32")),
        (("--dtype", "float16"), True, ("cuda", "float16")),
        (("--device", "cuda:1"), False, ("cuda:1", "bfloat16")),
    ],
)
def test_device_and_number_type(words: tuple[str, ...], gpu: bool, taken: tuple[str, str]) -> None:
    command, settings = demo(), dict[str, Any]()
    command.gpu = lambda: gpu  # type: ignore[method-assign]
    command.callback = lambda **options: settings.update(options)
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    assert (settings["device"], settings["dtype"]) == taken


def test_the_help_says_where_it_runs() -> None:
    shown = CliRunner().invoke(demo(), ["--help"])
    assert shown.exit_code == 0 and "embedded pair" in shown.output and "On a GPU, in bfloat16" in shown.output
