"""Sampling without replacement: one pass over q for block sums, for any number of draft tokens."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..arrays.masses import BLOCK_TOKENS
from .loops import REORDERED, distinct_rows, loop, plain, takes


def draws_outside(q: Array, uniforms: Array, fixed: Array) -> Array:
    """`laws.without_replacement.draws_outside`."""
    if not takes(q, uniforms):
        return NotImplemented
    batch, blocks = xp.batch_shape(q, uniforms), -(-q.shape[-1] // BLOCK_TOKENS)
    each, row_of = distinct_rows(batch, xp.host_view(q))
    wanted, before = xp.rows(batch, uniforms, fixed)
    gone = np.concatenate((before, np.zeros(wanted.shape, dtype=np.int64)), axis=-1)
    _in_turn(
        each,
        row_of,
        plain(wanted),
        gone,
        np.empty((len(each), blocks)),
        np.empty(blocks),
        np.empty(BLOCK_TOKENS, each.dtype),
    )
    return xp.from_view(gone.reshape(*batch, gone.shape[-1]), q)


@loop(REORDERED)
def _in_turn(q, row_of, uniform, gone, whole, sums, memory):  # noqa: C901 one loop nest
    """Write the samples of each row into the last columns of `gone`; tokens in the first columns are excluded.

    q is read once, for the sums of its blocks; where a token of a block is gone, the block is added again without it, so that nothing is
    lost where it had nearly all of the mass. whole: (r, b), sums: (b,), memory: (BLOCK_TOKENS,), whatever they hold.
    """
    n, blocks, fixed = q.shape[1], len(sums), gone.shape[1] - uniform.shape[1]
    for row in range(len(q)):
        for block in range(blocks):
            inner = q[row, block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
            part = inner[0] - inner[0]
            for y in range(len(inner)):
                part += inner[y]
            whole[row, block] = part
    for row in range(len(uniform)):
        own, tokens = q[row_of[row]], gone[row]
        sums[:] = whole[row_of[row]]
        for place in range(gone.shape[1]):
            if place >= fixed:
                total, at = 0.0, uniform[row, place - fixed]
                for block in range(blocks):
                    total += sums[block]
                if total > 0:
                    target, summed, start, found = q.dtype.type(at * total), 0.0, 0.0, 0
                    for block in range(blocks):
                        if sums[block] > 0:
                            found, start = block, summed
                            summed += sums[block]
                            if summed > target:
                                break
                    inner = own[found * BLOCK_TOKENS : (found + 1) * BLOCK_TOKENS]
                    memory[: len(inner)] = inner
                    for other in range(place):
                        if tokens[other] // BLOCK_TOKENS == found:
                            memory[tokens[other] % BLOCK_TOKENS] = 0
                    rest, summed, last = target - start, 0.0, 0
                    for y in range(len(inner)):
                        if memory[y] > 0:
                            last = y
                            summed += memory[y]
                            if summed > rest:
                                break
                    tokens[place] = found * BLOCK_TOKENS + last
                else:  # uniformly from the tokens not drafted yet
                    number = min(int(at * (n - place)), n - place - 1)
                    for y in range(n):
                        free = True
                        for other in range(place):
                            free = free and tokens[other] != y
                        if free and number == 0:
                            tokens[place] = y
                            break
                        number -= free
            block = tokens[place] // BLOCK_TOKENS
            inner = own[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
            memory[: len(inner)] = inner
            for other in range(place + 1):
                if tokens[other] // BLOCK_TOKENS == block:
                    memory[tokens[other] % BLOCK_TOKENS] = 0
            part = memory[0] - memory[0]
            for y in range(len(inner)):
                part += memory[y]
            sums[block] = part
    return gone
