"""The comparison as a table for the terminal, and as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from math import isnan
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table

from ..errors import InvalidArgument
from ..laws import law_called
from ..optimum import kseq_bound
from .block import DUAL, LINEAR_PROGRAM
from .pairs import Pairs
from .rows import Row
from .study import Study
from .summary import Summary

NAMES = {DUAL: "optimum (dual)", LINEAR_PROGRAM: "optimum (linear program)"}
SHORT = 12  # characters of a fraction that a cell still shows
WIDE = 130  # columns of a terminal on which standard errors fit into the cells


def table(lines: Sequence[Summary], title: str, errors: bool = True) -> RenderableType:
    """One group's summary: a section a draft law, a column a k, and share and time at the largest k that has them."""
    ks = sorted({line.k for line in lines})
    out = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    out.add_column("rule", overflow="fold")
    for name in (*(f"k = {k}" for k in ks), "share", "µs"):
        out.add_column(name, justify="right", no_wrap=True)
    for law in dict.fromkeys(line.law for line in lines):
        out.add_row(f"[bold]{_title(law)}[/bold]")
        here = [line for line in lines if line.law == law]
        names = dict.fromkeys(line.rule for line in here)
        for rule in sorted(names, key=lambda name: name not in NAMES):  # the optimum first
            by_k = {line.k: line for line in here if line.rule == rule}
            out.add_row(*_cells(rule, by_k, ks, errors))
            if rule == "KSeq":
                out.add_row("  least share of the optimum", *(_share(by_k[k].least_share) for k in ks), style="dim")
                out.add_row("  guaranteed, 1 - (1 - 1/k)^k", *(_share(kseq_bound(k)) for k in ks), style="dim")
        out.add_section()
    return out


def _title(law: str) -> str:
    """What heads the part of a law, by its name on the command line; the name itself where no law goes by it."""
    try:
        return law_called(law).title
    except InvalidArgument:
        return law


def _cells(rule: str, by_k: dict[int, Summary], ks: Sequence[int], errors: bool) -> list[str]:
    known = [line for line in by_k.values() if line.accepted is not None]
    last = known[-1] if known else None
    time = f"{last.microseconds:,.0f}" if last and last.microseconds is not None else "-"
    values = [_cell(by_k.get(k), errors) for k in ks]
    return [f"  {NAMES.get(rule, rule)}", *values, _share(last.share if last else None), time]


def _cell(line: Summary | None, errors: bool) -> str:
    if line is None or line.accepted is None:
        return "-"
    if isinstance(line.accepted, Fraction) and len(str(line.accepted)) <= SHORT:
        return str(line.accepted)
    sign = "≈" if line.method == "estimated" else ""
    error = line.sampling_error if isnan(line.error) else line.error
    return f"{sign}{float(line.accepted):.4f}" + (f" ±{error:.4f}".replace("±0.", "±.") if error and errors else "")


def _share(value: Any) -> str:
    return "-" if value is None or isnan(value) else f"{float(value):.4f}"


def notes(study: Study, single: bool) -> str:
    """What the signs in the table mean."""
    error = (
        ""
        if single
        else " ±: standard error of the mean, whole texts being the independent draws where they are known."
    )
    return (
        f"Acceptance: the output is a drafted token, whichever way it got there.{error}"
        f" ≈: estimated from {study.samples} draft tuples a pair; all else is exact. -: the law has no such k, or the linear"
        f" program has over {study.lp_limit} draft sets. Share of the law's optimum, and time a pair in µs, at the largest k."
        " K-SEQ's least share and guarantee are about the drafts that it takes."
    )


def write_csv(records: Iterable[Row | Summary], stream: Any, pairs: Pairs | None = None) -> None:
    """One line a record: decimals, and beside them the exact fractions where there are. pairs: labels of each row's pair."""
    writer = None
    places = {index: row for row, index in enumerate(pairs.index)} if pairs else {}
    for record in records:
        entry = _record(record)
        if pairs and isinstance(record, Row):
            place = places[record.pair]
            labels = {name: values[place] for name, values in pairs.labels.items()}
            entry = {"pair": record.pair, "temperature": pairs.group[place], **labels, **entry}
        if writer is None:
            writer = csv.DictWriter(stream, list(entry), lineterminator="\n")
            writer.writeheader()
        writer.writerow(entry)


def csv_text(records: Iterable[Row | Summary], pairs: Pairs | None = None) -> str:
    """write_csv as a string."""
    stream = io.StringIO()
    write_csv(records, stream, pairs)
    return stream.getvalue()


def write_json(lines: Sequence[Summary], rows: Sequence[Row], pairs: Pairs, study: Study, file: Any) -> None:
    """Settings, summary and, a record each, all pairs; what is unknown is null."""
    content = {
        "source": pairs.source,
        "n": int(pairs.p.shape[-1]),
        "settings": {
            "ks": study.ks,
            "samples": study.samples,
            "seed": study.seed,
            "lp_limit": study.lp_limit,
            "target": study.target.name if study.target else None,  # in the place of p
        },
        "summary": [_record(line) for line in lines],
        "pairs": [_record(row) for row in rows],
    }
    json.dump(content, file, indent=1, allow_nan=False)
    file.write("\n")


def _record(record: Row | Summary) -> dict[str, Any]:
    """Fields by name; a Fraction as decimal, and under name_exact as it is; NaN as None."""
    out: dict[str, Any] = {}
    for name, value in asdict(record).items():
        out[name] = None if value is None or (isinstance(value, float) and isnan(value)) else value
        if isinstance(value, Fraction):
            out[name] = float(value)
        if name in ("accepted", "taken", "optimum"):
            out[f"{name}_exact"] = str(value) if isinstance(value, Fraction) else None
    return out


def as_records(lines: Iterable[Summary]) -> list[dict[str, Any]]:
    """Summaries as the rows of summary.csv."""
    return [_record(line) for line in lines]


def as_summaries(rows: Iterable[dict[str, str]]) -> list[Summary]:
    """The rows of summary.csv, as a csv.DictReader gives them, as summaries again; exact values as Fractions."""
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
        else:
            values[name] = float(text) if text else (float("nan") if name == "error" else None)
    return Summary(**values)
