"""`ot-draft skip`: choose the layers that a target skips when it drafts for itself."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ...errors import DraftSelectionError
from ..console import one_line
from ..embedded import default_pair_entry_point, load_models, stages
from ..options import Place


@click.command()
@click.option(
    "--target", help="Target model: directory, GGUF file or hub name [default: the bundled SmolLM2-135M-Instruct]."
)
@click.option("--most", type=click.IntRange(1), default=4, show_default=True, help="Maximum number of layers to skip.")
@click.option(
    "--prompt",
    "prompts",
    multiple=True,
    help="Prompt whose continuation is used; repeatable [default: three built-in prompts].",
)
@click.option("--prompt-file", type=Place(), help="UTF-8 file of further prompts, one per line.")
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=48,
    show_default=True,
    help="Maximum number of tokens per continuation.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the continuations.")
def skip(
    target: str | None, most: int, prompts: tuple[str, ...], prompt_file: Path | None, max_tokens: int, seed: int
) -> None:
    """Find the layers that a target can skip as its own draft.

    Each step adds the layer that costs the least acceptance.
    Use the result with `ot-draft decode --draft skip:...`. Acceptance is the mean of sum min(p, q) over continuations by the target,
    at temperature 1. A target of 30 layers takes some minutes on one core.
    """
    if target is None:
        default_pair_entry_point()
    os.environ.setdefault("TQDM_DISABLE", "1")
    with one_line((DraftSelectionError, ValueError, OSError)):
        with stages() as say:
            say("importing torch")
            from ...decoding import DecodeOptions, decode
            from ...decoding.self_draft import least_missed
            from .run import encode_prompts, read_prompts

            pair = load_models(target, "lookup", progress=say)
            texts, _ = encode_prompts(pair, read_prompts(prompts, prompt_file), None)
            say("continuing the prompts")
            found = decode(pair, texts, options=DecodeOptions(max_tokens=max_tokens, seed=seed)).tokens
        pairs = zip(texts, found, strict=True)
        whole = [([*text, *new], [len(text) + i for i in range(len(new))]) for text, new in pairs]
        for missing, share in least_missed(pair.target, whole, most):
            click.echo(f"--draft skip:{','.join(map(str, missing))}  acceptance of one draft token {share:.3f}")
