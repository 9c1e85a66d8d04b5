"""Optimal selection: masses of the classes of p/q, their levels, and the distribution of the selected token.

The same steps as `rules.optimal.device`, in six launches. The masses are a histogram by matrix products: class c = 8 a + b is
row a and column b of a small table, and a block of tokens adds to it (one-hot rows)^T (one-hot columns times mass). Unlike atomic
sums, matrix products add in a fixed order, so that a seed gives the same completion. Products of float16 keep 11 bits: a mass
goes in as two numbers of 11 bits, whose rounding, 2^-22, is that of float32 sums, or 2^-40 where that is more.

C classes need C breakpoints 0 = t_0 <= .. <= t_{C-1} = 1, hence class C - 1 stays empty: the highest classes, whose
tokens are nearly always accepted, are merged.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ...arrays import ratio_classes
from ...arrays.ratio_classes import layout
from ...rules.optimal import classes as shared
from ...selection import Selection
from .grid import BITS, EXACT, number_of_drafts, rows, rows_of, split

BLOCK = 512  # tokens per step
TILE = tl.constexpr(4)  # breakpoints per program of one warp, which needs no barrier; their chords stay in registers
STEPS = tl.constexpr(shared.STEPS)
LOW = tl.constexpr(8)  # columns of the table of classes
OFFSET = tl.constexpr(ratio_classes.OFFSET)
LARGE = tl.constexpr(ratio_classes.LARGE)


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _class_of(target, draft, first, shift, C: tl.constexpr):
    """Class of tokens, 0 where q is 0."""
    drafted = draft > 0
    key = tl.minimum(target / tl.where(drafted, draft, 1.0), LARGE) + OFFSET
    found = tl.minimum((key.to(tl.int32, bitcast=True) >> shift) - first, C - 2)
    return tl.where(drafted, found, 0)


@triton.jit
def _class_masses(p, q, masses, p_step, q_step, n, span, first, shift, C: tl.constexpr, BLOCK: tl.constexpr):
    """masses[row, part, a, b] of p, and [row, part, a, LOW + b] of q, in class LOW a + b."""
    scale: tl.constexpr = 2.0**15  # factor of masses in float16, whose maximum is 65,504
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    high, column = tl.arange(0, C // LOW), tl.arange(0, 2 * LOW)
    table = tl.zeros([C // LOW, 2 * LOW], tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * p_step + token, mask=token < n, other=0.0)
        draft = tl.load(q + row * q_step + token, mask=token < n, other=0.0)
        place = _class_of(target, draft, first, shift, C)
        target, draft = tl.where(draft > 0, target, 0.0) * scale, draft * scale
        leading_p, leading_q = target.to(tl.float16), draft.to(tl.float16)
        rest_p, rest_q = (
            (target - leading_p.to(tl.float32)).to(tl.float16),
            (draft - leading_q.to(tl.float32)).to(tl.float16),
        )
        # Tokens are distributed over the lanes of a warp, so that each is classified once.
        here = ((place // LOW)[None, :] == high[:, None]).to(tl.float16)
        mine = (place % LOW)[None, :] == (column % LOW)[:, None]
        of_p = (column < LOW)[:, None]
        leading = tl.where(mine, tl.where(of_p, leading_p[None, :], leading_q[None, :]), 0.0).to(tl.float16)
        table = tl.dot(here, tl.trans(leading), table)
        rest = tl.where(mine, tl.where(of_p, rest_p[None, :], rest_q[None, :]), 0.0).to(tl.float16)
        table = tl.dot(here, tl.trans(rest), table)
    at = (row * tl.num_programs(1) + part) * (2 * C) + high[:, None] * (2 * LOW) + column[None, :]
    tl.store(masses + at, table / scale)


@triton.jit
def _mass_of(masses, row, offset, C: tl.constexpr, PARTS: tl.constexpr):
    """(C,) float64, of p at offset 0 and of q at LOW."""
    parts_at_once: tl.constexpr = 8
    place, one = tl.arange(0, C), tl.arange(0, parts_at_once)
    at = masses + row * PARTS * 2 * C + (place // LOW) * 2 * LOW + place % LOW + offset
    total = tl.zeros([C], tl.float64)
    for part in range(0, PARTS, parts_at_once):
        inside = (part + one < PARTS)[:, None]
        total += tl.sum(tl.load(at[None, :] + (part + one)[:, None] * 2 * C, mask=inside, other=0.0).to(tl.float64), 0)
    return total


@triton.jit
def _power(base, count):
    result, square = base * 0 + 1.0, base
    for bit in tl.static_range(BITS):
        result = tl.where((count >> bit) & 1 == 1, result * square, result)
        square = square * square
    return result


@triton.jit
def _curves(drafts, masses, curve, k, C: tl.constexpr, PARTS: tl.constexpr, K: tl.constexpr):
    """curve[row]: breakpoints t, g = t^count there, its hull from above as far as f allows, and the mass of q, of C numbers each."""
    row, place = tl.program_id(0).to(tl.int64), tl.arange(0, C)
    q = _mass_of(masses, row, LOW, C, PARTS)
    t = tl.cumsum(q, 0) - q
    t = tl.where(place == 0, 0.0, t)
    last = tl.sum(tl.where(place == C - 1, t, 0.0))
    mass = tl.where(last > 0, last, 1.0)
    t = tl.where(t >= last, tl.where(t > 0, 1.0, 0.0), t / mass)
    g = _power(t, number_of_drafts(drafts, row, k, K))
    p = _mass_of(masses, row, 0, C, PARTS)
    f = tl.cumsum(p, 0) - p
    gain = g - f
    up, down = tl.associative_scan(gain, 0, _larger), tl.associative_scan(gain, 0, _larger, reverse=True)
    at = curve + row * 4 * C + place
    tl.store(at, t)
    tl.store(at + C, g)
    tl.store(at + 2 * C, f + tl.minimum(up, down))
    tl.store(at + 3 * C, tl.zeros([C], tl.float64) + mass)


@triton.jit
def _chords(at, place, here, column, C: tl.constexpr):
    """Slopes (T, C) float32 of the chords of one of the curves from each breakpoint to `here`; 0 if both have the same t."""
    apart = (tl.load(at + place)[None, :] - tl.load(at + here)[:, None]).to(tl.float32)
    rise = (tl.load(at + column * C + place)[None, :] - tl.load(at + column * C + here)[:, None]).to(tl.float32)
    return tl.where(apart != 0, rise / tl.where(apart != 0, apart, 1.0), 0.0)


@triton.jit
def _levels(curve, level, C: tl.constexpr):
    """`device.levels_at_once` for TILE breakpoints, in float32; the rule is valid for any levels."""
    row, place = tl.program_id(0).to(tl.int64), tl.arange(0, C)
    here = tl.program_id(1) * TILE + tl.arange(0, TILE)
    at = curve + row * 4 * C
    loss, chord = _chords(at, place, here, 1, C), _chords(at, place, here, 2, C)
    # t is ascending: smaller t are before `first`, larger t from `after` on.
    t, mine = tl.load(at + place), tl.load(at + here)
    first = tl.sum((t[None, :] < mine[:, None]).to(tl.int32), 1)
    after = C - tl.sum((t[None, :] > mine[:, None]).to(tl.int32), 1)
    inner = (first == here) & (first > 0) & (after < C)
    left, right = place[None, :] < first[:, None], place[None, :] >= after[:, None]
    life = tl.full([TILE], 1.0, tl.float32)
    for _ in range(STEPS):
        slope = chord - life[:, None] * loss
        falls = tl.max(tl.where(left, slope, -LARGE), 1)
        rises = tl.min(tl.where(right, slope, LARGE), 1)
        loses = tl.max(tl.where(right & (slope == rises[:, None]), loss, -LARGE), 1) - tl.max(
            tl.where(left & (slope == falls[:, None]), loss, -LARGE), 1
        )
        root = tl.where(loses != 0, life + (rises - falls) / tl.where(loses != 0, loses, 1.0), 0.0)
        life = tl.minimum(life, tl.maximum(root, 0.0))
    life = tl.where((here == 0) | (here == C - 1), 1.0, tl.where(inner, life, 0.0))
    tl.store(level + row * C + here, life)


@triton.jit
def _kinks(curve, level, kink, C: tl.constexpr):
    """Change of the slope at TILE breakpoints, for any levels: `device.slopes_of` before its last sum.

    The chord from a to b exists while both breakpoints are alive and all between are not.
    """
    row, place = tl.program_id(0).to(tl.int64), tl.arange(0, C)
    here = tl.program_id(1) * TILE + tl.arange(0, TILE)
    lives = tl.load(level + row * C + place)
    follows = tl.load(level + row * C + place - 1, mask=place > 0, other=0.0)
    precedes = tl.load(level + row * C + place + 1, mask=place < C - 1, other=0.0)
    both = tl.minimum(lives[None, :], tl.load(level + row * C + here)[:, None]).to(tl.float64)
    ahead, behind = place[None, :] > here[:, None], place[None, :] < here[:, None]
    dead = tl.associative_scan(tl.where(place[None, :] - 1 > here[:, None], follows[None, :], 0.0), 1, _larger)
    lasts = tl.where(ahead, tl.maximum(both - dead.to(tl.float64), 0.0), 0.0)
    dead = tl.associative_scan(
        tl.where(place[None, :] + 1 < here[:, None], precedes[None, :], 0.0), 1, _larger, reverse=True
    )
    lasts -= tl.where(behind, tl.maximum(both - dead.to(tl.float64), 0.0), 0.0)
    chord = _chords(curve + row * 4 * C, place, here, 1, C)
    tl.store(kink + row * C + here, tl.sum(lasts * chord.to(tl.float64), 1))


@triton.jit
def _choose(
    p,
    q,
    drafts,
    curve,
    level,
    kink,
    slope,
    choice,
    accept,
    p_step,
    q_step,
    k,
    first,
    shift,
    C: tl.constexpr,
    K: tl.constexpr,
):
    """Slope m / q of each class, and the probabilities that each draft token is selected, and selected and accepted."""
    row, place, number = tl.program_id(0).to(tl.int64), tl.arange(0, C), tl.arange(0, K)
    count = number_of_drafts(drafts, row, k, K)
    slopes = tl.cumsum(tl.load(kink + row * C + place), 0) / tl.load(curve + row * 4 * C + 3 * C)
    slopes = tl.where(count == 0, 0.0, tl.maximum(slopes, 0.0)).to(tl.float32)
    tl.store(slope + row * C + place, slopes)
    draft = tl.load(drafts + row * k + number, mask=number < k, other=-1)
    present = draft >= 0
    wanted = tl.load(p + row * p_step + draft, mask=present, other=0.0)
    offered = tl.load(q + row * q_step + draft, mask=present, other=0.0)
    rank = tl.where(present, _class_of(wanted, offered, first, shift, C), -1)
    between = (place[None, :] > rank[:, None]) & (place[None, :] <= tl.max(rank))
    lives = tl.load(level + row * C + place).to(tl.float64)
    cut = tl.where(present, tl.max(tl.where(between, lives[None, :], 0.0), 1), 1.0)
    before = tl.min(tl.where(number[None, :] < number[:, None], cut[None, :], 1.0), 1)
    chance = (before - tl.minimum(before, cut)).to(tl.float32)
    selected = offered * tl.sum(tl.where(place[None, :] == rank[:, None], slopes[None, :], 0.0), 1)
    take = tl.where(selected > 0, tl.minimum(wanted / tl.where(selected > 0, selected, 1.0), 1.0), 0.0)
    tl.store(choice + row * k + number, chance, mask=number < k)
    tl.store(accept + row * k + number, chance * take, mask=number < k)


@triton.jit
def _selected(p, q, slope, selected, sums, p_step, q_step, n, span, first, shift, C: tl.constexpr, BLOCK: tl.constexpr):
    """The distribution m of the selected token, and the sum of (p - m)+ over a part of the row."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * p_step + token, mask=token < n, other=0.0)
        draft = tl.load(q + row * q_step + token, mask=token < n, other=0.0)
        m = draft * tl.load(slope + row * C + _class_of(target, draft, first, shift, C))
        total += tl.maximum(target - m, 0.0)
        tl.store(selected + row * n + token, m, mask=token < n)
    tl.store(sums + row * tl.num_programs(1) + part, tl.sum(total))


@triton.jit
def _couple(p, selected, sums, p_step, n, span, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Overwrite m with norm((p - m)+), or with p if that is 0."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    total = tl.sum(tl.load(sums + row * PARTS + tl.arange(0, PARTS)).to(tl.float64))
    scale = tl.where(total > 0, 1.0 / tl.where(total > 0, total, 1.0), 0.0).to(tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * p_step + token, mask=token < n, other=0.0)
        m = tl.load(selected + row * n + token, mask=token < n, other=0.0)
        left = tl.where(total > 0, tl.maximum(target - m, 0.0) * scale, target)
        tl.store(selected + row * n + token, left, mask=token < n)


def selection_probabilities(p: Any, q: Any, drafts: Any, classes: int | None) -> tuple[Any, Any]:
    """Probabilities (..., k) that each draft is selected, and distribution m (..., n) of the selected token, as in `optimal.rule`."""
    batch = tuple(drafts.shape[:-1])
    choice, _, selected, _ = _run_kernels(p, q, drafts, classes)
    return choice.reshape(drafts.shape), selected.reshape(*batch, p.shape[-1])


def selection(p: Any, q: Any, drafts: Any, classes: int | None) -> Selection:
    """`selection_probabilities`, coupled with the target."""
    batch, n = tuple(drafts.shape[:-1]), p.shape[-1]
    _, accept, selected, sums = _run_kernels(p, q, drafts, classes)
    count, parts = sums.shape
    (whole, span), p = split(count, n, BLOCK), rows_of(p, batch)
    _couple[count, whole](p, selected, sums, p.stride(0), n, span, PARTS=parts, BLOCK=BLOCK, num_warps=4, **EXACT)
    return Selection(accept.reshape(drafts.shape), selected.reshape(*batch, n))


def _run_kernels(p: Any, q: Any, drafts: Any, classes: int | None) -> tuple[Any, Any, Any, Any]:
    batch, k, n = tuple(drafts.shape[:-1]), drafts.shape[-1], p.shape[-1]
    first, shift, number = layout(classes or shared.CLASSES, k)
    p, q, drafts = rows_of(p, batch), rows_of(q, batch), rows(drafts, batch)
    count, steps = len(p), (p.stride(0), q.stride(0))
    width = max(triton.next_power_of_2(number - 1), 256)  # matrix products need at least 16 rows
    parts, span = split(count, n, BLOCK)
    masses, slope, level = p.new_empty(count, parts, 2 * width), p.new_empty(count, width), p.new_empty(count, width)
    wide = p.double()[:, :0]  # float64 for arrays by class
    curve, kink = wide.new_empty(count, 4, width), wide.new_empty(count, width)
    choice, accept, selected, sums = (p.new_empty(count, size) for size in (k, k, n, parts))
    drafted = {"K": triton.next_power_of_2(k)}
    where, tiles = {"first": first, "shift": shift}, (count, width // TILE.value)
    # Fewer tokens at a time, because of the one-hot rows and columns.
    _class_masses[count, parts](
        p, q, masses, *steps, n, span, **where, C=width, BLOCK=64, num_warps=2, num_stages=1, **EXACT
    )
    _curves[(count,)](drafts, masses, curve, k, C=width, PARTS=parts, **drafted, num_warps=2, **EXACT)
    _levels[tiles](curve, level, C=width, num_warps=1, **EXACT)
    _kinks[tiles](curve, level, kink, C=width, num_warps=1, **EXACT)
    _choose[(count,)](
        p,
        q,
        drafts,
        curve,
        level,
        kink,
        slope,
        choice,
        accept,
        *steps,
        k,
        **where,
        C=width,
        **drafted,
        num_warps=4,
        **EXACT,
    )
    _selected[count, parts](
        p, q, slope, selected, sums, *steps, n, span, **where, C=width, BLOCK=BLOCK, num_warps=4, **EXACT
    )
    return choice, accept, selected, sums
