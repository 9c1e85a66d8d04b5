"""Training a small draft on text that the target wrote: the target's law of every token, given by one pass over the text."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from llm_demo.distil.muon import muon
from llm_demo.distil.text import Text
from ot_draft.decoding.draft_models import StateDraft, SubsetDraft


@dataclass(frozen=True)
class Recipe:
    """Sizes and rates. layers, mlp: of the draft; mlp: None for the target's width. reads: after how many layers of the target the hidden
    states are taken that the draft reads, if it does (`states.StateTrainer` then trains it). rows, length: of a batch of texts.
    overlap_share: share of 1 - overlap in the loss at the end of the training, of one that reads none."""

    layers: int = 2
    mlp: int | None = None
    reads: tuple[int, ...] = ()
    rows: int = 8
    length: int = 128
    muon: float = 0.01
    adam: float = 3e-4
    warm_up: int = 20
    overlap_share: float = 0.5


def student(target: Any, subset: Sequence[int], recipe: Recipe) -> SubsetDraft:
    """A draft of the target's first layers, in float32, with the target's embedding; only layers and norm are trained.

    Where the feed-forward layers are narrower than the target's, the units of the largest weights are taken.
    """
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = recipe.layers
    config.intermediate_size = recipe.mlp or config.intermediate_size
    device = target.get_input_embeddings().weight.device
    backbone = type(target.model)(config).to(device, torch.float32)
    weights = {name: value.detach().float() for name, value in target.model.state_dict().items()}
    wanted = {}
    for name in backbone.state_dict():
        wanted[name] = weights[name]
        if ".mlp." in name and config.intermediate_size < target.config.intermediate_size:
            kept = _largest_units(weights, name.partition(".mlp.")[0], config.intermediate_size)
            wanted[name] = weights[name][:, kept] if "down_proj" in name else weights[name][kept]
    backbone.load_state_dict(wanted)
    embedding = nn.Embedding.from_pretrained(weights["embed_tokens.weight"], freeze=True)
    backbone.set_input_embeddings(embedding)
    scored = torch.tensor(list(subset), device=device)
    if recipe.reads:
        return StateDraft(backbone, embedding, scored, recipe.reads).to(device)
    return SubsetDraft(backbone, embedding, scored)


def some_of(layers: int) -> tuple[int, ...]:
    """Early, middle and late among so many layers: whose hidden states a draft reads beside the last."""
    return tuple(sorted({max(1, layers // 10), max(1, layers // 2), max(1, layers - max(1, layers // 10))}))


def _largest_units(weights: dict[str, Tensor], layer: str, count: int) -> Tensor:
    names = ("gate_proj", "up_proj", "down_proj")
    gate, up, down = (weights[f"{layer}.mlp.{name}.weight"] for name in names)
    return (gate.norm(dim=1) * up.norm(dim=1) * down.norm(dim=0)).topk(count).indices.sort().values


class Optimizers:
    """Several, each of weights of its own, with its highest rate."""

    def __init__(self, *each: tuple[Any, float]) -> None:
        self.each = each

    def step(self, share: float) -> None:
        """One step of all, at this share of their rates; gradients are gone after it."""
        for optimizer, rate in self.each:
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()


class Trainer:
    """Steps of Muon (matrices) and AdamW (norms) on batches of texts.

    The loss at a position is the cross-entropy of the draft to the target's law, without tokens outside the subset (they add a
    constant), and in the second half of training, more and more, 1 - sum_x min(p, q): the chance that one draft is refused.
    """

    TELLS = ("cross-entropy", "overlap")

    def __init__(self, target: Any, draft: SubsetDraft, recipe: Recipe) -> None:
        self.target, self.draft, self.recipe = target, draft, recipe
        trained = [weight for weight in draft.parameters() if weight.requires_grad]
        matrices = [weight for weight in trained if weight.ndim == 2]
        vectors = [weight for weight in trained if weight.ndim != 2]
        self.optimizers = Optimizers(
            (muon(matrices, recipe.muon), recipe.muon),
            (torch.optim.AdamW(vectors, lr=recipe.adam, weight_decay=0.0), recipe.adam),
        )
        self.steps = 0
        self.device = draft.vocabulary_subset.device

    def step(self, texts: Sequence[Text], progress: float) -> tuple[Tensor, Tensor]:
        """One step on a batch; progress: share of the training that is over. Cross-entropy and overlap before the step, on the device."""
        rate = min(1.0, (self.steps + 1) / self.recipe.warm_up) * (1 - progress)
        share = self.recipe.overlap_share * min(1.0, max(0.0, 4 * (progress - 0.5)))
        entropy, overlap = self.losses(texts)
        ((1 - share) * entropy + share * (1 - overlap)).backward()
        self.optimizers.step(rate)
        self.steps += 1
        return entropy.detach(), overlap.detach()  # as numbers, every step would wait for the device

    def losses(self, texts: Sequence[Text]) -> tuple[Tensor, Tensor]:
        """Means over the positions that the target wrote: cross-entropy on the subset, and sum_x min(p, q)."""
        tokens, counted = batch_of(texts, self.device)
        subset = self.draft.vocabulary_subset
        with torch.no_grad():
            logits = self.target(tokens).logits[counted].float()
            p = (logits[:, subset] - logits.logsumexp(-1, keepdim=True)).exp()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            scores = self.draft(tokens)[counted]
        log_q = scores.float().log_softmax(-1)
        return -(p * log_q).sum(-1).mean(), torch.minimum(p, log_q.exp()).sum(-1).mean()


def batch_of(texts: Sequence[Text], device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens (B, T), filled up on the right, and whether what follows a position was written by the target: bool (B, T)."""
    longest = max(len(text.tokens) for text in texts)
    tokens = torch.zeros(len(texts), longest, dtype=torch.int64)
    counted = torch.zeros(len(texts), longest, dtype=torch.bool)
    for row, text in enumerate(texts):
        tokens[row, : len(text.tokens)] = torch.tensor(text.tokens)
        counted[row, text.start - 1 : len(text.tokens) - 1] = True
    return tokens.to(device), counted.to(device)


def choose(texts: Sequence[Text], rows: int, generator: np.random.Generator) -> list[Text]:
    """A random batch."""
    return [texts[number] for number in generator.integers(len(texts), size=rows)]


def as_tensors(draft: SubsetDraft) -> dict[str, Tensor]:
    """What a file of the draft holds: float16 weights without the embedding, and the subset. `load_draft` reads it."""
    weights: dict[str, Tensor] = {}
    for name, value in draft.state_dict().items():
        kept = name.replace("backbone.", "model.", 1)
        if name.startswith("norm."):
            kept = f"model.{name}"  # a `StateDraft` holds its backbone's last norm itself
        if "embed_tokens" not in name and not name.startswith("head."):
            weights[kept] = value.detach().to("cpu", torch.float16).contiguous()
    facts = {"vocabulary_subset": draft.vocabulary_subset.to("cpu", torch.int32)}
    return weights | facts | ({"reads": torch.tensor(draft.reads, dtype=torch.int32)} if draft.reads else {})


def write_draft(draft: SubsetDraft, file: Path) -> Path:
    """The file, which `load_draft` reads; it is there as a whole or as it was. Its folder is made."""
    from safetensors.torch import save_file

    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    save_file(as_tensors(draft), part, metadata={"licence": "that of the target"})
    return part.replace(file)
