"""Selection by levels as a rule, for any order, levels and supposed distribution of the selected token: plain Fractions, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np

import ot_draft as otd

from ...branches import Chance, law_of
from .curves import Curve, curves, levels_by_chords, mixture, stretches
from .curves import law as law_of_curve


def choice_by_intervals(level: Curve, ranks: Sequence[int]) -> list[Fraction]:
    """Return the probability that each position is selected: at every lambda, the first draft in the highest interval that holds one."""
    chosen = [Fraction(0)] * len(ranks)
    for length, cuts in stretches(level):
        interval = [sum(i <= rank for i in cuts) for rank in ranks]  # breakpoint i lies below the token of rank i
        chosen[interval.index(max(interval))] += length
    return chosen


def choice_by_minimum(level: Curve, ranks: Sequence[int]) -> list[Fraction]:
    """Return the same by the formula: the steps by which the running minimum of the M_l falls."""
    top = max(ranks)
    highest = [max(level[rank + 1 : top + 1], default=Fraction(0)) for rank in ranks]
    least = [Fraction(1), *accumulate(highest, min)]
    return [before - after for before, after in pairwise(least)]


def selected_law(q: Curve, k: int, order: Sequence[int], level: Curve) -> list[Fraction]:
    """Return the distribution of the selected token, by enumerating all drafts."""

    def select(chance: Chance) -> int:
        ranks = [chance.draw([q[y] for y in order]) for _ in range(k)]
        return order[ranks[chance.draw(choice_by_minimum(level, ranks))]]

    law = law_of(select)
    return [law.get(y, Fraction(0)) for y in range(len(q))]


@dataclass(frozen=True)
class ByLevels(otd.SelectionRule):
    """Selection by any order, levels and supposed distribution m of the selected token, then step 5. Valid if m is the true
    distribution."""

    order: tuple[int, ...]
    level: tuple[Fraction, ...]
    selected: tuple[Fraction, ...]
    law: otd.DraftLaw = otd.IID()

    def __call__(self, p: np.ndarray, q: np.ndarray, drafts: np.ndarray) -> otd.Selection:
        (target,) = p.reshape(-1, p.shape[-1]).tolist()
        rank = {y: i for i, y in enumerate(self.order)}
        take = [min(Fraction(1), a / m) if m > 0 else Fraction(0) for a, m in zip(target, self.selected, strict=True)]
        accept = [
            [
                take[y] * share
                for y, share in zip(row, choice_by_minimum(self.level, [rank[y] for y in row]), strict=True)
            ]
            for row in drafts.tolist()
        ]
        left = [max(a - m, Fraction(0)) for a, m in zip(target, self.selected, strict=True)]
        residual = [x / sum(left) for x in left] if any(left) else target
        return otd.Selection(np.array(accept, dtype=object), np.array(residual, dtype=object))


def by_levels(p: Curve, q: Curve, k: int, by_draft: bool = False) -> ByLevels:
    """Return the rule of the proof; in a wrong order with the distribution m that its levels really give."""
    curve = curves(p, q, k, q.__getitem__ if by_draft else None)
    level = levels_by_chords(curve.t, curve.g, curve.envelope)
    m = law_of_curve(curve.order, mixture(curve.t, curve.g, level), len(p))
    return ByLevels(tuple(curve.order), tuple(level), tuple(m))
