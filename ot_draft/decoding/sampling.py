"""From logits to the laws that tokens are drawn from at the nodes of trees: temperature, top-k, top-p and min-p."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..errors import CannotDecode
from .cache import Texts
from .language_model import LanguageModel

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
    """Laws (B, W, n) at the nodes that the logits are of; NaN where no token is left.

    Nodes of one length of text, of whatever row, are asked about together where their processors are the same.
    """
    scores = logits.model.spread_logits(logits.values)
    laws = scores.new_empty(scores.shape, dtype=torch.float64 if scores.dtype == torch.float64 else torch.float32)
    drafted = logits.drafted.clamp(min=0).tolist()  # an absent draft stands for token 0: nobody gets there
    groups: dict[Any, list[tuple[int, int, list[int]]]] = defaultdict(list)
    for row, text in enumerate(logits.texts.so_far()):
        own, begin = processed[row], [*processed[row].before, *text.tolist()]
        for column, way in enumerate(logits.ways(row)):
            tokens = [*begin, *(drafted[row][node - 1] for node in way)]
            groups[(*map(id, own.processors), own.greedy, len(tokens))].append((row, column, tokens))
    for nodes in groups.values():
        rows, columns, texts = zip(*nodes, strict=True)
        ids = torch.tensor(texts, dtype=torch.int64, device=scores.device)
        laws[rows, columns] = replace(processed[rows[0]], before=()).law(ids, scores[rows, columns])
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


def uniforms(seed: int, rows: Sequence[int], step: int, count: int, dtype: torch.dtype) -> Tensor:
    """Independent uniforms in [0, 1), (len(rows), count), on the CPU, in float64 or float32.

    Philox is a counter-based generator: seed and row are its key, the step is the upper part of its counter. No two
    (seed, row, step) share a number, and none needs the numbers before it.
    """
    kind = np.float64 if dtype == torch.float64 else np.float32
    numbers = np.empty((len(rows), count), dtype=kind)
    for place, row in enumerate(rows):
        # In the type that is wanted from the start: a float64 below 1 may round to 1 in float32.
        # As uint64: a list that holds a number from 2^63 on goes through float64, where neighbouring seeds are one.
        key = np.array([int(seed) % 2**64, int(row) % 2**64], dtype=np.uint64)
        stream = np.random.Philox(key=key, counter=[0, 0, 0, step])
        numbers[place] = np.random.Generator(stream).random(count, dtype=kind)
    return torch.from_numpy(numbers)
