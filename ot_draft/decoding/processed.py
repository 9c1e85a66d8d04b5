"""Laws by logits processors that look at the text so far: each is asked at every node, about the tokens on the way to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import CannotDecode
from .language_model import LanguageModel
from .sampling import NodeLaws, NodeLogits


@dataclass(frozen=True)
class Processed:
    """In the place of a `SamplingParams`, for one text: any processors of transformers' kind, one after the other, and a softmax.

    processors: functions of tokens (w, t) and scores (w, n) to scores (w, n), whose answer for a row depends on its tokens and
    scores alone, and not on earlier calls: they are asked at every node, for both models, mostly about a text that will not be.
    greedy: all mass on the largest score. before: what they see before the text; padding, where the host shows it to them.
    Every answer is a call of Python: no CUDA graphs, and a wait for the device.
    """

    processors: Sequence[Callable[[Tensor, Tensor], Tensor]]
    greedy: bool = False
    before: Sequence[int] = ()

    def law(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """Laws of the token after each of w texts of one length: int (w, t), (w, n) -> (w, n); NaN where no token is left."""
        tokens = torch.cat((tokens.new_tensor(self.before).expand(len(tokens), -1), tokens), 1)
        scores = logits.clone() if logits.dtype == torch.float64 else logits.to(torch.float32, copy=True)
        for processor in self.processors:
            scores = processor(tokens, scores)
        if self.greedy:
            chosen = torch.zeros_like(scores).scatter_(-1, scores.argmax(-1, keepdim=True), 1)
            return chosen.masked_fill(scores.isnan().any(-1, keepdim=True), torch.nan)
        return scores.softmax(-1)


@dataclass(frozen=True)
class ProcessedTexts(NodeLaws):
    """The processors of every text of a batch. of_draft: whether these are the laws that drafts are drawn from."""

    recordable: ClassVar[bool] = False
    texts: Sequence[Processed]
    of_draft: bool

    def laws(self, logits: NodeLogits) -> Tensor:
        laws = laws_at_nodes(self.texts, logits)
        return drawable(laws) if self.of_draft else checked_target(laws, logits)

    def law_after(self, row: int, tokens: Tensor, logits: Tensor, model: LanguageModel) -> Tensor:
        return drawable(self.texts[row].law(tokens, model.spread_logits(logits[None]))[0])


def laws_at_nodes(processed: Sequence[Processed], logits: NodeLogits) -> Tensor:
    """Laws (B, W, n) at the nodes that the logits are of; NaN where no token is left."""
    scores = logits.model.spread_logits(logits.values)
    laws = scores.new_empty(scores.shape, dtype=torch.float64 if scores.dtype == torch.float64 else torch.float32)
    for row, text in enumerate(logits.texts.so_far()):
        ways = logits.ways(row)
        for depth in sorted(set(map(len, ways))):
            columns = [column for column, way in enumerate(ways) if len(way) == depth]
            nodes = torch.tensor([ways[column] for column in columns], dtype=torch.int64, device=logits.drafted.device)
            drawn = logits.drafted[row, nodes - 1].clamp(min=0)  # an absent draft stands for token 0: nobody gets there
            tokens = torch.cat((text.expand(len(columns), -1), drawn), 1)
            laws[row, columns] = processed[row].law(tokens, scores[row, columns])
    return laws


def checked_target(p: Tensor, logits: NodeLogits) -> Tensor:
    """p (B, N + 1, n) with 0 in the place of NaN, at nodes that the target never reaches.

    CannotDecode where the processors leave no token at a node that it may reach.
    """
    lost = p.isnan().any(-1)
    if not bool(lost.any()):
        return p
    texts = logits.texts
    p, stop, left = p.nan_to_num(0.0), texts.stop.tolist(), (texts.max_tokens - texts.emitted).tolist()
    for row, node in lost.nonzero().tolist():
        way = logits.ways(row)[node]
        tokens = logits.drafted[row, [step - 1 for step in way]].tolist()
        masses = [float(p[row, above, token]) for above, token in zip((0, *way), tokens, strict=False)]
        goes_on = bool(texts.active[row]) and len(way) < left[row] and not any(token in stop for token in tokens)
        if goes_on and min(tokens, default=0) >= 0 and min(masses, default=1) > 0:
            raise CannotDecode(
                f"text {row}: the logits processors leave no token behind {len(texts.so_far()[row]) + len(way)} tokens: make"
                " one of them less strict"
            )
    return p


def drawable(q: Tensor) -> Tensor:
    """q (..., n) with the uniform law where no token is left to the draft: any law keeps the texts' law."""
    return q.nan_to_num(1 / q.shape[-1])
