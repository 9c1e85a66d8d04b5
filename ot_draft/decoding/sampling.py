"""From logits to distributions at the nodes of trees: temperature, top-k, top-p and min-p."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..defaults import SamplingFields
from ..errors import CannotDecode
from .cache import SequenceBatch
from .model import ModelInfo

Way = tuple[int, ...]  # numbers of nodes


@dataclass(frozen=True)
class NodeLogits:
    """Logits (B, W, n or fewer) of a model at W nodes of each of the trees after B sequences.

    drafted: int (B, M), tokens of nodes 1 .. M, valid for ancestors of these nodes. ways: function of a row that returns the path to
    each of the W nodes, from the root's child down to the node; it reads values on the host.
    """

    values: Tensor
    info: ModelInfo
    texts: SequenceBatch
    drafted: Tensor
    ways: Callable[[int], Sequence[Way]]


class NodeLaws(ABC):
    """Settings that turn logits into distributions."""

    recordable: ClassVar[bool]  # whether no value is read on the host, so that a CUDA graph can hold it

    @property
    @abstractmethod
    def undefined(self) -> str:
        """Why they give no distribution where logits are finite, and the remedy, for messages."""

    @abstractmethod
    def laws(self, logits: NodeLogits) -> Tensor:
        """Return distributions (B, W, m) of the token after each node, over all n tokens or those that the model scores, in new memory.

        NaN at least at the first token if the logits give no distribution.
        """

    @abstractmethod
    def law_after(self, row: int, tokens: Tensor, logits: Tensor, info: ModelInfo) -> Tensor:
        """Return the same for one sequence, by simple code: the distribution (n,) after tokens (1, t), from logits (m,)."""

    def drawable(self, logits: NodeLogits) -> tuple[Tensor, Tensor]:
        """Return the distributions, uniform where there is none, and (B, W) the reason: 0 where there is one.

        The reason is the largest logit, NaN, inf or -inf, or 1 if that is finite and the settings leave no token; without a device
        sync, NaN for all of these. Draft tokens from any distribution are valid; a token drawn from a missing target distribution must
        not be emitted.
        """
        laws = self.laws(logits)
        gone = laws[..., 0].isnan()
        looks = laws.device.type == "cpu" or not self.recordable
        if looks and not bool(gone.any()):
            return laws, torch.zeros_like(gone, dtype=torch.float32)
        largest = logits.values.amax(-1).float() if looks else torch.full_like(gone, torch.nan, dtype=torch.float32)
        why = largest.masked_fill(largest.isfinite(), 1).masked_fill(~gone, 0)
        return laws.masked_fill_(gone[..., None], 1 / laws.shape[-1]), why


@dataclass(frozen=True)
class SamplingParams(SamplingFields, NodeLaws):
    """Temperature and truncations by which logits become probabilities, in the order of transformers' `generate`.

    Of tokens that tie with the last one kept, top-k and min-p keep all, and top-p as many as it needs, those that transformers' sort puts
    last.

    Parameters
    ----------
    temperature : float, default=1
        Sampling temperature; 0 puts all mass on the largest logit.
    top_k : int, default=0
        Number of most probable tokens to sample from; 0: all.
    top_p : float, default=1
        Total probability of the most probable tokens to sample from; 1: all, 0: one.
    min_p : float, default=0
        Minimum probability of sampled tokens, relative to the largest one; 0: all.

    Raises
    ------
    CannotDecode
        If a parameter is out of its range.

    Examples
    --------
    >>> from ot_draft.decoding import SamplingParams
    >>> SamplingParams(temperature=0.6, top_p=0.9)
    SamplingParams(temperature=0.6, top_k=0, top_p=0.9, min_p=0.0)
    """

    recordable: ClassVar[bool] = True

    @property
    def undefined(self) -> str:
        return f"the target's logits divided by temperature {self.temperature} are not finite. Use temperature 0, or at least 1e-30"

    def __post_init__(self) -> None:
        for name, value, fits, wanted in (
            ("temperature", self.temperature, lambda x: 0 <= x < float("inf"), "0 (greedy) or more"),
            ("top-k", self.top_k, lambda x: x >= 0 and x == int(x), "0 (all) or more tokens"),
            ("top-p", self.top_p, lambda x: 0 <= x <= 1, "at least 0 and at most 1"),
            ("min-p", self.min_p, lambda x: 0 <= x <= 1, "at least 0 and at most 1"),
        ):
            try:
                good = fits(value)
            except (TypeError, ValueError):  # no number
                raise CannotDecode(f"{name} must be a number, {wanted}, got {value!r}. Pass such a number.") from None
            if not good:
                raise CannotDecode(f"{name} must be {wanted}, got {value}. Pass such a number.")

    def laws(self, logits: NodeLogits) -> Tensor:
        return self.masses(logits.values)

    def law_after(self, row: int, tokens: Tensor, logits: Tensor, info: ModelInfo) -> Tensor:
        masses = self.masses(logits)
        whole = masses.new_zeros(info.n)
        info.write_probs(masses, into=whole)
        return whole

    def masses(self, logits: Tensor) -> Tensor:
        """Probabilities (..., n) of logits (..., n): float64 where the logits are, else float32.

        NaN at the first token of a row, or everywhere in it, if its logits contain NaN or inf, or are all -inf.
        """
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.temperature == 0:
            return on_largest(logits)
        logits = logits if self.temperature == 1 else logits / self.temperature
        masses = logits.softmax(-1)
        if not (self.top_k or self.top_p < 1 or self.min_p):
            return masses
        if 0 < self.top_k < masses.shape[-1]:
            masses = _drop(masses, masses.topk(self.top_k, -1).values[..., -1:])
        if self.top_p < 1:
            masses = _keep_top_p(masses, logits, self.top_p)
        if self.min_p:
            masses = _drop(masses, self.min_p * masses.amax(-1, keepdim=True))
        return masses / masses.sum(-1, keepdim=True)


def on_largest(logits: Tensor) -> Tensor:
    """All mass on the largest logit, (..., n) -> (..., n); NaN at the first token where that is not finite."""
    largest = logits.max(-1, keepdim=True)
    masses = torch.zeros_like(logits).scatter_(-1, largest.indices, 1)
    masses[..., :1] += largest.values - largest.values  # 0, or NaN for one that is not finite
    return masses


def _drop(masses: Tensor, below: Tensor) -> Tensor:
    return masses.masked_fill(masses < below, 0)


def _keep_top_p(masses: Tensor, logits: Tensor, top_p: float, head: int = 1024) -> Tensor:
    """Masses (..., n) of logits (..., n), 0 where top-p drops them: a token is kept if those before it hold less than top_p.

    head: tokens that are ranked first; where they hold top_p, the rest of the vocabulary is not sorted.
    """
    if masses.device.type != "cpu":  # where sorting is cheap, and looking at values is not
        return masses.masked_fill(_dropped_by_generate(masses, logits, top_p), 0)
    wanted = top_p * masses.sum(-1, keepdim=True)
    ranked = masses.topk(min(head, masses.shape[-1]), -1).values
    if bool((ranked.sum(-1, keepdim=True) < wanted).any()):
        ranked = masses.sort(-1, descending=True).values
    before = ranked.cumsum(-1) - ranked
    count = (before < wanted).sum(-1, keepdim=True).clamp(min=1)
    smallest = ranked.gather(-1, count - 1)
    kept = _drop(masses, smallest)
    tied = (kept > 0).sum(-1) > count[..., 0]  # the last one kept with some that are not needed
    if bool(tied.any()):
        dropped = _dropped_by_generate(masses[tied], logits[tied], top_p)
        kept[tied] = masses[tied].masked_fill(dropped, 0)
    return kept


def _dropped_by_generate(masses: Tensor, logits: Tensor, top_p: float) -> Tensor:
    """Tokens that transformers' top-p drops, bool (..., n): of equal logits, those that its sort puts first. No rule says which."""
    order = logits.masked_fill(masses == 0, -torch.inf).sort(-1, descending=False)
    few = order.values.softmax(-1).cumsum(-1) <= 1 - top_p
    few[..., -1:] = False
    return few.scatter(-1, order.indices, few)


@dataclass(frozen=True)
class Processed:
    """Logits processors of transformers' kind for one sequence, instead of `SamplingParams`.

    The processors run in Python: without CUDA graphs, and with a host sync.

    Parameters
    ----------
    processors : sequence of callables
        Functions of tokens (w, t) and scores (w, n) to scores (w, n), applied in order. A row of the result must depend on its tokens and
        scores alone, not on earlier calls: they are called at every node, for both models.
    greedy : bool, default=False
        Whether all mass is on the largest score.
    before : sequence of int
        Tokens that the processors see before the sequence, such as padding.

    Examples
    --------
    >>> from ot_draft.decoding import Processed
    >>> len(Processed(processors=(lambda tokens, scores: scores / 0.6,)).processors)
    1
    """

    processors: Sequence[Callable[[Tensor, Tensor], Tensor]]
    greedy: bool = False
    before: Sequence[int] = ()

    def law(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """Return distributions after w sequences of one length: int (w, t), (w, n) -> (w, n); NaN if no token is left."""
        tokens = torch.cat((tokens.new_tensor(self.before).expand(len(tokens), -1), tokens), 1)
        scores = logits.clone() if logits.dtype == torch.float64 else logits.to(torch.float32, copy=True)
        for processor in self.processors:
            scores = processor(tokens, scores)
        return on_largest(scores) if self.greedy else scores.softmax(-1)


@dataclass(frozen=True)
class ProcessedTexts(NodeLaws):
    """The processors of every sequence of a batch."""

    recordable: ClassVar[bool] = False
    undefined: ClassVar[str] = "logits processors must leave a token, got none. Use less strict ones."
    texts: Sequence[Processed]

    def laws(self, logits: NodeLogits) -> Tensor:
        return laws_at_nodes(self.texts, logits)

    def law_after(self, row: int, tokens: Tensor, logits: Tensor, info: ModelInfo) -> Tensor:
        return self.texts[row].law(tokens, info.expand_to_vocab(logits[None], float("-inf")))[0]


def laws_at_nodes(processed: Sequence[Processed], logits: NodeLogits) -> Tensor:
    """Return distributions (B, W, n) at the nodes of the logits; NaN if no token is left.

    Nodes of any row with the same length and the same processors are processed together.
    """
    scores = logits.info.expand_to_vocab(logits.values, float("-inf"))
    laws = scores.new_empty(scores.shape, dtype=torch.float64 if scores.dtype == torch.float64 else torch.float32)
    drafted = logits.drafted.clamp(min=0).tolist()  # absent drafts become token 0, which is never emitted
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


def uniforms(seed: int, rows: Sequence[int], step: int, count: int, dtype: torch.dtype) -> Tensor:
    """Independent uniforms in [0, 1), (len(rows), count), on the CPU, in float64 or float32.

    Philox is a counter-based generator: seed and row are its key, the step is the upper part of its counter. No two
    (seed, row, step) share a number, and none needs the numbers before it.
    """
    kind = np.float64 if dtype == torch.float64 else np.float32
    numbers = np.empty((len(rows), count), dtype=kind)
    # One stream that is set for every row: making one takes five times as long.
    stream = np.random.Philox(key=0, counter=[0, 0, 0, step])
    generator, state = np.random.Generator(stream), stream.state
    key = state["state"]["key"]  # uint64: through float64, neighbouring seeds from 2^63 on would be one
    key[0] = int(seed) % 2**64
    for place, row in enumerate(rows):
        key[1] = int(row) % 2**64
        stream.state = state
        # In the type that is wanted from the start: a float64 below 1 may round to 1 in float32.
        generator.random(dtype=kind, out=numbers[place])
    return torch.from_numpy(numbers)
