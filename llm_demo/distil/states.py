"""Train a draft that reads the target's hidden states: `python -m llm_demo.distil.states --hidden-states FOLDER --out FILE.safetensors`.

FOLDER is written by `llm_demo.distil.hidden_states`, which may still be running; several folders are one corpus. The loss at a position is
the total variation distance, 1 - sum_x min(p, q), which is the rejection probability of one draft, at temperature 1 and, for a share COLD
of the positions, at 0.6. Half of the texts are read twice more, with the draft's own states as in drafting (`passes`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from llm_demo.distil.hidden_states import (
    PRODUCTS,
    ROWS_ON_A_GPU,
    TEMPERATURES,
    HeldStates,
    HiddenStates,
    counted_places,
    sent,
)
from llm_demo.distil.muon import muon
from llm_demo.distil.passes import LATER, passes
from llm_demo.distil.text import frequent_tokens
from llm_demo.distil.train import Optimizers, write_draft
from llm_demo.models.load import DRAFT_FILE, load_pair
from ot_draft.decoding import CannotDecode, load_draft
from ot_draft.decoding.draft_models import StateDraft, SubsetDraft, features_of

COLD = 0.35  # share of the positions at the second temperature
CHUNK = 64  # number of rows of logits per chunk on a CPU
HELD_BACK = 6  # number of held-out batches


@dataclass(frozen=True)
class Weights:
    """Weights of three losses of a position: the total variation distance, KL(p, q), and -log of the acceptance with one draft."""

    distance: float = 1.0
    kl: float = 0.0
    log_acceptance: float = 0.0


def kl_first(progress: float) -> Weights:
    """Return the weights after this share of the training: KL at its start, -log acceptance from its middle on.

    References
    ----------
    .. [1] LK losses, arXiv:2602.23881, 2026: from KL to -log acceptance.
    """
    share = max(0.0, 1 - 2 * progress)
    return Weights(0.0, share, 1 - share)


class Distance(torch.autograd.Function):
    """Mean total variation distance on the subset, in chunks of rows; the forward pass computes the gradient, so that no logits are kept.

    The gradient is that of the weighted losses, which by default are the distance.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, wanted: list[Tensor], inverse: Tensor, head: Tensor, weights: Weights = Weights()
    ) -> Tensor:
        """Return the distance.

        states: (N, width), normed, as inputs of the head. wanted: the target's masses, by chunk. inverse: (N,), 1 / temperature. head:
        (s, width), in the data type of the product.
        """
        gradient, overlap, end = torch.empty_like(states), states.new_zeros(()), 0
        for p in wanted:
            rows = slice(end, end + len(p))
            end, scale = rows.stop, inverse[rows, None]
            q = ((states[rows].to(head.dtype) @ head.T) * scale).softmax(-1)
            covered = torch.minimum(p, q).sum(-1, keepdim=True)
            overlap += covered.sum()
            towards = p - q * p.sum(-1, keepdim=True) if weights.kl else None
            rising = q * (q < p)  # where the overlap increases with q
            rising.sub_(q.mul_(rising.sum(-1, keepdim=True)))
            if weights.log_acceptance:
                smallest = torch.finfo(covered.dtype).eps  # an acceptance of 0 has no gradient
                rising.mul_(weights.distance + weights.log_acceptance / covered.clamp(min=smallest))
            else:
                rising.mul_(weights.distance)
            if towards is not None:
                rising.add_(towards, alpha=weights.kl)
            gradient[rows] = (rising * scale).to(head.dtype) @ head
        ctx.save_for_backward(gradient / -len(states))
        return 1 - overlap / len(states)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return above * ctx.saved_tensors[0], None, None, None, None


def state_draft(target: Any, file: Path, reads: Sequence[int], subset: Tensor | None = None) -> StateDraft:
    """Return the draft of a file as a hidden-state draft that reads the target's states after the layers `reads`.

    subset: the tokens that it scores, by default those of the file. Raises CannotDecode if the file's draft reads other layers, or belongs
    to another target.
    """
    found = fitting(target, file, reads)
    with_states = isinstance(found, StateDraft)
    if with_states:
        found.backbone.norm = found.norm  # where the constructor of the new one expects it
    subset = found.vocabulary_subset if subset is None else subset
    draft = StateDraft(found.backbone, target.get_input_embeddings(), subset, reads)
    if with_states:
        draft.load_state_dict({**found.state_dict(), "head.weight": draft.head.weight})
    for name, weight in draft.named_parameters():
        weight.requires_grad_("embed_tokens" not in name and not name.startswith("head"))
    return draft.float().train()


def fitting(target: Any, file: Path, reads: Sequence[int]) -> SubsetDraft:
    """Return the draft of a file. Raises CannotDecode if it is not a draft of this target, or reads states after other layers."""
    try:
        found = load_draft(target, file)
    except (RuntimeError, KeyError, AttributeError, IndexError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CannotDecode(
            f"{file.name} is not a draft of this target ({type(error).__name__}: {reason}). Use a draft that was trained for it."
        ) from None
    if found.reads and found.reads != tuple(reads):
        raise CannotDecode(f"draft must read states after layers {tuple(reads)}, got {found.reads}. Use another draft.")
    return found


class StateTrainer:
    """Training with Muon (matrices) and AdamW (norms) on batches of texts with stored hidden states."""

    TELLS = ("overlap", *(f"after {count + 1} drafted" for count in range(len(LATER))))

    def __init__(
        self,
        draft: StateDraft,
        hidden_states: Sequence[HiddenStates | HeldStates],
        rate: float,
        new_rate: float,
        seed: int,
        products: torch.dtype = torch.float32,
        weights: Callable[[float], Weights] = lambda progress: Weights(),
    ) -> None:
        """Prepare the training.

        rate, new_rate: maximum rates of Muon, for the layers and for the weights that read states. products: data type of matrix products.
        weights: function from the completed share of the training to the weights of the losses.
        """
        self.weights, self.weights_of = Weights(), weights
        self.draft, self.hidden_states, self.device = draft, hidden_states, draft.vocabulary_subset.device
        self.chunk = CHUNK if self.device.type == "cpu" else ROWS_ON_A_GPU
        self.products, self.head = products, draft.head.weight.to(products)
        self.inverse = 1 / torch.tensor(TEMPERATURES, device=self.device)
        self.random = np.random.default_rng(seed)
        trained = [(name, weight) for name, weight in draft.named_parameters() if weight.requires_grad]
        layers = [w for name, w in trained if w.ndim == 2 and name.startswith("backbone")]
        others = [w for name, w in trained if w.ndim == 2 and not name.startswith("backbone")]
        norms = [w for _, w in trained if w.ndim == 1]
        self.optimizers = Optimizers(
            (muon(layers, rate, products), rate),
            (muon(others, new_rate, products), new_rate),
            (torch.optim.AdamW(norms, lr=5e-4, weight_decay=0.0), 5e-4),
        )
        self.steps = self.seen = 0
        if len({tuple(each.reads) for each in hidden_states}) > 1:
            raise CannotDecode(
                "--hidden-states must be folders of states after the same layers. Use folders of one target."
            )
        known = self.known()
        if len(known) <= HELD_BACK:
            raise CannotDecode(
                f"--hidden-states must have at least {HELD_BACK + 1} batches, got {len(known)}. Wait until the target has read more texts."
            )
        self.held_back = dict(list(known.items())[:HELD_BACK])
        self.queue: list[Batch] = []

    def known(self) -> dict[tuple[int, int], Batch]:
        """Return the batches that the target has read, by folder and number; their order may change while folders are written."""
        full = {
            (folder, number): (hidden_states, batch[batch >= 0])
            for folder, hidden_states in enumerate(self.hidden_states)
            for number, batch in enumerate(hidden_states.batches)
        }
        return {name: batch for name, batch in full.items() if batch[0].done[batch[1]].all()}

    def next(self) -> Batch:
        """Return a batch: every known batch is used once, in random order, before any is repeated."""
        if not self.queue:
            known = [batch for name, batch in self.known().items() if name not in self.held_back]
            self.queue = [known[number] for number in self.random.permutation(len(known))]
        return self.queue.pop()

    def step(self, progress: float) -> Tensor:
        """Train one step, and return the overlaps of all passes before it, (1 + len(LATER),). progress: completed share of the training."""
        rate = min(1.0, (self.steps + 1) / 20) * max(1 - progress, 0.01)
        self.weights = self.weights_of(progress)
        hidden_states, batch = self.next()
        losses = self.losses(hidden_states, batch, lambda count: (torch.rand(count) < COLD).long())
        sum(weight * loss for weight, loss in zip((1.0, *LATER), losses, strict=True)).backward()
        self.optimizers.step(rate)
        self.steps += 1
        self.seen += int((hidden_states.lengths - hidden_states.written)[batch].sum()) + len(batch)
        return 1 - torch.stack(losses).detach()

    def check(self, temperature: int) -> list[float]:
        """Return mean overlaps of all passes on the held-out texts, at a temperature given by its index in `TEMPERATURES`."""
        batches = list(self.held_back.values())
        with torch.no_grad():
            of = [self.losses(*batch, lambda count: torch.full((count,), temperature)) for batch in batches]
        positions = [counted_places(*batch).sum(1) for batch in batches]
        counts = torch.tensor(
            [[int(each.sum())] + len(LATER) * [int(each[: half_of(each)].sum())] for each in positions]
        )
        found = torch.stack([torch.stack(each) for each in of]).cpu()  # synchronises with the device once
        means: list[float] = (1 - (found * counts).sum(0) / counts.sum(0)).tolist()
        return means

    def losses(
        self, hidden_states: HiddenStates | HeldStates, batch: np.ndarray, choose: Callable[[int], Tensor]
    ) -> list[Any]:
        """Return the distances in the first pass, and in the others for the first half of the texts.

        choose(N): returns indices in TEMPERATURES, int (N,).
        """
        tokens, states, log_sums = hidden_states.arrays(batch)
        counts, half = counted_places(hidden_states, batch), half_of(batch)
        counted = sent(counts.flatten().nonzero().squeeze(1), self.device)
        again = counted[: int(counts[:half].sum())]
        last = states[:, :, -1]
        epsilon: Any = self.draft.norm.variance_epsilon
        features = torch.cat((states[:, :, :-1].flatten(2), features_of([last], (), epsilon)), -1)
        chosen = sent(choose(len(counted)), self.device)
        inverse = self.inverse[chosen]
        sums = log_sums.flatten(0, 1)[counted].gather(1, chosen[:, None])
        of_head = last.flatten(0, 1)[counted].to(self.products)
        parts = (each.split(self.chunk) for each in (of_head, inverse, sums))
        wanted = [
            ((rows @ self.head.T) * scale[:, None] - total).exp() for rows, scale, total in zip(*parts, strict=True)
        ]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.products != torch.float32):
            by_pass = passes(self.draft, tokens, features, half)
        repeated = torch.cat(wanted)[: len(again)].split(self.chunk)
        losses = []
        for number, found in enumerate(by_pass):
            positions, p = (again, list(repeated)) if number else (counted, wanted)
            own = self.draft.norm(found.flatten(0, 1)[positions])
            losses.append(Distance.apply(own, p, inverse[: len(positions)], self.head, self.weights))
        return losses


Batch = tuple[HiddenStates | HeldStates, np.ndarray]


def half_of(batch: Any) -> int:
    """Return the number of first texts of a batch that are read again after draft tokens."""
    return (len(batch) + 1) // 2


@click.command()
@click.option(
    "--hidden-states",
    required=True,
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of hidden states; may be repeated.",
)
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File of the draft.")
@click.option("--start", default=DRAFT_FILE, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--subset", type=click.IntRange(1), help="Most frequent tokens to score [default: those of the start].")
@click.option("--minutes", default=60.0, show_default=True, type=click.FloatRange(min=0, min_open=True))
@click.option("--rate", default=0.004, show_default=True, help="Maximum rate of Muon for the layers.")
@click.option(
    "--new-rate", default=0.006, show_default=True, help="Maximum rate of Muon for the weights that read states."
)
@click.option(
    "--dtype",
    default="float32",
    show_default=True,
    type=click.Choice(list(PRODUCTS)),
    help="Data type of matrix products; bfloat16 is several times as fast on processors that support it.",
)
@click.option("--threads", default=1, show_default=True, help="Number of torch threads.")
@click.option("--seed", default=0, show_default=True)
def main(
    hidden_states: tuple[Path, ...], out: Path, start: Path, subset: int | None, minutes: float, **options: Any
) -> None:
    """Train a draft on hidden states, from the weights of another one, and write it."""
    torch.set_num_threads(options["threads"])
    torch.manual_seed(options["seed"])
    known = [HiddenStates.open(folder) for folder in hidden_states]
    target = load_pair(backend="torch").target
    n, texts = target.config.vocab_size, [text for each in known for text in each.texts]
    tokens = None if subset is None else torch.tensor(frequent_tokens(texts, subset, n))
    rates, products = (options["rate"], options["new_rate"]), PRODUCTS[options["dtype"]]
    try:
        draft = state_draft(target, start, known[0].reads.tolist(), tokens)
        trainer = StateTrainer(draft, known, *rates, options["seed"], products)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    del target.model.layers  # only embedding and head are needed
    begun, said, curve = time.perf_counter(), -1, list[list[float]]()
    while (progress := (time.perf_counter() - begun) / (60 * minutes)) < 1:
        if int(20 * progress) > said:
            said = int(20 * progress)
            held = [f"{value:.4f}" for number in range(len(TEMPERATURES)) for value in trainer.check(number)]
            means = np.mean(curve[-50:] or [[0.0] * (1 + len(LATER))], 0).round(4).tolist()
            click.echo(f"step {trainer.steps}, {trainer.seen} positions: {means}; held back {' '.join(held)}")
            write_draft(draft, out)
        curve.append(trainer.step(progress).tolist())
    write_draft(draft, out)


if __name__ == "__main__":
    main()
