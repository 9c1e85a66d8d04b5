"""Claim and source of a figure, and its numbers with the published ones, as data that the report prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from math import floor, isnan, log10
from typing import Any

from ot_draft.data.summary import Summary

NONE = "n/a"  # no access to a published number
DIFFERENT = 0.10  # relative difference from which on the report needs a note


@dataclass(frozen=True)
class About:
    """One figure: title, claim in one to three sentences, and source of the claim.

    source: paper and section, or 'this project'. comparison: a remark on published numbers for a figure that prints none.
    """

    title: str
    claim: str
    source: str
    comparison: str = ""


@dataclass(frozen=True)
class Number:
    """One number of a figure, computed from its data.

    published: the number of the source, None if there is none or none is certain. relation: expected relation of ours to
    it: '=' the same quantity, '≥' or '≤' a bound, '~' another model or data, of which only the shape is comparable. note: reason
    of a difference above 10 %. others: label, value and standard error of rules other than the published one, in separate
    columns. headline: whether the report shows it at its top.
    """

    what: str
    ours: float
    published: float | None = None
    relation: str = "="
    note: str = ""
    error: float | None = None
    others: tuple[tuple[str, float, float], ...] = ()
    headline: bool = False

    @property
    def difference(self) -> float | None:
        """Return ours / published - 1; None without a published number."""
        return self.ours / self.published - 1 if self.published else None

    @property
    def holds(self) -> bool:
        """Return whether a bound holds, up to rounding; True for other numbers."""
        if self.published is None or self.relation not in ("≥", "≤"):
            return True
        gap = self.ours - self.published
        return (gap if self.relation == "≥" else -gap) >= -1e-9

    @property
    def unexplained(self) -> bool:
        """Return whether it differs by over 10 %, or violates its bound, without a note."""
        if self.note or self.difference is None:
            return False
        return abs(self.difference) > DIFFERENT if self.relation in ("=", "~") else not self.holds


@dataclass(frozen=True)
class Line:
    """One published number of a work and ours, for the page of published numbers.

    published: as printed, None without access to it; ours: None if this project has no such number.
    """

    where: str
    what: str
    published: str | None
    ours: str | None
    remark: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table row."""
        return (self.where, self.what, self.published or NONE, self.ours or "none", self.remark)


def with_error(value: float, error: float | None) -> str:
    """Return a number rounded to the first digit of its standard error; four digits without one."""
    if not error or isnan(error):
        return _shown(value)
    decimals = max(-floor(log10(float(f"{error:.0e}"))), 0)
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def _shown(value: float) -> str:
    whole = float(value).is_integer() and abs(value) < 1e6
    return f"{value:.0f}" if whole else f"{value:.4f}" if 0.001 <= abs(value) < 10 else f"{value:.3g}"


def as_summaries(rows: Iterable[dict[str, str]]) -> list[Summary]:
    """Return rows of summary.csv from a csv.DictReader as summaries; exact values as Fractions."""
    return [_parsed(row) for row in rows]


def _parsed(row: dict[str, str]) -> Summary:
    values: dict[str, Any] = {}
    for name in (field.name for field in fields(Summary)):
        text = row.get(name) or ""
        if name in ("group", "rule", "law", "method", "target"):
            values[name] = text
        elif row.get(f"{name}_exact"):
            values[name] = Fraction(row[f"{name}_exact"])
        elif name in ("k", "pairs"):
            values[name] = int(text)
        elif name == "refuted":
            values[name] = text == "True"
        else:
            values[name] = float(text) if text else (float("nan") if name == "error" else None)
    return Summary(**values)
