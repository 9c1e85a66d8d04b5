"""Optimal selection: masses of the classes of p/q, their levels, and the law of the selected token.

The same steps as `device`, in five launches. The masses are a histogram made by matrix products: class c = 16 a + b is
row a and column b of a small table, and a block of tokens adds to it (one-hot rows)^T (one-hot columns times mass). Unlike atomic
sums, products always add in the same order, so that the same seed gives the same text. Products of tf32 keep 11 bits: a mass
goes in as two numbers of 11 bits, whose rounding, 2^-22, is that of float32 sums.

C classes need C breakpoints 0 = t_0 <= .. <= t_{C-1} = 1, hence class C - 1 stays empty: the highest classes, whose
tokens are nearly always taken, are one.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ...arrays import ratio_classes
from ...arrays.ratio_classes import layout
from ...kernels.grid import BITS, EXACT, number_of_drafts, rows, split
from ...selection import Selection
from . import classes as shared

BLOCK = 128  # tokens at a time
TILE = tl.constexpr(16)  # breakpoints a program; with 8 warps their chords stay in registers at 256 classes
STEPS = tl.constexpr(shared.STEPS)
SHORT = tl.constexpr(-8192)  # the bits of a float32 that tf32 has
LOW = tl.constexpr(16)  # columns of the table of classes
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
def _class_masses(p, q, masses, n, span, first, shift, C: tl.constexpr, BLOCK: tl.constexpr):
    """masses[row, part, a, b] of p, and [row, part, a, 16 + b] of q, in class 16 a + b."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    high, column = tl.arange(0, C // LOW), tl.arange(0, 2 * LOW)
    table = tl.zeros([C // LOW, 2 * LOW], tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * n + token, mask=token < n, other=0.0)
        draft = tl.load(q + row * n + token, mask=token < n, other=0.0)
        place = _class_of(target, draft, first, shift, C)
        mass = tl.where(column[None, :] < LOW, tl.where(draft > 0, target, 0.0)[:, None], draft[:, None])
        mass = tl.where((place % LOW)[:, None] == column[None, :] % LOW, mass, 0.0)
        leading = (mass.to(tl.int32, bitcast=True) & SHORT).to(tl.float32, bitcast=True)
        here = ((place // LOW)[None, :] == high[:, None]).to(tl.float32)
        table = tl.dot(here, leading, table)
        table = tl.dot(here, mass - leading, table)
    at = (row * tl.num_programs(1) + part) * (2 * C) + high[:, None] * (2 * LOW) + column[None, :]
    tl.store(masses + at, table)


@triton.jit
def _mass_of(masses, row, offset, C: tl.constexpr, PARTS: tl.constexpr):
    place = tl.arange(0, C)
    at = masses + row * PARTS * 2 * C + (place // LOW) * 2 * LOW + place % LOW + offset
    total = tl.zeros([C], tl.float64)
    for part in range(PARTS):
        total += tl.load(at + part * 2 * C).to(tl.float64)
    return total


@triton.jit
def _power(base, count):
    result, square = base * 0 + 1.0, base
    for bit in tl.static_range(BITS):
        result = tl.where((count >> bit) & 1 == 1, result * square, result)
        square = square * square
    return result


@triton.jit
def _curve(masses, row, count, C: tl.constexpr, PARTS: tl.constexpr):
    """Breakpoints t, g = t^count there (C,), and the mass of q."""
    q = _mass_of(masses, row, LOW, C, PARTS)
    place = tl.arange(0, C)
    t = tl.cumsum(q, 0) - q
    t = tl.where(place == 0, 0.0, t)
    mass = tl.sum(tl.where(place == C - 1, t, 0.0))
    mass = tl.where(mass > 0, mass, 1.0)
    t = tl.where(t >= tl.sum(tl.where(place == C - 1, t, 0.0)), tl.where(t > 0, 1.0, 0.0), t / mass)
    return t, _power(t, count), mass


@triton.jit
def _at(x, place, here):
    """x (C,) at some places (T,)."""
    return tl.sum(tl.where(place[None, :] == here[:, None], x[None, :], 0.0), 1)


@triton.jit
def _levels(drafts, masses, level, k, C: tl.constexpr, PARTS: tl.constexpr, K: tl.constexpr):
    """`device.levels_at_once` for TILE breakpoints."""
    row, place = tl.program_id(0).to(tl.int64), tl.arange(0, C)
    here = tl.program_id(1) * TILE + tl.arange(0, TILE)
    t, g, _ = _curve(masses, row, number_of_drafts(drafts, row, k, K), C, PARTS)
    p = _mass_of(masses, row, 0, C, PARTS)
    f = tl.cumsum(p, 0) - p
    gain = g - f
    up, down = tl.associative_scan(gain, 0, _larger), tl.associative_scan(gain, 0, _larger, reverse=True)
    big = f + tl.minimum(up, down)
    apart = t[None, :] - _at(t, place, here)[:, None]
    inverse = tl.where(apart != 0, 1.0 / tl.where(apart != 0, apart, 1.0), 0.0)
    chord = (big[None, :] - _at(big, place, here)[:, None]) * inverse
    loss = (g[None, :] - _at(g, place, here)[:, None]) * inverse
    left, right = apart < 0, apart > 0
    repeated = tl.max(((apart == 0) & (place[None, :] < here[:, None])).to(tl.int32), 1) > 0
    inner = (tl.max(left.to(tl.int32), 1) > 0) & (tl.max(right.to(tl.int32), 1) > 0) & (repeated == 0)
    life = tl.full([TILE], 1.0, tl.float64)
    for _ in range(STEPS):
        slope = chord - life[:, None] * loss
        before = tl.max(tl.where(left, slope, -LARGE), 1)
        after = tl.min(tl.where(right, slope, LARGE), 1)
        loses = tl.max(tl.where(right & (slope == after[:, None]), loss, -LARGE), 1) - tl.max(
            tl.where(left & (slope == before[:, None]), loss, -LARGE), 1
        )
        root = tl.where(loses != 0, life + (after - before) / tl.where(loses != 0, loses, 1.0), 0.0)
        life = tl.minimum(life, tl.maximum(root, 0.0))
    life = tl.where((here == 0) | (here == C - 1), 1.0, tl.where(inner, life, 0.0))
    tl.store(level + row * C + here, life)


@triton.jit
def _kinks(drafts, masses, level, kink, k, C: tl.constexpr, PARTS: tl.constexpr, K: tl.constexpr):
    """By how much the slope changes at TILE breakpoints, for any levels: `device.slopes_of` before its last sum.

    The chord from a to b is there while both live and all between are dead.
    """
    row, place = tl.program_id(0).to(tl.int64), tl.arange(0, C)
    here = tl.program_id(1) * TILE + tl.arange(0, TILE)
    t, g, _ = _curve(masses, row, number_of_drafts(drafts, row, k, K), C, PARTS)
    lives = tl.load(level + row * C + place)
    follows = tl.load(level + row * C + place - 1, mask=place > 0, other=0.0)
    precedes = tl.load(level + row * C + place + 1, mask=place < C - 1, other=0.0)
    both = tl.minimum(lives[None, :], _at(lives, place, here)[:, None])
    ahead, behind = place[None, :] > here[:, None], place[None, :] < here[:, None]
    dead = tl.associative_scan(tl.where(place[None, :] - 1 > here[:, None], follows[None, :], 0.0), 1, _larger)
    lasts = tl.where(ahead, tl.maximum(both - dead, 0.0), 0.0)
    dead = tl.associative_scan(
        tl.where(place[None, :] + 1 < here[:, None], precedes[None, :], 0.0), 1, _larger, reverse=True
    )
    lasts -= tl.where(behind, tl.maximum(both - dead, 0.0), 0.0)
    apart = t[None, :] - _at(t, place, here)[:, None]
    chord = (g[None, :] - _at(g, place, here)[:, None]) / tl.where(apart != 0, apart, 1.0)
    tl.store(kink + row * C + here, tl.sum(tl.where(apart != 0, lasts * chord, 0.0), 1))


@triton.jit
def _choose(
    p,
    q,
    drafts,
    masses,
    level,
    kink,
    slope,
    choice,
    accept,
    n,
    k,
    first,
    shift,
    C: tl.constexpr,
    PARTS: tl.constexpr,
    K: tl.constexpr,
):
    """Slope m / q of every class, and the chance of every draft: to be selected, and to be selected and taken."""
    row, place, number = tl.program_id(0).to(tl.int64), tl.arange(0, C), tl.arange(0, K)
    count = number_of_drafts(drafts, row, k, K)
    _, _, mass = _curve(masses, row, count, C, PARTS)
    slopes = tl.cumsum(tl.load(kink + row * C + place), 0) / mass
    slopes = tl.where(count == 0, 0.0, tl.maximum(slopes, 0.0)).to(tl.float32)
    tl.store(slope + row * C + place, slopes)
    draft = tl.load(drafts + row * k + number, mask=number < k, other=-1)
    present = draft >= 0
    wanted = tl.load(p + row * n + draft, mask=present, other=0.0)
    offered = tl.load(q + row * n + draft, mask=present, other=0.0)
    rank = tl.where(present, _class_of(wanted, offered, first, shift, C), -1)
    between = (place[None, :] > rank[:, None]) & (place[None, :] <= tl.max(rank))
    lives = tl.load(level + row * C + place)
    cut = tl.where(present, tl.max(tl.where(between, lives[None, :], 0.0), 1), 1.0)
    before = tl.min(tl.where(number[None, :] < number[:, None], cut[None, :], 1.0), 1)
    chance = (before - tl.minimum(before, cut)).to(tl.float32)
    selected = offered * tl.sum(tl.where(place[None, :] == rank[:, None], slopes[None, :], 0.0), 1)
    take = tl.where(selected > 0, tl.minimum(wanted / tl.where(selected > 0, selected, 1.0), 1.0), 0.0)
    tl.store(choice + row * k + number, chance, mask=number < k)
    tl.store(accept + row * k + number, chance * take, mask=number < k)


@triton.jit
def _selected(p, q, slope, selected, sums, n, span, first, shift, C: tl.constexpr, BLOCK: tl.constexpr):
    """The law m of the selected token, and the sum of (p - m)+ over a part of the row."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * n + token, mask=token < n, other=0.0)
        draft = tl.load(q + row * n + token, mask=token < n, other=0.0)
        m = draft * tl.load(slope + row * C + _class_of(target, draft, first, shift, C))
        total += tl.maximum(target - m, 0.0)
        tl.store(selected + row * n + token, m, mask=token < n)
    tl.store(sums + row * tl.num_programs(1) + part, tl.sum(total))


@triton.jit
def _couple(p, selected, sums, n, span, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """norm((p - m)+) in the memory of m; p where nothing is left."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    total = tl.sum(tl.load(sums + row * PARTS + tl.arange(0, PARTS)).to(tl.float64))
    scale = tl.where(total > 0, 1.0 / tl.where(total > 0, total, 1.0), 0.0).to(tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * n + token, mask=token < n, other=0.0)
        m = tl.load(selected + row * n + token, mask=token < n, other=0.0)
        left = tl.where(total > 0, tl.maximum(target - m, 0.0) * scale, target)
        tl.store(selected + row * n + token, left, mask=token < n)


def select_draft(p: Any, q: Any, drafts: Any, classes: int | None) -> tuple[Any, Any]:
    """Chance (..., k) of every draft to be selected, and law m (..., n) of the selected token, as `rule.select_draft`."""
    batch = tuple(drafts.shape[:-1])
    choice, _, selected, _ = _select(p, q, drafts, classes)
    return choice.reshape(drafts.shape), selected.reshape(*batch, p.shape[-1])


def select(p: Any, q: Any, drafts: Any, classes: int | None) -> Selection:
    """`select_draft`, coupled with the target."""
    batch, n = tuple(drafts.shape[:-1]), p.shape[-1]
    _, accept, selected, sums = _select(p, q, drafts, classes)
    count, parts = sums.shape
    whole, span = split(count, n, 4 * BLOCK)
    _couple[count, whole](rows(p, batch), selected, sums, n, span, PARTS=parts, BLOCK=4 * BLOCK, num_warps=4, **EXACT)
    return Selection(accept.reshape(drafts.shape), selected.reshape(*batch, n))


def _select(p: Any, q: Any, drafts: Any, classes: int | None) -> tuple[Any, Any, Any, Any]:
    batch, k, n = tuple(drafts.shape[:-1]), drafts.shape[-1], p.shape[-1]
    first, shift, number = layout(classes or shared.CLASSES, k)
    p, q, drafts = rows(p, batch), rows(q, batch), rows(drafts, batch)
    count = len(p)
    width = max(triton.next_power_of_2(number - 1), 256)  # the table has 16 columns, and products 16 rows at least
    parts, span = split(count, n, 4 * BLOCK)
    wide = p.double()[:, :0]  # float64, for what has as many numbers as there are classes
    masses, slope = p.new_empty(count, parts, 2 * width), p.new_empty(count, width)
    level, kink = wide.new_empty(count, width), wide.new_empty(count, width)
    choice, accept, selected, sums = (p.new_empty(count, size) for size in (k, k, n, parts))
    sizes = {"C": width, "PARTS": parts, "K": triton.next_power_of_2(k)}
    where = {"first": first, "shift": shift}
    _class_masses[count, parts](p, q, masses, n, span, **where, C=width, BLOCK=BLOCK, num_warps=4, **EXACT)
    tiles = (count, width // TILE.value)
    _levels[tiles](drafts, masses, level, k, num_warps=8, **sizes, **EXACT)
    _kinks[tiles](drafts, masses, level, kink, k, num_warps=8, **sizes, **EXACT)
    _choose[(count,)](
        p, q, drafts, masses, level, kink, slope, choice, accept, n, k, **where, num_warps=4, **sizes, **EXACT
    )
    _selected[count, parts](
        p, q, slope, selected, sums, n, span, **where, C=width, BLOCK=4 * BLOCK, num_warps=4, **EXACT
    )
    return choice, accept, selected, sums
