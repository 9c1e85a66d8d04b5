"""`python -m llm_demo`: `ot-draft decode` with the embedded pair, on a GPU if there is one."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.core import ParameterSource

from ot_draft.cli import decode_command

HELP = """Continue prompts with the embedded pair: SmolLM2-135M-Instruct and its two-layer hidden-state draft model.

On a GPU, in bfloat16, if torch finds one, otherwise on the CPU, in float32. --device and --dtype override this. All other options are
those of `ot-draft decode`: the default is adaptive draft length; --compare benchmarks more than a dozen methods."""


def has_gpu() -> bool:
    """Return whether torch finds a CUDA device."""
    import torch

    return torch.cuda.is_available()


class Demo(click.Command):
    """A command whose default device is a GPU if there is one, with a matching data type."""

    gpu: Callable[[], bool] = staticmethod(has_gpu)

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        left = super().parse_args(context, arguments)
        if context.get_parameter_source("device") is ParameterSource.DEFAULT:
            context.params["device"] = "cuda" if self.gpu() else "cpu"
        if context.get_parameter_source("dtype") is ParameterSource.DEFAULT:
            context.params["dtype"] = "bfloat16" if str(context.params["device"]).startswith("cuda") else "float32"
        return left


def demo() -> Demo:
    """Return the command; its options are those of `ot-draft decode`."""
    decode = decode_command()
    return Demo("python -m llm_demo", callback=decode.callback, params=decode.params, help=HELP)


if __name__ == "__main__":
    demo()(prog_name="python -m llm_demo")
