"""K-SEQ: k tests in a row against a scaled-down target."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..arrays import (
    Array,
    any_of,
    as_number,
    batch_shape,
    divide,
    empty,
    epsilon,
    excess,
    gather,
    is_exact,
    like,
    maximum,
    minimum,
    namespace,
    normalise,
    one,
    overlap,
    positions,
    settled,
    small,
    stack,
    total,
    unsmall,
    where,
    zero,
)
from ..errors import InvalidDrafts
from ..laws import IID, DraftLaw
from ..selection import Selection, SelectionRule, in_turn

STEPS = 30  # of the secant method; about six settle float32, nine float64
FAR = 1e25  # a factor where all mass is covered
START = 0.6  # gamma* is about k^0.6 for language models
GRID = 128  # candidate factors tried at once in a step
TOLERANCE = 4096  # roundings that the factor may stay above gamma*
DIGITS = 40  # binary digits of the factor on Fractions, where the smallest one is irrational


@dataclass(frozen=True)
class KSeq(SelectionRule):
    """Take the drafts in order with probability min(1, p(x) / (factor q(x))), else draw from the residual.

    factor: the division factor gamma, valid from gamma* on, which lies in [1, k] and depends on p, q and k. None
    (default) finds gamma*, rounded up, so that rounding can cost acceptance (below 1e-12 in float64, 2e-4 in float32) and
    never validity. A fixed factor below gamma* makes an invalid rule (unless no p/q exceeds it), as `evaluate` then shows.
    With beta = sum min(q, p/gamma): acceptance of a draft 1 - (1 - beta)^k, residual proportional to
    p - min(q, p/gamma) (1 - (1 - beta)^k) / beta. Acceptance >= (1 - (1 - 1/k)^k) of the optimum.
    Source: Sun et al., SpecTr, NeurIPS 2023, Algorithm 2 and Theorem 1.
    """

    factor: float | Fraction | None = None
    law: DraftLaw = IID()

    def __post_init__(self) -> None:
        if self.factor is not None and not self.factor >= 1:
            raise InvalidDrafts(
                f"KSeq(factor={self.factor!r}): the division factor lies in [1, k]; None finds the best one"
            )

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        count = total(as_number(drafts >= 0, p))
        memory = empty(
            (*batch_shape(p, q, count), p.shape[-1]), p
        )  # one piece of memory for all passes over the vocabulary
        factor = division_factor(p, q, count, memory) if self.factor is None else self.factor + 0 * p[..., :1]
        taken = overlap(p, q, factor, memory)  # factor * min(q, p / factor)
        here, there, g, mass, k = (
            small(x) for x in (gather(p, drafts), gather(q, drafts), factor, total(taken), count)
        )
        take = minimum(divide(here, g * there, zero(here)), one(here))
        share = minimum(divide(any_of(mass / g, k), mass, zero(mass)), one(mass))
        residual = normalise(excess(p, taken, unsmall(share, p), taken), p, taken)
        return Selection(unsmall(in_turn(take), p), residual)


def division_factor(p: Array, q: Array, count: Array, memory: Array | None = None) -> Array:
    """A valid division factor just above gamma*: (..., n), (..., n), (..., 1) -> (..., 1).

    g is valid iff mass(g) = sum min(g q, p) >= 1 - (1 - mass(g)/g)^k. The mass is concave and piecewise linear in g, so
    the line through two factors on one side of gamma* lies above it on the other side: two such lines, from below and from
    above, give a factor that is at most gamma* (a secant step), and the grid point after it is tried next. Every
    factor that is returned was itself seen to be valid.
    """
    if is_exact(p):
        return _rational_factor(p, q, count)
    most = small(maximum(count + 0 * p[..., :1], 1))
    grid = like(positions(GRID, most), most)
    bound = most / most  # gamma* is at least this
    below = stack([0 * bound, 0 * bound, bound])  # a line: a factor, the mass there, the slope. Here mass(g) <= g,
    above = stack([FAR * bound, bound, 0 * bound])  # and here mass(g) <= 1
    factor = most**START
    for _ in range(STEPS):
        memory = overlap(p, q, unsmall(factor, p), memory)
        mass = small(total(memory))
        valid = _is_valid(mass, factor, small(count))
        other = where(valid, above, below)
        apart = abs(factor - other[..., :1])
        near = (
            apart <= epsilon(p) ** 0.5 * factor
        )  # a slope from points so near is noise; the old one bounds the mass too
        slope = where(near, other[..., 2:], abs(mass - other[..., 1:2]) / (apart + near))
        line = namespace(mass).concatenate((factor, mass, slope), -1)
        below, above = where(valid, below, line), where(valid, line, above)
        low, high = maximum(below[..., :1], bound), minimum(above[..., :1], most)
        if settled(high - low <= TOLERANCE * epsilon(p) * high):
            break
        step = (high / low) ** (1 / (GRID - 1))
        candidates = low * step**grid
        mass = minimum(_at(below, candidates), _at(above, candidates))
        refused = total(as_number(~_is_valid(mass, candidates, small(count)), most))
        factor = minimum(low * step ** minimum(refused, GRID - 1), high)
        bound = maximum(factor / step, low)
    return unsmall(minimum(above[..., :1], most), p)


def _at(line: Array, factor: Array) -> Array:
    return line[..., 1:2] + line[..., 2:] * (factor - line[..., :1])


def _rational_factor(p: Array, q: Array, count: Array) -> Array:
    """gamma* of the floats nearby, rounded up to binary digits, and further until exact arithmetic says that it is valid."""
    estimate = division_factor(p.astype(np.float64), q.astype(np.float64), count.astype(np.float64))
    unit = Fraction(1, 1 << DIGITS)
    factor = np.asarray(np.frompyfunc(lambda g: -(-Fraction(g) // unit) * unit, 1, 1)(estimate), dtype=object)
    factor = where(
        _is_valid(total(overlap(p, q, one(p) + 0 * factor)), one(p) + 0 * factor, count), one(p), factor
    )  # as for p == q
    step = unit
    while not (valid := _is_valid(total(overlap(p, q, factor)), factor, count)).all():
        factor = where(valid, factor, minimum(factor + step, maximum(count, one(p))))
        step *= 2
    return factor


def _is_valid(mass: Array, factor: Array, count: Array) -> Array:
    return mass >= any_of(minimum(mass / factor, 1), count)
