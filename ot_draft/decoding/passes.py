"""What the engine needs of a model: passes over tokens that each see some slots of a cache, and what comes with them.

`LanguageModel` is a model of transformers, `FastPasses` one in OpenVINO.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .cache import Cache


class Passes(ABC):
    """Target or draft as the engine calls it.

    n: size of the vocabulary that both models are brought to. scored: the tokens that it scores, (s,) increasing, None for all; the others
    have probability 0. device, dtype: of what it is given and gives. keeps: after how many layers of a target its hidden states are to be
    kept in its cache, for a draft that `reads` them; the last ones are kept with them; none where it is empty.
    """

    n: int
    scored: Tensor | None
    device: torch.device
    dtype: torch.dtype
    keeps: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()  # after so many layers of the target the hidden states that it is given are taken
    shares_cache = False  # whether it reads texts in the target's cache, as the target left them there
    switch: int | None = None  # length of texts from which on it turns all places otherwise (longrope), if it does
    spread = False  # whether it stands on several devices: no CUDA graph holds such a pass
    least_rows = 1  # tokens, of all texts together, that a pass computes at least: fewer cost what so many do
    # Numbers of them whose pass costs the same whatever the pass before had: it has a graph of its own.
    fitted: tuple[int, ...] = ()

    @abstractmethod
    def cache(self, slots: int) -> Cache:
        """An empty cache of so many slots a text, for texts of one batch."""

    @abstractmethod
    def logits(
        self,
        cache: Any,
        tokens: Tensor,
        slots: Tensor,
        positions: Tensor,
        sees: Tensor,
        last: int = 0,
        before: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, T, n or fewer) of what follows each token, or of the last few tokens only; all are written to their slots.

        tokens, slots, positions: (B, T); an absent token (-1) is read as token 0, its logits mean nothing; a token
        that only the other model knows is read as the last one.
        sees: bool (B or 1, T, live), the slots of its text that each token sees, its own among them. They hold its text in order: what
        comes earlier in it stands in a slot further to the front.
        before: (B, T, width), for a draft that reads hidden states: what it is given of the place before each token.
        """

    @abstractmethod
    def logits_along(self, text: Sequence[int], places: Sequence[int], context: Any = None) -> Tensor:
        """Logits (rows, n or fewer) of the token at each place of a text, given those before it, in memory of its own.

        places: increasing, from 1 on; the last one may be the text's end. What stands behind it is not read.
        context: what `target_context` says of the text's first tokens. What comes later counts as drafted.
        """

    @abstractmethod
    def features_along(self, text: Sequence[int]) -> Tensor:
        """Features that a draft that reads hidden states is given of every token of a text: (T, f); of a target that keeps them."""

    @abstractmethod
    def check_reads_trees(self) -> None:
        """CannotDecode for a model that would not read a tree from the cache as its positions and slots say."""

    @property
    @abstractmethod
    def limit(self) -> tuple[int | None, str]:
        """Number of tokens that a text may have, None if the model names none, and what bounds it."""

    @property
    def context(self) -> int | None:
        """Number of tokens that a text may have, None if the model names no limit."""
        return self.limit[0]

    def before(self, target: Any, places: Tensor) -> Tensor | None:
        """Features that it is given of the place before each token of the texts, int (B, T), that the target has passed: nothing."""
        return None

    def before_drafted(self, own: Any, slots: Tensor) -> Tensor | None:
        """The same of drafted tokens whose parents are in these slots (B, T) of its own cache: nothing."""
        return None

    def commit(self, root: int, length: int) -> int:
        """Number of tokens of a text that need not be read again after a step: root is the place of its root, length what it has now.

        The last two are read in every step.
        """
        return length - 2

    def reads_again(self, drafted: int) -> int:
        """Number of tokens before the last two that it reads in every step, where a step drafts so many at most."""
        return 0

    def target_context(self, target: Any, text: Sequence[int], room: int) -> Any:
        """Features of the target along a text, for `logits_along` of texts of up to `room` tokens that begin so: nothing."""
        return None

    def spread_logits(self, logits: Tensor) -> Tensor:
        """Logits (..., n or fewer) on the whole vocabulary (..., n), -inf at tokens that this model does not score."""
        if self.scored is None:
            return logits
        whole = logits.new_full((*logits.shape[:-1], self.n), float("-inf"))
        return whole.index_copy_(-1, self.scored, logits)

    def spread_masses(self, masses: Tensor) -> Tensor:
        """Masses (..., n or fewer) on the whole vocabulary (..., n), 0 at tokens that this model does not score."""
        if self.scored is None or masses.shape[-1] == self.n:
            return masses
        return masses.new_zeros(*masses.shape[:-1], self.n).index_copy_(-1, self.scored, masses)

    def store(self, masses: Tensor, into: Tensor) -> None:
        """Write masses (B, T, n or fewer) into rows (B, T, n) that hold 0 wherever this model scores nothing."""
        if self.scored is None or masses.shape[-1] == self.n:
            into.copy_(masses)
        else:
            into.index_copy_(-1, self.scored, masses)
