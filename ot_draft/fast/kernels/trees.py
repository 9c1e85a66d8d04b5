"""Selection on token trees in one launch: one program per tree, which reads the vocabulary in blocks.

A node's children are tested in the order of drafting. A rejected child with distribution Q subtracts Q / s from the residual. Q is
proportional to q outside the excluded tokens, uniform there if q has no mass left, or a point mass. The residual is therefore
(p - c q - d)+ with two numbers c and d per node, except at the tokens of the node's children, whose masses are kept in registers. No
state of vocabulary size is written, and a rejected child costs one pass over p and q.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ...laws import IID, FixedFirst, FixedTokensLaw, Hybrid, WithoutReplacement
from ...laws.fixed_last import FixedLast
from ...rules import KSeq, RecursiveRejection, RecursiveRejectionWithoutReplacement
from ...trees.rules.token_wise import NaivePath, TokenWise
from ...trees.tree import DraftTree, PathSelection
from .draft_level import DRAWN, FIRST, NONE
from .draw import _stretch
from .excess import _any_of
from .grid import EXACT

# Tokens excluded from q when a child is drafted. NONE: no token (i.i.d.); DRAWN: earlier siblings (without replacement); FIRST: the
# fixed first children; LAST: the fixed last children and earlier siblings.
LAST = tl.constexpr(3)
K_SEQ, RECURSIVE, NAIVE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
ALL_BUT_ONE = tl.constexpr(-2)  # number of fixed children under `Hybrid(-1)`
STAGES = tl.constexpr(4)  # pipeline stages for blocks of p and q
BLOCK = 2048  # tokens


@triton.jit
def _at(x, lane, index):
    """x[index] of a vector of floats, 0 for an index out of range."""
    return tl.sum(tl.where(lane == index, x, 0.0))


@triton.jit
def _put(x, lane, index, value):
    return tl.where(lane == index, value, x)


@triton.jit
def _divide(a, b, otherwise):
    return tl.where(b != 0, a / tl.where(b != 0, b, 1.0), otherwise)


@triton.jit
def _left(
    p, q, start, n, c, d, share, token, kept, mass, gone, lane, KEEPS: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Residual, q outside the excluded tokens, and mask of tokens not excluded, for tokens start .. start + BLOCK - 1.

    The residual is (p - c q - d)+ + share min(p, c q), and `mass` at the tokens of the nodes `kept`, bool (NODES,). gone: bool (NODES,),
    subset of excluded tokens. KEEPS: whether there are such nodes.
    """
    left, draft, inside = _generic(p, q, start, n, c, d, share, BLOCK)
    if KEEPS:
        here = start + tl.arange(0, BLOCK)
        todo = kept & _in_block(token, start, BLOCK)
        number = tl.sum(todo.to(tl.int32))
        while number > 0:
            node = tl.min(tl.where(todo, lane, NODES))
            found = here == tl.sum(tl.where(lane == node, token, 0))
            left = tl.where(found, _at(mass, lane, node).to(tl.float32), left)
            is_gone = tl.sum(tl.where((lane == node) & gone, 1, 0)) > 0
            inside = inside & ((found & is_gone) == 0)
            todo = todo & (lane != node)
            number -= 1
    return left, tl.where(inside, draft, 0.0), inside


@triton.jit
def _generic(p, q, start, n, c, d, share, BLOCK: tl.constexpr):
    """`_left` for a block without tokens of the nodes `kept`."""
    here = start + tl.arange(0, BLOCK)
    inside = here < n
    target = tl.load(p + here, mask=inside, other=0.0)
    draft = tl.load(q + here, mask=inside, other=0.0)
    left = tl.maximum(tl.fma(-c, draft, target) - d, 0.0) + share * tl.minimum(c * draft, target)
    return left, draft, inside


@triton.jit
def _in_block(token, start, BLOCK: tl.constexpr):
    return (token >= start) & (token < start + BLOCK)


@triton.jit
def _sums(
    p, q, n, c, d, share, token, kept, mass, gone, lane, KEEPS: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Sums of the results of `_left` over the vocabulary: float64, float64, int32.

    The loop over all blocks has no branches, so that its loads are pipelined; blocks with tokens of the nodes `kept` follow.
    """
    left_sum, draft_sum = tl.zeros([BLOCK], tl.float64), tl.zeros([BLOCK], tl.float64)
    free_sum = tl.zeros([BLOCK], tl.int32)
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        left, draft, free = _generic(p, q, start, n, c, d, share, BLOCK)
        if KEEPS:
            follows = tl.sum((kept & _in_block(token, start, BLOCK)).to(tl.int32)) > 0
            left, draft, free = tl.where(follows, 0.0, left), tl.where(follows, 0.0, draft), free & (follows == 0)
        left_sum += left.to(tl.float64)
        if KEEPS:
            draft_sum += draft.to(tl.float64)
            free_sum += free.to(tl.int32)
    total, drafts, free_tokens = tl.sum(left_sum), tl.sum(draft_sum), tl.sum(free_sum)
    if KEEPS:
        todo = kept
        number = tl.sum(todo.to(tl.int32))
        while number > 0:
            node = tl.min(tl.where(todo, lane, NODES))
            start = tl.sum(tl.where(lane == node, token, 0)) // BLOCK * BLOCK
            left, draft, free = _left(p, q, start, n, c, d, share, token, kept, mass, gone, lane, KEEPS, NODES, BLOCK)
            total += tl.sum(left.to(tl.float64))
            drafts += tl.sum(draft.to(tl.float64))
            free_tokens += tl.sum(free.to(tl.int32))
            todo = todo & (_in_block(token, start, BLOCK) == 0)
            number = tl.sum(todo.to(tl.int32))
    return total, drafts, free_tokens


@triton.jit
def _draw(
    p, q, n, c, d, share, token, kept, mass, total, uniform, lane, KEEPS: tl.constexpr, NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Sample from the residual by inverse CDF; from p if the total is 0."""
    none = kept & (lane < 0)
    if total == 0:
        c, d, share, kept = c * 0.0, d * 0.0, share * 0.0, none
        total, _, _ = _sums(p, q, n, c, d, share, token, kept, mass, none, lane, KEEPS, NODES, BLOCK)
    aim, before, chosen = uniform * total, total * 0.0, total * 0.0
    block = tl.sum(lane * 0)
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        left, _, _ = _left(p, q, start, n, c, d, share, token, kept, mass, none, lane, KEEPS, NODES, BLOCK)
        size = tl.sum(left.to(tl.float64))
        inside = (size > 0) & (before <= aim)
        block, chosen = tl.where(inside, start, block), tl.where(inside, before, chosen)
        before += size
    left, _, _ = _left(p, q, block, n, c, d, share, token, kept, mass, none, lane, KEEPS, NODES, BLOCK)
    return block + _stretch(tl.cumsum(left.to(tl.float64), 0), aim - chosen)


@triton.jit
def _fixed_count(fixed, row, node, fixed_rows, FIXED: tl.constexpr, count):
    """Number of fixed tokens among `count` children of a node."""
    if FIXED == -1:
        return tl.load(fixed + row * fixed_rows + tl.minimum(node, fixed_rows - 1)).to(tl.int32)
    if FIXED == ALL_BUT_ONE:
        return tl.maximum(count - 1, 0)
    return tl.minimum(count, 0) + FIXED


@triton.jit
def _store_path(length, nodes, tokens, row, node, following, parent, token, lane, depth, LENGTH: tl.constexpr):
    """Store the `PathSelection` of the path to a node, and the token after it."""
    deep, above = tl.sum(lane * 0), node
    while above > 0:
        deep += 1
        above = tl.sum(tl.where(lane == above, parent, 0))
    tl.store(length + row, deep)
    place = tl.arange(0, LENGTH)
    path, told, above, at = 0 * place - 1, tl.where(place == deep, following, -1), node, deep - 1
    while above > 0:
        path = tl.where(place == at, above, path)
        told = tl.where(place == at, tl.sum(tl.where(lane == above, token, 0)), told)
        above = tl.sum(tl.where(lane == above, parent, 0))
        at -= 1
    tl.store(nodes + row * depth + place, path, mask=place < depth)
    tl.store(tokens + row * (depth + 1) + place, told, mask=place <= depth)


@triton.jit
def _drawn_by(q, child, token, gone, fixed, q_mass, free, lane):
    """Probability of each node's token when the child was drafted: float64 (NODES,). q_mass, free: of the tokens not excluded."""
    mine = tl.sum(tl.where(lane == child, token, 0))
    draft = tl.load(q + tl.where(token >= 0, token, 0)).to(tl.float64)
    spread = tl.where(free > 0, 1.0 / tl.where(free > 0, free, 1).to(tl.float64), 0.0)
    drawn = tl.where(gone, 0.0, tl.where(q_mass > 0, draft / tl.where(q_mass > 0, q_mass, 1.0), spread))
    return tl.where(fixed, tl.where(token == mine, 1.0, 0.0), drawn)


@triton.jit
def _nodes(parents, tokens, row, size, parents_row, tokens_row, NODES: tl.constexpr):
    """Tokens and parents of the nodes, int32 (NODES,); -1 for the root and after the last node."""
    lane = tl.arange(0, NODES)
    there = (lane > 0) & (lane <= size)
    token = tl.load(tokens + row * tokens_row + lane - 1, mask=there, other=-1).to(tl.int32)
    parent = tl.load(parents + row * parents_row + lane - 1, mask=there, other=-1).to(tl.int32)
    return token, parent, lane


@triton.jit
def _traverse(  # noqa: C901, PLR0915  one loop nest that triton compiles
    parents, tokens, p, q, fixed, uniforms, length, nodes, following, size, n, depth, fixed_rows, parents_row, tokens_row,
    p_tree, p_node, q_tree, q_node, LAW: tl.constexpr, FIXED: tl.constexpr, NODES: tl.constexpr, LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """`Traversal`: traversal of the tree in post-order."""
    row = tl.program_id(0).to(tl.int64)
    token, parent, lane = _nodes(parents, tokens, row, size, parents_row, tokens_row, NODES)
    drafted = parent
    parent = tl.where(token >= 0, parent, -1)
    p, q = p + row * p_tree, q + row * q_tree
    zero = lane.to(tl.float64) * 0.0
    # By node: weight, s, c and d; mass of q and number of tokens from which its current child was drafted; residual of its parent at its
    # token.
    weight, scale, c, d, q_mass, free, mass = zero + 1.0, zero + 1.0, zero, zero, zero + 1.0, zero + 1.0, zero
    node, last, accepted, step = tl.sum(lane * 0), tl.sum(lane * 0), tl.sum(lane * 0), tl.sum(lane * 0)
    none, going = lane < 0, node == 0
    while going:
        p_here, q_here = p + node * p_node, q + node * q_node
        sibling = parent == node
        child = tl.min(tl.where(sibling & (lane > last), lane, NODES))
        is_fixed, gone_now, gone_next, kept = none, none, none, none
        if LAW != NONE:
            kept = sibling
            if last == 0:
                mass = tl.where(sibling, tl.load(p_here + tl.where(sibling, token, 0)).to(tl.float64), mass)
        if LAW == DRAWN:
            gone_now, gone_next = sibling & (lane < last), sibling & (lane < child)
        if (LAW == FIRST) | (LAW == LAST):
            count = tl.sum(sibling.to(tl.int32))
            place = tl.cumsum(sibling.to(tl.int32), 0) - 1
            asked = tl.sum((drafted == node).to(tl.int32))  # including absent children
            number = tl.minimum(_fixed_count(fixed, row, node, fixed_rows, FIXED, asked), count)
            if LAW == FIRST:
                is_fixed = sibling & (place < number)
                gone_now, gone_next = is_fixed, is_fixed
            else:
                is_fixed = sibling & (place >= count - number)
                gone_now, gone_next = is_fixed | (sibling & (lane < last)), is_fixed | (sibling & (lane < child))
        s, w = _at(scale, lane, node), _at(weight, lane, node)
        if last > 0:
            apart = tl.minimum(_divide(1.0, s, 0.0), 1e30)  # as in `trees.rules.batched_traversal`
            m, f = _at(q_mass, lane, node), _at(free, lane, node)
            point = tl.sum(tl.where((lane == last) & is_fixed, 1, 0)) > 0
            if LAW != NONE:
                by = _drawn_by(q_here, last, token, gone_now, point, m, f, lane)
                mass = tl.where(sibling, tl.maximum(mass - apart * by, 0.0), mass)
            more_c = tl.where((m > 0) & (point == 0), apart / tl.where(m > 0, m, 1.0), 0.0)
            more_d = tl.where((m > 0) | point | (f == 0), 0.0, apart / tl.where(f > 0, f, 1.0))
            c, d = c + tl.where(lane == node, more_c, 0.0), d + tl.where(lane == node, more_d, 0.0)
        here_c, here_d = _at(c, lane, node).to(tl.float32), _at(d, lane, node).to(tl.float32)
        point_next = tl.sum(tl.where((lane == child) & is_fixed, 1, 0)) > 0
        unknown = (child < NODES) & (point_next == 0) & (tl.sum(gone_next.to(tl.int32)) > 0)
        left_sum, m, f = s * 0.0, s * 0.0 + 1.0, s * 0.0 + 1.0
        if (last > 0) | unknown:
            left_sum, draft_sum, free_sum = _sums(
                p_here, q_here, n, here_c, here_d, 0.0, token, kept, mass, gone_next, lane, LAW != NONE, NODES, BLOCK
            )
            if tl.sum(gone_next.to(tl.int32)) > 0:
                m, f = draft_sum, free_sum.to(tl.float64)
        if last > 0:
            rest = s * left_sum
            s, w = _divide(s, rest + 1 - w, 0.0), _divide(rest, rest + 1 - w, 1.0)
            scale, weight = _put(scale, lane, node, s), _put(weight, lane, node, w)
        if child < NODES:
            q_mass, free = _put(q_mass, lane, node, m), _put(free, lane, node, f)
            by = _drawn_by(q_here, child, token, gone_next, point_next, m, f, lane)
            mine = tl.sum(tl.where(lane == child, token, 0))
            left = tl.maximum(tl.fma(-here_c, tl.load(q_here + mine), tl.load(p_here + mine)) - here_d, 0.0).to(
                tl.float64
            )
            if LAW != NONE:
                left = _at(mass, lane, child)
            enters = tl.minimum(_divide(s * left, _at(by, lane, child), 0.0), 1.0)
            scale, weight = _put(scale, lane, child, enters), _put(weight, lane, child, enters)
            node, last = child, child * 0
        else:
            step += 1
            uniform = tl.load(uniforms + row * (size + 1) + step, mask=node > 0, other=0.0).to(tl.float64)
            going = (node > 0) & (uniform >= w)
            accepted, last = tl.where(going, accepted, node), node
            node = tl.where(going, tl.sum(tl.where(lane == node, parent, 0)), node)
    p_here, q_here, kept = p + accepted * p_node, q + accepted * q_node, none
    if tl.sum((parent == accepted).to(tl.int32)) == 0:
        q_here = p_here  # q may not have this row
    if LAW != NONE:
        kept = parent == accepted
    here_c, here_d = _at(c, lane, accepted).to(tl.float32), _at(d, lane, accepted).to(tl.float32)
    total, _, _ = _sums(
        p_here, q_here, n, here_c, here_d, 0.0, token, kept, mass, none, lane, LAW != NONE, NODES, BLOCK
    )
    uniform = tl.load(uniforms + row * (size + 1)).to(tl.float64)
    after = _draw(
        p_here,
        q_here,
        n,
        here_c,
        here_d,
        here_c * 0.0,
        token,
        kept,
        mass,
        total,
        uniform,
        lane,
        LAW != NONE,
        NODES,
        BLOCK,
    )
    _store_path(length, nodes, following, row, accepted, after, parent, token, lane, depth, LENGTH)


@triton.jit
def _coverage(p, q, n, factor, BLOCK: tl.constexpr):
    """sum of min(p, factor q), and sum of q where factor q < p: float64."""
    mass, slope = tl.zeros([BLOCK], tl.float64), tl.zeros([BLOCK], tl.float64)
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        here = start + tl.arange(0, BLOCK)
        target = tl.load(p + here, mask=here < n, other=0.0)
        draft = tl.load(q + here, mask=here < n, other=0.0)
        mass += tl.minimum(target, factor * draft).to(tl.float64)
        slope += tl.where(target > factor * draft, draft, 0.0).to(tl.float64)
    return tl.sum(mass), tl.sum(slope)


@triton.jit
def _division_factor(p, q, n, count, BLOCK: tl.constexpr):
    """A valid division factor of K-SEQ just above the smallest one, float32, and the mass there, by tangents as in `rules.k_seq`."""
    factors_at_once: tl.constexpr = 128
    grid = tl.arange(0, factors_at_once)
    low, high = tl.sum(grid.to(tl.float64) * 0.0) + 1.0, tl.maximum(count, 1).to(tl.float64)
    factor, reached, passes = tl.exp2(tl.log2(high) * 0.6), low * 0.0 - 1.0, count * 0
    while (passes < 12) & (high - low > 1e-6 * high):  # typically two or three passes over the vocabulary
        tried = factor.to(tl.float32)
        factor = tried.to(tl.float64)
        mass, slope = _coverage(p, q, n, tried, BLOCK)
        valid = mass >= _any_of(tl.minimum(mass / factor, 1.0), count)
        low, high = tl.where(valid, low, factor), tl.where(valid, factor, high)
        reached = tl.where(valid, mass, reached)
        at = low * tl.exp2(tl.log2(high / low) * (grid.to(tl.float64) / (factors_at_once - 1)))
        most = tl.maximum(mass + slope * (at - factor), 0.0)  # the mass is concave: below its tangents
        never = most < _any_of(tl.minimum(most / at, 1.0), count)
        low = tl.minimum(tl.max(tl.where(never, at, low)), high)
        further = tl.min(tl.where(at > low, at, high))
        factor = tl.where(further < high, further, tl.sqrt(low * high))
        passes += 1
    tried = high.to(tl.float32)
    if reached < 0:
        reached, _ = _coverage(p, q, n, tried, BLOCK)
    return tried, reached


@triton.jit
def _walk(  # noqa: C901, PLR0915  one loop nest that triton compiles
    parents, tokens, p, q, uniforms, length, nodes, following, size, n, depth, columns, parents_row, tokens_row, p_tree,
    p_node, q_tree, q_node, RULE: tl.constexpr, LAW: tl.constexpr, NODES: tl.constexpr, LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Token-wise rules: descend along the nodes whose tokens are the outputs of the rule."""
    row = tl.program_id(0).to(tl.int64)
    token, parent, lane = _nodes(parents, tokens, row, size, parents_row, tokens_row, NODES)
    counts = tl.sum((parent[None, :] == lane[:, None]).to(tl.int32), 1)
    p, q, uniforms = p + row * p_tree, q + row * q_tree, uniforms + row * columns
    zero, none, alive = lane.to(tl.float64) * 0.0, lane < 0, (lane == 0).to(tl.int32)
    here, level = tl.sum(lane * 0), tl.sum(lane * 0)
    after, going = here - 1, here == 0
    while going:
        p_here, q_here = p + here * p_node, q + here * q_node
        below = (tl.sum((parent[:, None] == lane[None, :]).to(tl.int32) * alive[None, :], 1) > 0) & (token >= 0)
        drafts = below
        if LAW == DRAWN:  # the children of one of the live nodes
            drafts = below & (parent == here)
        count = tl.sum(drafts.to(tl.int32))
        if count == 0:
            q_here = p_here  # q may not have this row
        column = tl.where(level < depth, 2 * level + 1, 2 * level)
        taken, c, d, share, kept, mass = here * 0 - 1, zero, zero, 0.0, none, zero
        c, d, share = tl.sum(zero), tl.sum(zero), tl.sum(zero)
        if RULE == NAIVE:
            column = level
        else:
            uniform = tl.load(uniforms + 2 * level).to(tl.float64)
            reach, summed = c + 1.0, c + 0.0
            draft = tl.min(tl.where(drafts, lane, NODES))
            if RULE == K_SEQ:
                factor, reached = _division_factor(p_here, q_here, n, count, BLOCK)
                c = factor.to(tl.float64)
                while draft < NODES:
                    mine = tl.sum(tl.where(lane == draft, token, 0))
                    wanted, offered = tl.load(p_here + mine).to(tl.float64), tl.load(q_here + mine).to(tl.float64)
                    take = tl.minimum(_divide(wanted, c * offered, 0.0), 1.0)
                    summed += take * reach
                    reach *= 1.0 - take
                    chosen = summed > uniform
                    taken = tl.where(chosen, mine, taken)
                    draft = tl.where(chosen, NODES, tl.min(tl.where(drafts & (lane > draft), lane, NODES)))
                share = 1.0 - tl.minimum(_divide(_any_of(tl.minimum(reached / c, 1.0), count), reached, 0.0), 1.0)
            else:
                m, f, e = c + 1.0, c + 1.0, c + 1.0
                if LAW == DRAWN:
                    kept = drafts
                    mass = tl.where(drafts, tl.load(p_here + tl.where(drafts, token, 0)).to(tl.float64), 0.0)
                while draft < NODES:
                    mine = tl.sum(tl.where(lane == draft, token, 0))
                    gone = none
                    if LAW == DRAWN:
                        gone = drafts & (lane < draft)
                    by = _drawn_by(q_here, draft, token, gone, here < 0, m, f, lane)
                    cut = tl.fma(-c.to(tl.float32), tl.load(q_here + mine), tl.load(p_here + mine)) - d.to(tl.float32)
                    left = tl.maximum(cut, 0.0).to(tl.float64)
                    if LAW == DRAWN:
                        left = _at(mass, lane, draft)
                    take = tl.minimum(_divide(left, e * _at(by, lane, draft), 0.0), 1.0)
                    summed += take * reach
                    reach *= 1.0 - take
                    if summed > uniform:
                        taken, draft = mine, draft * 0 + NODES
                    else:
                        more_c = c + tl.where(m > 0, e / tl.where(m > 0, m, 1.0), 0.0)
                        more_d = d + tl.where((m > 0) | (f == 0), 0.0, e / tl.where(f > 0, f, 1.0))
                        less = tl.maximum(mass - e * by, 0.0)
                        if LAW == DRAWN:
                            gone = drafts & (lane <= draft)
                        left_sum, draft_sum, free_sum = _sums(
                            p_here, q_here, n, more_c.to(tl.float32), more_d.to(tl.float32), 0.0, token, kept, less, gone,
                            lane, LAW != NONE, NODES, BLOCK,
                        )  # fmt: skip
                        if LAW == DRAWN:
                            m, f = draft_sum, free_sum.to(tl.float64)
                            if left_sum > 0:  # else p is unchanged
                                c, d, mass, e = more_c, more_d, less, left_sum
                        else:
                            c, e = more_c, left_sum
                        draft = tl.min(tl.where(drafts & (lane > draft), lane, NODES))
        if taken < 0:
            near_c, near_d, rest = c.to(tl.float32), d.to(tl.float32), share.to(tl.float32)
            total, _, _ = _sums(
                p_here, q_here, n, near_c, near_d, rest, token, kept, mass, none, lane, LAW != NONE, NODES, BLOCK
            )
            uniform = tl.load(uniforms + column).to(tl.float64)
            taken = _draw(
                p_here,
                q_here,
                n,
                near_c,
                near_d,
                rest,
                token,
                kept,
                mass,
                total,
                uniform,
                lane,
                LAW != NONE,
                NODES,
                BLOCK,
            )
        below = below & (token == taken)
        going = tl.sum(below.to(tl.int32)) > 0
        if going:
            alive, level = below.to(tl.int32), level + 1
            most = tl.max(tl.where(below, counts, -1))
            here = tl.min(tl.where(below & (counts == most), lane, NODES))
        else:
            after = taken
    _store_path(length, nodes, following, row, here, after, parent, token, lane, depth, LENGTH)


def _is_small(tree: DraftTree, max_nodes: int = 127) -> bool:
    """Whether the kernels support the number of nodes."""
    return tree.bounds.size <= max_nodes


def traversal(tree: DraftTree, uniforms: Any) -> PathSelection:
    """Return the selection of `Traversal` in one launch, or NotImplemented for unsupported trees."""
    law = _law_of(tree)
    if law is None or not _is_small(tree):
        return NotImplemented
    code, fixed = law
    per_node = not isinstance(fixed, int)
    inputs, outputs = _inputs(tree), _outputs(tree)
    _traverse[(len(tree.tokens),)](
        *inputs, fixed.contiguous() if per_node else outputs[0], uniforms.contiguous(), *outputs, tree.bounds.size,
        tree.p.shape[-1], tree.bounds.length, fixed.shape[-1] if per_node else 1, *_steps(*inputs), LAW=code.value,
        FIXED=-1 if per_node else fixed, **_sizes(tree), **EXACT,
    )  # fmt: skip
    return PathSelection(*outputs)


def token_wise(path_rule: TokenWise, tree: DraftTree, uniforms: Any) -> PathSelection:
    """Return the selection of a token-wise path rule in one launch, or NotImplemented for unsupported rules and trees."""
    rule = path_rule.rule
    if not _is_small(tree):
        return NotImplemented
    if type(path_rule) is NaivePath:
        kind, law = NAIVE, NONE
    elif rule in (KSeq(), RecursiveRejection()) and type(tree.law) is IID:
        kind, law = (K_SEQ if rule == KSeq() else RECURSIVE), NONE
    elif rule == RecursiveRejectionWithoutReplacement() and type(tree.law) is WithoutReplacement:
        kind, law = RECURSIVE, DRAWN
    else:
        return NotImplemented
    inputs, outputs = _inputs(tree), _outputs(tree)
    _walk[(len(tree.tokens),)](
        *inputs, uniforms.contiguous(), *outputs, tree.bounds.size, tree.p.shape[-1], tree.bounds.length,
        uniforms.shape[-1], *_steps(*inputs), RULE=kind.value, LAW=law.value, **_sizes(tree), **EXACT,
    )  # fmt: skip
    return PathSelection(*outputs)


def _law_of(tree: DraftTree) -> tuple[Any, Any] | None:
    """The kernel's constant for the draft law, and the number of fixed children: one number, or int64 (B, M) by node."""
    law = tree.law
    if type(law) in (IID, WithoutReplacement):
        return (NONE if type(law) is IID else DRAWN), 0
    if not isinstance(law, FixedTokensLaw) or type(law).conditional not in (
        FixedFirst.conditional,
        FixedLast.conditional,
    ):
        return None
    code = FIRST if type(law).conditional is FixedFirst.conditional else LAST
    if tree.fixed_count is not None:
        return code, tree.fixed_count.long()
    if law == Hybrid(-1):
        return code, ALL_BUT_ONE.value
    fixed = (
        law.n_fixed(tree.q, tree.bounds.max_children) if law.n_fixed_is_constant and not law.n_fixed_by_node else None
    )
    return (code, fixed) if isinstance(fixed, int) else None


def _inputs(tree: Any) -> tuple[Any, ...]:
    """Parents, tokens, p and q with a contiguous last axis, as the kernels need."""
    given = tree.parents, tree.tokens, tree.p, tree.q if tree.q.shape[1] else tree.p
    return tuple(x if x.stride(-1) == 1 else x.contiguous() for x in given)


def _steps(parents: Any, tokens: Any, p: Any, q: Any) -> tuple[int, ...]:
    return parents.stride(0), tokens.stride(0), p.stride(0), p.stride(1), q.stride(0), q.stride(1)


def _outputs(tree: Any) -> tuple[Any, Any, Any]:
    batch, depth = len(tree.tokens), tree.bounds.length
    empty = tree.tokens.new_empty
    return empty(batch), empty(batch, depth), empty(batch, depth + 1)


def _sizes(tree: Any) -> dict[str, int]:
    nodes, length = (triton.next_power_of_2(number + 1) for number in (tree.bounds.size, tree.bounds.length))
    return {"NODES": nodes, "LENGTH": length, "BLOCK": BLOCK, "num_warps": 8}
