"""Drafts by n-grams: what is looked up in a text is known from the text alone, without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arrays import Array
from ...ngrams import longest_before
from .answers import Answer

LONGEST = 5  # tokens of an n-gram, unless it is said: vLLM's own
NOTHING = -1


class LookupLaws:
    """The drafts of a server that drafts by n-grams, as `reference.DraftLaws` has those of a model: all mass on one token.

    Drafted is the token at the place of `longest_before`. A server drafts several tokens at a time and may look up otherwise: bets take
    no more than their direction from it. overlap: mean over the places with a draft of its reported mass.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest, self._shared, self._places = longest, 0.0, 0

    def __str__(self) -> str:
        return f"n-grams of up to {self._longest} tokens"

    def rows(self, prompt: str | Sequence[int], answer: Answer, asked: int) -> Array:
        """Token drafted at every place of an answer, by the tokens before alone, NOTHING where nothing comes again: (m,).

        A prompt that is a text has no ids here: what stands in it is not found.
        """
        text = np.array(
            [*([] if isinstance(prompt, str) else prompt), *(each.token for each in answer.tokens)], dtype=np.int64
        )
        found = np.full(len(answer.tokens), NOTHING, dtype=np.int64)
        for row, end in enumerate(range(len(text) - len(found), len(text))):
            place, size = longest_before(text[:end], self._longest)
            found[row] = text[place] if size else NOTHING
        return found

    def on(self, row: int, names: Array, mass: Array) -> Array | None:
        """1 on the drafted token if a server lists it with these masses, else 0: (m,). None where nothing is drafted."""
        if row == NOTHING:
            return None
        found = (names == row).astype(np.float64)
        self._shared, self._places = self._shared + float((found * mass).sum()), self._places + 1
        return found

    @property
    def overlap(self) -> float:
        return self._shared / max(self._places, 1)
