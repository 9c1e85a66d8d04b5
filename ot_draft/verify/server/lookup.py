"""Draft distributions of servers that draft by prompt lookup (n-grams): they follow from the tokens, without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arrays import Array
from ...ngrams import longest_before
from .answers import Answer


class Overlap:
    """Mean over positions of the shared probability of target and draft distribution on the listed tokens."""

    def __init__(self) -> None:
        self._shared, self._positions = 0.0, 0

    @property
    def overlap(self) -> float:
        """The mean so far, 0 without positions."""
        return self._shared / max(self._positions, 1)

    def count(self, draft: Array, mass: Array) -> None:
        """Count a position: draft and target probabilities of the listed tokens (m,)."""
        self._shared, self._positions = self._shared + float(np.minimum(draft, mass).sum()), self._positions + 1


class LookupLaws(Overlap):
    """Draft distributions of prompt lookup, with the interface of `reference.DraftLaws`: probability 1 for one token.

    The draft token is that of `longest_before`. A server drafts several tokens at a time and may search in another way: bets use no more
    than the direction of these distributions.
    """

    longest = 5  # default number of tokens of an n-gram, as in vLLM
    nothing = -1  # instead of a draft token

    def __init__(self, longest: int = longest) -> None:
        super().__init__()
        self._longest = longest

    def __str__(self) -> str:
        return f"n-grams of up to {self._longest} tokens"

    def rows(self, prompt: str | Sequence[int], answer: Answer, asked: int) -> Array:
        """Return the draft token at every position of a response, from the tokens before alone, `nothing` without a match: (m,).

        A prompt that is a text has no ids here, so that matches in it are not found.
        """
        text = np.array(
            [*([] if isinstance(prompt, str) else prompt), *(each.token for each in answer.tokens)], dtype=np.int64
        )
        found = np.full(len(answer.tokens), self.nothing, dtype=np.int64)
        for row, end in enumerate(range(len(text) - len(found), len(text))):
            position, size = longest_before(text[:end], self._longest)
            found[row] = text[position] if size else self.nothing
        return found

    def on(self, row: int, names: Array, mass: Array) -> Array | None:
        """Return the draft probabilities of listed tokens with these probabilities (m,); None without a draft token."""
        if row == self.nothing:
            return None
        found = (names == row).astype(np.float64)
        self.count(found, mass)
        return found
