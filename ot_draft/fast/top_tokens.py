"""The most probable tokens in one pass over the tokens."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from ..arrays.masses import BLOCK_TOKENS
from .loops import loop, takes


def top_few(mass: np.ndarray, count: int) -> np.ndarray:
    """`arrays.top_tokens` for at most 16 tokens: int (..., count)."""
    if count > 16 or not takes(mass):
        return NotImplemented
    chosen = np.empty((*mass.shape[:-1], count), dtype=np.int64)
    _in_turn(mass.reshape(-1, mass.shape[-1]), np.empty(count, dtype=mass.dtype), chosen.reshape(-1, count))
    return chosen


@loop()
def _in_turn(mass, largest, chosen):
    """Write the top tokens by row. Blocks without a larger mass than the smallest one found are skipped."""
    for row in range(mass.shape[0]):
        found = 0
        for start in range(0, mass.shape[1], BLOCK_TOKENS):
            inner, above, least = mass[row, start : start + BLOCK_TOKENS], 0, largest[len(largest) - 1]
            if found == len(largest):
                for y in range(len(inner)):
                    above += inner[y] > least
                if not above:
                    continue
            for y in range(len(inner)):
                if found < len(largest) or inner[y] > largest[found - 1]:
                    found = min(found + 1, len(largest))
                    place = found - 1
                    while place > 0 and largest[place - 1] < inner[y]:
                        largest[place], chosen[row, place] = largest[place - 1], chosen[row, place - 1]
                        place -= 1
                    largest[place], chosen[row, place] = inner[y], start + y
