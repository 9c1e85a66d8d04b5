"""Common style of all figures. Colour, marker and name of every rule are in `ot_draft.data`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from html import unescape
from pathlib import Path
from textwrap import fill
from typing import Any

import ot_draft as otd
from figures.about import Number, as_summaries
from figures.sheet import LETTERS, PANEL, PAPER, WIDTH, current, fit, labels_beside, line_to, paper
from llm_demo.rows import read, write
from ot_draft.data.plotting import Entry, Look, pyplot
from ot_draft.data.plotting import look as look_of_rule
from ot_draft.data.plotting import plot_acceptance as draw_acceptance
from ot_draft.data.summary import Summary

__all__ = [
    "ALL_BUT_PROGRAMS",
    "DATA",
    "PAPER",
    "SOLVERS",
    "Entry",
    "Look",
    "accepted_numbers",
    "canvas",
    "caption_of",
    "direct_labels",
    "label",
    "look",
    "markdown",
    "number",
    "paper",
    "plot_acceptance",
    "read",
    "save",
    "split",
    "write",
]

DATA = Path(__file__).parent / "data"  # committed data; its README has the commands
# Solvers are not rules: they have shades of purple, and different markers.
SOLVERS = {
    "highs": Look("#762A83", "o", "-", "LP: HiGHS (scipy)"),
    "cvxpy": Look("#9970AB", "s", "-", "LP: Clarabel (cvxpy)"),
    "pulp": Look("#C2A5CF", "^", "-", "LP: CBC (pulp)"),
    "flow": Look("#40004B", "D", "-", "LP: exact flow (Python)"),
}
# Shared randomness instead of a rule, hence not among the styles of rules.
RACES = {
    "list-level race": Look("#117733", "", "-", "list-level race"),
    "its lower bound": Look("#117733", "", ":", "list matching lemma"),
}
DESCRIPTION = re.compile(r"<dc:description>(.*?)</dc:description>", re.DOTALL)
FIRST_OF_ALL = ("optimum", "KSeq", "RecursiveRejection")

Rows = list[dict[str, str]]

# Rules from linear programs coincide with the optima; hybrid drafting with j chosen from q is added.
ALL_BUT_PROGRAMS = (
    *(rule for rule in otd.rules.ALL if not rule.cost.solves_program),
    otd.rules.Optimal(otd.Hybrid("auto")),
)


def look(name: str) -> Look:
    """Return the style of a rule, an optimum or a race: one colour for each, in all figures."""
    return RACES.get(name) or look_of_rule(name)


def canvas(
    columns: int, caption: str, rows: int = 1, share_y: bool = True, wide: float = 1.0, least: float = PANEL
) -> tuple[Any, Sequence[Any]]:
    """Return a figure of equal panels with its caption: (figure, panels in reading order). The report shows the caption.

    wide: width of a panel in units of the usual one. least: inches, of these units, that its text needs on paper.
    """
    plt, sheet = pyplot(), current()
    plt.rcdefaults()
    plt.rcParams.update(sheet.settings)
    columns, rows, size = sheet.grid(columns, rows, wide, least)
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=share_y, layout="constrained")
    figure.caption = " ".join(caption.split())
    if sheet.caption:
        letters = int(LETTERS * size[0] / WIDTH)
        figure.supxlabel(fill(figure.caption, letters), fontsize=8, color="#444444", ha="left", x=0.01)
    return figure, list(panels.flat)


def plot_acceptance(axes: Any, lines: Sequence[Summary]) -> list[Entry]:
    """Draw the figure of `ot-draft compare`, names of rules for one k only below their points. Return the input of `direct_labels`."""
    ends, points = draw_acceptance(axes, lines)
    for x, y, name, colour in points:
        place = {"xytext": (14, -35), "textcoords": "offset points", "fontsize": "small", "va": "center"}
        line = {"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
        axes.annotate(name, (x, y), color=colour, arrowprops=line, **place)
    return ends


def direct_labels(axes: Any, entries: Sequence[Entry], **places: float) -> None:
    """Write names next to their lines on a screen; on paper, one legend below all panels."""
    if current().inches is None:
        labels_beside(axes, entries, **places)
        return
    legend = axes.figure.__dict__.setdefault("legends_of", {}).setdefault(axes, {})
    for x, y, name, colour in entries:
        legend.setdefault(name, line_to(axes, x, y, colour))


def label(panels: Sequence[Any], entries: Sequence[Sequence[Entry]]) -> None:
    """Add direct labels to every panel, after all are drawn."""
    for axes, panel_entries in zip(panels, entries, strict=True):
        direct_labels(axes, panel_entries)


def acceptance_by_temperature(rows: Rows, caption: str) -> Any:
    """Draw acceptance against k of every rule, a panel per pair of models and temperature."""
    parts = split(rows, "pair", "group")
    figure, panels = canvas(2, caption, rows=len(parts) // 2, share_y=False)
    entries = []
    for axes, part in zip(panels, parts, strict=True):
        lines = as_summaries(part)
        entries.append(plot_acceptance(axes, lines))
        axes.set_title(f"{part[0]['pair']}\ntemperature {lines[0].group}, {lines[0].pairs} contexts")
    for left, right in zip(panels[::2], panels[1::2], strict=True):
        low, high = (limits(axes.get_ylim()[side] for axes in (left, right)) for side, limits in ((0, min), (1, max)))
        for axes in (left, right):
            axes.set_ylim(low, high + (high - low) / 8)  # room for the names of lines that end at the top
            top = min(axes.get_ylim()[1], 1 + 1e-9)  # the largest probability
            axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= top])
    label(panels, entries)
    return figure


def save(figure: Any, out: Path, name: str, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write name.svg and name.png to `out`, with the caption and without dates: equal data give equal bytes."""
    on_paper = current().inches is not None
    if on_paper:
        fit(figure)
    files = [out / f"{name}.{kind}" for kind in formats]
    about = {
        "svg": {"Date": None, "Description": figure.caption},
        "png": {"Software": None, "Description": figure.caption},
        "pdf": {"CreationDate": None, "Subject": figure.caption},
    }
    for kind, file in zip(formats, files, strict=True):
        figure.savefig(file, dpi=300 if on_paper else 160, metadata=about[kind])
        figure.set_layout_engine("none")  # the other formats keep the layout, which takes half of the time
    pyplot().close(figure)
    return files


def caption_of(svg: Path) -> str:
    """Return the caption in an image file."""
    found = DESCRIPTION.search(svg.read_text(encoding="utf-8"))
    return unescape(found[1]) if found else ""


def number(text: str) -> float:
    """Return the float of a text such as 1/3 or 0.25."""
    return float(Fraction(text))


def split(rows: Rows, *names: str) -> list[Rows]:
    """Return the rows grouped by these columns, in order of first appearance."""
    parts: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(parts.values())


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as a Markdown table; the first is the header."""
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *body, ""])


def accepted_numbers(rows: Rows, k: str, name: Callable[[str], str]) -> list[Number]:
    """Return optimum, K-SEQ and recursive rejection for k i.i.d. draft tokens from a comparison; name: label of a group."""
    chosen = [row for row in rows if row["k"] == k and row["law"] == "iid" and row["rule"] in FIRST_OF_ALL]
    return [
        Number(
            f"{name(row['group'])}, k = {k}: {look(row['rule']).label}",
            float(row["accepted"]),
            error=float(row["error"]),
        )
        for row in chosen
    ]
