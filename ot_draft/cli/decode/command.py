"""`ot-draft decode`: continue texts with two models, by any rule, and show what it buys."""

from __future__ import annotations

import os
from typing import Any

import click

from ...errors import DraftSelectionError
from ..console import one_line
from ..embedded import default_pair_entry_point, stages
from ..options import with_options
from .options import DraftOptions, ModelOptions, OutputOptions, PromptOptions, SamplingOptions
from .settings import DecodeSettings


@click.command()
@with_options(
    ("prompts", PromptOptions),
    ("models", ModelOptions),
    ("sampling", SamplingOptions),
    ("drafts", DraftOptions),
    ("output", OutputOptions),
)
def decode(**groups: Any) -> None:
    """Continue prompts by speculative decoding with real models.

    The output has the target distribution for every shape and rule. By default, each step drafts the shape with the most expected
    tokens per second, estimated from the times and acceptances of earlier steps. With a rule or a size, the shape is fixed. Its
    defaults are 4 paths of 4 tokens and the rule joint.
    """
    settings = DecodeSettings(**groups)
    os.environ.setdefault("TQDM_DISABLE", "1")  # read when torch loads it: no bars of other libraries between ours
    if settings.models.target is None or settings.models.draft is None:
        default_pair_entry_point()  # refused before anything is imported
    with one_line((DraftSelectionError, ValueError, OSError)):
        with stages() as say:
            say("importing torch")
            from .run import prepare, show

            job, methods = prepare(settings, say)
        if settings.output.compare is None:
            show(job, methods[0])
            return
        from .comparison import compare  # with the benchmark, which one text does without

        compare(job, methods)
