"""The smallest valid division factor of K-SEQ, gamma*, without sorting the vocabulary."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import expm1, log1p
from typing import Any

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...arrays.masses import BLOCK_TOKENS
from ...dispatch import accelerated


@dataclass(frozen=True)
class FactorSearch:
    """Limits of the search for gamma* in floats."""

    max_steps: int = 30  # about six settle float32, nine float64
    start_exponent: float = 0.6  # gamma* is about k^0.6 for language models
    tolerance_in_roundings: int = 1024  # max. distance of the factor above gamma*


def division_factor(p: Array, q: Array, count: Array) -> Array:
    """A valid division factor just above gamma*: (..., n), (..., n), (..., 1) -> (..., 1).

    g is valid iff mass(g) = sum min(g q, p) >= 1 - (1 - mass(g)/g)^k. The mass is concave and piecewise linear in g, so
    the line through two factors on one side of gamma* lies above it on the other side: two such lines, from below and from
    above, give a factor that is at most gamma* (a secant step), and the grid point after it is tried next. Every
    factor that is returned was itself seen to be valid.
    """
    return factor_and_mass(p, q, count)[0]


@accelerated("k_seq")
def factor_and_mass(p: Array, q: Array, count: Array) -> tuple[Array, Array]:
    """`division_factor` g, and mass(g): (..., 1) each."""
    factor = _rational_factor(p, q, count) if xp.is_exact(p) else _by_secants(p, q, count, FactorSearch())
    return factor, mass_at(p, q, factor)


def mass_at(p: Array, q: Array, factor: Array) -> Array:
    """sum min(g q, p) for factors g, (..., 1)."""
    return xp.overlap(p, q, factor).sum(-1, keepdims=True)


def _by_secants(p: Array, q: Array, count: Array, search: FactorSearch, candidates_per_step: int = 128) -> Array:
    """All rows at once, in array operations; no host sync on an accelerator. Each step tries many candidates at once."""
    memory = None  # one piece for all passes over the vocabulary
    most = xp.host_view(xp.maximum(count + 0 * p[..., :1], 1))
    grid = xp.astype(xp.arange(candidates_per_step, like=most), most.dtype)
    bound = most / most  # gamma* is at least this
    # Lines, each a factor, the mass there and the slope: mass(g) <= g, and mass(g) <= 1.
    all_covered = 1e25 * bound  # a factor where the mass is 1
    below, above = (
        xp.concat((0 * bound, 0 * bound, bound), axis=-1),
        xp.concat((all_covered, bound, 0 * bound), axis=-1),
    )
    factor = most**search.start_exponent
    for _ in range(search.max_steps):
        memory = xp.overlap(p, q, xp.from_view(factor, p), memory)
        mass = xp.host_view(memory.sum(-1, keepdims=True))
        valid = _is_valid(mass, factor, xp.host_view(count))
        other = xp.where(valid, above, below)
        apart = abs(factor - other[..., :1])
        # A slope from points so near is noise; the old one bounds the mass too.
        near = apart <= xp.epsilon(p) ** 0.5 * factor
        slope = xp.where(near, other[..., 2:], abs(mass - other[..., 1:2]) / (apart + near))
        line = xp.concat((factor, mass, slope), axis=-1)
        below, above = xp.where(valid, below, line), xp.where(valid, line, above)
        low, high = xp.maximum(below[..., :1], bound), xp.minimum(above[..., :1], most)
        if xp.holds_without_sync(high - low <= search.tolerance_in_roundings * xp.epsilon(p) * high):
            break
        step = (high / low) ** (1 / (candidates_per_step - 1))
        candidates = low * step**grid
        mass = xp.minimum(_at(below, candidates), _at(above, candidates))
        refused = xp.astype(~_is_valid(mass, candidates, xp.host_view(count)), most.dtype).sum(-1, keepdims=True)
        factor = xp.minimum(low * step ** xp.minimum(refused, candidates_per_step - 1), high)
        bound = xp.maximum(factor / step, low)
    return xp.from_view(xp.minimum(above[..., :1], most), p)


def _at(line: Array, factor: Array) -> Array:
    return line[..., 1:2] + line[..., 2:] * (factor - line[..., :1])


def _rational_factor(p: Array, q: Array, count: Array, binary_digits: int = 40) -> Array:
    """gamma* of the floats nearby, rounded up to binary digits, and further until exact arithmetic says that it is valid.

    Row by row, so that no row's factor depends on the others; once for each number of drafts where p and q are single rows.
    """
    if p.size == p.shape[-1] and q.size == q.shape[-1] and len(numbers := np.unique(count)) < count.size:
        factor = np.empty_like(count)
        for number in numbers:
            here = np.array([number], dtype=object)
            factor[count == number] = _rational_factor(p.reshape(-1), q.reshape(-1), here)[0]
        return factor + 0 * p[..., :1]
    target, draft, k = (x.astype(np.float64) for x in (p, q, count))
    estimate = found_in_rows(target, draft, k, newton_in_rows, FactorSearch())[..., :1]
    unit = Fraction(1, 1 << binary_digits)
    factor = np.asarray(np.frompyfunc(lambda g: -(-Fraction(g) // unit) * unit, 1, 1)(estimate), dtype=object)
    least = 1 + 0 * factor  # exactly right for p == q, say
    factor = xp.where(_is_valid(mass_at(p, q, least), least, count), least, factor)
    step = unit
    while not (valid := _is_valid(mass_at(p, q, factor), factor, count)).all():
        factor = xp.where(valid, factor, xp.minimum(factor + step, xp.maximum(count, 1)))
        step *= 2
    return factor


def _is_valid(mass: Array, factor: Array, count: Array) -> Array:
    return mass >= xp.at_least_one(xp.minimum(mass / factor, 1), count)


def found_in_rows(p: Array, q: Array, count: Array, newton: Callable[..., Any], search: FactorSearch) -> Array:
    """(..., 2): a valid factor just above gamma*, and the mass there."""
    batch = xp.batch_shape(p, q, count)
    tolerance = search.tolerance_in_roundings * xp.epsilon(p)
    found = newton(*xp.rows(batch, p, q, count), tolerance, search.start_exponent, search.max_steps)
    return xp.from_view(found.reshape(*batch, 2), p)


def newton_in_rows(p, q, count, tolerance, start, steps):  # type: ignore[no-untyped-def]
    """Newton's method: every line that touches the mass lies above it. Sums are in the masses' type within a block, then in float64."""
    found, almost_one = np.empty((len(p), 2), p.dtype), 1 - 2.0**-53
    for row in range(len(p)):
        k = float(count[row, 0])
        low, high, reached = 1.0, max(k, 1.0), -1.0
        found[row, 0] = high**start
        for _ in range(steps):
            factor = found[row, 0]
            slope, mass = 0.0, 0.0
            for first in range(0, p.shape[1], BLOCK_TOKENS):
                p_in, q_in = p[row, first : first + BLOCK_TOKENS], q[row, first : first + BLOCK_TOKENS]
                part, inner = factor - factor, factor - factor
                for y in range(len(p_in)):
                    drawn = factor * q_in[y]
                    part += q_in[y] if p_in[y] > drawn else factor - factor
                    inner += min(p_in[y], drawn)
                slope += part
                mass += inner
            if mass >= -expm1(k * log1p(-min(mass / factor, almost_one))):
                high = factor
                reached = mass
            else:
                low = factor
            offset = mass - factor * slope
            below, root = low, high  # the mass is under this line everywhere: what the line refuses is not valid
            while root - below > tolerance / 8 * root:
                middle = (below + root) / 2
                mass = middle * slope + offset
                if mass >= -expm1(k * log1p(-min(mass / middle, almost_one))):
                    root = middle
                else:
                    below = middle
            low = max(low, below)
            if high - low <= tolerance * high:
                break
            found[row, 0] = min(root * (1 + tolerance / 2), high)
        if reached < 0:  # the first bound was never tried
            reached = 0.0
            for y in range(p.shape[1]):
                reached += min(p[row, y], high * q[row, y])
        found[row, 0] = high
        found[row, 1] = reached
    return found
