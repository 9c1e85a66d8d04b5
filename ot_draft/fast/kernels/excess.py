"""K-SEQ and recursive rejection in a few passes over p and q, each of which sums (p - x q)+ at 16 points x.

E(x) = sum_y (p - x q)+ is convex and decreasing. The chord of two points is below E outside of them, and above it between them. Values at
16 points therefore bound E everywhere, and the next pass takes 16 points in the relevant interval.

K-SEQ: the mass at a factor g is P - E(g), with P = E(0). The factor is the smallest computed point that satisfies the condition on
gamma*. Residual: p - share min(p, g q) = (p - g q)+ + (1 - share) min(p, g q), of mass E(g) + (1 - share) (P - E(g)): both
terms are sums of nonnegative numbers, so that the residual is normalised in the pass that writes it.

Recursive rejection: s_1 = 1, s_{i+1} = s_i + E(s_i). Any steps d_i <= E(s_i) give a valid rule, too, which accepts draft token i
with probability min((p - s_i q)+, d_i q) / (E(s_i) q). With d_i the lower bound on E(s_i) from the previous pass, three passes suffice
for any k <= 15, instead of k passes; the loss of acceptance is of second order in the error of the bound.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from .grid import BITS, EXACT, number_of_drafts, rows, split

POINTS = 16  # one more than MAX_KERNEL_DRAFTS of fast.recursive_rejection
J = tl.constexpr(POINTS)
BLOCK = 128  # tokens per step of one warp


@triton.jit
def _multiply(a, b):
    return a * b


@triton.jit
def _any_of(chance, count):
    """1 - (1 - chance)^count, accurate for small probabilities: a + b - a b by halves."""
    reach, power = chance * 0, chance
    for bit in tl.static_range(BITS):
        reach = tl.where((count >> bit) & 1 == 1, reach + power * (1 - reach), reach)
        power = power * (2 - power)
    return reach


@triton.jit
def _excess_sums(p, q, drafts, points, sums, n, k, span, FIRST: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """sums[row, part, j] = sum of (p - x_j q)+ over a part of the row. Initial points: 0, then 1 .. count in geometric steps."""
    row, part, lane = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, J)
    if FIRST:
        most = tl.maximum(number_of_drafts(drafts, row, k, K), 1).to(tl.float32)
        x = tl.exp2(tl.log2(most) * (tl.maximum(lane - 1, 0).to(tl.float32) / (J - 2)))
        x = tl.where(lane == 0, 0.0, tl.where(lane == J - 1, most, tl.minimum(x, most)))
        if part == 0:
            tl.store(points + row * J + lane, x)
    else:
        x = tl.load(points + row * J + lane)
    total = tl.zeros([J, BLOCK], tl.float32)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * n + token, mask=token < n, other=0.0)
        draft = tl.load(q + row * n + token, mask=token < n, other=0.0)
        total += tl.maximum(tl.fma(-x[:, None], draft[None, :], target[None, :]), 0.0)
    tl.store(sums + (row * tl.num_programs(1) + part) * J + lane, tl.sum(total, 1))


@triton.jit
def _values(points, sums, row, PARTS: tl.constexpr):
    """The points, E there, and both at the next point (infinity after the last): float64 (J,) each."""
    lane, part = tl.arange(0, J), tl.arange(0, PARTS)
    x = tl.load(points + row * J + lane).to(tl.float64)
    e = tl.sum(tl.load(sums + (row * PARTS + part[:, None]) * J + lane[None, :]).to(tl.float64), 0)
    after = lane[None, :] == lane[:, None] + 1
    last = lane == J - 1
    return (
        x,
        e,
        tl.sum(tl.where(after, x[None, :], 0.0), 1) + tl.where(last, x, 0.0),
        tl.sum(tl.where(after, e[None, :], 0.0), 1),
    )


@triton.jit
def _lower(at, x, e, x_next, e_next):
    """Lower bound on E at points (G,): the highest chord whose interval does not contain the point, at least 0."""
    apart = x_next > x
    slope = tl.where(apart, (e_next - e) / tl.where(apart, x_next - x, 1.0), 0.0)
    line = e[None, :] + slope[None, :] * (at[:, None] - x[None, :])
    inside = (at[:, None] > x[None, :]) & (at[:, None] < x_next[None, :])
    return tl.max(tl.where(apart[None, :] & (inside == 0), tl.maximum(line, 0.0), 0.0), 1)


@triton.jit
def _pick(x, lane, index):
    return tl.sum(tl.where(lane == index, x, 0.0))


@triton.jit
def _store_in_turn(accept, row, k, take, K: tl.constexpr):
    """accept of a rule that tests the draft tokens in order and accepts token i with probability take_i."""
    place = tl.arange(0, K)
    earlier = place[None, :] < place[:, None]
    before = tl.reduce(tl.where(earlier, 1.0 - take[None, :], 1.0), 1, _multiply)
    tl.store(accept + row * k + place, take * before, mask=place < k)


@triton.jit
def _store_form(form, row, factor, share, mass):
    """Parameters of `_residual`: factor, 1 - share, and 1 / mass, or 0 without mass."""
    tl.store(form + row * 3, factor.to(tl.float32))
    tl.store(form + row * 3 + 1, 1.0 - share)
    tl.store(form + row * 3 + 2, tl.where(mass > 0, 1.0 / tl.where(mass > 0, mass, 1.0), 0.0).to(tl.float32))


@triton.jit
def _k_seq_step(
    p, q, drafts, points, sums, accept, form, n, k, LAST: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr
):
    """The next points, around gamma*; in the last pass accept, and the parameters of the residual."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, J)
    count = number_of_drafts(drafts, row, k, K)
    x, e, x_next, e_next = _values(points, sums, row, PARTS)
    whole = _pick(e, lane, 0)
    whole = tl.where(whole > 0, whole, 1.0)
    mass = 1.0 - e / whole
    valid = (lane > 0) & (mass >= _any_of(tl.minimum(mass / tl.where(lane > 0, x, 1.0), 1.0), count))
    here = tl.min(tl.where(valid, lane, J - 1))
    high, low = _pick(x, lane, here), _pick(x, lane, tl.maximum(here - 1, 1))
    if LAST:
        factor, reached = high.to(tl.float32), _pick(mass, lane, here)
        share = _any_of(tl.minimum(reached / high, 1.0), count) / tl.where(reached > 0, reached, 1.0)
        share = tl.minimum(share, 1.0).to(tl.float32).to(tl.float64)
        left = _pick(e, lane, here) + (1.0 - share) * reached * whole
        _store_form(form, row, factor, share, left)
        place = tl.arange(0, K)
        draft = tl.load(drafts + row * k + place, mask=place < k, other=-1)
        wanted = tl.load(p + row * n + draft, mask=draft >= 0, other=0.0)
        offered = factor * tl.load(q + row * n + draft, mask=draft >= 0, other=0.0)
        take = tl.where(offered > 0, tl.minimum(wanted / tl.where(offered > 0, offered, 1.0), 1.0), 0.0)
        _store_in_turn(accept, row, k, take, K)
    else:
        factors: tl.constexpr = 128  # between two points, compared with the bounds
        at = low * tl.exp2(tl.log2(high / low) * (tl.arange(0, factors).to(tl.float64) / (factors - 1)))
        most = 1.0 - _lower(at, x, e, x_next, e_next) / whole
        e_low, e_high = _pick(e, lane, tl.maximum(here - 1, 1)), _pick(e, lane, here)
        apart = tl.where(high > low, high - low, 1.0)
        least = 1.0 - (e_low + (e_high - e_low) * (at - low) / apart) / whole
        surely = least >= _any_of(tl.minimum(least / at, 1.0), count)
        never = most < _any_of(tl.minimum(most / at, 1.0), count)
        above = tl.min(tl.where(surely, at, high))
        below = tl.minimum(tl.max(tl.where(never, at, low)), above)
        share = (lane - 1).to(tl.float64) / (J - 3)
        made = below * tl.exp2(tl.log2(above / below) * share)
        tl.store(
            points + row * J + lane,
            tl.where(lane == 0, 0.0, tl.where(lane == J - 1, high, tl.minimum(made, high))).to(tl.float32),
        )


@triton.jit
def _recursive_step(
    p, q, drafts, points, sums, accept, form, n, k, LAST: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr
):
    """The next points 0, s_1, .. s_count, from lower bounds; in the last pass accept, and the parameters of the residual."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, J)
    count = number_of_drafts(drafts, row, k, K)
    x, e, x_next, e_next = _values(points, sums, row, PARTS)
    if LAST:
        _store_form(form, row, _pick(x, lane, count), 1.0, _pick(e, lane, count))
        place = tl.arange(0, K)
        draft = tl.load(drafts + row * k + place, mask=place < k, other=-1)
        before = tl.sum(((place[None, :] < place[:, None]) & (draft[None, :] >= 0)).to(tl.int32), 1)
        at = lane[None, :] == before[:, None]
        scale = tl.sum(tl.where(at, x[None, :], 0.0), 1)
        step = tl.sum(tl.where(at, x_next[None, :], 0.0), 1) - scale
        reach = tl.where(before == 0, 1.0, tl.sum(tl.where(at, e[None, :], 0.0), 1))
        wanted = tl.load(p + row * n + draft, mask=draft >= 0, other=0.0).to(tl.float64)
        offered = tl.load(q + row * n + draft, mask=draft >= 0, other=0.0).to(tl.float64)
        taken = tl.minimum(tl.maximum(wanted - scale * offered, 0.0), step * offered)
        whole = reach * offered
        take = tl.where(whole > 0, tl.minimum(taken / tl.where(whole > 0, whole, 1.0), 1.0), 0.0)
        _store_in_turn(accept, row, k, take.to(tl.float32), K)
    else:
        made = tl.where(lane >= 1, 1.0, 0.0).to(tl.float64)
        scale = tl.full([1], 1.0, tl.float64)
        for i in range(2, J):
            scale += tl.where(i <= count, _lower(scale, x, e, x_next, e_next), 0.0)
            made = tl.where(lane >= i, tl.sum(scale), made)
        made = tl.where(count == 0, 0.0, made)
        tl.store(points + row * J + lane, made.to(tl.float32))


@triton.jit
def _residual(p, q, form, residual, n, span, BLOCK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    factor, rest, scale = tl.load(form + row * 3), tl.load(form + row * 3 + 1), tl.load(form + row * 3 + 2)
    for start in range(part * span, tl.minimum(part * span + span, n), BLOCK):
        token = start + tl.arange(0, BLOCK)
        target = tl.load(p + row * n + token, mask=token < n, other=0.0)
        draft = tl.load(q + row * n + token, mask=token < n, other=0.0)
        # The first term is rounded as in its sum.
        left = tl.maximum(tl.fma(-factor, draft, target), 0.0) + rest * tl.minimum(factor * draft, target)
        tl.store(residual + row * n + token, tl.where(scale > 0, left * scale, target), mask=token < n)


def k_seq(p: Any, q: Any, drafts: Any) -> tuple[Any, Any]:
    """accept (..., k) and residual (..., n) of K-SEQ with its smallest valid factor, rounded up; p, q: float32, batch of drafts."""
    passes = 2 if drafts.shape[-1] <= 8 else 3
    return _run(_k_seq_step, p, q, drafts, passes)


def recursive_rejection(p: Any, q: Any, drafts: Any) -> tuple[Any, Any]:
    """accept (..., k) and residual (..., n) of recursive rejection, for k < POINTS."""
    return _run(_recursive_step, p, q, drafts, min(drafts.shape[-1], 2) + 1)


def _run(step: Any, p: Any, q: Any, drafts: Any, passes: int) -> tuple[Any, Any]:
    batch, k, n = tuple(drafts.shape[:-1]), drafts.shape[-1], p.shape[-1]
    p, q, drafts = rows(p, batch), rows(q, batch), rows(drafts, batch)
    count = len(p)
    parts, span = split(count, n, BLOCK)
    points, sums = p.new_empty(count, POINTS), p.new_empty(count, parts, POINTS)
    accept, form, residual = p.new_empty(count, k), p.new_empty(count, 3), p.new_empty(count, n)
    sizes = {"K": triton.next_power_of_2(k)}
    for number in range(passes):
        _excess_sums[count, parts](
            p, q, drafts, points, sums, n, k, span, FIRST=number == 0, BLOCK=BLOCK, num_warps=1, **sizes, **EXACT
        )
        memory = (p, q, drafts, points, sums, accept, form, n, k)
        step[(count,)](*memory, LAST=number == passes - 1, PARTS=parts, num_warps=4, **sizes, **EXACT)
    _residual[count, parts](p, q, form, residual, n, span, BLOCK=4 * BLOCK, num_warps=4, **EXACT)
    return accept.reshape(*batch, k), residual.reshape(*batch, n)
