"""Comparison of training losses for k drafts: `python -m llm_demo.distil.losses --corpus FILE.npz --out FILE.csv`.

There is one student per loss. All start from the same draft and use the same optimizer and the same batches in the same order, with one
forward pass of the target for all. The losses are cross-entropy (the KL divergence up to a constant), the total variation distance,
`acceptance_loss` (-log of the optimal acceptance with k i.i.d. drafts) and `accepted_length_loss` of paths of LENGTH tokens. Acceptance is
measured on held-out texts at every k, at temperatures 1 and 0.6, as the difference to the student trained for one draft at the same
positions. The accepted length of a path is that of block verification at temperature 1, on texts sampled at temperature 1.

CORPUS: a file of `llm_demo.distil.text.write_corpus`. If it has an array `temperature`, texts at other temperatures than 1 are omitted,
because the accepted length is a mean over samples from the target's distribution.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor

import ot_draft as otd
from llm_demo.data.continue_prompts import read_entries
from llm_demo.distil.text import Text, read_corpus
from llm_demo.distil.train import batch_of
from llm_demo.models.load import load_pair
from llm_demo.rows import Row, write
from ot_draft.data.summary import clustered_error
from ot_draft.decoding import Pair
from ot_draft.decoding.draft_models import SubsetDraft
from ot_draft.decoding.load import DTYPES
from ot_draft.decoding.pair import prompt_text

HELD_OUT = Path("figures/data/contexts.jsonl")
KS, TEMPERATURES = (1, 2, 4, 8), (1.0, 0.6)
LENGTH = 4  # number of tokens of a path, and of every run of positions of a step
LAST, EVERY = 48, LENGTH  # measured positions: every EVERY-th of the last LAST of a text
ONE_DRAFT = "acceptance, k = 1"
# (p, log q, indices) -> losses (N, LENGTH) or (N, 1). p, log q: on the subset, (N, LENGTH, s). indices: of the text's tokens in the subset,
# -1 for others, int (N, LENGTH).
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def for_drafts(k: int) -> Loss:
    """Return the loss -log of the optimal acceptance with k i.i.d. drafts."""
    return lambda p, log_q, text: otd.losses.acceptance_loss(p, log_q.exp(), k)


def for_a_path(p: Tensor, log_q: Tensor, text: Tensor) -> Tensor:
    """Return minus the accepted length of a path; all tokens outside the subset are one additional token, which is never drafted."""
    outside = (1 - p.sum(-1, keepdim=True)).clamp(min=torch.finfo(p.dtype).tiny)
    p, q = torch.cat((p, outside), -1), torch.nn.functional.pad(log_q.exp(), (0, 1))
    return otd.losses.accepted_length_loss(p, q, text % p.shape[-1])[:, None]


LOSSES: dict[str, Loss] = {
    ONE_DRAFT: for_drafts(1),
    "acceptance, k = 4": for_drafts(4),
    "acceptance, k = 8": for_drafts(8),
    "cross-entropy": lambda p, log_q, text: -(p * log_q).sum(-1),
    "total variation": lambda p, log_q, text: 1 - torch.minimum(p, log_q.exp()).sum(-1),
    f"accepted length, L = {LENGTH}": for_a_path,
}


class Student:
    """A copy of the draft, with its loss and optimizer."""

    def __init__(self, draft: SubsetDraft, loss: Loss, rate: float) -> None:
        self.draft, self.loss, self.rate = copy.deepcopy(draft).train(), loss, rate
        self.own = [
            weight for name, weight in self.draft.backbone.named_parameters() if not name.startswith("embed_tokens")
        ]
        self.optimizer = torch.optim.AdamW([weight.requires_grad_() for weight in self.own], lr=rate, weight_decay=0.0)

    def step(self, tokens: Tensor, positions: tuple[Tensor, Tensor], p: Tensor, text: Tensor, progress: float) -> float:
        """Train one step on positions (N, LENGTH) of a batch; return the loss before it."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1.0, 20 * progress + 0.05) * (1 - progress)
        loss = self.loss(p, self.draft.head(self._states(tokens)[positions]).log_softmax(-1), text).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.own, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    def _states(self, tokens: Tensor) -> Tensor:
        return self.draft.backbone(tokens, use_cache=False).last_hidden_state


def train(
    target: Any,
    students: dict[str, Student],
    texts: Sequence[Text],
    rows: int,
    positions: int,
    seconds: float,
    seed: int,
) -> Iterator[dict[str, float]]:
    """Train on batches of `rows` texts, at `positions` of their positions, for `seconds`; yield all losses before each step.

    Positions are chosen in runs of LENGTH.
    """
    generator, start = np.random.default_rng(seed), perf_counter()
    subset = next(iter(students.values())).draft.vocabulary_subset
    where = subset.new_full((target.config.vocab_size,), -1).scatter_(0, subset, torch.arange(len(subset)).to(subset))
    while (progress := (perf_counter() - start) / seconds) < 1:
        tokens, counted = batch_of([texts[i] for i in generator.integers(len(texts), size=rows)], subset.device)
        found = counted.unfold(1, LENGTH, 1).all(-1).nonzero()
        chosen = found[np.sort(generator.permutation(len(found))[: -(-positions // LENGTH)])]
        at = (chosen[:, :1], chosen[:, 1:] + torch.arange(LENGTH, device=subset.device))
        with torch.no_grad():
            states = target.model(tokens, use_cache=False).last_hidden_state[at]
            p = target.lm_head(states).softmax(-1)[..., subset]
        text = where[tokens[at[0], at[1] + 1]]
        yield {name: student.step(tokens, at, p, text, progress) for name, student in students.items()}


def texts_of(corpus: Path, length: int) -> list[Text]:
    """Return the texts of a corpus, truncated to `length` tokens; texts without a run of LENGTH generated tokens are omitted."""
    with np.load(corpus) as arrays:
        own = arrays["temperature"] == 1 if "temperature" in arrays else np.ones(len(arrays["starts"]), dtype=bool)
    cut = [
        Text(text.tokens[:length], text.start) for text, drawn in zip(read_corpus(corpus), own, strict=True) if drawn
    ]
    return [text for text in cut if text.start + LENGTH <= len(text.tokens)]


@torch.inference_mode()
def accepted(pair: Pair, text: Sequence[int]) -> np.ndarray:
    """Return the optimal acceptance at the measured positions, for every temperature and k: (temperatures, ks, positions)."""
    positions = range(max(1, len(text) - LAST), len(text), EVERY)
    p, q = pair.logits_along(text, positions)
    laws = [((p.double() / t).softmax(-1), (q.double() / t).softmax(-1)) for t in TEMPERATURES]
    return np.array([[otd.optimal_acceptance(a, b, k).numpy() for k in KS] for a, b in laws])


@torch.inference_mode()
def accepted_length(pair: Pair, text: Sequence[int]) -> np.ndarray:
    """Return expected accepted lengths of paths from the measured positions on, at temperature 1, along a text sampled at it."""
    first = max(1, len(text) - LAST)
    count = (len(text) - first) // LENGTH
    p, q = (
        logits.softmax(-1).view(count, LENGTH, -1)
        for logits in pair.logits_along(text, range(first, first + count * LENGTH))
    )
    return -otd.losses.accepted_length_loss(
        p, q, torch.tensor(text[first : first + count * LENGTH]).view(count, -1)
    ).numpy()


def compare(pair: Pair, students: dict[str, Student], start: SubsetDraft, limit: int) -> list[Row]:
    """Return a row per loss, temperature, k and L: acceptance, and the mean difference to the student for one draft with its error."""
    entries = read_entries(HELD_OUT)
    chosen = [entries[int(i * len(entries) / limit)] for i in range(limit)]
    written = [prompt_text(entry, pair.tokenizer) + entry["text"] for entry in chosen]
    texts = [pair.tokenizer(text, add_special_tokens=False).input_ids[-400:] for text in written]
    own = [text for text, entry in zip(texts, chosen, strict=True) if entry.get("temperature") == 1]
    values: dict[tuple[float, int, int], dict[str, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for name, draft in {"before": start, **{name: student.draft.eval() for name, student in students.items()}}.items():
        drafted = replace(pair, draft=draft)
        for text in texts:
            for temperature, table in zip(TEMPERATURES, accepted(drafted, text), strict=True):
                for k, at_k in zip(KS, table, strict=True):
                    values[temperature, k, 1][name].append(at_k)
        for text in own:
            values[1.0, 1, LENGTH][name].append(accepted_length(drafted, text))
    rows: list[Row] = []
    for (temperature, k, length), each in values.items():
        number = [index for index, part in enumerate(each[ONE_DRAFT]) for _ in part]
        for name, parts in each.items():
            found, more = np.concatenate(parts), np.concatenate(parts) - np.concatenate(each[ONE_DRAFT])
            row: Row = {
                "loss": name,
                "temperature": temperature,
                "k": k,
                "L": length,
                "acceptance": f"{found.mean():.5f}",
            }
            row |= {"more": f"{more.mean():.5f}", "error": f"{clustered_error(more.tolist(), number):.5f}"}
            rows.append(row | {"positions": len(number), "texts": len(parts)})
    return rows


@click.command()
@click.option("--corpus", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file of the table.")
@click.option("--minutes", default=30.0, show_default=True, type=click.FloatRange(min=0, min_open=True))
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)), help="Data type of the target."
)
@click.option("--rows", default=8, show_default=True, type=click.IntRange(1), help="Number of texts per step.")
@click.option(
    "--length", default=128, show_default=True, type=click.IntRange(2), help="Maximum number of tokens per text."
)
@click.option(
    "--positions", default=384, show_default=True, type=click.IntRange(1), help="Number of positions per step."
)
@click.option("--rate", default=2e-4, show_default=True, help="Maximum learning rate of AdamW.")
@click.option(
    "--held-out", default=160, show_default=True, type=click.IntRange(2), help="Number of texts for the measurement."
)
@click.option("--threads", default=1, show_default=True, help="Number of torch threads on the CPU.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--loss", "losses", multiple=True, type=click.Choice(list(LOSSES)), help="Losses to train with [default: all]."
)
def main(corpus: Path, out: Path, minutes: float, device: str, dtype: str, **options: Any) -> None:
    """Train a student for every loss, and write their acceptance to OUT."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(options["seed"])
    pair = load_pair(dtype=dtype, device=device, backend="torch")
    target, start = pair.target, pair.draft.float()
    wanted = {ONE_DRAFT, *(options["losses"] or LOSSES)}
    students = {name: Student(start, loss, options["rate"]) for name, loss in LOSSES.items() if name in wanted}
    texts = texts_of(corpus, options["length"])
    curve: list[dict[str, float]] = []
    sizes = (options["rows"], options["positions"], 60 * minutes, options["seed"])
    for losses in train(target, students, texts, *sizes):
        curve.append(losses)
        if len(curve) % 10 == 0:
            means = {name: float(np.mean([step[name] for step in curve[-10:]])) for name in students}
            click.echo(f"step {len(curve)}: " + ", ".join(f"{name} {mean:.4f}" for name, mean in means.items()))
    rows = compare(pair, students, start, options["held_out"])
    about = {"steps": len(curve), "positions_a_step": options["positions"], "rate": options["rate"]}
    write([row | about for row in rows], out)
    for row in rows:
        click.echo("  ".join(str(value) for value in row.values()))


if __name__ == "__main__":
    main()
