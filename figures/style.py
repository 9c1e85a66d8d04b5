"""One look for all pictures. The colour, marker and name of every rule are `ot_draft.pairs`'s, here is the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from textwrap import fill
from typing import Any

import ot_draft as ot
from figures.about import Number
from llm_demo.rows import read, write
from ot_draft.pairs.plotting import Entry, Look, direct_labels, plot_acceptance, pyplot
from ot_draft.pairs.plotting import look as look_of_rule
from ot_draft.pairs.tables import as_summaries

__all__ = [
    "ALL_BUT_PROGRAMS",
    "DATA",
    "SOLVERS",
    "Entry",
    "Look",
    "accepted_numbers",
    "canvas",
    "direct_labels",
    "label",
    "look",
    "markdown",
    "number",
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
    columns: int, caption: str, rows: int = 1, share_y: bool = True, wide: float = 1.0
) -> tuple[Any, Sequence[Any]]:
    """A figure of equal panels with a caption, broken into lines, below: (figure, panels in reading order).

    wide: width of a panel in units of the usual one.
    """
    plt = pyplot()
    plt.rcParams.update(SETTINGS)
    size = (WIDTH * columns * wide, HEIGHT * rows + 0.5)
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=share_y, layout="constrained")
    caption = fill(" ".join(caption.split()), int(LETTERS * columns * wide))
    figure.supxlabel(caption, fontsize=8, color="#444444", ha="left", x=0.01)
    return figure, list(panels.flat)


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


def save(figure: Any, out: Path, name: str) -> list[Path]:
    """name.svg and name.png under `out`; without dates, so that the same data give the same bytes."""
    files = [out / f"{name}{suffix}" for suffix in (".svg", ".png")]
    for file in files:
        figure.savefig(file, dpi=160, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None})
    pyplot().close(figure)
    return files


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
