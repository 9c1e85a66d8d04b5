"""Sampling by inverse CDF: one pass over the vocabulary for block sums, and a second one over a single block."""

# mypy: disable-error-code="no-untyped-def"

from typing import Any

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..arrays.masses import BLOCK_TOKENS
from .kernels import wanted
from .loops import REORDERED, distinct_rows, loop, plain, takes


def inverse_cdf(mass: Array, uniform: Array) -> Array:
    """`arrays.inverse_cdf`."""
    batch = xp.batch_shape(mass, uniform)
    if wanted(mass, uniform):
        from .kernels.draw import inverse_cdf as draw

        return draw(mass, xp.broadcast_to(uniform, (*batch, uniform.shape[-1])))
    if not takes(mass, uniform):
        return NotImplemented
    found = inverse_cdf_of(mass, batch, slice(None), *xp.rows(batch, uniform))
    return xp.from_view(found.reshape(*batch, uniform.shape[-1]), mass)


def inverse_cdf_of(mass: Array, batch: tuple[int, ...], some: Any, uniform: np.ndarray) -> np.ndarray:
    """`inverse_cdf` for some rows of the batch: uniforms (r, m) -> int (r, m). For masses that compiled loops take."""
    each, row_of = distinct_rows(batch, xp.host_view(mass))
    return _inverse_cdf(each, plain(row_of[some]), plain(uniform), np.empty(-(-mass.shape[-1] // BLOCK_TOKENS)))


@loop(REORDERED)
def _inverse_cdf(mass, row_of, uniform, until):
    """`inverse_cdf` by row. until: buffer for the sums up to the end of each block."""
    found, blocks, total = np.empty(uniform.shape, np.int64), len(until), 0.0
    for row in range(len(uniform)):
        own = mass[row_of[row]]
        if row == 0 or row_of[row] != row_of[row - 1]:
            total = 0.0
            for block in range(blocks):
                inner = own[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
                part = inner[0] - inner[0]
                for y in range(len(inner)):
                    part += inner[y]
                total += part
                until[block] = total
        for place in range(uniform.shape[1]):
            target, block = mass.dtype.type(uniform[row, place] * total), 0
            while until[block] <= target and until[block] < total:
                block += 1
            rest = target - (until[block - 1] if block else 0.0)
            inner = own[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
            summed, last = 0.0, 0
            for y in range(len(inner)):
                if inner[y] > 0:
                    last = y
                    summed += inner[y]
                    if summed > rest:
                        break
            found[row, place] = block * BLOCK_TOKENS + last
    return found
