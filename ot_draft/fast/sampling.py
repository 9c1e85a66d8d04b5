"""Sampling of the output of a selection: the residual is read only in rows without an accepted draft token."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..selection import Selection
from .inverse_cdf import inverse_cdf_of
from .loops import loop, takes


def choose(selection: Selection, drafts: Array, uniform: Array) -> tuple[Array, Array]:
    """`sampling.choose`."""
    accept, residual = selection.accept, selection.residual
    if not drafts.shape[-1] or not takes(residual, accept, uniform):
        return NotImplemented
    batch = xp.batch_shape(accept, residual, drafts, uniform)
    chances, ids, numbers = xp.rows(batch, accept, drafts, uniform)
    token, position = np.empty((2, len(ids)), dtype=np.int64)
    _take(chances, ids, numbers, token, position)
    fresh = np.flatnonzero(position < 0)
    if len(fresh):
        token[fresh] = inverse_cdf_of(residual, batch, fresh, numbers[fresh, 1:])[:, 0]
    return xp.from_view(token.reshape(batch), residual), xp.from_view(position.reshape(batch), residual)


@loop()
def _take(accept, ids, uniform, token, position):
    """Write the draft token that the first uniform number of each row accepts, and its position; -1 if none is accepted."""
    for row in range(len(ids)):
        summed, taken = accept[row, 0] - accept[row, 0], 0
        for place in range(ids.shape[1]):
            summed += accept[row, place]
            taken += summed <= uniform[row, 0]
        position[row] = taken if taken < ids.shape[1] else -1
        token[row] = ids[row, min(taken, ids.shape[1] - 1)]
