"""Make a draft for a target: `python -m llm_demo.distil --minutes 20 --device cuda --out DIRECTORY`.

The target writes text for half of the time (its own samples, at temperatures 0.6 to 1.2), then the draft is trained on it, against
the target's law at every position. The first layers of the target are the start; its embedding is shared, its head used on a subset of
the vocabulary. At the end: a safetensors file (float16) and the fields of its model card, with the acceptance on held-out prompts by
kind and temperature.

A draft that reads the target's states (--states) is trained as by `llm_demo.distil.states`, on states that are held in memory, 4.6 kB a
token of the embedded model; with --start it goes on from where it was.

Sizes: --rows 64 --write 1024 --length 224 are meant for a GPU; a CPU writes a few dozen tokens a second, enough to see that it works.
Three layers and more of full width pass 20 MB: give --mlp.
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

LARGEST = 20_000_000  # bytes of a draft that is committed
WRITING = 0.5  # share of the time in which the target writes
HELD = 0.6  # share of a GPU's memory besides the models for its states
SCORED = 8192  # tokens, by a draft of another target than the embedded one
RATES = (0.004, 0.006)  # Muon's highest of a draft that reads states: of its layers, and of what reads them


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
    """A trained draft, and what it was made of. subset: the tokens that it scores, or how many of the most frequent ones.

    write: texts that the target writes at a time. start: file of a draft that reads states, to go on from with its own subset. keep: is
    given the draft at every twentieth of the time. CannotDecode, before any time is spent, where the target gives no such draft.
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
        gc.collect()  # an engine and its graphs, whose memory the next one wants, refer to each other
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
    said, told, curve = int(20 * begin / seconds), 0, list[Sequence[float]]()
    while not curve or spent < seconds:
        progress = (spent - begin) / max(seconds - begin, 1e-9)
        given = () if recipe.reads else (choose(texts, recipe.rows, generator),)
        curve.append(trainer.step(*given, progress))
        spent = time.perf_counter() - begun
        if spent > (said + 1) * seconds / 20:  # a device is waited for here, not after every step
            means = " ".join(f"{mean:.4f}" for mean in _means(curve[told:]))
            held_back = _held_back(trainer) if recipe.reads else ""
            say(f"{spent:5.0f} s, step {trainer.steps}: {' and '.join(trainer.TELLS)} {means}{held_back}")
            said, told = int(20 * spent / seconds), len(curve)
            keep(trainer.draft)
    about |= {
        "steps": trainer.steps,
        "minutes": round(spent / 60, 2),
        "recipe": recipe_of(trainer.draft, recipe, start),
        "by_tenths": {"of": trainer.TELLS, "means": tenths(curve)},
    }
    return trainer.draft.eval().requires_grad_(False), about


def check_fits(target: Any, recipe: Recipe, start: Path | None) -> None:
    """CannotDecode where a draft of this recipe, or from this start on, cannot be trained, or not be read from its file."""
    config = target.config
    if recipe.reads and not torch.equal(target.get_output_embeddings().weight, target.get_input_embeddings().weight):
        raise CannotDecode("the head of the target is not its embedding, as --states takes it to be: leave it away")
    if start is not None:
        fitting(target, start, recipe.reads)
        return
    sizes = ("layers", "num_hidden_layers"), ("mlp", "intermediate_size")
    for name, most in ((name, getattr(config, theirs, None)) for name, theirs in sizes):
        if most is not None and (asked := getattr(recipe, name) or 0) > most:
            raise CannotDecode(f"--{name} is {asked}, and the target has {most}: give at most so many")
    try:
        made = student(target, [0], recipe)
    except (AttributeError, KeyError, RuntimeError) as error:
        raise CannotDecode(
            f"a draft is made of layers of a Llama, and the target is a {type(target).__name__} ({error}): give a Llama"
        ) from None
    with TemporaryDirectory() as folder:
        fitting(target, write_draft(made, Path(folder) / "draft.safetensors"), recipe.reads)


def name_of(draft: Any) -> str:
    """What its file is called."""
    return f"draft-{len(draft.backbone.layers)}-layers{'-states' if draft.reads else ''}"


def recipe_of(draft: Any, recipe: Recipe, start: Path | None) -> dict[str, Any]:
    """Fields of a card: the draft's own sizes, and by what it was trained."""
    sizes = {"layers": len(draft.backbone.layers), "mlp": draft.backbone.config.intermediate_size}
    if not recipe.reads:
        return asdict(recipe) | sizes
    of_states = {"muon": RATES, "cold": COLD, "later": LATER, "start": None if start is None else start.name}
    return sizes | {name: getattr(recipe, name) for name in ("reads", "rows", "length")} | of_states


def _of_states(
    target: Any, texts: list[Text], subset: list[int], recipe: Recipe, seed: int, start: Path | None
) -> StateTrainer:
    """One that holds the target's states along the texts, in float32, whatever the type that they were written in."""
    wide: Any = copy.deepcopy(target).float()  # the draft's embedding, too, is one of its own
    held = HeldStates.of(wide, texts, recipe.rows, seed)
    draft: Any = student(wide, subset, recipe) if start is None else state_draft(wide, start, recipe.reads)
    return StateTrainer(draft.to(held.tokens.device), [held], *RATES, seed)


def fills_memory(target: Any, texts: list[Text]) -> bool:
    """Whether the target's states along so many texts fill the share HELD of its device's memory; never of a CPU's.

    Of what the models that are there, and the target once more in float32, leave of it.
    """
    if target.device.type != "cuda":
        return False
    size = HeldStates.bytes_of(target, len(texts), max(len(text.tokens) for text in texts))
    taken = torch.cuda.memory_allocated(target.device) + 4 * sum(weight.numel() for weight in target.parameters())
    return size > HELD * (torch.cuda.get_device_properties(target.device).total_memory - taken)


def _held_back(trainer: StateTrainer) -> str:
    """Overlaps on the texts that are not trained on, behind 0, 1, ... drafted tokens."""
    found = [" ".join(f"{share:.4f}" for share in trainer.check(number)) for number in range(len(TEMPERATURES))]
    told = [f"{each} at temperature {temperature}" for each, temperature in zip(found, TEMPERATURES, strict=True)]
    return f", {trainer.seen} positions; held back {', '.join(told)}"


def tenths(curve: Sequence[Sequence[float]]) -> list[list[float]]:
    """Means of ten stretches of a curve, or of its points where they are fewer."""
    ends = np.linspace(0, len(curve), min(10, len(curve)) + 1).astype(int)
    return [_means(curve[begin:end]) for begin, end in pairwise(ends)]


def _means(points: Sequence[Sequence[float]]) -> list[float]:
    means: list[float] = np.mean([[float(number) for number in point] for point in points], 0).round(4).tolist()
    return means


def save(draft: SubsetDraft, about: dict[str, Any], out: Path, name: str) -> Path:
    """NAME.safetensors and its card in the directory, which is made where it is not there."""
    file = write_draft(draft, out / f"{name}.safetensors")
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
    "--subset",
    type=click.IntRange(1),
    help=f"Most frequent tokens to score [default: those of the committed draft; {SCORED} of another --target].",
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
    source = click.get_current_context().get_parameter_source
    if start and (given := [each for each in ("layers", "mlp", "subset") if source(each) != ParameterSource.DEFAULT]):
        raise click.UsageError(
            f"--{given[0]} is {options[given[0]]}, and --start has its own: leave one of the two away"
        )
    try:
        pair = load_pair(target, "lookup", dtype, device, backend="torch")
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    reads = some_of(pair.target.config.num_hidden_layers) if options["states"] else ()
    recipe = Recipe(options["layers"], options["mlp"], reads, options["rows"], options["length"])
    if pair.target.device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # products of float32 in TF32, several times as fast
    torch.manual_seed(seed)
    subset = options["subset"] or (SCORED if target else _committed_subset())
    try:
        prompts = read_prompts(pair.tokenizer, options["prompts"])
        keep = lambda draft: write_draft(draft, out / f"{name_of(draft)}.safetensors")  # noqa: E731
        draft, about = distil(pair, recipe, subset, minutes, options["write"], seed, start=start, keep=keep)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    file = save(draft, about, out, name_of(draft))
    saved = Pair(pair.target, load_draft(pair.target, file), pair.tokenizer)  # what is measured is what is in the file
    rows = acceptance.measure(saved, prompts)
    write_card(file, about | {"acceptance": rows} | machine(device))
    click.echo(acceptance.as_markdown(rows))
    click.echo(f"{file}: use it with --draft {file}")


def _committed_subset() -> list[int]:
    from safetensors.torch import load_file

    return list(load_file(DRAFT_FILE)["vocabulary_subset"].tolist())
