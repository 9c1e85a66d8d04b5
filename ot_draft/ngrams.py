"""Search for earlier occurrences of the last n-gram of a text, with numpy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array


def longest_before(text: Sequence[int] | Array, most: int) -> tuple[int, int]:
    """Return the index of the token after the first earlier occurrence of the longest final n-gram, n <= most, and n.

    (0, 0) if the last token has not occurred before. vLLM and transformers (prompt lookup) search for draft tokens in this way.
    """
    tokens = np.asarray(text)
    before = tokens[:-1]  # where an n-gram may end: something has to follow it
    ends = np.flatnonzero(before == tokens[-1]) if len(tokens) else before
    place, size = 0, 0
    while len(ends) and size < min(most, len(tokens) - 1):
        place, size = int(ends[0]) + 1, size + 1
        ends = ends[ends >= size]
        ends = ends[before[ends - size] == tokens[-1 - size]]
    return place, size
