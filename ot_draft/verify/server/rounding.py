"""How exact reported probabilities are. What was rounded away is not held against the sampler.

Numbers of 16 bits and decimals in print are told by their values: nearly no law has all its masses among so few numbers unless it was
rounded to them. A law p that is reported as r, each |p(x) - r(x)| <= u r(x) + g, differs from r, divided by its sum where it is whole,
by at most `slack` in total variation:

    with R = sum of r, over n tokens, s of them with r > 0:   u R + n g,   and for a whole law also   2 (u R + s g) + (1 - R)+

(The first: half the sum of |p - r|, and the division, or the mass of the rest, moves at most as much again. The second: sum of
(p - r)+ over tokens with r > 0 is at most u R + s g; tokens with r = 0 have together p = 1 - p(the others) <= 1 - R + u R + s g.)
The mean of any payoff in [0, 1] is then known up to `slack`, and no more is asked of the tokens. A larger slack only makes an e-value
smaller, so that evidence of rounding may come from any law of the log so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...arrays import Array

OFF = 1e-3  # by how much the masses of a law may miss 1 without being rounded: sums of float32 and of float16
FLOAT16, BFLOAT16 = 2.0**-10, 2.0**-8  # relative: a unit in the last place
SMALLEST = 2.0**-24  # of float16, below which a mass is 0
EXACT = 99  # decimals of a law that is not written in few of them
DECIMALS = range(8, 1, -1)
SINGLE = 6  # decimals up to which numbers of float32 are told from all others
MANY = 8  # masses of few decimals in lists, between 0 and 1, from which on such lists are rounded ones
NOTHING = 1e-15  # a probability below this is no mass
VOCABULARY = 2**20  # the largest that tokens of no mass are counted in


def relative_of(mass: Array) -> Array:
    """Relative error of reported masses (T, N), in descending order, by the number type that holds them all: (T,), 0 from 32 bits on."""

    def in_float16(mass: Array) -> Array:
        return (mass.astype(np.float16) == mass).all(1)

    def in_bfloat16(mass: Array) -> Array:
        single = mass.astype(np.float32)
        return ((single == mass) & ((single.view(np.uint32) & 0xFFFF) == 0)).all(1)

    found = np.zeros(len(mass))
    for error, held in ((FLOAT16, in_float16), (BFLOAT16, in_bfloat16)):
        rows = np.flatnonzero(held(mass[:, :1]) & (mass[:, 0] > 0))
        found[rows[held(mass[rows])]] = error
    return found


def decimals_of(mass: Array, tried: range = DECIMALS) -> Array:
    """The fewest decimals, of those tried, that write all masses of a row (T, N): (T,), EXACT where there are none."""
    found = np.full(len(mass), EXACT)
    first = mass[:, :1]
    rows = np.flatnonzero(_written(first, DECIMALS[0]) | _written(first, SINGLE))
    for decimals in tried if len(rows) else ():
        found[rows[_written(mass[rows], decimals)]] = decimals
    return found


def _written(mass: Array, decimals: int) -> Array:
    near = np.rint(mass * 10.0**decimals) / 10.0**decimals
    same = near == mass
    if decimals <= SINGLE:
        same |= near.astype(np.float32) == mass
    return same.all(1)


def explains(mass: Array, size: int, whole: bool) -> bool:
    """Whether rounding explains that the masses (m,) of a law of `size` tokens miss 1."""
    if not len(mass) or mass.max() > 1 + OFF:
        return False
    mass, missing = np.sort(mass)[::-1], float(mass.sum()) - 1
    missing = abs(missing) if whole else max(missing, 0.0)
    relative, decimals = float(relative_of(mass[None])[0]), int(decimals_of(mass[None])[0])
    room = relative + size * SMALLEST if relative else 0.0
    if decimals < EXACT:
        room = max(room, np.count_nonzero(mass) * 10.0**-decimals / 2)
    return missing <= room + 1e-9


@dataclass
class Rounding:
    """The rounding that the laws so far show.

    stated: an absolute error that every reported probability may have. decimals: of the finest print so far.
    """

    stated: float = 0.0
    decimals: int = 0
    few: int = field(default=0, init=False)  # masses of lists, between 0 and 1, that few decimals write

    def read(
        self, mass: Array, rest: Array, total: Array, size: Array, whole: Array, relative: Array, decimals: Array
    ) -> tuple[Array, Array]:  # fmt: skip
        """Slack of every law, and the mass that its tokens of no reported mass may have at most: (T,) each.

        mass (T, N), rest (T,): normalised; the others (T,) as in `Tokens`.
        """
        step = self._steps(mass, total, whole, decimals)
        step = np.maximum(np.maximum(step, np.where(relative > 0, SMALLEST, 0.0)), self.stated)
        exact = not step.any() and not relative.any()
        if exact and whole.all():
            return step, np.full(len(mass), NOTHING * VOCABULARY)
        positive = np.where(whole, np.count_nonzero(mass, axis=1) + rest * total / np.maximum(step, 1e-300), size)
        short = np.maximum(1 - total, 0.0)
        # What a 0 may hide in a list of few decimals, though nothing shows it yet.
        finest = np.where(decimals < EXACT, 10.0 ** -decimals.astype(float) / 2, 0.0)
        hidden = np.where(~whole & _between(mass).any(1), np.maximum(step, finest), step)
        most = relative * total + np.where(whole, positive * step, size * hidden) + short
        nothing = np.where(whole, np.minimum(size * hidden, most), most)
        spread = relative * total + positive * step
        slack = np.minimum(relative * total + size * step, np.where(whole, 2 * spread + short, np.inf))
        return np.minimum(slack, 1.0), np.minimum(nothing + NOTHING * VOCABULARY, 1.0)

    def _steps(self, mass: Array, total: Array, whole: Array, decimals: Array) -> Array:
        """Half a unit in the last decimal of every law that is in print, 0 for the others: (T,)."""
        few, missing = decimals < EXACT, np.where(whole, np.abs(total - 1), np.maximum(total - 1, 0))
        between = np.where(~whole & few, _between(mass).sum(1), 0)
        self.few += int(between.sum())
        shows = few & ((missing > 10.0 ** -decimals.astype(float) / 2) | ((between > 0) & (self.few >= MANY)))
        self.decimals = int(max(self.decimals, decimals[shows].max(initial=0)))
        # A law that shows no rounding itself, in no more decimals than one that did: [1.00, 0.00] after [0.71, 0.15, 0.15].
        decimals = np.where(shows, decimals, np.where(decimals <= self.decimals, self.decimals, EXACT))
        return np.where(decimals < EXACT, 10.0 ** -decimals.astype(float) / 2, 0.0)


def _between(mass: Array) -> Array:
    return (mass > 0) & (mass < 1)


def step_of(mass: Array) -> float:
    """The absolute error of probabilities (m,) as they were reported, from their decimals; 0 where these are not few."""
    inner = mass[(mass > 0) & (mass < 1)]
    decimals = int(decimals_of(inner[None], range(DECIMALS[0], 0, -1))[0]) if inner.size else EXACT
    return 10.0**-decimals / 2 if decimals < EXACT else 0.0


def _may_be_rounded(value: float) -> bool:
    """What `relative_of` and `decimals_of` ask of the first number of a row, before they look at the others: mostly no."""
    single = np.float32(value)
    if float(np.float16(value)) == value or (float(single) == value and not int(single.view(np.uint32)) & 0xFFFF):
        return True
    if round(value * 10.0 ** DECIMALS[0]) / 10.0 ** DECIMALS[0] == value:
        return True
    near = round(value * 10.0**SINGLE) / 10.0**SINGLE
    return near == value or float(np.float32(near)) == value


def log_error(logs: Array) -> float:
    """The relative error of exp of logarithms (m,) as they were reported: from 16 bits, or few decimals; 0 for all others."""
    finite = -logs[(logs > np.log(NOTHING)) & (logs < 0)][None]
    if not finite.size or not _may_be_rounded(float(finite[0, 0])):
        return 0.0
    relative, decimals = float(relative_of(finite)[0]), int(decimals_of(finite, range(DECIMALS[0], 0, -1))[0])
    return float(np.expm1(max(relative * finite.max(), 10.0**-decimals / 2 if decimals < EXACT else 0.0)))
