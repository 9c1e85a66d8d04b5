"""What stood before at the end of a text: the one search behind drafts by n-grams. It needs numpy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Array


def longest_before(text: Sequence[int] | Array, most: int) -> tuple[int, int]:
    """Place of the token behind the first earlier one of the longest n-gram, of up to `most` tokens, that ends a text, and its n.

    The place lies in the text. (0, 0) where no last token stood in it before. So vLLM and transformers (prompt lookup) look for drafts.
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
