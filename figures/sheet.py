"""Output media: a screen, or a column or page of a paper, with text of 8 to 9 points and legends below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from textwrap import fill
from typing import Any

from ot_draft.data.plotting import Entry

WIDTH, HEIGHT = 6.0, 4.2  # inches of one panel, including its direct labels
LETTERS = 84  # number of letters per line of a caption below one panel
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
ON_PAPER = {"font.size": 8.5, "axes.titlesize": 9, "svg.fonttype": "none", "pdf.fonttype": 42}  # text as text
PANEL = 2.2  # min. width of a panel on paper in inches


@dataclass(frozen=True)
class Sheet:
    """An output medium: a screen, or a paper with this column width in inches. caption: drawn below the figure."""

    inches: float | None = None
    caption: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of matplotlib."""
        return SETTINGS if self.inches is None else SETTINGS | ON_PAPER

    def grid(self, columns: int, rows: int, wide: float, least: float) -> tuple[int, int, tuple[float, float]]:
        """Return columns, rows and size in inches: on paper, as many panels per row as are legible."""
        if self.inches is None:
            return columns, rows, (WIDTH * columns * wide, HEIGHT * rows)
        most = max(1, int(self.inches / (least * wide)))
        fewer = next(count for count in range(min(most, columns), 0, -1) if columns % count == 0)
        rows *= columns // fewer
        return fewer, rows, (self.inches, rows * min(max(0.64 * self.inches / fewer, 2.1), 3.2))


PAPER = {"column": 3.35, "page": 7.0}  # inches
SCREEN = Sheet()
_sheet: ContextVar[Sheet] = ContextVar("sheet", default=SCREEN)


def current() -> Sheet:
    """Return the current medium."""
    return _sheet.get()


@contextmanager
def paper(width: str, caption: bool = False) -> Iterator[None]:
    """Draw the figures in this context for a paper: 'column' or 'page' wide, text of 8 to 9 points, not outlines."""
    before = _sheet.set(Sheet(PAPER[width], caption))
    try:
        yield
    finally:
        _sheet.reset(before)


def line_to(axes: Any, x: float, y: float, colour: str) -> Any:
    """Return the line for the legend: the one that ends at this point, else one of this colour."""
    from matplotlib.lines import Line2D

    ends = [line for line in axes.lines if len(line.get_xydata()) and line.get_color() == colour]
    ends.sort(key=lambda line: abs(line.get_xydata()[-1] - (x, y)).sum())
    like = ends[0] if ends else Line2D([], [], color=colour)
    return Line2D(
        [], [], color=colour, ls=like.get_linestyle(), marker=like.get_marker(), ms=4, lw=like.get_linewidth()
    )


def fit(figure: Any) -> None:
    """Adapt a figure to paper: legends, text of 8 to 9 points, wrapped titles, rotated tick labels if they overlap."""
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
        boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text() and text.get_visible()]
        if any(after.x0 < before.x1 for before, after in pairwise(sorted(boxes, key=lambda box: box.x0))):
            for text in axes.get_xticklabels():
                text.set(rotation=40, ha="right", rotation_mode="anchor")
    _add_legends(figure, getattr(figure, "legends_of", {}))


def _add_legends(figure: Any, legends: dict[Any, dict[str, Any]]) -> None:
    """Add one legend below all panels, which makes the figure higher; or one in each panel, if their names differ."""
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


def labels_beside(axes: Any, entries: Sequence[Entry], gap: float = 0.05, left: float = 1.05) -> None:
    """Write names next to their lines, at least `gap` of the axes' height apart, their left edge at `left` of its width.

    The order of heights is kept; a thin line connects each label and the end of its line. Call it after all panels are drawn:
    the limits of the axes must not change afterwards.
    """
    axes.get_xlim(), axes.get_ylim()  # matplotlib scales axes only on request
    wanted = sorted(entries, key=lambda entry: entry[1])
    to_axes = axes.transData + axes.transAxes.inverted()
    places = _spread([float(to_axes.transform((x, y))[1]) for x, y, _, _ in wanted], gap)
    for (x, y, name, colour), place in zip(wanted, places, strict=True):
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(left, place),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize="small",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)},
        )


def _spread(heights: list[float], gap: float) -> list[float]:
    """Return heights moved by a few sweeps until neighbours are `gap` apart."""
    places = list(heights)
    for _ in range(200):
        for i in range(len(places) - 1):
            short = gap - (places[i + 1] - places[i])
            if short > 1e-9:
                places[i] -= short / 2
                places[i + 1] += short / 2
    return places
