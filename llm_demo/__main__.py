"""`python -m llm_demo`: the demo, which is `ot-draft decode` with the embedded pair, on a GPU where there is one."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.core import ParameterSource

from ot_draft.cli import decode_command

HELP = """The demo: continue texts with the embedded pair, SmolLM2-135M-Instruct and its draft of two layers that reads its states.

On a GPU, in bfloat16, where torch finds one, else on the CPU, in float32; --device and --dtype say otherwise. All else is
`ot-draft decode`: by default adaptive draft length; --compare sets more than a dozen methods side by side."""


def has_gpu() -> bool:
    """Whether torch finds a CUDA device."""
    import torch

    return torch.cuda.is_available()


class Demo(click.Command):
    """Takes the device that there is, and the number type that suits it, unless told."""

    gpu: Callable[[], bool] = staticmethod(has_gpu)

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        left = super().parse_args(context, arguments)
        if context.get_parameter_source("device") is ParameterSource.DEFAULT:
            context.params["device"] = "cuda" if self.gpu() else "cpu"
        if context.get_parameter_source("dtype") is ParameterSource.DEFAULT:
            context.params["dtype"] = "bfloat16" if str(context.params["device"]).startswith("cuda") else "float32"
        return left


def demo() -> Demo:
    """The command; its options are those of `ot-draft decode`."""
    decode = decode_command()
    return Demo("python -m llm_demo", callback=decode.callback, params=decode.params, help=HELP)


if __name__ == "__main__":
    demo()(prog_name="python -m llm_demo")
