"""How rules look in pictures: one colour, marker and name for each rule, everywhere; sizes for a paper; the picture of `compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from textwrap import fill
from typing import Any

from ..optional import load
from .study import DUAL
from .summary import Summary

Entry = tuple[float, float, str, str]  # x, y, name, colour

FORMATS = ("pdf", "svg", "png")
WIDTHS = {"column": 3.3, "page": 6.9}  # inches: of a column and of both in the usual two-column styles
PAPER = {  # sizes in points, of a picture that is printed at its own width
    "font.size": 8,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,  # text as text: fonts that every tool can edit and search
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Look:
    """Colour (Okabe and Ito's palette, safe for the colour-blind, and greys), marker, line and short name."""

    colour: str
    marker: str
    line: str
    label: str


LOOKS = {
    DUAL: Look("#000000", "", "-", "optimum, i.i.d. (rule Optimal)"),
    f"{DUAL} without-replacement": Look("#000000", "", ":", "optimum, without replacement"),
    f"{DUAL} hybrid:auto": Look("#332288", "*", "-.", "optimum, hybrid drafting, j from q"),
    "Optimal": Look("#000000", "o", "-", "Optimal"),
    "Optimal, 1024 classes": Look("#000000", "p", "--", "Optimal, 1,024 classes"),
    "FromCoupling": Look("#000000", "s", "-", "LP coupling"),
    "KSeq": Look("#D55E00", "o", "-", "K-SEQ"),
    "RecursiveRejection": Look("#E69F00", "v", "-", "recursive rejection"),
    "RecursiveRejectionWithoutReplacement": Look("#CC79A7", "^", "--", "recursive rejection, without replacement"),
    "ImportanceWeighted": Look("#009E73", "D", "-", "importance weighted"),
    "Greedy": Look("#0072B2", "s", "--", "greedy drafting"),
    "RandomOrder": Look("#882255", ">", "--", "random order, without replacement"),
    "SpecHub": Look("#56B4E9", "P", "--", "SpecHub"),
    "SpeculativeSampling": Look("#5F5F5F", "x", "-", "first draft only"),
    "NaiveTarget": Look("#A0A0A0", "+", "-", "naive target sampling"),
}

HIDDEN = ("Optimal", "FromCoupling")  # their lines are the optimum's


def look(rule: str) -> Look:
    """The look of a rule; grey dots for one that is not known here."""
    return LOOKS.get(rule, Look("#7F7F7F", ".", "-.", rule))


def pyplot() -> Any:
    """matplotlib.pyplot, drawing to files only; raises MissingPackage with the remedy."""
    mpl = load("matplotlib", "figures")
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "ot_draft"  # else every run writes other ids
    from matplotlib import pyplot

    return pyplot


def direct_labels(axes: Any, entries: Sequence[Entry], gap: float = 0.05, left: float = 1.05) -> None:
    """Names beside their lines, pushed apart to `gap` of the axes' height, their left edge at `left` of its width.

    The order of heights is kept; a thin line ties each label to where its line ends. Call it when all panels are drawn:
    the limits of the axes must not change any more.
    """
    axes.get_xlim(), axes.get_ylim()  # matplotlib scales axes when it is asked
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
    """Heights moved as little as a few sweeps need until neighbours are `gap` apart."""
    places = list(heights)
    for _ in range(200):
        for i in range(len(places) - 1):
            short = gap - (places[i + 1] - places[i])
            if short > 1e-9:
                places[i] -= short / 2
                places[i + 1] += short / 2
    return places


def plot_acceptance(axes: Any, lines: Sequence[Summary], names: bool = True) -> list[Entry]:
    """Mean acceptance against k with standard errors, a line a rule; returns what `direct_labels` takes.

    names: of rules for one k only stand in the picture; False where a legend has them.
    Rules that attain their law's optimum are drawn once: Optimal is the optimum's line, greedy drafting's optimum is Greedy's.
    """
    curves = list(_curves(lines))
    every_k = sorted({line.k for line in lines})
    step = (every_k[-1] / every_k[0]) ** 0.006
    entries: list[Entry] = []
    barred: set[tuple[int, float]] = set()  # where rules coincide, as all do at k = 1, one bar is drawn
    for number, (key, found) in enumerate(curves):
        style = look(key)
        dodge = step ** (number - len(curves) / 2)  # so that error bars do not hide each other
        places = [(line.k, round(float(line.accepted), 9)) for line in found]
        ks, means = [line.k * dodge for line in found], [float(line.accepted) for line in found]
        errors = [
            0.0 if isnan(line.error) or at in barred else line.error for line, at in zip(found, places, strict=True)
        ]
        barred.update(places)
        options = {"color": style.colour, "marker": style.marker or None, "ls": style.line, "ms": 4.5, "lw": 1.4}
        options["label"] = style.label
        axes.errorbar(ks, means, errors, elinewidth=0.8, zorder=3 if key.startswith(DUAL) else 2, **options)
        if len(found) == 1 and found[0].k < every_k[-1]:  # a law for one k only: its name stands below
            if names:
                _name_point(axes, ks[0], means[0], style)
        else:
            entries.append((ks[-1], means[-1], style.label, style.colour))
    axes.set_xscale("log", base=2)
    axes.set_xticks(every_k, [str(k) for k in every_k])
    axes.minorticks_off()
    axes.set(xlabel="number of drafts k", ylabel="acceptance")
    return entries


def _name_point(axes: Any, x: float, y: float, style: Look) -> None:
    place = {"xytext": (14, -35), "textcoords": "offset points", "fontsize": "small", "va": "center"}
    line = {"arrowstyle": "-", "color": style.colour, "lw": 0.5, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
    axes.annotate(style.label, (x, y), color=style.colour, arrowprops=line, **place)


def _curves(lines: Sequence[Summary]) -> Iterator[tuple[str, list[Summary]]]:
    """The lines that are drawn, by the key of their look."""
    for rule, law in dict.fromkeys((line.rule, line.law) for line in lines):
        found = [line for line in lines if (line.rule, line.law) == (rule, law) and line.accepted is not None]
        key = f"{rule} {law}" if rule == DUAL and law != "iid" else rule
        if found and key in LOOKS and key not in HIDDEN:
            yield key, found


def save_plot(
    lines: Sequence[Summary],
    file: Path,
    formats: Sequence[str] = ("svg", "png"),
    width: str = "page",
    caption: str = "",
) -> list[Path]:
    """The picture of a comparison in the formats, one panel a group, as wide as a column or a page; caption: below it, or ""."""
    plt = pyplot()
    groups = list(dict.fromkeys(line.group for line in lines))
    with plt.rc_context(PAPER):
        figure, panels = _panels(plt, len(groups), width)
        for axes, group in zip(panels, groups, strict=True):
            members = [line for line in lines if line.group == group]
            plot_acceptance(axes, members, names=False)
            title = f"{members[0].pairs:,} pair{'s' * (members[0].pairs > 1)}"
            axes.set_title(f"{title}, temperature {group}" if group else title)
        legend = panels[0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower left", ncols=2 if width == "page" else 1, frameon=False)
        if caption:
            figure.suptitle(fill(caption, int(WIDTHS[width] * 17)), x=0.01, ha="left", fontsize=8, color="#444444")
        return save_figure(figure, file, formats)


def _panels(plt: Any, count: int, width: str) -> tuple[Any, list[Any]]:
    """Two panels in a row on a page, one in a column, and room for a legend below."""
    across = min(count, 2) if width == "page" else 1
    down = -(-count // across)
    size = (WIDTHS[width], 2.4 * down + (1.1 if width == "page" else 1.8))
    figure, panels = plt.subplots(down, across, figsize=size, squeeze=False, sharey=True, layout="constrained")
    for axes in panels.flat[count:]:
        axes.remove()
    return figure, list(panels.flat[:count])


def save_figure(figure: Any, file: Path, formats: Sequence[str], dpi: int = 200) -> list[Path]:
    """The figure as file.pdf and so on, at its own size; without dates, so that the same data give the same bytes."""
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}
    written = [file.with_suffix(f".{name}") for name in formats]
    for path, name in zip(written, formats, strict=True):
        figure.savefig(path, dpi=dpi, metadata=dates[name])
    pyplot().close(figure)
    return written
