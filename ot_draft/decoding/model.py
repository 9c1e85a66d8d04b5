"""A model as the decoding loop calls it: forward passes over tokens that each attend to some slots of a cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from .cache import Cache

__all__ = ["CallSizes", "DecoderModel", "Head", "HiddenStateModel", "ModelInfo", "ModelOutput", "hidden_before"]


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a model.

    Attributes
    ----------
    n : int
        Vocabulary size that target and draft model are brought to.
    device, dtype : torch.device, torch.dtype
        Device and type of inputs and outputs.
    scored : int64 tensor of shape (s,), or None
        Increasing token ids that the model scores; the other ones have probability 0. None: all.
    max_length : int or None
        Maximum number of tokens of a sequence, None if the model names none.
    max_length_source : str
        Name of the bound, for messages.
    longrope_threshold : int or None
        Sequence length above which all RoPE factors change (LongRoPE), if they do.
    hidden_layers : tuple of int
        Numbers of layers after which each pass of a target returns its hidden states, and after the last one; none if empty.
    reads : tuple of int
        The same for a draft model, which reads these hidden states of the target.
    shares_cache : bool
        Whether a draft model reads the sequences in the target's cache.
    sharded : bool
        Whether the model is on several devices, so that no CUDA graph holds a pass.
    unsupported : str
        Why the model cannot read trees from a cache; empty if it can.
    """

    n: int
    device: torch.device
    dtype: torch.dtype
    scored: Tensor | None = None
    max_length: int | None = None
    max_length_source: str = "context"
    longrope_threshold: int | None = None
    hidden_layers: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    shares_cache: bool = False
    sharded: bool = False
    unsupported: str = ""

    def expand_to_vocab(self, scores: Tensor, fill: float) -> Tensor:
        """Return scores (..., n or s) of the scored tokens as scores (..., n) of all tokens, with `fill` for the other ones."""
        if self.scored is None or scores.shape[-1] == self.n:
            return scores
        return scores.new_full((*scores.shape[:-1], self.n), fill).index_copy_(-1, self.scored, scores)

    def write_probs(self, probs: Tensor, into: Tensor) -> None:
        """Write probabilities (..., n or s) into rows (..., n) that are 0 at tokens that the model does not score."""
        if self.scored is None or probs.shape[-1] == self.n:
            into.copy_(probs)
        else:
            into.index_copy_(-1, self.scored, probs)


@dataclass(frozen=True)
class CallSizes:
    """Numbers of tokens of a forward pass, of all sequences together, that matter for its time.

    Attributes
    ----------
    min_rows : int
        A pass of fewer tokens takes the same time.
    fitted : tuple of int
        Numbers whose pass takes the same time whatever the pass before had, since they have a graph of their own.
    """

    min_rows: int = 1
    fitted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Head:
    """Weights by which a model computes logits from hidden states, for kernels that do it instead of the model.

    Attributes
    ----------
    weight : float tensor of shape (s, width)
        Weights by scored token.
    norm : float tensor of shape (width,), or None
        Weights of an RMSNorm before the product, if there is one.
    epsilon : float
        Added to the mean square in the norm.
    """

    weight: Tensor
    norm: Tensor | None = None
    epsilon: float = 0.0


@dataclass(frozen=True)
class ModelOutput:
    """Result of a forward pass.

    Attributes
    ----------
    logits : float tensor of shape (B, T or last, n or s)
        Logits of the token after each token.
    hidden : float tensor of shape (B, T, width), or None
        Hidden states, of a model that returns them.
    """

    logits: Tensor
    hidden: Tensor | None = None


class DecoderModel(ABC):
    """Target or draft model as the decoding loop calls it."""

    info: ModelInfo

    @property
    def call_sizes(self) -> CallSizes:
        """Sizes of forward passes that matter for their time."""
        return CallSizes()

    def split_head(self) -> tuple[DecoderModel, Head] | None:
        """Return the same model with hidden states in place of logits, and its head; None for a head that is not a plain product."""
        return None

    @abstractmethod
    def cache(self, slots: int) -> Cache:
        """Return an empty cache of `slots` slots per sequence, for the sequences of one batch."""

    @abstractmethod
    def forward(
        self,
        cache: Any,
        tokens: Tensor,
        slots: Tensor,
        positions: Tensor,
        attention_mask: Tensor,
        last: int = 0,
        hidden: Tensor | None = None,
    ) -> ModelOutput:
        """Return logits of the token after each token; write keys and values of all tokens to their slots.

        Parameters
        ----------
        cache : Cache
            From `cache`.
        tokens, slots, positions : int64 tensors of shape (B, T)
            An absent token (-1) is read as token 0, and its logits mean nothing; a token that only the other model knows is read as the
            last one.
        attention_mask : bool tensor of shape (B or 1, T, cache.live)
            Slots of its sequence that each token attends to, its own among them. The slots hold a sequence in order.
        last : int, default=0
            Number of last tokens whose logits are wanted, 0 for all.
        hidden : float tensor of shape (B, T, width), optional
            For a `HiddenStateModel`: its input from the position before each token.
        """

    @abstractmethod
    def full_pass(self, tokens: Sequence[int], positions: Sequence[int], context: Any = None) -> ModelOutput:
        """Return logits (rows, n or s) of the token at each position of a sequence, computed without the cache of a run.

        Parameters
        ----------
        tokens : sequence of int
            Token ids.
        positions : sequence of int
            Increasing, from 1 on; the last one may be the end of the sequence. Tokens from there on are not read.
        context : object, optional
            What `target_context` returns for the first tokens; the later ones count as drafted.

        Returns
        -------
        output : ModelOutput
            `hidden` (T, width) of all tokens that were read, for a target with `hidden_layers`.
        """


class HiddenStateModel(DecoderModel):
    """A draft model that reads hidden states: the target's, or its own of drafted tokens."""

    @abstractmethod
    def prepare(self, hidden: Tensor) -> Tensor:
        """Return hidden states (..., width) of the target, as its cache holds them, as input of `forward`."""


def hidden_before(model: DecoderModel, target_cache: Cache, positions: Tensor) -> Tensor | None:
    """Return the input of a `HiddenStateModel` from the target's hidden states at the position before each token.

    Parameters
    ----------
    model : DecoderModel
        A draft model.
    target_cache : Cache
        Cache in which the target has read these positions.
    positions : int64 tensor of shape (B, T)
        Positions of the tokens.

    Returns
    -------
    hidden : float tensor of shape (B, T, width), or None
        Zero before the first token; None if the model reads no hidden states.

    Examples
    --------
    >>> hidden = hidden_before(draft_model, target_cache, positions)  # doctest: +SKIP
    >>> draft_model.forward(cache, tokens, slots, positions, mask, hidden=hidden).logits  # doctest: +SKIP
    """
    if not model.info.reads:
        return None
    prepared = cast(HiddenStateModel, model).prepare(target_cache.states_at((positions - 1).clamp(min=0)))
    return prepared.masked_fill((positions == 0)[..., None].to(prepared.device), 0)
