"""`ot-draft decode`: continue texts with two models, by any rule, and show what it buys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ...errors import DraftSelectionError, InvalidArgument
from ...paths import drafting
from ..console import one_line
from ..embedded import offered, stages
from ..options import whole_numbers
from ..refused import Refused
from .settings import AUTO, DecodeSettings, TreeAsked


class Tree(click.ParamType):
    """Numbers of children by level, like 4,2,1, or the name of a dynamic tree."""

    name = "tree"

    def convert(self, value: Any, param: Any, context: Any) -> TreeAsked:
        if str(value).lower().startswith(drafting.FAMILY):
            try:
                return TreeAsked(grower=drafting.called(value))
            except InvalidArgument as error:
                raise Refused(f"--tree: {error}") from None
        numbers = whole_numbers(value)
        if not numbers:
            dynamic = "dynamic:32 for a tree of up to 32 nodes that follows the draft"
            raise Refused(f"--tree {value}: give the number of children on every level, like 4,2,1, or {dynamic}")
        return TreeAsked(numbers)


class Shape(click.ParamType):
    """auto, or K x L."""

    name = "shape"

    def convert(self, value: Any, param: Any, context: Any) -> str | tuple[int, int]:
        if value == "auto":
            return AUTO
        parts = str(value).lower().replace("×", "x").split("x")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise Refused(f"--shape {value}: give auto, or paths x length, like 4x4")
        return int(parts[0]), int(parts[1])


@click.command()
@click.option("--prompt", "prompts", multiple=True, help="Text to continue; may be given several times.")
@click.option("--prompt-file", type=click.Path(path_type=Path), help="More of them, one a line.")
@click.option("--chat/--no-chat", default=None, help="As a user's turn [default: where the model has a chat template].")
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded SmolLM2-135M-Instruct].")
@click.option(
    "--draft",
    help="The same, or safetensors of layers for the target's embedding, or lookup: prompt lookup; for the embedded target also tokens or"
    " states, the embedded drafts that read so [default: states]; skip:12,20, exit:8: the target without layers, or its first ones;"
    " tli:NAME, slem:NAME: a model with another tokenizer, by common tokens or by text; chain:Q,R: R drafts for Q.",
)
@click.option("--dtype", default="float32", show_default=True,
              help="Of both models' weights; products of float16 are float32 on a CPU; file: the "
              "target's as its GGUF file has them, on a CPU.")  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--device-map", help="How accelerate spreads the target over devices, for example auto.")
@click.option("--cache/--no-cache", default=True, show_default=True,
              help="Keep what a GGUF file was converted to, and load it in a tenth of the time from then on.")  # fmt: skip
@click.option("--temperature", type=float, default=1.0, show_default=True, help="0: greedy.")
@click.option("--top-k", type=int, default=0, show_default=True, help="0: all tokens.")
@click.option("--top-p", type=float, default=1.0, show_default=True)
@click.option("--min-p", type=float, default=0.0, show_default=True)
@click.option("--max-tokens", type=int, default=64, show_default=True, help="A text.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--shape", type=Shape(), help="auto: every step drafts what promises most tokens a second; or paths x length, like 4x4 "
              "[default: auto, unless the rule, the law or a size is given].")  # fmt: skip
@click.option("--costs", type=click.Path(dir_okay=False, path_type=Path),
              help="For the shape auto: what --compare --json printed, in the place of the clock; texts follow the seed then.")  # fmt: skip
@click.option(
    "--prompt-lookup-num-tokens", "lookup_tokens", type=int, help="Looked up at most [default: 10; auto: 16]."
)
@click.option("--max-matching-ngram-size", "lookup_ngram", type=int,
              help="Last tokens that are looked for [default: 2; auto: 3].")  # fmt: skip
@click.option("--rule", "rules", multiple=True, help="joint, block, traversal, naive, a selection rule such as KSeq, or "
              "autoregressive; several with --compare [default: joint].")  # fmt: skip
@click.option("--draft-law", help="iid, hybrid:J, hybrid:auto, without-replacement, hub, top [default: the rule's].")
@click.option("--paths", type=int, help="Number of drafted paths K [default: 4].")
@click.option("--length", type=int, help="Length L of the paths [default: 4].")
@click.option("--tree", type=Tree(), help="Instead: children of a node on every level, like 4,2,1, or "
              f"dynamic:NODES, a tree that follows the draft; dynamic:NODES:WAY: {', '.join(drafting.ALL)}.")  # fmt: skip
@click.option("--watermark", metavar="KEY", help="Draft by races of this key, and say how well it is found; --rule race (the default): the "
              "text is their winner, whatever the draft; or a selection rule, token by token, such as KSeq.")  # fmt: skip
@click.option("--compare", is_flag=True, help="Every method continues every prompt; print the table.")
@click.option("--live/--no-live", default=True, help="Show the text while it comes, coloured by origin in a terminal.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page that explains every token.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write the live view as a picture.")
@click.option("--trace", type=click.Path(file_okay=False, path_type=Path), help="A new folder for steps and laws.")
@click.option("--trace-rows", type=click.IntRange(0), help="Laws recorded at most.")
@click.option("--trace-keep", type=click.IntRange(0), help="Tokens of a law that stay themselves, 0: all.")
@click.option("--audit", type=click.Path(dir_okay=False, path_type=Path),
              help="Test the emitted tokens against the target's laws, and log both in a new .jsonl file.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON, with costs for `ot-draft plan`.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the comparison as CSV.")
def decode(**options: Any) -> None:
    """Continue texts by speculative decoding with several drafts.

    Whatever the shape and the rule, the text follows the target's own law. By default every step drafts what promises most tokens a
    second on this machine and in this text, by what the steps before it cost and brought; with a rule or a size, it is one shape
    (4 paths of 4 tokens by joint selection, where only one of these is given).
    """
    settings = DecodeSettings(**options)
    os.environ.setdefault("TQDM_DISABLE", "1")  # read when torch loads it: no bars of other libraries between ours
    if settings.target is None or settings.draft is None:
        offered()  # refused before anything is imported
    with one_line((DraftSelectionError, ValueError, OSError)):
        with stages() as say:
            say("importing torch")
            from .run import prepare, show

            job, methods = prepare(settings, say)
        if not settings.compare:
            show(job, methods[0])
            return
        from .comparison import compare  # with the benchmark, which one text does without

        compare(job, methods)
