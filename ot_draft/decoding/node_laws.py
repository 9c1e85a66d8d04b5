"""How logits become laws at the nodes of drafted trees: the one question that the engine asks, whatever settings answer it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .language_model import LanguageModel
from .texts import Texts

Way = tuple[int, ...]  # numbers of nodes


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
