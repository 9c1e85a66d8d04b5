"""Uniform numbers that depend on seed, row and step only, so that a row's text is the same in every batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def uniforms(seed: int, rows: Sequence[int], step: int, count: int, dtype: torch.dtype) -> Tensor:
    """Independent uniforms in [0, 1), (len(rows), count), on the CPU, in float64 or float32.

    Philox is a counter-based generator: seed and row are its key, the step is the upper part of its counter. No two
    (seed, row, step) share a number, and none needs the numbers before it.
    """
    kind = np.float64 if dtype == torch.float64 else np.float32
    numbers = np.empty((len(rows), count), dtype=kind)
    for place, row in enumerate(rows):
        # In the type that is wanted from the start: a float64 below 1 may round to 1 in float32.
        # As uint64: a list that holds a number from 2^63 on goes through float64, where neighbouring seeds are one.
        key = np.array([int(seed) % 2**64, int(row) % 2**64], dtype=np.uint64)
        stream = np.random.Philox(key=key, counter=[0, 0, 0, step])
        numbers[place] = np.random.Generator(stream).random(count, dtype=kind)
    return torch.from_numpy(numbers)
