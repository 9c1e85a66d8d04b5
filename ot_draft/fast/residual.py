"""The residual of a rule in two passes over the tokens: the sum, then the result."""

# mypy: disable-error-code="no-untyped-def"

from math import prod
from typing import Any

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..arrays.masses import BLOCK_TOKENS, MIN_INVERTIBLE
from .loops import REORDERED, loop, plain, takes


def residual(p: Array, q: Array, scale: Any = 1, min_share: Any = 0, out: Array | None = None) -> Array:
    """`arrays.residual`."""
    if not takes(p, q):
        return NotImplemented
    factors = [xp.host_view(x) if hasattr(x, "dtype") else np.full(1, x) for x in (scale, min_share)]
    batch = xp.batch_shape(p, q, *factors)
    memory = np.empty((*batch, p.shape[-1]), xp.host_view(p).dtype) if out is None else xp.host_view(out)
    into = memory.reshape(prod(batch), p.shape[-1])
    p_rows, q_rows, *columns = xp.rows(batch, p, q, *factors)
    _residual(p_rows, q_rows, *(plain(x, into.dtype) for x in columns), into)
    return xp.from_view(into.reshape(memory.shape), p)


@loop(REORDERED)
def _residual(p, q, scale, least, out):
    """Write the residual. Sums are in the type of the masses within a block, for SIMD, and in float64 over the blocks."""
    for row in range(p.shape[0]):
        s, c, total = scale[row, 0], least[row, 0], 0.0
        for start in range(0, p.shape[1], BLOCK_TOKENS):
            p_in, q_in, into = (
                p[row, start : start + BLOCK_TOKENS],
                q[row, start : start + BLOCK_TOKENS],
                out[row, start : start + BLOCK_TOKENS],
            )
            part = s - s
            for y in range(len(p_in)):
                into[y] = max(p_in[y] - s * q_in[y], c * p_in[y])
                part += into[y]
            total += part
        if total > MIN_INVERTIBLE:
            share = p.dtype.type(1 / total)
            for y in range(p.shape[1]):
                out[row, y] *= share
        else:
            for y in range(p.shape[1]):
                out[row, y] = out[row, y] / total if total > 0 else p[row, y]
