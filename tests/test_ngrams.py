"""The search for n-grams finds what looking at every place finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ot_draft.ngrams import longest_before


def by_search(text: list[int], most: int) -> tuple[int, int]:
    """Place behind the first earlier one of the longest n-gram that ends the text, and its n: every place is looked at, longest first."""
    for n in range(min(most, len(text)), 0, -1):
        for end in range(n, len(text)):
            if text[end - n : end] == text[len(text) - n :]:
                return end, n
    return 0, 0


@given(st.integers(0, 3).flatmap(lambda last: st.lists(st.integers(0, last), max_size=24)), st.integers(1, 6))
def test_the_first_place_of_the_longest_is_found(text: list[int], most: int) -> None:
    assert longest_before(text, most) == longest_before(np.array(text, dtype=np.int64), most) == by_search(text, most)


def test_nothing_stands_before() -> None:
    assert longest_before([], 3) == longest_before([7], 3) == longest_before([7, 8], 3) == (0, 0)
