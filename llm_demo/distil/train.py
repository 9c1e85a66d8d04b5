"""Training a small draft on text that the target wrote: the target's law of every token, given by one pass over the text."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from llm_demo.distil.muon import muon
from llm_demo.distil.passes import SECOND_PASS, both_passes
from llm_demo.distil.text import Text
from ot_draft.decoding.draft_models import StateDraft, SubsetDraft, features_of

COLD = 0.6  # the second temperature, beside 1


@dataclass(frozen=True)
class Recipe:
    """Sizes and rates. layers, mlp: of the draft; mlp: None for the target's width. reads: after how many layers of the target the hidden
    states are taken that the draft reads, if it does. rows, length: of a batch of texts. overlap_from, overlap_share: share of 1 - overlap
    in the loss, in the first half of the training and at its end. cold: share of the positions at temperature COLD, not at 1."""

    layers: int = 2
    mlp: int | None = None
    reads: tuple[int, ...] = ()
    rows: int = 8
    length: int = 128
    muon: float = 0.01
    adam: float = 3e-4
    warm_up: int = 20
    overlap_from: float = 0.0
    overlap_share: float = 0.5
    cold: float = 0.0
    compile: bool = False


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
    constant), and in the second half of training, more and more, 1 - sum_x min(p, q): the chance that one draft is refused; by the recipe
    of a draft that goes on from another one, the latter alone.
    """

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
        self.forward = torch.compile(draft) if recipe.compile else draft

    def step(self, texts: Sequence[Text], progress: float) -> tuple[float, float]:
        """One step on a batch; progress: share of the training that is over. Cross-entropy and overlap before the step."""
        rate = min(1.0, (self.steps + 1) / self.recipe.warm_up) * (1 - progress)
        first, last = self.recipe.overlap_from, self.recipe.overlap_share
        share = first + (last - first) * min(1.0, max(0.0, 4 * (progress - 0.5)))
        passes = self.losses(texts)
        losses = [(1 - share) * entropy + share * (1 - overlap) for entropy, overlap in passes]
        (losses[0] + SECOND_PASS * sum(losses[1:])).backward()
        self.optimizers.step(rate)
        self.steps += 1
        return float(passes[0][0].detach()), float(passes[0][1].detach())

    def losses(self, texts: Sequence[Text]) -> list[tuple[Tensor, Tensor]]:
        """Means over the positions that the target wrote: cross-entropy on the subset, and sum_x min(p, q).

        Of a draft that reads states once more, as it is told where it drafts by itself, on half of the texts.
        """
        tokens, counted = batch_of(texts, self.device)
        subset = self.draft.vocabulary_subset
        on_cuda = self.device.type == "cuda"
        with torch.no_grad():
            output = self.target(tokens, output_hidden_states=bool(self.draft.reads))
            logits = output.logits[counted]
            cold = torch.rand(len(logits), 1, device=self.device) < self.recipe.cold
            inverse = torch.where(cold, 1 / COLD, 1.0)
            p = (logits[:, subset].float() * inverse - (logits.float() * inverse).logsumexp(-1, keepdim=True)).exp()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on_cuda):
            scores = self._scores(tokens, counted, output.hidden_states)
        found = []
        for each in scores:
            log_q, wanted = (each.float() * inverse[: len(each)]).log_softmax(-1), p[: len(each)]
            found.append((-(wanted * log_q).sum(-1).mean(), torch.minimum(wanted, log_q.exp()).sum(-1).mean()))
        return found

    def _scores(self, tokens: Tensor, counted: Tensor, hidden: Any) -> list[Tensor]:
        """Logits (N, s) of every pass at the positions that count: of all texts, and of the first half of them."""
        if not isinstance(self.draft, StateDraft):
            return [self.forward(tokens)[counted]]
        half = (len(tokens) + 1) // 2
        features = features_of(hidden, self.draft.reads, self.target.config.rms_norm_eps).float()
        told, again = both_passes(self.draft, tokens, features, half)
        return [self.draft.score(told[counted]), self.draft.score(again[counted[:half]])]


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
