"""From logits to the laws that tokens are drawn from at the nodes of trees: temperature, top-k, top-p and min-p."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import CannotDecode
from .language_model import LanguageModel
from .texts import Texts

Way = tuple[int, ...]  # numbers of nodes

HEAD = 1024  # tokens that top-p ranks first: where they hold its mass, the rest of the vocabulary is not sorted


@dataclass(frozen=True)
class NodeLogits:
    """Logits (B, W, n or fewer) that a model gave at W nodes of each of the trees behind B texts.

    drafted: int (B, M), tokens of nodes 1 .. M, of which those above these nodes are there. ways: of a row, the way to each of the W
    nodes, from the root's child down to the node itself; it looks at values.
    """

    values: Tensor
    model: LanguageModel
    texts: Texts
    drafted: Tensor
    ways: Callable[[int], Sequence[Way]]


class NodeLaws(ABC):
    """Settings under which logits become the laws that tokens are drawn from."""

    recordable: ClassVar[bool]  # whether no value is looked at on the way, so that a CUDA graph can hold it

    @abstractmethod
    def laws(self, logits: NodeLogits) -> Tensor:
        """Laws (B, W, m) of the token after each of the nodes, on all n tokens or on those that the model scores."""

    @abstractmethod
    def law_after(self, row: int, tokens: Tensor, logits: Tensor, model: LanguageModel) -> Tensor:
        """The same for one text, slow and obvious: law (n,) of the token after tokens (1, t), from logits (m,)."""


@dataclass(frozen=True)
class SamplingParams(NodeLaws):
    """How logits become probabilities.

    temperature: 0 puts all mass on the largest logit. top_k: tokens kept (0: all). top_p: the fewest tokens that hold
    this mass together are kept (1: all). min_p: tokens below this share of the largest mass are dropped (0: none).
    They apply in this order, as in transformers' `generate`; tokens that tie with the last one kept are kept too.
    """

    recordable: ClassVar[bool] = True
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        for name, value, fits, wanted in (
            ("temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 (greedy) or more"),
            ("top-k", self.top_k, self.top_k >= 0 and self.top_k == int(self.top_k), "0 (all) or more tokens"),
            ("top-p", self.top_p, 0 < self.top_p <= 1, "more than 0 and at most 1"),
            ("min-p", self.min_p, 0 <= self.min_p <= 1, "at least 0 and at most 1"),
        ):
            if not fits:
                raise CannotDecode(f"{name} is {value}: give {wanted}")

    def laws(self, logits: NodeLogits) -> Tensor:
        return self.masses(logits.values)

    def law_after(self, row: int, tokens: Tensor, logits: Tensor, model: LanguageModel) -> Tensor:
        masses = self.masses(logits)
        whole = masses.new_zeros(model.n)
        model.store(masses, into=whole)
        return whole

    def masses(self, logits: Tensor) -> Tensor:
        """Probabilities (..., n) of logits (..., n): float64 where the logits are, else float32."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.temperature == 0:
            largest = logits.argmax(-1, keepdim=True)
            return torch.zeros_like(logits).scatter_(-1, largest, 1)
        masses = (logits if self.temperature == 1 else logits / self.temperature).softmax(-1)
        if not (self.top_k or self.top_p < 1 or self.min_p):
            return masses
        if 0 < self.top_k < masses.shape[-1]:
            masses = _drop(masses, masses.topk(self.top_k, -1).values[..., -1:])
        if self.top_p < 1:
            masses = _drop(masses, _smallest_of_top_p(masses, self.top_p))
        if self.min_p:
            masses = _drop(masses, self.min_p * masses.amax(-1, keepdim=True))
        return masses / masses.sum(-1, keepdim=True)


def _drop(masses: Tensor, below: Tensor) -> Tensor:
    return masses.masked_fill(masses < below, 0)


def _smallest_of_top_p(masses: Tensor, top_p: float) -> Tensor:
    """The smallest mass that top-p keeps, (..., n) -> (..., 1): a token is kept if those before it hold less than top_p."""
    wanted = top_p * masses.sum(-1, keepdim=True)
    ranked = masses.topk(min(HEAD, masses.shape[-1]), -1).values
    # Looking at values is free on the CPU only; elsewhere, where sorting is cheap, all tokens are ranked.
    if masses.device.type != "cpu" or bool((ranked.sum(-1, keepdim=True) < wanted).any()):
        ranked = masses.sort(-1, descending=True).values
    before = ranked.cumsum(-1) - ranked
    kept = (before < wanted).sum(-1, keepdim=True)
    return ranked.gather(-1, (kept - 1).clamp(min=0))
