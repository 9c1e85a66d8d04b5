"""Head, draft distribution and children of one level of a draft tree, in two launches.

`_scores` distributes the rows of the head over the whole device. `_draw_children` needs the largest score of a row and the sum over all its
tokens, which are known only when every program of the first launch has ended. Programs of one launch cannot wait for each other. A counter
would let the last program do the rest, for all nodes of the level on a single multiprocessor. Hence two launches, and not one.

Children are sampled from the float32 probabilities that are stored as q, with the uniform numbers and in the order of the array code.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ...laws import IID, DraftLaw, Hybrid, WithoutReplacement
from .grid import EXACT

# Tokens excluded for later siblings: none, all earlier siblings, or the top tokens that are drafted first.
NONE, DRAWN, FIRST = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
BLOCK = 1024  # tokens that `_draw_children` reads at once
TOKENS = 64  # rows of a tile of the head


@triton.jit
def _scores(
    states, norm, weight, scores, largest, sums, rows, n, width, epsilon, temperature, states_row, NORMS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Scores (rows, n) of tokens, divided by the temperature; by block, the maximum z and the sum of exp(score - z)."""
    part, row = tl.program_id(0), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    token = part * BLOCK + tl.arange(0, BLOCK)
    here, there = row < rows, token < n
    own = states + row[:, None].to(tl.int64) * states_row
    scale = tl.zeros([ROWS], tl.float32) + 1.0
    if NORMS:
        square = tl.zeros([ROWS], tl.float32)
        for start in range(0, width, CHUNK):
            place = start + tl.arange(0, CHUNK)
            x = tl.load(own + place[None, :], mask=here[:, None] & (place < width)[None, :], other=0.0).to(tl.float32)
            square += tl.sum(x * x, 1)
        scale = 1.0 / tl.sqrt(square / width + epsilon)
    found = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, width, CHUNK):
        place = start + tl.arange(0, CHUNK)
        inside = place < width
        x = tl.load(own + place[None, :], mask=here[:, None] & inside[None, :], other=0.0)
        if NORMS:
            by = tl.load(norm + place, mask=inside, other=0.0).to(tl.float32)
            normed = (x.to(tl.float32) * scale[:, None]).to(x.dtype).to(tl.float32)
            x = (by[None, :] * normed).to(x.dtype)
        tile = tl.load(
            weight + token[:, None].to(tl.int64) * width + place[None, :],
            mask=there[:, None] & inside[None, :],
            other=0.0,
        )
        found += tl.dot(x, tl.trans(tile), input_precision="ieee")
    found = found.to(weight.dtype.element_ty).to(tl.float32) / temperature  # rounded as in the array code
    both = here[:, None] & there[None, :]
    tl.store(scores + row[:, None].to(tl.int64) * n + token[None, :], found, mask=both)
    known = tl.where(both & (found == found), found, float("-inf"))
    most = tl.max(known, 1)
    apart = tl.where(known > float("-inf"), tl.exp(known - most[:, None]), 0.0)
    wrong = tl.sum((both & (found != found)).to(tl.int32), 1) > 0
    at = row * tl.num_programs(0) + part
    tl.store(largest + at, most, mask=here)
    tl.store(sums + at, tl.where(wrong, float("nan"), tl.sum(apart, 1)), mask=here)


@triton.jit
def _masses(scores, start, n, top, total, lost, even, best, GREEDY: tl.constexpr, BLOCK: tl.constexpr):
    """q of a block of scored tokens, 0 beyond the last; the same numbers at every call."""
    place = start + tl.arange(0, BLOCK)
    score = tl.load(scores + place, mask=place < n, other=float("-inf"))
    mass = tl.where(place == best, 1.0, 0.0) if GREEDY else tl.exp(score - top) / total
    return tl.where(place < n, tl.where(lost, even, mass), 0.0), place


@triton.jit
def _without(mass, place, gone):
    """The masses with 0 at the positions `gone`."""
    return tl.where(tl.sum((place[:, None] == gone[None, :]).to(tl.int32), 1) > 0, 0.0, mass)


@triton.jit
def _draw_children(  # noqa: PLR0915  one loop nest that triton compiles
    scores, largest, sums, scored, begins, uniforms, q, tokens, without_law, first_node, n, size, parts, even, top_count,
    uniforms_row, q_tree, q_node, tokens_row, SUBSET: tl.constexpr, GREEDY: tl.constexpr, LAW: tl.constexpr,
    PARTS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """q of one node, and its children. n: number of scored tokens, size: of all tokens; scored: ids of the scored ones (SUBSET)."""
    tree, place_in_level = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row = tree * tl.num_programs(1) + place_in_level
    node = first_node + place_in_level
    own, q = scores + row * n, q + tree * q_tree + place_in_level * q_node
    part = tl.arange(0, PARTS)
    most = tl.load(largest + row * parts + part, mask=part < parts, other=float("-inf"))
    top = tl.max(most)
    each = tl.load(sums + row * parts + part, mask=part < parts, other=0.0)
    total = tl.sum(tl.where((most > float("-inf")) | (each != each), each * tl.exp(most - top), 0.0))
    lost = (top == float("inf")) | (top == float("-inf")) | (total != total)
    top, total = tl.where(lost, 0.0, top), tl.where(lost, 1.0, total)
    best = 0
    if GREEDY:
        best = n
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            score = tl.load(own + at, mask=at < n, other=float("-inf"))
            best = tl.minimum(best, tl.min(tl.where(score == top, at, n)))
    number = tl.arange(0, BLOCKS)
    mass_of, top_of = number.to(tl.float64) * 0.0, number.to(tl.float32) * 0.0 - 1.0
    for start in range(0, n, BLOCK):
        mass, at = _masses(own, start, n, top, total, lost, even, best, GREEDY, BLOCK)
        token = at
        if SUBSET:
            token = tl.load(scored + at, mask=at < n, other=0)
        tl.store(q + token, mass, mask=at < n)
        mass_of = tl.where(number == start // BLOCK, tl.sum(mass.to(tl.float64)), mass_of)
        top_of = tl.where(number == start // BLOCK, tl.max(mass), top_of)
    there = tl.load(tokens + tree * tokens_row + node - 1, mask=node > 0, other=0) >= 0
    tl.atomic_add(without_law + tree, (lost & there).to(tl.int64))
    begin, end = tl.load(begins + node), tl.load(begins + node + 1)
    lane = tl.arange(0, K)
    gone, gone_tokens, number_gone = lane * 0 - 1, lane * 0 - 1, begin * 0
    for child in range(begin, end):
        uniform = tl.load(uniforms + tree * uniforms_row + child).to(tl.float64)
        is_fixed = (LAW == FIRST) & (child - begin < top_count)
        whole = tl.sum(mass_of)
        aim, until = uniform * whole, tl.cumsum(mass_of, 0)
        block = tl.min(tl.where((mass_of > 0) & (until > aim), number, BLOCKS))
        block = tl.where(block < BLOCKS, block, tl.max(tl.where(mass_of > 0, number, 0)))
        if LAW == FIRST:
            highest = tl.min(tl.where(top_of == tl.max(top_of), number, BLOCKS))
            block = tl.where(is_fixed, highest, block)
        rest = aim - tl.sum(tl.where(number < block, mass_of, 0.0))
        mass, at = _masses(own, block * BLOCK, n, top, total, lost, even, best, GREEDY, BLOCK)
        mass = _without(mass, at, gone)
        chosen = tl.min(tl.where((mass > 0) & (tl.cumsum(mass.to(tl.float64), 0) > rest), at, n))
        chosen = tl.where(chosen < n, chosen, tl.max(tl.where(mass > 0, at, 0)))
        if LAW == FIRST:
            chosen = tl.where(is_fixed, tl.min(tl.where(mass == tl.max(mass), at, n)), chosen)
        token = chosen
        if SUBSET:
            token = tl.load(scored + chosen).to(tl.int32)
        # Without remaining mass: uniformly from the tokens not excluded; with fixed tokens, the first of them.
        left = size - number_gone
        skipped = tl.minimum((uniform * left).to(tl.int32), left - 1)
        skipped = tl.where(is_fixed, 0, skipped)
        spread = skipped
        for _ in range(K):
            spread = skipped + tl.sum(((gone_tokens >= 0) & (gone_tokens <= spread)).to(tl.int32))
        token = tl.where(whole > 0, token, spread)
        token = tl.where(there & (left > 0), token, -1)
        tl.store(tokens + tree * tokens_row + child, token.to(tl.int64))
        if (LAW == DRAWN) | is_fixed:
            gone = tl.where(lane == number_gone, tl.where(whole > 0, chosen, -1), gone)
            gone_tokens = tl.where(lane == number_gone, token, gone_tokens)
            number_gone += 1
            mass = _without(mass, at, gone)
            mass_of = tl.where(number == block, tl.sum(mass.to(tl.float64)), mass_of)
            top_of = tl.where(number == block, tl.max(mass), top_of)


def takes(law: DraftLaw, n: int, children: int, max_children: int = 32) -> bool:
    """Whether the kernels draw `children` children per node by the draft law, from n tokens."""
    known = type(law) in (IID, WithoutReplacement) or (
        type(law) is Hybrid and isinstance(law.top, int) and law.top >= 0
    )
    return known and children <= max_children and n < 1 << 30


def draw_level(
    states: Any, head: Any, temperature: float, law: Any, scored: Any, first_node: int, begins: Any, uniforms: Any, q: Any,
    tokens: Any, without_law: Any, children: int,
) -> None:  # fmt: skip
    """Score hidden states (B, W, width) of the nodes first_node .. first_node + W - 1, write q (B, W, n), and draw their children.

    begins: int32 (N + 2,), children of node i are tokens begins[i] .. begins[i + 1] - 1. uniforms: (B, N), tokens: int64 (B, N),
    without_law: int64 (B,), which is added to. scored: ids of the tokens that the head scores, None for all; q is 0 at others.
    """
    batch, width = states.shape[:2]
    rows = states.reshape(-1, states.shape[-1])
    count, n = len(rows), len(head.weight)
    parts = triton.cdiv(n, TOKENS)
    scores, largest, sums = (rows.new_empty(count, size, dtype=q.dtype) for size in (n, parts, parts))
    together = min(max(triton.next_power_of_2(count), 16), 64)
    _scores[parts, triton.cdiv(count, together)](
        rows, head.weight if head.norm is None else head.norm, head.weight, scores, largest, sums, count, n,
        rows.shape[1], head.epsilon, temperature or 1.0, rows.stride(0), NORMS=head.norm is not None, ROWS=together,
        BLOCK=TOKENS, CHUNK=64, num_warps=4, **EXACT,
    )  # fmt: skip
    codes: dict[type, Any] = {IID: NONE, WithoutReplacement: DRAWN, Hybrid: FIRST}
    code = codes[type(law)]
    _draw_children[batch, width](
        scores, largest, sums, begins if scored is None else scored, begins, uniforms, q, tokens, without_law, first_node,
        n, q.shape[-1], parts, 1 / n, law.top if code is FIRST else 0, uniforms.stride(0), q.stride(0), q.stride(1),
        tokens.stride(0), SUBSET=scored is not None, GREEDY=temperature == 0, LAW=code.value,
        PARTS=triton.next_power_of_2(parts), BLOCKS=triton.next_power_of_2(triton.cdiv(n, BLOCK)), BLOCK=BLOCK,
        K=triton.next_power_of_2(max(children, 1)), num_warps=8, **EXACT,
    )  # fmt: skip
