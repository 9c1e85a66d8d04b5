"""Recursive rejection: kernels for the whole selection, and a loop for its scales."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..arrays.masses import BLOCK_TOKENS
from ..selection import Selection
from .kernels import wanted
from .loops import REORDERED, loop, takes

MAX_KERNEL_DRAFTS = 15  # max. number of draft tokens per position


def selection(p: Array, q: Array, drafts: Array) -> Selection:
    """The selection of `RecursiveRejection`, by Triton kernels."""
    if drafts.shape[-1] > MAX_KERNEL_DRAFTS or not wanted(p, drafts):
        return NotImplemented
    from .kernels.excess import recursive_rejection

    return Selection(*recursive_rejection(p, q, drafts))


def scales(p: Array, q: Array, present: Array) -> tuple[Array, Array, Array]:
    """s_i and the mass of (p - s_i q)+ when draft i is tested, and s at the end: (..., k), (..., k), (..., 1)."""
    if not takes(p, q):
        return NotImplemented
    batch = xp.batch_shape(p, q, present)
    tested, masses, last = (
        xp.from_view(x.reshape(*batch, x.shape[-1]), p) for x in _passes(*xp.rows(batch, p, q, present))
    )
    return tested, masses, last


@loop(REORDERED)
def _passes(p, q, present):
    rows, k = present.shape
    scales, masses, last = np.zeros((rows, k), p.dtype), np.ones((rows, k), p.dtype), np.zeros((rows, 1), p.dtype)
    for row in range(rows):
        scale, mass = 0.0, 1.0
        for i in range(k):
            scales[row, i] = scale
            masses[row, i] = mass
            if present[row, i] == 0:
                continue
            scale += mass
            mass = 0.0
            if i + 1 < k:
                last[row, 0] = scale
                s = last[row, 0]
                for start in range(0, p.shape[1], BLOCK_TOKENS):
                    p_in, q_in, part = p[row, start : start + BLOCK_TOKENS], q[row, start : start + BLOCK_TOKENS], s - s
                    for y in range(len(p_in)):
                        part += max(p_in[y] - s * q_in[y], s - s)
                    mass += part
        last[row, 0] = scale
    return scales, masses, last
