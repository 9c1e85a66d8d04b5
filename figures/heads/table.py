"""Trees of two draft heads of the bundled target: `python -m figures.heads`.

    python -m llm_demo.distil.hidden_states --corpus FILE.npz --out FOLDER --minutes 8    # a corpus of llm_demo.distil.corpus
    python -m figures.heads --hidden-states FOLDER --minutes 2                             # the heads
    python -m figures.heads                                                               # the table, from the stored heads

The target's own head samples the next token. The two heads predict the two positions after it from the state before that token, so their
distributions are those of a position, independent of the other tokens (Medusa, Cai et al. 2024). The table has tokens per target call, the
sampled one included, by drafting method and number of drafted positions, on held-out sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import torch
from torch import Tensor

import ot_draft as otd
from figures.heads.model import PLACES, Heads, train
from llm_demo.bench.trees.measure import Behind, DraftLaws, Models, measure
from llm_demo.bench.trees.methods import JOINT, NAIVE, TOPS, TRAVERSAL, Way
from llm_demo.bench.trees.summary import Cell, Of, cells
from llm_demo.bench.trees.texts import TOGETHER, Context, all_prompts, contexts
from llm_demo.distil.hidden_states import HiddenStates
from llm_demo.models.load import load_pair
from llm_demo.rows import append, read
from ot_draft.trees.drafting.baselines import ConfidentTree

OUT, FILE = Path("figures/data/heads.csv"), Path("figures/data/heads.safetensors")
BUDGETS = (2, 8, 16, 32)
TEMPERATURES = (1.0, 0.6)
NAME = "heads"


class HeadLogits:
    """Logits after prefixes for `DraftLaws`, which depend on the length of the prefix only."""

    def __init__(self, target: Any, heads: Heads, tokens: tuple[int, ...]) -> None:
        """tokens: the context; its last token was sampled by the target's head and is not an input of the heads."""
        with torch.inference_mode():
            state = target.model(torch.tensor([tokens[:-1]])).last_hidden_state[0, -1:]
            self._logits = []
            for place in range(PLACES):
                logits = torch.full((heads.n,), -torch.inf)
                logits[heads.tokens] = heads(state, place)[0]
                self._logits.append(logits)

    def at(self, prefixes: Iterable[tuple[int, ...]]) -> list[Tensor]:
        """Return the logits after prefixes, (n,) each; after the last predicted position, which no tree exceeds, those of that position."""
        return [self._logits[min(len(prefix), PLACES - 1)] for prefix in prefixes]


class BehindHeads(Behind):
    """A context drafted by the heads only, or by the target itself, a bound for trees of fixed tokens."""

    heads: Heads

    def draft(self, name: str) -> DraftLaws:
        logits: Any = HeadLogits(self._models.target, self.heads, self.context.tokens) if name == NAME else self.target
        return DraftLaws(logits, self.context.temperature)


def likeliest(budget: int) -> otd.trees.TreeDrafter:
    """Return the prefixes with the largest products of probabilities: DDTree, and OPT-Tree for distributions along the path."""
    return ConfidentTree(budget, PLACES, budget, budget)


def chains(budget: int, law: otd.DraftLaw) -> otd.trees.TreeDrafter:
    """Return paths over all positions."""
    return otd.trees.FixedTree.chains(budget // PLACES, PLACES, law)


def branching(budget: int) -> otd.trees.TreeDrafter:
    """Return half of the nodes at the first position, without replacement, and one after each."""
    return otd.trees.FixedTree(otd.trees.TreeShape.by_level((budget // 2, 1)), otd.WithoutReplacement())


WAYS = {
    "drawn by place, one path": Way(
        lambda plan, budget, greedy: chains(PLACES, otd.IID()), otd.trees.BlockVerification()
    ),
    "drawn by place, paths": Way(lambda plan, budget, greedy: chains(budget, otd.IID()), JOINT),
    "drawn by place, tree": Way(lambda plan, budget, greedy: branching(budget), TRAVERSAL),
    "argmax path": Way(lambda plan, budget, greedy: chains(PLACES, TOPS), NAIVE),
    "likeliest products": Way(lambda plan, budget, greedy: likeliest(budget), NAIVE),
    "adaptive": Way(lambda plan, budget, greedy: otd.trees.AdaptiveTree(budget, PLACES), TRAVERSAL),
    "counted": Way(lambda plan, budget, greedy: otd.trees.CountedTree(budget, PLACES), TRAVERSAL),
}
BEST_FIXED = "likeliest for the target"


def table(target: Any, heads: Heads, places: Iterable[Context], out: Path, n: int) -> None:
    """Append a row per position and number of nodes: expected accepted tokens of every method given its trees."""
    BehindHeads.heads = heads
    done = {(int(row["text"]), float(row["temperature"])) for row in (read(out) if out.exists() else [])}
    plans: Any = {NAME: None, BEST_FIXED: None}  # not used by the methods here
    for context in places:
        if (context.text, context.temperature) not in done:
            behind = BehindHeads(context, Models(target, {}, n))
            bounds = measure(behind, BEST_FIXED, plans, BUDGETS, {BEST_FIXED: WAYS["likeliest products"]})
            for row, bound in zip(measure(behind, NAME, plans, BUDGETS, WAYS), bounds, strict=True):
                append(row | {BEST_FIXED: bound[BEST_FIXED]}, out)


def as_markdown(found: Mapping[Cell, Of]) -> str:
    """Return a row per method: tokens per target call by temperature and number of positions, and their largest standard error."""
    heads = [f"T {temperature:g}, {nodes}" for _, temperature, nodes in found]
    lines = [f"| way | {' | '.join(heads)} | error |", "|---" * (len(heads) + 2) + "|"]
    for way in (*WAYS, BEST_FIXED):
        means = [f"{1 + of.mean(way):.2f}" for of in found.values()]
        lines.append(f"| {way} | {' | '.join(means)} | {max(of.error(way) for of in found.values()):.2f} |")
    return "\n".join(lines)


@click.command()
@click.option(
    "--hidden-states",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of hidden states to train on.",
)
@click.option("--minutes", default=2.0, show_default=True, type=click.FloatRange(min=0, min_open=True), help="Of CPU.")
@click.option("--heads", "file", default=FILE, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--texts", default=60, show_default=True, help="Number of prompts, of all kinds in turn.")
@click.option("--summary", "summary_only", is_flag=True, help="Print the table of OUT without measuring.")
def main(hidden_states: Path | None, minutes: float, file: Path, out: Path, texts: int, summary_only: bool) -> None:
    """Train the heads if hidden states are given, else measure their trees into OUT, and print the table."""
    torch.set_num_threads(1)
    if not summary_only:
        pair = load_pair(backend="torch")
        if hidden_states is not None:
            train(pair.target, HiddenStates.open(hidden_states), minutes).write(file)
            return
        prompts, _ = all_prompts(pair.tokenizer)
        prompts = prompts[:texts]
        places = (
            context
            for group in range(-(-len(prompts) // TOGETHER))
            for temperature in TEMPERATURES
            for context in contexts(pair, prompts, group, temperature)
        )
        table(pair.target, Heads.read(file, pair.target), places, out, pair.n)
    click.echo(as_markdown(cells(read(out))))
