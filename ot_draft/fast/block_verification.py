"""Block verification of one path in one loop."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from .. import arrays as xp
from ..arrays.masses import BLOCK_TOKENS
from ..trees.rules.block_verification import BlockVerification
from ..trees.rules.survivors import Draws
from ..trees.tree import DraftTree, PathSelection
from .loops import REORDERED, loop, takes


def select(rule: BlockVerification, tree: DraftTree, draws: Draws) -> PathSelection:
    """Return the selection of `BlockVerification`."""
    if not takes(tree.p, tree.q):
        return NotImplemented
    p, q = xp.host_view(tree.p), xp.host_view(tree.q)
    if len(p) > 1 and not (p.strides[0] and q.strides[0]):  # broadcast copies of one tree
        return NotImplemented
    length = tree.bounds.length
    selection = (
        np.empty(len(p), np.int64),
        np.empty((len(p), length), np.int64),
        np.empty((len(p), length + 1), np.int64),
    )
    until = np.empty((length + 1, -(-p.shape[-1] // BLOCK_TOKENS)))
    _verify(*map(np.ascontiguousarray, (p, q, xp.host_view(tree.tokens), draws.uniforms)), until, *selection)
    return PathSelection(*(xp.from_view(x, tree.p) for x in selection))


@loop(REORDERED)
def _verify(p, q, tokens, uniforms, until, length, nodes, emitted):  # noqa: C901 one loop nest
    """Write the selection. until: buffer for the sums of (w_i p_i - m_i)+ up to the end of each block, by i.

    Sums are as in `arrays.masses`: in the type of the masses within a block, in float64 over the blocks.
    """
    deepest, blocks = until.shape
    passes, weights = np.empty(deepest), np.empty(deepest)
    for row in range(len(tokens)):
        end, weight = 0, 1.0
        while end < tokens.shape[1] and tokens[row, end] >= 0:
            own, drafted, scale, total = p[row, end], q[row, end], p.dtype.type(weight), 0.0
            for block in range(blocks):
                start = block * BLOCK_TOKENS
                p_in, q_in = own[start : start + BLOCK_TOKENS], drafted[start : start + BLOCK_TOKENS]
                part = scale - scale
                for y in range(len(p_in)):
                    part += max(scale * p_in[y] - q_in[y], scale - scale)
                total += part
                until[end, block] = total
            weights[end] = weight
            passes[end] = total / (total + 1 - weight) if total > 0 or weight < 1 else 1.0
            wanted, offered = scale * own[tokens[row, end]], drafted[tokens[row, end]]
            weight = min(wanted / offered, 1.0) if offered > 0 else 0.0
            end += 1
        weights[end] = passes[end] = weight
        # Replace pass probabilities by probabilities of lengths: the longest prefix that passes is accepted.
        rejected = 1.0
        for i in range(end, -1, -1):
            passed = passes[i]
            passes[i] = rejected * passed
            rejected *= 1 - passed
        target, summed, chosen = uniforms[row, 0] * passes[: end + 1].sum(), 0.0, 0
        for i in range(end + 1):
            if passes[i] > 0:
                chosen = i
                summed += passes[i]
                if summed > target:
                    break
        there = chosen < end and until[chosen, blocks - 1] > 0
        own, drafted = p[row, chosen], q[row, min(chosen, q.shape[1] - 1)]
        scale = p.dtype.type(weights[chosen] if there else 1.0)
        if not there:  # sample from p
            total = 0.0
            for block in range(blocks):
                p_in = own[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
                part = scale - scale
                for y in range(len(p_in)):
                    part += p_in[y]
                total += part
                until[chosen, block] = total
        total, block = until[chosen, blocks - 1], 0
        target = uniforms[row, 1] * total
        while until[chosen, block] <= target and until[chosen, block] < total:
            block += 1
        rest, summed, last = target - (until[chosen, block - 1] if block else 0.0), 0.0, -1
        start = block * BLOCK_TOKENS
        p_in, q_in = own[start : start + BLOCK_TOKENS], drafted[start : start + BLOCK_TOKENS]
        for y in range(len(p_in)):
            mass = scale * p_in[y] - (q_in[y] if there else scale - scale)
            if mass > 0:
                last = y
                summed += mass
                if summed > rest:
                    break
        if last < 0:  # the rest is within rounding error of 0
            last = p_in.argmax()
        length[row] = chosen
        for i in range(len(nodes[row])):
            nodes[row, i] = i + 1 if i < chosen else -1
        for i in range(len(emitted[row])):
            emitted[row, i] = tokens[row, i] if i < chosen else (start + last if i == chosen else -1)
