"""The clipped distribution of a lossy target, by groups of tokens, and its divergence, in a few passes over each row."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..bias import FDivergence
from ..lossy.envelope import Envelope
from .loops import REORDERED, installed, loop


def settled(
    envelope: Envelope,
    floor: Array,
    ceiling: Array,
    missing: Array,
    divergence: FDivergence | None,
    step_divisor: int,
) -> tuple[Array, Array]:
    """`Envelope._settled`: r clipped to floor and ceiling, (..., n), and its divergence from p, (..., 1)."""
    if not xp.on_host(envelope.p) or not installed():
        return NotImplemented
    share = xp.where(missing < envelope.unreachable, 1 - xp.divide(missing, envelope.unreachable, 1), 0)
    masses = envelope.p, envelope.selected, envelope.idle
    rows = xp.rows(tuple(envelope.p.shape[:-1]), *masses, floor, ceiling, share)
    out, spent = np.empty_like(rows[0]), np.zeros((len(rows[0]), 1))
    for row, (p, m, idle, a, b, mixed, r) in enumerate(zip(*rows, out, strict=True)):
        ends = _settle(p, m, idle, a[0], b[0], mixed[0], step_divisor, r)
        if divergence:
            spent[row] = spent_between(p, r, ends, divergence)
    batch = tuple(envelope.p.shape)
    return xp.from_view(out.reshape(batch), envelope.p), xp.from_view(spent.reshape(*batch[:-1], 1), envelope.p)


@loop(REORDERED)
def _settle(p, m, idle, floor, ceiling, share, step_divisor, r):
    """Write r = clip(m, floor p, ceiling p) + share idle for one row, with the floor corrected so that r sums to 1.

    Returns r/p where m was at the floor, and where it was at the ceiling.
    """
    for _ in range(8):  # Newton's method, with steps of at most a group's width
        mass, low = 0.0, 0.0
        for y in range(len(p)):
            least = floor * p[y]
            v = max(min(m[y], ceiling * p[y]), least)
            mass += v
            low += p[y] if v <= least else 0.0
        if share > 0:
            mass += share * idle.sum()
        if low <= 0 or abs(1 - mass) <= 1e-10:  # the remaining error is corrected below
            break
        floor += max(min((1 - mass) / low, floor / step_divisor), -floor / step_divisor)
    for y in range(len(p)):
        r[y] = max(min(m[y], ceiling * p[y]), floor * p[y])
    if share > 0:
        for y in range(len(p)):
            r[y] += share * idle[y]
    mass, up, down = 0.0, 0.0, 0.0
    for y in range(len(p)):
        mass += r[y]
        up += max(p[y] - r[y], 0.0)
        down += max(r[y] - p[y], 0.0)
    lacks = 1 - mass
    rise = lacks / up if lacks > 0 and up > 0 else 0.0
    fall = lacks / down if lacks < 0 and down > 0 else 0.0
    for y in range(len(p)):
        r[y] += rise * max(p[y] - r[y], 0.0) + fall * max(r[y] - p[y], 0.0)
    return floor + rise * max(1 - floor, 0.0), ceiling + fall * max(ceiling - 1, 0.0)


@loop(REORDERED, "numpy")
def _unclipped(p, r, low, high, masses, ratios):
    """Write p and r/p of tokens with p > 0 and low < r/p < high into masses and ratios (n,). Return their number, and p at both ends."""
    low, high = low * (1 + 1e-13), high * (1 - 1e-13)  # above the rounding error of a ratio
    count, at_low, at_high = 0, 0.0, 0.0
    for y in range(len(p)):
        at_low += p[y] if r[y] <= low * p[y] else 0.0
        at_high += p[y] if r[y] >= high * p[y] else 0.0
    for y in range(len(p)):
        masses[count], ratios[count] = p[y], r[y]  # overwritten if the token is not inside, without a branch
        count += (r[y] > low * p[y]) & (r[y] < high * p[y])
    for i in range(count):
        ratios[i] /= masses[i]
    return count, at_low, at_high


def spent_between(
    p: np.ndarray, r: np.ndarray, ends: tuple[float, float], divergence: FDivergence, block_tokens: int = 1 << 14
) -> float:
    """Divergence of r from p, (n,) each. f is computed only for tokens whose r/p is not in `ends`."""
    between: np.ndarray = np.empty((2, len(p)))
    count, *masses = _unclipped(p, r, *ends, *between)
    clipped = masses @ divergence.value(np.where(np.array(masses) > 0, ends, 1.0))
    parts = [between[:, start : min(start + block_tokens, count)] for start in range(0, count, block_tokens)]
    return float(sum(mass @ divergence.value(ratio) for mass, ratio in parts) + clipped)


def mixture(p, q, group, by_p, by_q, m):
    """`lossy.grouped.mixture`."""
    return _mixture(p, q, group, by_p, by_q, m) if installed() else NotImplemented


@loop()
def _mixture(p, q, group, by_p, by_q, m):
    """Write m = by_p p + by_q q for one row, with the factors of each token's group."""
    for y in range(len(p)):
        c = group[y]
        m[y] = by_p[c] * p[y] + by_q[c] * q[y]
