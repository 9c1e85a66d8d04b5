"""The comparison as a table for the terminal, LaTeX and Markdown, and as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from math import isnan
from textwrap import wrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..optimum import kseq_bound
from .pairs import PairsFound
from .study import NoAcceptance, OptimumRow, Row, Study
from .summary import Summary

__all__ = ["as_records"]

TITLES = {  # of laws, by their names
    "iid": "i.i.d. drafts",
    "without-replacement": "drafts without replacement",
    "hub": "hub: the top token and one other",
    "greedy": "greedy: top k - 1, one draw outside",
    "hybrid:auto": "hybrid: j top tokens, j chosen from q, draws outside",
}
NAMES: dict[str, str] = {OptimumRow.DUAL: "optimum", OptimumRow.LINEAR_PROGRAM: "optimum (linear program)"}


def table(lines: Sequence[Summary], title: str, width: int = 80, name_width: int = 30) -> RenderableType:
    """One group's summary for a terminal, within its width in characters: a section a draft law, a column a k; the last k last.

    The share is that at the largest k that has one. The ks that do not fit go into tables below.
    """
    ks = sorted({line.k for line in lines})
    shares = [_share_of(line) for line in lines if line.k == ks[-1] or line.method == "estimated"]
    narrowest = len(" 0.0000 ")
    room = width - name_width - max([narrowest, *(1 + len(share) for share in shares)])
    longest = max([narrowest, *(1 + len(_cell(line)) for line in lines if line.accepted is not None)])
    across = max(1, room // longest)
    parts = [ks[start : start + across] for start in range(0, len(ks), across)]
    return Group(Text(title), *(_table(lines, part, part is parts[-1], name_width) for part in parts))


def _table(lines: Sequence[Summary], ks: Sequence[int], last: bool, name_width: int) -> Table:
    out = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=0)
    out.add_column("rule", max_width=name_width, overflow="fold")
    for name in (*(f"k = {k}" for k in ks), *(("share",) if last else ())):
        out.add_column(name, justify="right", no_wrap=True)
    for law, rows in _sections(lines, ks, _cell):
        out.add_row(f"[bold]{law}[/bold]")
        for (name, *cells), note in rows:
            folded = (
                wrap(re.sub("(?<=[a-z])(?=W)", " ", name), name_width - 4) if len(name) > name_width - 2 else [name]
            )
            shown = "\n    ".join(folded)
            out.add_row(f"  {shown}", *(cells if last else cells[:-1]), style="dim" if note else "")
        out.add_section()
    return out


def _sections(
    lines: Sequence[Summary], ks: Sequence[int], cell: Callable[[Summary], str]
) -> Iterator[tuple[str, list[tuple[list[str], bool]]]]:
    """Yield title and rows of every draft law: name, a cell per k, share; and whether the row is a note on the one above."""
    for law in dict.fromkeys(line.law for line in lines if line.accepted is not None):
        members = [line for line in lines if line.law == law]
        rows = []
        for rule in sorted(dict.fromkeys(line.rule for line in members), key=lambda name: name not in NAMES):
            by_k = {line.k: line for line in members if line.rule == rule and line.accepted is not None}
            if not by_k:  # named in the notes
                continue
            last = by_k[max(by_k)]
            failed = {line.k for line in members if line.rule == rule and line.method.startswith(NoAcceptance.RAISED)}
            cells = [cell(by_k[k]) if k in by_k else "error" if k in failed else "-" for k in ks]
            rows.append(([NAMES.get(rule, rule) + " (NOT LOSSLESS)" * last.refuted, *cells, _share_of(last)], False))
            if rule == "KSeq":
                least = [_sign(by_k[k]) + _share(by_k[k].least_share) if k in by_k else "-" for k in ks]
                rows.append((["minimum share over pairs", *least, ""], True))
                rows.append((["guarantee, 1 - (1 - 1/k)^k", *(_share(kseq_bound(k)) for k in ks), ""], True))
        yield _title(law), rows


def _title(law: str) -> str:
    """Heading of the section of a draft law, by its name on the command line; the name itself if it has none."""
    return "fixed tokens, draws outside them" if law.startswith("fixed:") else TITLES.get(law, law)


def _cell(line: Summary, longest_fraction: int = 12) -> str:
    if isinstance(line.accepted, Fraction) and len(str(line.accepted)) <= longest_fraction:
        return str(line.accepted)
    return f"{_sign(line)}{float(line.accepted):.4f}{_plus_minus(line, _error(line), True)}"


def _sign(line: Summary) -> str:
    return "≈" if line.method == "estimated" else ""


def _plus_minus(line: Summary, error: float, wanted: bool) -> str:
    """The standard error: always if the value is an estimate, also 0; else if it is wanted and not 0."""
    return f" ±{error:.4f}".replace("±0.", "±.") if _sign(line) or (wanted and error) else ""


def _share_of(line: Summary) -> str:
    """The share of the optimum; with its standard error if it rests on random drafts, when it may exceed 1."""
    if line.share is None:
        return "-"
    return f"{_sign(line)}{_share(line.share)}{_plus_minus(line, line.share_error, False)}"


def _error(line: Summary) -> float:
    return line.sampling_error if isnan(line.error) else line.error


def _share(value: Any) -> str:
    return "-" if value is None or isnan(value) else f"{float(value):.4f}"


def notes(lines: Sequence[Summary], study: Study, single: bool) -> str:
    """Notes on the signs in the table, with the options that change them, and the rules that are not shown."""
    shown = [line for line in lines if line.accepted is not None]
    named = {(line.law, line.rule) for line in shown}
    missing = [line for line in lines if line.accepted is None and (line.law, line.rule) in named]
    estimated = any(line.method == "estimated" for line in shown)
    said = {
        "TV: total variation distance of p and q. Acceptance: probability that the output token is one of the draft tokens.": True,
        "Optimum: the largest acceptance of any rule with this output distribution and draft law. Share: acceptance / optimum, at the"
        " largest k.": True,
        "Linear program: the same, computed by a solver.": any(
            line.rule == OptimumRow.LINEAR_PROGRAM for line in shown
        ),
        "±: standard error over texts, or over pairs without texts.": not single,
        f"≈: estimated from {study.samples} draft tuples per pair (--samples), ± standard error.": estimated,
        "-: no value for this k (reasons: --csv).": any(
            not line.method.startswith(NoAcceptance.RAISED) for line in missing
        ),
        f"error: {_errors(missing)}.": bool(_errors(missing)),
        "Minimum share and guarantee of K-SEQ: without tokens sampled from the residual distribution.": any(
            x.rule == "KSeq" for x in shown
        ),
        _left_out(lines, study.lp_limit): True,
        "To choose k by speed: ot-draft plan.": len(study.ks) > 1,
    }
    return " ".join(note for note, stands in said.items() if stands and note)


def _errors(lines: Sequence[Summary]) -> str:
    """The errors that rules raised, by rule and k."""
    told: dict[str, list[str]] = {}
    for line in lines:
        if line.method.startswith(NoAcceptance.RAISED):
            told.setdefault(f"{line.rule} {line.method.removeprefix('- ')}", []).append(str(line.k))
    return "; ".join(f"{said} (k = {', '.join(dict.fromkeys(ks))})" for said, ks in told.items())


def _left_out(lines: Sequence[Summary], lp_limit: float | None = None) -> str:
    """Which rules have no value at any k, and why; empty if there are none."""
    shown = {(line.law, line.rule) for line in lines if line.accepted is not None}
    reasons: dict[tuple[str, str], dict[str, list[int]]] = {}
    for line in lines:
        if (line.law, line.rule) not in shown:
            reasons.setdefault((line.law, line.rule), {}).setdefault(line.method, []).append(line.k)
    programs = "linear programs over the time limit" + ("" if lp_limit is None else f" of {lp_limit:g} s (--lp-limit)")
    words: dict[str, str] = {
        NoAcceptance.UNDEFINED: "the draft law is not defined for k = {}",
        NoAcceptance.TOO_LARGE: programs,
    }
    rules: dict[str, list[str]] = {}
    for (law, rule), methods in reasons.items():
        why = ", ".join(
            words.get(method, method.removeprefix("- ")).replace("{}", ", ".join(map(str, dict.fromkeys(ks))))
            for method, ks in methods.items()
        )
        twice = len({line.law for line in lines if line.rule == rule}) > 1
        rules.setdefault(why, []).append(NAMES.get(rule, rule) + (f" under {law}" if twice else ""))
    told = "; ".join(f"{', '.join(names)}: {why}" for why, names in rules.items())
    return f"Not shown: {told}." if told else ""


def latex(lines: Sequence[Summary], title: str) -> str:
    """The table for a paper, `booktabs`: acceptance with standard errors, and the share of the optimum at the largest k."""
    ks = sorted({line.k for line in lines})
    head = " & ".join(["rule", *(f"$k = {k}$" for k in ks), "share"])
    out = [f"% {title}", f"\\begin{{tabular}}{{l{'r' * (len(ks) + 1)}}}", "\\toprule", f"{head} \\\\"]
    in_math = str.maketrans({"±": r"\pm", "≈": r"\approx "})
    in_text = str.maketrans({sign: "\\" + sign for sign in "&%_#$"})
    for law, rows in _sections(lines, ks, lambda line: f"${_with_error(line)}$".translate(in_math)):
        out += ["\\midrule", f"\\multicolumn{{{len(ks) + 2}}}{{l}}{{\\emph{{{law.translate(in_text)}}}}} \\\\"]
        for (name, *cells, share), _ in rows:
            cells.append(f"${share}$".translate(in_math) if "≈" in share else share)
            words, _, formula = name.partition(", ") if name.startswith("guarantee") else (name, "", "")
            out.append(f"{words.translate(in_text)}{f', ${formula}$' if formula else ''} & {' & '.join(cells)} \\\\")
    left_out = [f"% {note}"] if (note := _left_out(lines)) else []
    return "\n".join([*out, "\\bottomrule", "\\end{tabular}", *left_out, ""])


def markdown(lines: Sequence[Summary], title: str) -> str:
    """The same as a table of Markdown."""
    ks = sorted({line.k for line in lines})
    out = [title, "", f"| rule | {' | '.join(f'k = {k}' for k in ks)} | share |", f"|---{'|---:' * (len(ks) + 1)}|"]
    for law, rows in _sections(lines, ks, _with_error):
        out.append(f"| **{law}** {'| ' * (len(ks) + 1)}|")
        out += [f"| {' | '.join([name, *cells])} |" for (name, *cells), _ in rows]
    left_out = ["", note] if (note := _left_out(lines)) else []
    return "\n".join([*out, *left_out, ""])


def _with_error(line: Summary) -> str:
    value, sign, _ = _cell(line).partition(" ±")
    return f"{value} ± {_error(line):.4f}" if sign else value


FORMS: dict[str, Callable[[Sequence[Summary], str], str]] = {
    "csv": lambda lines, title: csv_text(as_records(lines)),
    "latex": latex,
    "markdown": markdown,
}


def csv_text(rows: Sequence[Mapping[str, Any]], header: bool = True) -> str:
    """Rows of one kind, the names of their columns first."""
    stream = io.StringIO()
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
    return stream.getvalue()


def json_pieces(lines: Sequence[Summary], rows: Iterable[Row], pairs: PairsFound, study: Study) -> Iterator[str]:
    """The text of an object: settings, summary and, a record each, all pairs; what is unknown is null."""
    settings = {name: getattr(study, name) for name in ("ks", "samples", "seed", "lp_limit")}
    settings["target"] = study.target_name or None  # instead of p
    about = {"source": pairs.source, "n": pairs.n, "padding": pairs.padding, "settings": settings}
    yield json.dumps(about | {"summary": as_records(lines)}, indent=1, allow_nan=False)[:-2]
    before = ',\n "pairs": [\n  '
    for row in rows:
        yield before + json.dumps(_record(row), indent=1, allow_nan=False).replace("\n", "\n  ")
        before = ",\n  "
    yield "\n ]\n}\n"


def _record(record: Row | Summary) -> dict[str, Any]:
    """Fields by name; a Fraction as decimal, and under name_exact as it is; NaN as None."""
    out: dict[str, Any] = {}
    for name, value in asdict(record).items():
        exact = isinstance(value, Fraction)
        out[name] = float(value) if exact else None if value != value else value  # NaN alone differs from itself
        if name in ("accepted", "taken", "optimum"):
            out[f"{name}_exact"] = str(value) if exact else None
    return out | ({"share_error": record.share_error} if isinstance(record, Summary) else {})


def as_records(records: Iterable[Row | Summary], pairs: PairsFound | None = None) -> list[dict[str, Any]]:
    """The rows of summary.csv and pairs.csv: decimals, and the exact fractions where there are. pairs: for the labels of rows."""
    if pairs is None:
        return [_record(record) for record in records]
    places, entries = {index: row for row, index in enumerate(pairs.index)}, []
    for entry in map(_record, records):
        place = places[entry["pair"]]
        labels = {name: values[place] for name, values in pairs.labels.items()}
        entries.append({"pair": entry["pair"], "temperature": pairs.group[place], **labels, **entry})
    return entries
