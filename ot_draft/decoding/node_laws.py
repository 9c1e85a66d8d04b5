"""How logits become laws at the nodes of drafted trees: the one question that the engine asks, whatever settings answer it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

import ot_draft as ot

from .language_model import LanguageModel
from .texts import Texts


@dataclass(frozen=True)
class NodeLogits:
    """Logits (B, W, n or fewer) that a model gave at W neighbouring nodes of the trees behind B texts.

    drafted: int (B, N), the trees, of which the tokens above these nodes are there.
    """

    values: Tensor
    model: LanguageModel
    texts: Texts
    shape: ot.paths.TreeShape
    drafted: Tensor
    nodes: slice


class NodeLaws(ABC):
    """Settings under which logits become the laws that tokens are drawn from."""

    recordable: ClassVar[bool]  # whether no value is looked at on the way, so that a CUDA graph can hold it

    @abstractmethod
    def laws(self, logits: NodeLogits) -> Tensor:
        """Laws (B, W, m) of the token after each of the nodes, on all n tokens or on those that the model scores."""

    @abstractmethod
    def law_after(self, row: int, tokens: Tensor, logits: Tensor, model: LanguageModel) -> Tensor:
        """The same for one text, slow and obvious: law (n,) of the token after tokens (1, t), from logits (m,)."""
