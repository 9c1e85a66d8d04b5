"""Make a draft for a target: `python -m llm_demo.distil --minutes 20 --device cuda --out DIRECTORY`.

Rounds of two parts: the target writes text (its own samples, at temperatures 0.6 to 1.2), then the draft is trained on all
text so far, against the target's law at every position. The first layers of the target are the start; its embedding is shared, its head
used on a subset of the vocabulary. At the end: a safetensors file (float16) and the fields of its model card, with the acceptance
on held-out prompts by kind and temperature.

Sizes: --rows 64 --write 1024 --length 160 --dtype bfloat16 are meant for a GPU; a CPU writes a few dozen tokens a second, enough to
see that it works. With --start a draft that reads states goes on from where it was, by its overlap with the target alone. Three layers
and more of full width pass 20 MB: give --mlp.
"""

from __future__ import annotations

import copy
import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from llm_demo import acceptance
from llm_demo.distil.states import state_draft
from llm_demo.distil.text import Text, frequent_tokens, sample
from llm_demo.distil.train import Recipe, Trainer, as_tensors, choose, some_of, student
from llm_demo.machine import machine
from llm_demo.models.load import DRAFT_FILE, load_pair
from llm_demo.prompts import read_prompts
from ot_draft.decoding import CannotDecode, Pair, load_draft
from ot_draft.decoding.draft_models import SubsetDraft
from ot_draft.decoding.load import DTYPES

LARGEST = 20_000_000  # bytes of a draft that is committed
WRITING = 0.4  # share of the time in which the target writes
# Of a draft that goes on: what it loses alone, and a third of the positions at the other temperature.
GOES_ON: dict[str, Any] = {"overlap_from": 1.0, "overlap_share": 1.0, "cold": 0.35, "muon": 0.004}


def distil(
    pair: Pair,
    recipe: Recipe,
    subset: list[int] | int,
    minutes: float,
    write: int,
    seed: int = 0,
    say: Any = click.echo,
    start: Path | None = None,
) -> tuple[SubsetDraft, dict[str, Any]]:
    """A trained draft, and what it was made of. subset: the tokens that it scores, or how many of the most frequent ones.

    write: texts that the target writes at a time. start: file of a draft that reads states, to go on from with its own subset.
    """
    begun, number = time.perf_counter(), 0
    texts: list[Text] = sample(pair, write, recipe.length, seed)
    spent = written = time.perf_counter() - begun
    if isinstance(subset, int):
        subset = frequent_tokens(texts, subset, pair.target.get_input_embeddings().num_embeddings)
    draft = student(pair.target, subset, recipe) if start is None else _going_on(pair.target, start, recipe)
    trainer = Trainer(pair.target, draft, recipe)
    generator, said, told = np.random.default_rng(seed), 0, 0
    curve: list[tuple[float, float]] = []
    while not curve or spent < 60 * minutes:
        entropy, overlap = trainer.step(choose(texts, recipe.rows, generator), spent / (60 * minutes))
        curve.append((entropy, overlap))
        spent = time.perf_counter() - begun
        if spent > (said + 1) * 3 * minutes:  # twenty lines in all
            means = np.mean(curve[told:], axis=0)
            said, told = int(spent / (3 * minutes)), len(curve)
            say(f"{spent:5.0f} s, step {trainer.steps}: cross-entropy {means[0]:.3f}, overlap {means[1]:.3f}")
        if written < WRITING * spent and spent < 0.8 * 60 * minutes:
            begin, number = time.perf_counter(), number + 1
            texts += sample(pair, write, recipe.length, seed + number)
            written += time.perf_counter() - begin
    about = {
        "tokens_written": sum(len(text.tokens) - text.start for text in texts),
        "texts": len(texts),
        "steps": trainer.steps,
        "minutes": round(spent / 60, 2),
        "recipe": asdict(recipe),
        "cross_entropy_and_overlap_by_tenths": tenths(curve),
    }
    return trainer.draft.eval().requires_grad_(False), about


def _going_on(target: Any, start: Path, recipe: Recipe) -> SubsetDraft:
    """The draft of a file in float32, with an embedding of its own: the target's may be of 16 bits."""
    device = target.get_input_embeddings().weight.device
    return state_draft(copy.deepcopy(target).float(), start, recipe.reads).to(device)


def tenths(curve: list[tuple[float, float]]) -> list[list[float]]:
    """Means of ten stretches of a curve, or of its points where they are fewer."""
    return [np.mean(part, axis=0).round(4).tolist() for part in np.array_split(curve, min(10, len(curve)))]


def save(draft: SubsetDraft, about: dict[str, Any], out: Path, name: str) -> Path:
    """NAME.safetensors and its card in the directory, which is made where it is not there."""
    from safetensors.torch import save_file

    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}.safetensors"
    save_file(as_tensors(draft), file, metadata={"licence": "that of the target"})
    if (size := file.stat().st_size) > LARGEST:
        click.echo(
            f"{file.name} has {size / 1e6:.1f} MB, over {LARGEST / 1e6:.0f}: take fewer --layers or a narrower --mlp"
        )
    write_card(file, about)
    return file


def write_card(file: Path, about: dict[str, Any]) -> Path:
    """NAME.json beside the file: the fields of its card."""
    size, digest = file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()
    fields = {"file": file.name, "bytes": size, "sha256": digest} | about
    card = file.with_suffix(".json")
    card.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    return card


@click.command()
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Directory.")
@click.option("--minutes", default=20.0, show_default=True, type=click.FloatRange(min=0, min_open=True))
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded model].")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)), help="Of the target.")
@click.option("--layers", default=2, show_default=True, type=click.IntRange(1))
@click.option("--mlp", type=click.IntRange(1), help="Width of the feed-forward layers [default: the target's].")
@click.option(
    "--subset", type=click.IntRange(1), help="Most frequent tokens to score [default: those of the committed draft]."
)
@click.option("--states", is_flag=True, help="A draft that also reads the target's hidden states.")
@click.option(
    "--start",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --states, a draft to go on from [default: the target's first layers].",
)
@click.option("--rows", default=8, show_default=True, type=click.IntRange(1), help="Texts of a training step.")
@click.option("--length", default=128, show_default=True, type=click.IntRange(2), help="Tokens of a text.")
@click.option("--write", default=16, show_default=True, type=click.IntRange(1), help="Texts written at a time.")
@click.option(
    "--prompts", default=50, show_default=True, type=click.IntRange(10), help="Held-out prompts to measure on."
)
@click.option("--compile", "compiled", is_flag=True, help="torch.compile the draft.")
@click.option("--seed", default=0, show_default=True)
def main(
    out: Path,
    minutes: float,
    target: str | None,
    device: str,
    dtype: str,
    seed: int,
    start: Path | None,
    **options: Any,
) -> None:
    """Distil a draft, write it and the fields of its card into OUT, and print its acceptance on held-out prompts."""
    if start and not options["states"]:
        raise click.UsageError("--start goes on from a draft that reads hidden states: give --states, too")
    try:
        pair = load_pair(target, None if target is None else target, dtype, device, backend="torch")
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    reads = some_of(pair.target.config.num_hidden_layers) if options["states"] else ()
    sizes = (options["layers"], options["mlp"], reads, options["rows"], options["length"])
    recipe = Recipe(*sizes, compile=options["compiled"], **(GOES_ON if start else {}))
    subset = options["subset"] or (8192 if target else _committed_subset())
    draft, about = distil(pair, recipe, subset, minutes, options["write"], seed, start=start)
    file = save(draft, about, out, f"draft-{recipe.layers}-layers{'-states' if reads else ''}")
    saved = Pair(pair.target, load_draft(pair.target, file), pair.tokenizer)  # what is measured is what is in the file
    rows = acceptance.measure(saved, read_prompts(pair.tokenizer, options["prompts"]))
    write_card(file, about | {"acceptance": rows} | machine(device))
    click.echo(acceptance.as_markdown(rows))
    click.echo(f"{file}: use it with --draft {file}")


def _committed_subset() -> list[int]:
    from safetensors.torch import load_file

    return list(load_file(DRAFT_FILE)["vocabulary_subset"].tolist())
