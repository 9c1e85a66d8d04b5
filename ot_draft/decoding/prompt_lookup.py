"""Prompt lookup: draft tokens from a text instead of a model, and the sequences in which they are searched once per step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .. import defaults
from ..boundary import int_from
from ..errors import CannotDecode
from ..ngrams import longest_before


@dataclass(frozen=True)
class Match:
    """Possible next tokens, empty if none were found. matched: number of last tokens of the text that precede them there."""

    tokens: tuple[int, ...] = ()
    matched: int = 0


class TokenSource(Protocol):
    """A source of possible next tokens that depends on the text alone, as every lossless rule requires."""

    def find(self, text: Sequence[int]) -> Match:
        """The draft tokens after a sequence of token ids."""


@dataclass(frozen=True)
class PromptLookup:
    """Prompt lookup: draft tokens that followed the last tokens where they occurred before.

    The first occurrence that something follows counts.

    Parameters
    ----------
    num_tokens : int, default=10
        Maximum number of draft tokens; `prompt_lookup_num_tokens` in transformers.
    max_ngram : int, default=2
        Number of last tokens that are searched first, then one less, and so on; `max_matching_ngram_size` in transformers.
    min_ngram : int, default=1
        Number of last tokens that are searched at least; 1 in transformers.

    Raises
    ------
    CannotDecode
        If a number is not a positive integer, or min_ngram exceeds max_ngram.

    References
    ----------
    .. [1] Saxena, "Prompt Lookup Decoding", 2023.

    Examples
    --------
    >>> PromptLookup(num_tokens=4).find([7, 8, 9, 5, 7, 8])
    Match(tokens=(9, 5, 7, 8), matched=2)
    """

    num_tokens: int = defaults.LOOKUP[0]
    max_ngram: int = defaults.LOOKUP[1]
    min_ngram: int = 1

    def __post_init__(self) -> None:
        for name, value in (("prompt-lookup-num-tokens", self.num_tokens), ("max-matching-ngram-size", self.max_ngram)):
            int_from(name, value, 1, error=CannotDecode)
        int_from("min_ngram", self.min_ngram, error=CannotDecode)
        if not 1 <= self.min_ngram <= self.max_ngram:
            raise CannotDecode(
                f"min_ngram must be from 1 to max_ngram ({self.max_ngram}), got {self.min_ngram}. Use such a number."
            )

    @property
    def for_tree(self) -> PromptLookup:
        """The lookup for a tree with a draft model, without matches of one token, which are rarely right and cost nodes."""
        return replace(self, min_ngram=max(self.min_ngram, min(2, self.max_ngram)))

    @property
    def settings(self) -> dict[str, int]:
        """Under transformers' names."""
        return {"prompt_lookup_num_tokens": self.num_tokens, "max_matching_ngram_size": self.max_ngram}

    def find(self, text: Sequence[int]) -> Match:
        """The draft tokens after a sequence of token ids."""
        first, size = longest_before(text, self.max_ngram)
        if size < self.min_ngram:
            return Match()
        return Match(tuple(map(int, text[first : first + self.num_tokens])), size)


class History(Sequence[Sequence[int]]):
    """The texts of a batch so far, prompts included, as lists of token ids. active: which of them go on."""

    def __init__(self, texts: Iterable[Sequence[int]]) -> None:
        self._texts = [list(text) for text in texts]
        self.active = [True] * len(self._texts)
        self._found: dict[TokenSource | None, list[Match]] = {}

    def __getitem__(self, row: Any) -> Any:
        return self._texts[row]

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._texts)  # faster than by numbers

    def look_up(self, source: TokenSource | None) -> list[Match]:
        """Return matches of a source after each active sequence, searched once per step; empty for the others, and if source is None."""
        if source not in self._found:
            going = zip(self._texts, self.active, strict=True)
            self._found[source] = [
                source.find(text) if source is not None and goes_on else Match() for text, goes_on in going
            ]
        return self._found[source]

    def grow(self, tokens: Sequence[Sequence[int]], active: Sequence[bool]) -> None:
        """Append the tokens of a step to each sequence; active: which sequences have not ended."""
        for text, new in zip(self._texts, tokens, strict=True):
            text.extend(new)
        self.active, self._found = list(active), {}
