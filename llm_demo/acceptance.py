"""Acceptance of a draft on held-out completions: `python -m llm_demo.acceptance`.

The target continues the prompts of `prompts.jsonl`. At every position of the completions, sum_x min(p(x), q(x)) is the acceptance of one
draft token, with both models at the temperature at which the completion was sampled. With `--along 6` the table instead has the probability
that each token of a six-token draft path is accepted if its predecessors were (block verification).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor

from llm_demo.backends import BACKENDS
from llm_demo.models.load import load_pair
from llm_demo.prompts import Prompt, read_prompts
from ot_draft.data.summary import clustered_error
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, SamplingParams, decode
from ot_draft.decoding.load import DTYPES
from ot_draft.trees import BlockVerification

TEMPERATURES = (0.6, 1.0)
SEED = 77


@torch.inference_mode()
def overlaps(pair: Pair, text: Sequence[int], start: int, temperature: float) -> Tensor:
    """Return sum_x min(p, q) for the tokens text[start:], (len(text) - start,), with one forward pass of each model."""
    sampling, positions = SamplingParams(temperature), range(start, len(text))
    p, q = (sampling.masses(logits) for logits in pair.logits_along(text, positions))
    return torch.minimum(p, q.to(p.device)).sum(-1).cpu()


def measure(
    pair: Pair,
    prompts: Sequence[Prompt],
    temperatures: Sequence[float] = TEMPERATURES,
    tokens: int = 48,
    batch: int = 10,
    seed: int = SEED,
) -> list[dict[str, Any]]:
    """Return a row for each temperature and kind, and for all kinds: mean of the overlaps and its standard error over prompts."""
    rows: list[dict[str, Any]] = []
    for temperature in temperatures:
        shared: list[tuple[str, int, float]] = []
        for start in range(0, len(prompts), batch):
            group = prompts[start : start + batch]
            options = DecodeOptions(
                SamplingParams(temperature), max_tokens=tokens, seed=seed, rows=range(start, start + len(group))
            )
            written = decode(pair, [prompt.tokens for prompt in group], options=options).tokens
            for number, (prompt, text) in enumerate(zip(group, written, strict=True), start):
                of_text = overlaps(pair, [*prompt.tokens, *text], len(prompt.tokens), temperature).tolist()
                shared += [(prompt.kind, number, value) for value in of_text]
        for kind in (*dict.fromkeys(prompt.kind for prompt in prompts), "all"):
            of_kind = [(number, value) for other, number, value in shared if kind in (other, "all")]
            values = [value for _, value in of_kind]
            error = clustered_error(values, [number for number, _ in of_kind])
            mean = {"acceptance": float(np.mean(values)), "error": error, "positions": len(values)}
            rows.append({"temperature": temperature, "kind": kind} | mean)
    return rows


def accepted_along(
    pair: Pair,
    prompts: Sequence[Prompt],
    length: int,
    temperatures: Sequence[float] = TEMPERATURES,
    tokens: int = 48,
    batch: int = 8,
    seed: int = SEED,
) -> dict[float, list[float]]:
    """Return, by temperature and depth, the share of draft tokens of a path that are accepted if their predecessors were."""
    drafting, found = Drafting.chains(1, length, BlockVerification()), {}
    for temperature in temperatures:
        accepted: list[int] = []
        for start in range(0, len(prompts), batch):
            group = prompts[start : start + batch]
            options = DecodeOptions(
                SamplingParams(temperature), max_tokens=tokens, seed=seed, rows=range(start, start + len(group))
            )
            for step in decode(pair, [prompt.tokens for prompt in group], drafting, options).steps:
                accepted += step.length[step.active].tolist()
        lengths = np.array(accepted)
        found[temperature] = [
            float((lengths > depth).sum() / max((lengths >= depth).sum(), 1)) for depth in range(length)
        ]
    return found


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table with a row per kind and a column per temperature."""
    temperatures = list(dict.fromkeys(row["temperature"] for row in rows))
    lines = [
        f"| kind | {' | '.join(f'temperature {t}' for t in temperatures)} |",
        "|---" * (len(temperatures) + 1) + "|",
    ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        cells = [f"{row['acceptance']:.3f} ± {row['error']:.3f} ({row['positions']})" for row in of_kind]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


@click.command()
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded model].")
@click.option("--draft", help="Draft model: directory, GGUF file, hub name or safetensors file of layers.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)))
@click.option(
    "--prompts", default=100, show_default=True, type=click.IntRange(2), help="Number of prompts; five kinds alternate."
)
@click.option(
    "--tokens", default=48, show_default=True, type=click.IntRange(1), help="Maximum number of new tokens per prompt."
)
@click.option("--beside", type=click.Choice(list(DTYPES)), help="Use the target with weights of this type as the draft: "
              "one minus the total variation between the two is printed.")  # fmt: skip
@click.option("--along", type=click.IntRange(1), help="Number of draft tokens of a path; print acceptance by depth.")
@click.option("--backend", default="auto", show_default=True, type=click.Choice(("auto", *BACKENDS)))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to which the table is also written.")
def main(
    target: str | None, draft: str | None, device: str, dtype: str, beside: str | None, backend: str, **options: Any
) -> None:
    """Print mean sum min(p, q) by kind and temperature, with standard errors over texts and numbers of positions."""
    try:
        pair = load_pair(target, "lookup" if beside else draft, dtype, device, backend=backend)
        pair = replace(pair, draft=load_pair(target, "lookup", beside, device).target) if beside else pair
        prompts = read_prompts(pair.tokenizer, options["prompts"])
        if options["along"]:
            found = accepted_along(pair, prompts, options["along"], tokens=options["tokens"])
            table = "\n".join(
                f"temperature {t}: {' '.join(f'{share:.3f}' for share in row)}" for t, row in found.items()
            )
        else:
            table = as_markdown(measure(pair, prompts, tokens=options["tokens"]))
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    click.echo(table)
    if options["out"]:
        options["out"].write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
