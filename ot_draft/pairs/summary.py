"""Means over pairs with standard errors: what tables and pictures show, of pairs in memory and of a sweep's files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from .pairs import PairsFound
from .study import CHUNK, Row, Study
from .sweep import MANIFEST, read_part


@dataclass(frozen=True)
class Summary:
    """One rule (or optimum) with k drafts over all pairs of a group.

    accepted, taken, optimum: means over the pairs (exact if all are Fractions); None where no pair has a value. error: standard
    error of `accepted` over texts; NaN for a single one. sampling_error: the part of it that comes from estimating by random
    drafts, 0 where nothing was estimated. share: accepted / optimum, of the means. least_share: smallest
    taken / optimum of all pairs, to be held against K-SEQ's bound. target: name of
    what stood in the place of p, whose acceptance and optimum these are; "" for p itself.
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
    target: str = ""


def summarise(rows: Iterable[Row], pairs: PairsFound, study: Study | None = None) -> list[Summary]:
    """One line for every group, k, rule and law, in the order of the rows. study: whose rows they are, where it has a target."""
    target = study.target_name if study else ""
    place = {index: row for row, index in enumerate(pairs.index)}
    collected: dict[tuple[str, int, str, str], list[Row]] = {}
    for row in rows:
        group = pairs.group[place[row.pair]]
        collected.setdefault((group, row.k, row.rule, row.law), []).append(row)
    lines = []
    for (group, *_), found in collected.items():
        text = [pairs.text[place[row.pair]] for row in found]
        lines.append(replace(_summary(group, found, text), target=target))
    return lines


def _summary(group: str, rows: list[Row], text: list[int]) -> Summary:
    first = rows[0]
    left_out = [row for row in rows if row.accepted is None]
    if left_out:  # a mean over the other pairs would stand beside means over all
        nothing = (None, float("nan"), 0.0, None, None, None, None)
        return Summary(group, first.k, first.rule, first.law, len(rows), *nothing, left_out[0].method)
    numbers = tuple(_mean([getattr(row, name) for row in rows]) for name in ("accepted", "taken", "optimum"))
    return _means(
        (group, first.k, first.rule, first.law, len(rows)),
        numbers,
        min((float(row.taken / row.optimum) for row in rows if row.optimum > 0), default=None),
        error=clustered_error([float(row.accepted) for row in rows], text),
        sampling_error=float(np.sqrt(sum(row.error**2 for row in rows)) / len(rows)),
        method="estimated" if any(row.method == "estimated" for row in rows) else first.method,
    )


def _means(
    about: tuple[str, int, str, str, int], numbers: Sequence[Any], least_share: float | None, **more: Any
) -> Summary:
    accepted, taken, optimum = numbers
    share = float(accepted / optimum) if optimum > 0 else None
    return Summary(*about, accepted, taken=taken, optimum=optimum, share=share, least_share=least_share, **more)


def summarise_sweep(out: Path | str) -> list[Summary]:
    """Means of a sweep, also of one that has not ended, ordered by law, k and rule; pairs are independent draws here."""
    out = Path(out)
    if not (out / MANIFEST).is_file():
        raise InvalidArgument(f"{out} holds no {MANIFEST}: give the folder of a sweep")
    found: dict[tuple[str, int, str, str], list[Any]] = defaultdict(list)
    for file in sorted(out.glob("part-*.parquet")):
        for key, sums in _sums(read_part(file)):
            found[key].append(sums)
    return [_of_sums(*key, np.array(parts)) for key, parts in sorted(found.items(), key=lambda item: item[0][:2])]


def _sums(table: Any) -> Iterator[tuple[tuple[str, int, str, str], list[Any]]]:
    """Of one part, per law, k, rule and target: pairs, sums of acceptance, its square, squared error, taken, optimum; least share."""
    target = table["target"][0].as_py() if "target" in table.column_names else ""  # one in all of a sweep
    law, rule = (np.asarray(table[name].cast("string").to_pylist()) for name in ("law", "rule"))
    k, *numbers = (table[name].to_numpy() for name in ("k", "acceptance", "error", "taken", "optimum"))
    for key in sorted(set(zip(law.tolist(), k.tolist(), rule.tolist(), strict=True))):
        here = (law == key[0]) & (k == key[1]) & (rule == key[2])
        accepted, error, taken, optimum = (values[here] for values in numbers)
        shares = taken[optimum > 0] / optimum[optimum > 0]
        sums = [x.sum() for x in (here, accepted, accepted**2, error**2, taken, optimum)]
        yield (*key, target), [*sums, shares.min(initial=np.inf)]


def _of_sums(law: str, k: int, rule: str, target: str, parts: Any) -> Summary:
    pairs, *sums = parts[:, :-1].sum(0).tolist()
    accepted, square, noise, taken, optimum = (x / pairs for x in sums)
    least = float(parts[:, -1].min())
    return _means(
        ("", k, rule, law, int(pairs)),
        (accepted, taken, optimum),
        None if np.isinf(least) else least,
        error=float(np.sqrt(max(square - accepted**2, 0.0) / pairs)),
        sampling_error=float(np.sqrt(noise / pairs)),
        method="estimated" if noise > 0 else "formula",
        target=target,
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


def total_variation(pairs: PairsFound) -> dict[str, tuple[Any, float]]:
    """Mean of TV(p, q) and its standard error, for every group."""
    parts = (part.load() for part in pairs.parts(CHUNK))
    distance = [value / 2 for part in parts for value in abs(part.p - part.q).sum(-1).tolist()]
    out = {}
    for group in dict.fromkeys(pairs.group):
        here = [row for row, value in enumerate(pairs.group) if value == group]
        values = [distance[row] for row in here]
        out[group] = _mean(values), clustered_error([float(v) for v in values], [pairs.text[row] for row in here])
    return out
