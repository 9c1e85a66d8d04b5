"""Means over pairs with standard errors: what the tables and pictures of `compare` show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .pairs import Pairs
from .run import Row
from .timing import Times


@dataclass(frozen=True)
class Summary:
    """One rule (or optimum) with k drafts over all pairs of a group.

    accepted, taken, optimum: means over the pairs (exact if all are Fractions); None where no pair has a value. error: standard
    error of `accepted` over texts; NaN for a single one. sampling_error: the part of it that comes from estimating by random
    drafts, 0 where nothing was estimated. share: accepted / optimum, of the means. least_share: smallest
    taken / optimum of all pairs, to be held against K-SEQ's bound. microseconds: of one selection (or optimum).
    """

    group: str
    k: int
    rule: str
    law: str
    pairs: int
    accepted: Any
    error: float
    sampling_error: float
    taken: Any
    optimum: Any
    share: float | None
    least_share: float | None
    method: str
    microseconds: float | None


def summarise(rows: Iterable[Row], pairs: Pairs, times: Times | None = None) -> list[Summary]:
    """One line for every group, k, rule and law, in the order of the rows."""
    place = {index: row for row, index in enumerate(pairs.index)}
    collected: dict[tuple[str, int, str, str], list[Row]] = {}
    for row in rows:
        group = pairs.group[place[row.pair]]
        collected.setdefault((group, row.k, row.rule, row.law), []).append(row)
    return [
        _summary(group, found, [pairs.text[place[row.pair]] for row in found], (times or {}).get((rule, law, k)))
        for (group, k, rule, law), found in collected.items()
    ]


def _summary(group: str, rows: list[Row], text: list[int], time: float | None) -> Summary:
    first = rows[0]
    left_out = [row for row in rows if row.accepted is None]
    if left_out:  # a mean over the other pairs would stand beside means over all
        nothing = (None, float("nan"), 0.0, None, None, None, None)
        return Summary(group, first.k, first.rule, first.law, len(rows), *nothing, left_out[0].method, None)
    accepted, taken, optimum = (
        _mean([getattr(row, name) for row in rows]) for name in ("accepted", "taken", "optimum")
    )
    shares = [float(row.taken / row.optimum) for row in rows if row.optimum > 0]
    return Summary(
        group=group,
        k=first.k,
        rule=first.rule,
        law=first.law,
        pairs=len(rows),
        accepted=accepted,
        error=clustered_error([float(row.accepted) for row in rows], text),
        sampling_error=float(np.sqrt(sum(row.error**2 for row in rows)) / len(rows)),
        taken=taken,
        optimum=optimum,
        share=float(accepted / optimum) if optimum > 0 else None,
        least_share=min(shares, default=None),
        method="estimated" if any(row.method == "estimated" for row in rows) else first.method,
        microseconds=time,
    )


def _mean(values: Sequence[Any]) -> Any:
    return sum(values, Fraction(0)) / len(values) if isinstance(values[0], Fraction) else float(np.mean(values))


def clustered_error(values: Sequence[float], text: Sequence[int]) -> float:
    """Standard error of the mean when whole texts, not single contexts, are the independent draws.

    Deviations from the mean are summed within each text before they are squared. NaN where there is one text only.
    """
    _, number = np.unique(np.asarray(text), return_inverse=True)
    texts = int(number.max()) + 1
    if texts < 2:
        return float("nan")
    deviation = np.bincount(number, np.asarray(values) - np.mean(values))
    return float(np.sqrt(texts / (texts - 1) * (deviation**2).sum()) / len(values))


def total_variation(pairs: Pairs) -> dict[str, tuple[Any, float]]:
    """Mean of TV(p, q) and its standard error, for every group."""
    distance = [value / 2 for value in abs(pairs.p - pairs.q).sum(-1).tolist()]
    out = {}
    for group in dict.fromkeys(pairs.group):
        here = [row for row, value in enumerate(pairs.group) if value == group]
        values = [distance[row] for row in here]
        out[group] = _mean(values), clustered_error([float(v) for v in values], [pairs.text[row] for row in here])
    return out
