"""Train a draft that reads the target's hidden states: `python -m llm_demo.distil.states --thoughts FOLDER --out FILE.safetensors`.

FOLDER is what `llm_demo.distil.thoughts` keeps, which may still be at work: what it has read is used. The loss at a position is the total
variation distance, 1 - sum_x min(p, q), which is what one draft loses, at temperature 1 and, in a share COLD of the positions, at .6.
Half of the texts are read a second time as drafting reads what it drafted itself (`passes`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from llm_demo.distil.muon import muon
from llm_demo.distil.passes import SECOND_PASS, both_passes
from llm_demo.distil.thoughts import READS, TEMPERATURES, Thoughts
from llm_demo.distil.train import as_tensors
from llm_demo.models.load import DRAFT_FILE, load_draft, load_pair
from ot_draft.decoding import StateDraft

COLD = 0.35  # share of the positions at the second temperature
CHUNK = 256  # rows of logits at a time
HELD_BACK = 6  # batches that only tell how well it does


class Distance(torch.autograd.Function):
    """Mean total variation distance on the subset, rows in chunks; the gradient is made on the way, so that no logits are kept."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, wanted: list[Tensor], inverse: Tensor, head: Tensor) -> Tensor:
        """states (N, width), normed as the head takes them; wanted: the target's masses, by chunk; inverse: (N,) 1 / temperature."""
        gradient, overlap = torch.empty_like(states), 0.0
        for number, p in enumerate(wanted):
            rows = slice(number * CHUNK, number * CHUNK + len(p))
            scale = inverse[rows, None]
            q = ((states[rows] @ head.T) * scale).softmax(-1)
            overlap += float(torch.minimum(p, q).sum())
            rising = q * (q < p)  # where more of q is more overlap
            rising.sub_(q.mul_(rising.sum(-1, keepdim=True)))
            gradient[rows] = (rising * scale) @ head
        ctx.save_for_backward(gradient / -len(states))
        return states.new_tensor(1 - overlap / len(states))

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return above * ctx.saved_tensors[0], None, None, None


def state_draft(target: Any, file: Path, subset: Tensor | None) -> StateDraft:
    """A draft of a file, as one that reads the target's states if it did not yet. subset: the tokens that it is to score [the file's]."""
    found = load_draft(target, file)
    subset = found.vocabulary_subset if subset is None else subset
    embedding = target.get_input_embeddings()
    knew = isinstance(found, StateDraft)
    if knew:
        found.backbone.norm = found.norm
    draft = StateDraft(found.backbone, embedding, subset, found.reads or READS)
    if knew:
        for name in ("fuse", "norm_states", "project"):
            getattr(draft, name).load_state_dict(getattr(found, name).state_dict())
    for name, weight in draft.named_parameters():
        weight.requires_grad_("embed_tokens" not in name and not name.startswith("head"))
    return draft.float().train()


class StateTrainer:
    """Steps of Muon (matrices) and AdamW (norms) on batches of texts whose states are known."""

    def __init__(self, draft: StateDraft, thoughts: Thoughts, rate: float, new_rate: float, seed: int) -> None:
        """rate, new_rate: Muon's highest, of the layers and of what reads the states."""
        self.draft, self.thoughts = draft, thoughts
        self.random = np.random.default_rng(seed)
        trained = [(name, weight) for name, weight in draft.named_parameters() if weight.requires_grad]
        layers = [w for name, w in trained if w.ndim == 2 and name.startswith("backbone")]
        others = [w for name, w in trained if w.ndim == 2 and not name.startswith("backbone")]
        norms = [w for _, w in trained if w.ndim == 1]
        self.optimizers: list[tuple[Any, float]] = [
            (muon(layers, rate), rate),
            (muon(others, new_rate), new_rate),
            (torch.optim.AdamW(norms, lr=5e-4, weight_decay=0.0), 5e-4),
        ]
        self.steps = self.seen = 0
        self.held_back = self.known()[:HELD_BACK]
        self.queue: list[np.ndarray] = []

    def known(self) -> list[np.ndarray]:
        """The batches that the target has read, in its order."""
        full = [batch[batch >= 0] for batch in self.thoughts.batches]
        return [batch for batch in full if self.thoughts.done[batch].all()]

    def next(self) -> np.ndarray:
        """A batch: all that are known, in random order, before one comes again."""
        if not self.queue:
            known = self.known()[HELD_BACK:]
            self.queue = [known[number] for number in self.random.permutation(len(known))]
        return self.queue.pop()

    def step(self, progress: float) -> tuple[float, float]:
        """One step; progress: share of the training that is over. Overlaps of both passes before it."""
        rate = min(1.0, (self.steps + 1) / 20) * max(1 - progress, 0.01)
        for optimizer, full in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = full * rate
        first, second = self.losses(self.next(), torch.rand)
        (first + SECOND_PASS * second).backward()
        for optimizer, _ in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.steps += 1
        return 1 - float(first.detach()), 1 - float(second.detach())

    def check(self, temperature: int) -> tuple[float, float]:
        """Mean overlaps of both passes on the texts held back, at a temperature of `thoughts.TEMPERATURES`."""
        with torch.no_grad():
            of = [
                self.losses(batch, lambda size: torch.full((size,), float(1 - temperature))) for batch in self.held_back
            ]
        means = 1 - torch.tensor(of).mean(0)
        return float(means[0]), float(means[1])

    def losses(self, batch: np.ndarray, choose: Any) -> tuple[Tensor, Tensor]:
        """Distances in the first pass and, of the first half of the texts, in the second. choose(N): numbers below COLD are cold."""
        tokens, states, log_sums, counted = self._arrays(batch)
        last = states[:, :, -1]
        features = torch.cat((states[:, :, :-1], rms_norm(last, last.shape[-1:], eps=1e-5).unsqueeze(2)), 2).flatten(2)
        cold = (choose(int(counted.sum())) < COLD).long()
        inverse = 1 / torch.tensor(TEMPERATURES)[cold]
        sums = log_sums[counted].gather(1, cold[:, None])
        wanted = [
            ((rows @ self.draft.head.weight.T) * scale[:, None] - total).exp()
            for rows, scale, total in zip(
                last[counted].split(CHUNK), inverse.split(CHUNK), sums.split(CHUNK), strict=True
            )
        ]
        half, head = (len(tokens) + 1) // 2, self.draft.head.weight
        told, again = both_passes(self.draft, tokens, features, half)
        first = Distance.apply(self.draft.norm(told[counted]), wanted, inverse, head)
        own = again[counted[:half]]
        whole = torch.cat(wanted)[: len(own)].split(CHUNK)
        return first, Distance.apply(self.draft.norm(own), list(whole), inverse[: len(own)], head)

    def _arrays(self, batch: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tokens (B, T), states (B, T, 4, width), logarithms of sums (B, T, 2), and which places count (B, T)."""
        thoughts, places = self.thoughts, [self.thoughts.place(text) for text in batch]
        tokens = thoughts.padded(list(batch))
        counted = torch.zeros(tokens.shape, dtype=torch.bool)
        for row, (text, place) in enumerate(zip(batch, places, strict=True)):
            counted[row, int(thoughts.written[text]) - 1 : place.stop - place.start] = True

        def padded(array: np.ndarray) -> Tensor:
            parts = [torch.from_numpy(array[place].astype(np.float32)) for place in places]
            return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)

        self.seen += int(counted.sum())
        return tokens, padded(thoughts.states), padded(thoughts.log_sums), counted


def save(draft: StateDraft, file: Path) -> None:
    """A file that `load_draft` reads."""
    from safetensors.torch import save_file

    save_file(as_tensors(draft), file, metadata={"licence": "that of the target"})


@click.command()
@click.option(
    "--thoughts", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder."
)
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The draft's file.")
@click.option("--start", default=DRAFT_FILE, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--subset", type=click.IntRange(1), help="Most frequent tokens to score [default: those of the start].")
@click.option("--minutes", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True))
@click.option("--rate", default=0.004, show_default=True, help="Muon's, of the layers, at its highest.")
@click.option("--new-rate", default=0.006, show_default=True, help="Muon's, of what reads the states.")
@click.option("--threads", default=1, show_default=True, help="Of torch.")
@click.option("--seed", default=0, show_default=True)
def main(thoughts: Path, out: Path, start: Path, subset: int | None, minutes: float, **options: Any) -> None:
    """Train a draft on FOLDER from another one on, and write it."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(options["seed"])
    known = Thoughts.open(thoughts)
    target = load_pair(packed=False).target
    tokens = None if subset is None else torch.tensor(frequent(known, subset, target.config.vocab_size))
    draft = state_draft(target, start, tokens)
    del target.model.layers  # only embedding and head are wanted
    trainer = StateTrainer(draft, known, options["rate"], options["new_rate"], options["seed"])
    begun, said, curve = time.perf_counter(), -1, list[tuple[float, float]]()
    while (progress := (time.perf_counter() - begun) / (60 * minutes)) < 1:
        if int(20 * progress) > said:
            said = int(20 * progress)
            held = [f"{value:.4f}" for number in range(len(TEMPERATURES)) for value in trainer.check(number)]
            means = np.mean(curve[-50:] or [(0, 0)], 0).round(4).tolist()
            click.echo(f"step {trainer.steps}, {trainer.seen} positions: {means}; held back {' '.join(held)}")
            save(draft, out)
        curve.append(trainer.step(progress))
    save(draft, out)


def frequent(thoughts: Thoughts, size: int, n: int) -> list[int]:
    """The tokens that the target wrote most, increasing."""
    prompts = np.concatenate([np.arange(b, b + w) for b, w in zip(thoughts.starts, thoughts.written, strict=False)])
    written = np.delete(np.asarray(thoughts.tokens), prompts)
    return sorted(np.argsort(-np.bincount(written, minlength=n), kind="stable")[:size].tolist())


if __name__ == "__main__":
    main()
