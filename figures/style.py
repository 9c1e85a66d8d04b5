"""One look for all pictures. The colour, marker and name of every rule are `ot_draft.pairs`'s, here is the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from html import unescape
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

import ot_draft as ot
from figures.about import Number
from llm_demo.rows import read, write
from ot_draft.pairs import Entry, Look, as_summaries, plot_acceptance, pyplot
from ot_draft.pairs import direct_labels as labels_beside
from ot_draft.pairs import look as look_of_rule

__all__ = [
    "ALL_BUT_PROGRAMS",
    "DATA",
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

DATA = Path(__file__).parent / "data"  # what is committed, and made as its README says
WIDTH, HEIGHT = 6.0, 4.2  # inches of one panel, its direct labels included
LETTERS = 84  # of a caption below one panel
# Solvers are no rules: they share purples, dark to light, and differ by markers, too.
SOLVERS = {
    "highs": Look("#762A83", "o", "-", "LP: HiGHS (scipy)"),
    "cvxpy": Look("#9970AB", "s", "-", "LP: Clarabel (cvxpy)"),
    "pulp": Look("#C2A5CF", "^", "-", "LP: CBC (pulp)"),
    "flow": Look("#40004B", "D", "-", "LP: exact flow (Python)"),
}
# Shared randomness instead of a rule; not valid as one, hence not among the rules' looks.
RACES = {
    "list-level race": Look("#117733", "", "-", "list-level race"),
    "its lower bound": Look("#117733", "", ":", "list matching lemma"),
}
SETTINGS = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "svg.hashsalt": "ot_draft",
}

DESCRIPTION = re.compile(r"<dc:description>(.*?)</dc:description>", re.DOTALL)


ON_PAPER = {"font.size": 8.5, "axes.titlesize": 9, "svg.fonttype": "none", "pdf.fonttype": 42}  # text as text
PANEL = 2.2  # inches that a panel needs at least, on paper


@dataclass(frozen=True)
class Sheet:
    """What pictures are drawn for: a screen, or a paper whose column is so many inches wide. caption: drawn below, too."""

    inches: float | None = None
    caption: bool = False

    def grid(self, columns: int, rows: int, wide: float, least: float) -> tuple[int, int, tuple[float, float]]:
        """Columns, rows and size in inches: on paper, as many panels stand side by side as can be read."""
        if self.inches is None:
            return columns, rows, (WIDTH * columns * wide, HEIGHT * rows)
        most = max(1, int(self.inches / (least * wide)))
        fewer = next(count for count in range(min(most, columns), 0, -1) if columns % count == 0)
        rows *= columns // fewer
        return fewer, rows, (self.inches, rows * min(max(0.64 * self.inches / fewer, 2.1), 3.2))


PAPER = {"column": 3.35, "page": 7.0}  # inches
SCREEN = Sheet()
_sheet: ContextVar[Sheet] = ContextVar("sheet", default=SCREEN)

FIRST_OF_ALL = ("optimum", "KSeq", "RecursiveRejection")

Rows = list[dict[str, str]]

# The rules read off programs lie on the lines of the optima; hybrid drafting with j chosen from q is added.
ALL_BUT_PROGRAMS = (
    *(rule for rule in ot.rules.ALL if not rule.solves),
    ot.rules.Optimal(ot.Hybrid("auto")),
)


def look(name: str) -> Look:
    """The look of a rule, an optimum or a race: one colour for each, in all pictures."""
    return RACES.get(name) or look_of_rule(name)


def canvas(
    columns: int, caption: str, rows: int = 1, share_y: bool = True, wide: float = 1.0, least: float = PANEL
) -> tuple[Any, Sequence[Any]]:
    """A figure of equal panels, which carries its caption: (figure, panels in reading order). The page shows the caption.

    wide: width of a panel in units of the usual one. least: inches, of these units, that its text needs on paper.
    """
    plt, sheet = pyplot(), _sheet.get()
    plt.rcdefaults()
    plt.rcParams.update(SETTINGS if sheet.inches is None else SETTINGS | ON_PAPER)
    columns, rows, size = sheet.grid(columns, rows, wide, least)
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=share_y, layout="constrained")
    figure.caption = " ".join(caption.split())
    if sheet.caption:
        letters = int(LETTERS * size[0] / WIDTH)
        figure.supxlabel(fill(figure.caption, letters), fontsize=8, color="#444444", ha="left", x=0.01)
    return figure, list(panels.flat)


@contextmanager
def paper(width: str, caption: bool = False) -> Iterator[None]:
    """Pictures drawn inside are for a paper: 'column' or 'page' wide, text as text of 8 to 9 points."""
    before = _sheet.set(Sheet(PAPER[width], caption))
    try:
        yield
    finally:
        _sheet.reset(before)


def direct_labels(axes: Any, entries: Sequence[Entry], **places: float) -> None:
    """Names beside their lines on a screen; on paper, where there is no room, one legend below all panels."""
    if _sheet.get().inches is None:
        labels_beside(axes, entries, **places)
        return
    legend = axes.figure.__dict__.setdefault("legends_of", {}).setdefault(axes, {})
    for x, y, name, colour in entries:
        legend.setdefault(name, _line_to(axes, x, y, colour))


def _line_to(axes: Any, x: float, y: float, colour: str) -> Any:
    """What the legend shows of a line: that which ends at this point, else one of its colour."""
    from matplotlib.lines import Line2D

    ends = [line for line in axes.lines if len(line.get_xydata()) and line.get_color() == colour]
    ends.sort(key=lambda line: abs(line.get_xydata()[-1] - (x, y)).sum())
    like = ends[0] if ends else Line2D([], [], color=colour)
    return Line2D(
        [], [], color=colour, ls=like.get_linestyle(), marker=like.get_marker(), ms=4, lw=like.get_linewidth()
    )


def label(panels: Sequence[Any], entries: Sequence[Sequence[Entry]]) -> None:
    """Direct labels in every panel, once all of them are drawn."""
    for axes, panel_entries in zip(panels, entries, strict=True):
        direct_labels(axes, panel_entries)


def acceptance_by_temperature(rows: Rows, caption: str) -> Any:
    """Acceptance against k of every rule, a panel a temperature."""
    lines = as_summaries(rows)
    figure, panels = canvas(2, caption)
    entries = []
    for axes, group in zip(panels, dict.fromkeys(line.group for line in lines), strict=True):
        group_lines = [line for line in lines if line.group == group]
        entries.append(plot_acceptance(axes, group_lines))
        axes.set_title(f"temperature {group}, {group_lines[0].pairs} contexts")
    label(panels, entries)
    return figure


def save(figure: Any, out: Path, name: str, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """name.svg and name.png under `out`; without dates, so that the same data give the same bytes. The files hold the caption."""
    on_paper = _sheet.get().inches is not None
    if on_paper:
        _fit(figure)
    files = [out / f"{name}.{kind}" for kind in formats]
    about = {
        "svg": {"Date": None, "Description": figure.caption},
        "png": {"Software": None, "Description": figure.caption},
        "pdf": {"CreationDate": None, "Subject": figure.caption},
    }
    for kind, file in zip(formats, files, strict=True):
        figure.savefig(file, dpi=300 if on_paper else 160, metadata=about[kind])
    pyplot().close(figure)
    return files


def _fit(figure: Any) -> None:
    """For paper: legends, no text below 8 points nor above 9, long titles broken, tick labels that would meet turned."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_fontsize(min(max(text.get_fontsize(), 8), 9))
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_position()
        wide, high = box.width * figure.get_figwidth(), box.height * figure.get_figheight()
        for text, inches in ((axes.title, wide), (axes.xaxis.label, wide), (axes.yaxis.label, high)):
            if "$" not in text.get_text():
                lines = text.get_text().splitlines()
                text.set_text("\n".join(fill(line, max(int(inches * 14), 16)) for line in lines))
        places = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text() and text.get_visible()]
        if any(after.x0 < before.x1 for before, after in pairwise(sorted(places, key=lambda box: box.x0))):
            for text in axes.get_xticklabels():
                text.set(rotation=40, ha="right", rotation_mode="anchor")
    _add_legends(figure, getattr(figure, "legends_of", {}))


def _add_legends(figure: Any, legends: dict[Any, dict[str, Any]]) -> None:
    """One below all panels, which makes the picture higher; where names differ from panel to panel, one in each."""
    names = {name: line for legend in legends.values() for name, line in legend.items()}
    if len(names) > 2 * max(map(len, legends.values()), default=0):
        for axes, legend in legends.items():
            axes.legend(list(legend.values()), list(legend), fontsize=8, framealpha=0.6, borderpad=0.2)
    elif names:
        for columns in range(5, 0, -1):
            legend = figure.legend(
                list(names.values()),
                list(names),
                loc="outside lower center",
                ncols=columns,
                frameon=False,
                fontsize=8,
                columnspacing=1.2,
            )
            box = legend.get_window_extent()
            if box.width <= figure.bbox.width or columns == 1:
                break
            legend.remove()
        figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)


def caption_of(svg: Path) -> str:
    """The caption that a picture holds."""
    found = DESCRIPTION.search(svg.read_text(encoding="utf-8"))
    return unescape(found[1]) if found else ""


def number(text: str) -> float:
    """1/3 and 0.25 alike."""
    return float(Fraction(text))


def split(rows: Rows, *names: str) -> list[Rows]:
    """The rows that agree in these columns together, in order of first appearance."""
    parts: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(parts.values())


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as a table, the first one its head."""
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *body, ""])


def accepted_numbers(rows: Rows, k: str, name: Callable[[str], str]) -> list[Number]:
    """Optimum, K-SEQ and recursive rejection for k i.i.d. drafts, out of the rows of a comparison; name: of a group."""
    chosen = [row for row in rows if row["k"] == k and row["law"] == "iid" and row["rule"] in FIRST_OF_ALL]
    return [
        Number(
            f"{name(row['group'])}, k = {k}: {look(row['rule']).label}",
            float(row["accepted"]),
            error=float(row["error"]),
        )
        for row in chosen
    ]
