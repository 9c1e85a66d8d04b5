"""Means over pairs with standard errors, for tables and plots: of pairs in memory and of the files of a sweep."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from .pairs import PairsFound
from .study import Row, Study
from .sweep import MANIFEST, read_part

__all__ = ["Summary", "clustered_error"]


@dataclass(frozen=True)
class Summary:
    """One rule (or optimum) with k drafts over all pairs of a group.

    accepted, taken, optimum: means over the pairs (exact if all are Fractions); None if a pair has no value. error: standard error of
    `accepted` over texts; NaN for a single text. sampling_error: its part from random draft tuples, 0 if nothing was estimated.
    share: accepted / optimum, of the means. least_share: smallest taken / optimum of all pairs, for comparison with K-SEQ's bound.
    target: name of the target that replaces p, whose acceptance and optimum these are; "" for p itself. refuted: whether the rule is
    known not to be lossless, or to overwrite its arguments.
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
    refuted: bool = False

    @property
    def share_error(self) -> float:
        """Standard error of `share` from random draft tuples, for the given pairs; 0 for an exact share."""
        return self.sampling_error / float(self.optimum) if self.optimum else 0.0


def summarise(rows: Iterable[Row], pairs: PairsFound, study: Study | None = None) -> list[Summary]:
    """Return means over pairs with standard errors, one for each temperature, k, rule and draft law.

    Parameters
    ----------
    rows : iterable of Row
        Result of `compare_rules`.
    pairs : Pairs
        The pairs that were compared.
    study : Study, optional
        Settings of the comparison, if it has a target of `otd.lossy`.

    Returns
    -------
    list of Summary
        In the order of the rows.

    Raises
    ------
    InvalidArgument
        If two rules of one draft law have the same name.

    Examples
    --------
    >>> from ot_draft import rules
    >>> from ot_draft.data import compare_rules
    >>> from ot_draft.data.pairs import as_pairs
    >>> p, q = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.75, 0.25], [0.5, 0.5]])
    >>> pairs = as_pairs({"p": p, "q": q}, "example")
    >>> rows = compare_rules(pairs, Study(ks=(1,), rules=(rules.KSeq(),), lp_limit=0))
    >>> means = [line for line in summarise(rows, pairs) if line.accepted is not None]
    >>> [(str(line.rule), line.pairs, line.accepted, round(line.error, 4)) for line in means]
    [('optimum', 2, 0.875, 0.125), ('KSeq', 2, 0.875, 0.125)]
    """
    means = Means(study)
    means.add(rows, pairs)
    return means.summaries()


class Means:
    """Means of rows that are added one after the other. It keeps 32 bytes per line and pair: three numbers and the text."""

    def __init__(self, study: Study | None = None) -> None:
        self._target = study.target_name if study else ""
        self._lines: dict[tuple[str, int, str, str], _Line] = {}

    def add(self, rows: Iterable[Row], pairs: PairsFound) -> None:
        """Rows of these pairs."""
        place = {index: row for row, index in enumerate(pairs.index)}
        for row in rows:
            here = place[row.pair]
            key = (pairs.group[here], row.k, row.rule, row.law)
            if key not in self._lines:
                self._lines[key] = _Line(row)
            self._lines[key].add(row, pairs.text[here])

    def summaries(self) -> list[Summary]:
        """In the order in which the lines first came."""
        return [replace(line.summary(group), target=self._target) for (group, *_), line in self._lines.items()]


class _Line:
    """The rows of one rule with k drafts in a group."""

    def __init__(self, first: Row) -> None:
        exact = isinstance(first.accepted, Fraction)
        self.first, self.pairs, self.noise, self.estimated = first, 0, 0.0, False
        self.last: Any = None  # pair
        self.left_out: str | None = None  # why, of the first that was
        self.numbers: tuple[Any, ...] = tuple([] if exact else array("d") for _ in range(3))
        self.text = array("q")
        self.least: float | None = None

    def add(self, row: Row, text: int) -> None:
        if self.pairs and row.pair == self.last:  # the rows of a pair stand together
            raise InvalidArgument(
                f"rules must have unique names per draft law, got two rows of {row.rule} under {row.law} with k = {row.k}, pair {row.pair}."
                " Rename one rule."
            )
        self.pairs, self.last = self.pairs + 1, row.pair
        if row.accepted is None:
            self.left_out = self.left_out or row.method
        if self.left_out:
            return
        for values, value in zip(self.numbers, (row.accepted, row.taken, row.optimum), strict=True):
            values.append(value)
        self.text.append(text)
        self.noise += row.error**2
        self.estimated |= row.method == "estimated"
        if row.optimum > 0:
            share = float(row.taken / row.optimum)
            self.least = share if self.least is None else min(self.least, share)

    def summary(self, group: str) -> Summary:
        about = (group, self.first.k, self.first.rule, self.first.law, self.pairs)
        if self.left_out:  # a mean over some pairs is not comparable with means over all
            return Summary(*about, None, float("nan"), 0.0, None, None, None, None, self.left_out)
        return _means(
            about,
            tuple(map(_mean, self.numbers)),
            self.least,
            error=clustered_error(list(map(float, self.numbers[0])), self.text),
            sampling_error=float(np.sqrt(self.noise) / self.pairs),
            method="estimated" if self.estimated else self.first.method,
        )


def _means(
    about: tuple[str, int, str, str, int], numbers: Sequence[Any], least_share: float | None, **more: Any
) -> Summary:
    accepted, taken, optimum = numbers
    share = float(accepted / optimum) if optimum > 0 else None
    return Summary(*about, accepted, taken=taken, optimum=optimum, share=share, least_share=least_share, **more)


def summarise_sweep(out: Path | str) -> list[Summary]:
    """Return the means of a sweep, also of one that has not ended.

    Parameters
    ----------
    out : str or Path
        Output folder of `run_sweep`.

    Returns
    -------
    list of Summary
        Rows are grouped by temperature, draft law, k and rule. Standard errors treat the pairs as independent.

    Raises
    ------
    InvalidArgument
        If the folder is not that of a sweep.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ot_draft.data import Sweep, open_shards, run_sweep
    >>> with TemporaryDirectory() as folder:
    ...     file, out = Path(folder, "pairs.npz"), Path(folder, "out")
    ...     np.savez(file, p=[[0.5, 0.5]], q=[[0.75, 0.25]])
    ...     _ = run_sweep(Sweep(tuple(open_shards([file]))), out)
    ...     means = summarise_sweep(out)
    >>> [(line.rule, line.k, round(line.accepted, 4)) for line in means if line.rule == "KSeq"]
    [('KSeq', 2, 0.8476), ('KSeq', 4, 0.9502), ('KSeq', 8, 0.9962)]
    """
    out = Path(out)
    if not (out / MANIFEST).is_file():
        raise InvalidArgument(f"{out} must hold {MANIFEST}, which is missing. Use the output folder of a sweep.")
    found: dict[tuple[str, int, str, str, str], list[Any]] = defaultdict(list)
    for file in sorted(out.glob("part-*.parquet")):
        for key, sums in _sums(read_part(file)):
            found[key].append(sums)
    ordered = sorted(found.items(), key=lambda item: (float(item[0][-1] or 0), *item[0][:2]))
    return [_of_sums(*key, np.array(parts)) for key, parts in ordered]


def _sums(table: Any) -> Iterator[tuple[tuple[str, int, str, str, str], list[Any]]]:
    """Sums of one part by draft law, k, rule, target and temperature.

    The sums are pairs, acceptance, its square, squared error, taken and optimum; the last number is the least share.
    """
    target = table["target"][0].as_py() if "target" in table.column_names else ""  # one in all of a sweep
    names = [name for name in ("law", "rule", "temperature") if name in table.column_names]
    law, rule, *more = (np.asarray(table[name].cast("string").to_pylist()) for name in names)
    group = more[0] if more else np.full(len(law), "")
    k, *numbers = (table[name].to_numpy() for name in ("k", "acceptance", "error", "taken", "optimum"))
    for *key, of in sorted(set(zip(law.tolist(), k.tolist(), rule.tolist(), group.tolist(), strict=True))):
        here = (law == key[0]) & (k == key[1]) & (rule == key[2]) & (group == of)
        accepted, error, taken, optimum = (values[here] for values in numbers)
        shares = taken[optimum > 0] / optimum[optimum > 0]
        sums = [x.sum() for x in (here, accepted, accepted**2, error**2, taken, optimum)]
        yield (*key, target, of), [*sums, shares.min(initial=np.inf)]


def _of_sums(law: str, k: int, rule: str, target: str, group: str, parts: Any) -> Summary:
    pairs, *sums = parts[:, :-1].sum(0).tolist()
    accepted, square, noise, taken, optimum = (x / pairs for x in sums)
    least = float(parts[:, -1].min())
    return _means(
        (group, k, rule, law, int(pairs)),
        (accepted, taken, optimum),
        None if np.isinf(least) else least,
        error=float(np.sqrt(max(square - accepted**2, 0.0) / (pairs - 1))) if pairs > 1 else float("nan"),
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


def total_variation(pairs: PairsFound, distances: Sequence[Any]) -> dict[str, tuple[Any, float]]:
    """Mean of TV(p, q) and its standard error, for every group. distances: of each pair."""
    out = {}
    for group in dict.fromkeys(pairs.group):
        here = [row for row, value in enumerate(pairs.group) if value == group]
        values = [distances[row] for row in here]
        out[group] = _mean(values), clustered_error([float(v) for v in values], [pairs.text[row] for row in here])
    return out
