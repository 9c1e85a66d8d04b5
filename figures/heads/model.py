"""Two draft heads on the target's last hidden state, and their training: cross-entropy to the target's distributions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import silu

from llm_demo.distil.hidden_states import HiddenStates, counted_places
from llm_demo.distil.text import frequent_tokens

PLACES, SCORED = 2, 4096  # positions that heads draft, and the most frequent tokens, which alone have mass
HELD_BACK = 1  # batches of held-out sequences
ROWS = 2  # sequences per step


class Heads(nn.Module):
    """Medusa's blocks: one state per position from the target's last hidden state; the target's head scores them."""

    tokens: Tensor

    def __init__(self, embedding: Tensor, tokens: Tensor) -> None:
        """embedding: (n, width), the target's head. tokens: the scored tokens, increasing."""
        super().__init__()
        self.n, width = embedding.shape
        self.register_buffer("tokens", tokens.long())
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(PLACES))
        self.head = embedding[tokens.long()].detach().float()
        for weight in self.blocks.parameters():
            nn.init.zeros_(weight)

    def forward(self, states: Tensor, place: int) -> Tensor:
        """Return the logits on the tokens (N, s) of a position after the next one, from last hidden states (N, width)."""
        return (states + silu(self.blocks[place](states))) @ self.head.T

    def write(self, file: Path) -> None:
        """Write tokens and blocks, in float16; the head is the target's."""
        save_file(
            {name: x.to(torch.int32 if name == "tokens" else torch.float16) for name, x in self.state_dict().items()},
            file,
        )

    @classmethod
    def read(cls, file: Path, target: Any) -> Heads:
        """Read what `write` wrote, with its target."""
        stored = load_file(file)
        heads = cls(target.get_input_embeddings().weight, stored["tokens"])
        heads.load_state_dict(stored)
        return heads


def loss(heads: Heads, hidden_states: HiddenStates, batch: np.ndarray) -> Tensor:
    """Return the cross-entropies (PLACES,) to the target's distributions; a head that is their mean minimises them."""
    _, states, log_sums = hidden_states.arrays(batch)
    counted, last, found = counted_places(hidden_states, batch), states[:, :, -1], []
    for place in range(PLACES):
        ahead = place + 1
        here = counted[:, :-ahead] & counted[:, ahead:]
        reads, then, total = last[:, :-ahead][here], last[:, ahead:][here], log_sums[:, ahead:, 0][here]
        wanted = (then @ heads.head.T - total[:, None]).exp()
        found.append(-(wanted * heads(reads, place).log_softmax(-1)).sum(-1).mean())
    return torch.stack(found)


def held_back_means(heads: Heads, known: HiddenStates, batches: list[np.ndarray]) -> list[float]:
    """Return the loss by position on held-out sequences."""
    with torch.no_grad():
        return torch.stack([loss(heads, known, batch) for batch in batches]).mean(0).tolist()


def train(target: Any, known: HiddenStates, minutes: float, seed: int = 0) -> Heads:
    """Train heads for this many CPU minutes by AdamW on random sequences; those of the first batch are held out."""
    tokens = frequent_tokens(known.texts, SCORED, target.config.vocab_size)
    heads = Heads(target.get_input_embeddings().weight.detach(), torch.tensor(tokens))
    optimizer = torch.optim.AdamW(heads.parameters(), lr=1e-3, weight_decay=0.0)
    batches = [batch[batch >= 0] for batch in known.batches if known.done[batch[batch >= 0]].all()]
    held_back, texts = batches[:HELD_BACK], np.concatenate(batches[HELD_BACK:])
    generator, begun, steps, said = np.random.default_rng(seed), time.process_time(), 0, -1
    while (progress := (time.process_time() - begun) / (60 * minutes)) < 1:
        if int(3 * progress) > said:
            said = int(3 * progress)
            means = held_back_means(heads, known, held_back)
            click.echo(f"step {steps} ({steps * ROWS / len(texts):.1f} times all sequences): held out {means}")
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (1 - progress)
        loss(heads, known, generator.choice(texts, ROWS, replace=False)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
    return heads
