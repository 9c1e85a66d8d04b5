"""Distil a draft model for a target: `python -m llm_demo.distil --minutes 20 --device cuda --out DIRECTORY`.

For half of the time the target generates texts at temperatures 0.6 to 1.2. The draft is then trained on them, with the target's
distribution at every position. Its initial weights are the first layers of the target; it shares the embedding, and uses the head on a
subset of the vocabulary. The results are a safetensors file (float16) and the fields of its model card, with the acceptance on held-out
prompts by kind and temperature.

A hidden-state draft (--states) is trained as by `llm_demo.distil.states`, on hidden states in memory (4.6 kB per token of the embedded
model). --start continues the training of a draft.

`--rows 64 --write 1024 --length 224` are sizes for a GPU. A CPU generates a few dozen tokens per second, which is enough for a test. Drafts
of three or more layers of full width exceed 20 MB; use --mlp.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import torch
from click.core import ParameterSource

from llm_demo import acceptance
from llm_demo.distil.hidden_states import TEMPERATURES, HeldStates
from llm_demo.distil.passes import LATER
from llm_demo.distil.states import COLD, HELD_BACK, StateTrainer, fitting, state_draft
from llm_demo.distil.text import Text, frequent_tokens, sample
from llm_demo.distil.train import Recipe, Trainer, choose, some_of, student, write_draft
from llm_demo.machine import machine
from llm_demo.models.load import DRAFT_FILE, load_pair
from llm_demo.prompts import read_prompts
from ot_draft.decoding import CannotDecode, Pair, load_draft
from ot_draft.decoding.draft_models import SubsetDraft
from ot_draft.decoding.load import DTYPES

LARGEST = 20_000_000  # max. size in bytes of a committed draft
WRITING = 0.5  # share of the time for generating texts
HELD = 0.6  # share of a GPU's remaining memory for hidden states
SCORED = 8192  # number of tokens that a draft of another target scores
RATES = (
    0.004,
    0.006,
)  # max. rates of Muon for a hidden-state draft: of its layers, and of the weights that read the states


def distil(
    pair: Pair,
    recipe: Recipe,
    subset: list[int] | int,
    minutes: float,
    write: int,
    seed: int = 0,
    say: Any = click.echo,
    start: Path | None = None,
    keep: Callable[[SubsetDraft], object] = lambda draft: None,
) -> tuple[SubsetDraft, dict[str, Any]]:
    """Return a trained draft, and a record of its training.

    subset: the tokens that it scores, or the number of the most frequent ones. write: number of texts per batch of the target. start:
    file of a hidden-state draft whose training is continued with its own subset. keep: called with the draft after every twentieth of the
    time. Raises CannotDecode at the start if no such draft can be made for the target.
    """
    check_fits(pair.target, recipe, start)
    begun, seconds = time.perf_counter(), 60 * minutes
    texts: list[Text] = []
    least = (HELD_BACK + 1) * recipe.rows if recipe.reads else 1
    for number in count(seed):
        if len(texts) >= least and (
            time.perf_counter() - begun > WRITING * seconds or (recipe.reads and fills_memory(pair.target, texts))
        ):
            break
        texts += sample(pair, write, recipe.length, number)
        gc.collect()  # an engine and its graphs refer to each other; their memory is needed for the next one
    about: dict[str, Any] = {
        "tokens_written": sum(len(text.tokens) - text.start for text in texts),
        "texts": len(texts),
    }
    say(f"{time.perf_counter() - begun:5.0f} s: {about['texts']} texts, {about['tokens_written']} tokens written")
    if isinstance(subset, int):
        subset = frequent_tokens(texts, subset, pair.target.get_input_embeddings().num_embeddings)
    if recipe.reads:
        trainer: Any = _of_states(pair.target, texts, subset, recipe, seed, start)
    else:
        trainer = Trainer(pair.target, student(pair.target, subset, recipe), recipe)
    generator = np.random.default_rng(seed)
    begin = spent = time.perf_counter() - begun
    said, printed, curve = int(20 * begin / seconds), 0, list[Sequence[float]]()
    while not curve or spent < seconds:
        progress = (spent - begin) / max(seconds - begin, 1e-9)
        given = () if recipe.reads else (choose(texts, recipe.rows, generator),)
        curve.append(trainer.step(*given, progress))
        spent = time.perf_counter() - begun
        if spent > (said + 1) * seconds / 20:  # waits for the device only here, not after every step
            means = " ".join(f"{mean:.4f}" for mean in _means(curve[printed:]))
            held_back = _held_back(trainer) if recipe.reads else ""
            say(f"{spent:5.0f} s, step {trainer.steps}: {' and '.join(trainer.TELLS)} {means}{held_back}")
            said, printed = int(20 * spent / seconds), len(curve)
            keep(trainer.draft)
    about |= {
        "steps": trainer.steps,
        "minutes": round(spent / 60, 2),
        "recipe": recipe_of(trainer.draft, recipe, start),
        "by_tenths": {"of": trainer.TELLS, "means": tenths(curve)},
    }
    return trainer.draft.eval().requires_grad_(False), about


def check_fits(target: Any, recipe: Recipe, start: Path | None) -> None:
    """Raise CannotDecode if a draft of this recipe, or from this start, cannot be trained, or read from its file."""
    config = target.config
    if recipe.reads and not torch.equal(target.get_output_embeddings().weight, target.get_input_embeddings().weight):
        raise CannotDecode("target must have tied embeddings with --states. Omit --states, or use another target.")
    if start is not None:
        fitting(target, start, recipe.reads)
        return
    sizes = ("layers", "num_hidden_layers"), ("mlp", "intermediate_size")
    for name, most in ((name, getattr(config, theirs, None)) for name, theirs in sizes):
        if most is not None and (asked := getattr(recipe, name) or 0) > most:
            raise CannotDecode(f"--{name} must be at most {most} for this target, got {asked}. Use a smaller number.")
    try:
        made = student(target, [0], recipe)
    except (AttributeError, KeyError, RuntimeError) as error:
        raise CannotDecode(
            f"target must be a Llama, got {type(target).__name__} ({error}). Use another target."
        ) from None
    with TemporaryDirectory() as folder:
        fitting(target, write_draft(made, Path(folder) / "draft.safetensors"), recipe.reads)


def name_of(draft: Any) -> str:
    """Return the name of the draft's file, without its suffix."""
    return f"draft-{len(draft.backbone.layers)}-layers{'-states' if draft.reads else ''}"


def recipe_of(draft: Any, recipe: Recipe, start: Path | None) -> dict[str, Any]:
    """Return the fields of a card: sizes of the draft and settings of the training."""
    sizes = {"layers": len(draft.backbone.layers), "mlp": draft.backbone.config.intermediate_size}
    if not recipe.reads:
        return asdict(recipe) | sizes
    of_states = {"muon": RATES, "cold": COLD, "later": LATER, "start": None if start is None else start.name}
    return sizes | {name: getattr(recipe, name) for name in ("reads", "rows", "length")} | of_states


def _of_states(
    target: Any, texts: list[Text], subset: list[int], recipe: Recipe, seed: int, start: Path | None
) -> StateTrainer:
    """Return a trainer on the target's hidden states of the texts, computed in float32."""
    wide: Any = copy.deepcopy(target).float()  # the draft's embedding is a copy, too
    held = HeldStates.of(wide, texts, recipe.rows, seed)
    draft: Any = student(wide, subset, recipe) if start is None else state_draft(wide, start, recipe.reads)
    return StateTrainer(draft.to(held.tokens.device), [held], *RATES, seed)


def fills_memory(target: Any, texts: list[Text]) -> bool:
    """Return whether the target's hidden states of these texts fill the share HELD of the available GPU memory; False on a CPU.

    Available is the memory without all present models and a copy of the target in float32.
    """
    if target.device.type != "cuda":
        return False
    size = HeldStates.bytes_of(target, len(texts), max(len(text.tokens) for text in texts))
    taken = torch.cuda.memory_allocated(target.device) + 4 * sum(weight.numel() for weight in target.parameters())
    return size > HELD * (torch.cuda.get_device_properties(target.device).total_memory - taken)


def _held_back(trainer: StateTrainer) -> str:
    """Return the overlaps on held-out texts, after 0, 1, ... draft tokens."""
    found = [" ".join(f"{share:.4f}" for share in trainer.check(number)) for number in range(len(TEMPERATURES))]
    by_temperature = [
        f"{each} at temperature {temperature}" for each, temperature in zip(found, TEMPERATURES, strict=True)
    ]
    return f", {trainer.seen} positions; held back {', '.join(by_temperature)}"


def tenths(curve: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the means of ten parts of a curve, or its points if they are fewer."""
    ends = np.linspace(0, len(curve), min(10, len(curve)) + 1).astype(int)
    return [_means(curve[begin:end]) for begin, end in pairwise(ends)]


def _means(points: Sequence[Sequence[float]]) -> list[float]:
    means: list[float] = np.mean([[float(number) for number in point] for point in points], 0).round(4).tolist()
    return means


def save(draft: SubsetDraft, about: dict[str, Any], out: Path, name: str) -> Path:
    """Write NAME.safetensors and its card into the directory, which is created if necessary."""
    file = write_draft(draft, out / f"{name}.safetensors")
    if (size := file.stat().st_size) > LARGEST:
        click.echo(
            f"{file.name} has {size / 1e6:.1f} MB, more than {LARGEST / 1e6:.0f} MB. Use fewer --layers or a narrower --mlp."
        )
    write_card(file, about)
    return file


def write_card(file: Path, about: dict[str, Any]) -> Path:
    """Write the fields of the draft's card to NAME.json next to its file."""
    size, digest = file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()
    fields = {"file": file.name, "bytes": size, "sha256": digest} | about
    card = file.with_suffix(".json")
    card.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
    return card


@click.command()
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the draft and its card.",
)
@click.option("--minutes", default=20.0, show_default=True, type=click.FloatRange(min=0, min_open=True))
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded model].")
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)), help="Data type of the target."
)
@click.option("--layers", default=2, show_default=True, type=click.IntRange(1))
@click.option("--mlp", type=click.IntRange(1), help="Width of the feed-forward layers [default: the target's].")
@click.option(
    "--subset",
    type=click.IntRange(1),
    help=f"Most frequent tokens to score [default: those of the committed draft; {SCORED} of another --target].",
)
@click.option("--states", is_flag=True, help="Train a draft that also reads the target's hidden states.")
@click.option(
    "--start",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Draft file with the initial weights, with --states [default: the target's first layers].",
)
@click.option("--rows", default=8, show_default=True, type=click.IntRange(1), help="Number of texts per training step.")
@click.option(
    "--length", default=128, show_default=True, type=click.IntRange(2), help="Maximum number of new tokens per text."
)
@click.option(
    "--write",
    default=16,
    show_default=True,
    type=click.IntRange(1),
    help="Number of texts that the target generates per batch.",
)
@click.option(
    "--prompts",
    default=50,
    show_default=True,
    type=click.IntRange(10),
    help="Number of held-out prompts for the measurement.",
)
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
        raise click.UsageError("--start requires --states. Add --states, or remove --start.")
    source = click.get_current_context().get_parameter_source
    if start and (given := [each for each in ("layers", "mlp", "subset") if source(each) != ParameterSource.DEFAULT]):
        raise click.UsageError(
            f"--{given[0]} must not be given with --start, which determines it, got {options[given[0]]}. Remove one of the two."
        )
    try:
        pair = load_pair(target, "lookup", dtype, device, backend="torch")
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    reads = some_of(pair.target.config.num_hidden_layers) if options["states"] else ()
    recipe = Recipe(options["layers"], options["mlp"], reads, options["rows"], options["length"])
    if pair.target.device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # float32 matmul in TF32, several times as fast
    torch.manual_seed(seed)
    subset = options["subset"] or (SCORED if target else _committed_subset())
    try:
        prompts = read_prompts(pair.tokenizer, options["prompts"])
        keep = lambda draft: write_draft(draft, out / f"{name_of(draft)}.safetensors")  # noqa: E731
        draft, about = distil(pair, recipe, subset, minutes, options["write"], seed, start=start, keep=keep)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    file = save(draft, about, out, name_of(draft))
    saved = Pair(pair.target, load_draft(pair.target, file), pair.tokenizer)  # the saved draft is measured
    rows = acceptance.measure(saved, prompts)
    write_card(file, about | {"acceptance": rows} | machine(device))
    click.echo(acceptance.as_markdown(rows))
    click.echo(f"{file}: use it with --draft {file}")


def _committed_subset() -> list[int]:
    from safetensors.torch import load_file

    return list(load_file(DRAFT_FILE)["vocabulary_subset"].tolist())
