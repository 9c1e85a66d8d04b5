"""How rules look in pictures: one colour, marker and name for each rule, everywhere; sizes for a paper; the picture of `compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from textwrap import fill
from typing import Any

from ..optional import load
from .study import OptimumRow
from .summary import Summary

__all__ = ["Entry", "Look", "look", "plot_acceptance", "pyplot"]

Entry = tuple[float, float, str, str]  # x, y, name, colour

FORMATS = ("pdf", "svg", "png")
WIDTHS = {"column": 3.3, "page": 6.9}  # inches: of a column and of both in the usual two-column styles


@dataclass(frozen=True)
class Look:
    """Colour (Okabe and Ito's palette, safe for the colour-blind, and greys), marker, line and short name."""

    colour: str
    marker: str
    line: str
    label: str


LOOKS: dict[str, Look] = {
    OptimumRow.DUAL: Look("#000000", "", "-", "optimum, i.i.d. (rule Optimal)"),
    f"{OptimumRow.DUAL} without-replacement": Look("#000000", "", ":", "optimum, without replacement"),
    f"{OptimumRow.DUAL} hybrid:auto": Look("#332288", "*", "-.", "optimum, hybrid drafting, j from q"),
    "Optimal": Look("#000000", "o", "-", "Optimal"),
    "Optimal, 1024 classes": Look("#000000", "p", "--", "Optimal, 1,024 classes"),
    "FromCoupling": Look("#000000", "s", "-", "LP coupling"),
    "KSeq": Look("#D55E00", "o", "-", "K-SEQ"),
    "RecursiveRejection": Look("#E69F00", "v", "-", "recursive rejection"),
    "RecursiveRejectionWithoutReplacement": Look("#CC79A7", "^", "--", "recursive rejection, without replacement"),
    "ImportanceWeighted": Look("#009E73", "D", "-", "importance weighted"),
    "Greedy": Look("#0072B2", "s", "--", "greedy drafting"),
    "HeadAndTail": Look("#AA4499", "d", "-", "head and tail, without replacement"),
    "RandomOrder": Look("#882255", ">", "--", "random order, without replacement"),
    "GumbelCoupling": Look("#117733", "<", "--", "one race, without replacement"),
    "ListCoupling": Look("#999933", "h", "-", "one race per draft token"),
    "SpecHub": Look("#56B4E9", "P", "--", "SpecHub"),
    "SpeculativeSampling": Look("#5F5F5F", "x", "-", "first draft only"),
    "NaiveTarget": Look("#A0A0A0", "+", "-", "naive sampling"),
}


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


def plot_acceptance(axes: Any, lines: Sequence[Summary]) -> tuple[list[Entry], list[Entry]]:
    """Mean acceptance against k with standard errors, a line a rule; where the lines end, and points of rules for one smaller k.

    Rules that attain the optimum of their draft law are drawn once: Optimal is the optimum's line, greedy drafting's optimum is Greedy's.
    """
    curves = list(_curves(lines))
    own = [key for key, _ in curves if key not in LOOKS]
    every_k = sorted({line.k for line in lines})
    step = (every_k[-1] / every_k[0]) ** 0.006
    ends: list[Entry] = []
    points: list[Entry] = []
    barred: set[tuple[int, float]] = set()  # where rules coincide, as all do at k = 1, one bar is drawn
    for number, (key, found) in enumerate(curves):
        style = replace(look(key), colour="#DD0000", marker="*pX8H"[own.index(key) % 5]) if key in own else look(key)
        dodge = step ** (number - len(curves) / 2)  # so that error bars do not hide each other
        places = [(line.k, round(float(line.accepted), 9)) for line in found]
        ks, means = [line.k * dodge for line in found], [float(line.accepted) for line in found]
        seen = zip(found, places, strict=True)
        errors = [0.0 if isnan(line.error) or at in barred else line.error for line, at in seen]
        barred.update(places)
        options = {"color": style.colour, "marker": style.marker or None, "ls": style.line, "ms": 4.5, "lw": 1.4}
        options["label"] = style.label
        axes.errorbar(ks, means, errors, elinewidth=0.8, zorder=3 if key.startswith(OptimumRow.DUAL) else 2, **options)
        single = len(found) == 1 and found[0].k < every_k[-1]
        (points if single else ends).append((ks[-1], means[-1], style.label, style.colour))
    axes.set_xscale("log", base=2)
    axes.set_xticks(every_k, [str(k) for k in every_k])
    axes.minorticks_off()
    axes.set(xlabel="number of draft tokens k", ylabel="acceptance probability")
    return ends, points


def _curves(lines: Sequence[Summary]) -> Iterator[tuple[str, list[Summary]]]:
    """The lines that are drawn, by the key of their look."""
    for rule, law in dict.fromkeys((line.rule, line.law) for line in lines):
        found = [line for line in lines if (line.rule, line.law) == (rule, law) and line.accepted is not None]
        key = f"{rule} {law}" if rule == OptimumRow.DUAL and law != "iid" else rule
        on_optimum = key in ("Optimal", "FromCoupling")  # their lines are the optimum's
        if found and not on_optimum and (key in LOOKS or rule not in set(OptimumRow)):
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
    # Sizes in points of a plot that is printed at its own width. Text stays text: fonts that every tool can edit and search.
    style = {
        "font.size": 8, "axes.titlesize": 9, "legend.fontsize": 8, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.grid.axis": "y", "grid.alpha": 0.3, "grid.linewidth": 0.6, "pdf.fonttype": 42, "svg.fonttype": "none",
    }  # fmt: skip
    with plt.rc_context(style):
        # Two panels in a row on a page, one in a column, and room for a legend below.
        across = min(len(groups), 2) if width == "page" else 1
        down = -(-len(groups) // across)
        size = (WIDTHS[width], 2.4 * down + (1.1 if width == "page" else 1.8))
        figure, places = plt.subplots(down, across, figsize=size, squeeze=False, sharey=True, layout="constrained")
        panels, unused = places.flat[: len(groups)], places.flat[len(groups) :]
        for axes in unused:
            axes.remove()
        for axes, group in zip(panels, groups, strict=True):
            members = [line for line in lines if line.group == group]
            plot_acceptance(axes, members)
            title = f"{members[0].pairs:,} pair{'s' * (members[0].pairs > 1)}"
            axes.set_title(f"{title}, temperature {group}" if group else title)
        legend = panels[0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower left", ncols=2 if width == "page" else 1, frameon=False)
        if caption:
            figure.suptitle(fill(caption, int(WIDTHS[width] * 17)), x=0.01, ha="left", fontsize=8, color="#444444")
        return save_figure(figure, file, formats)


def save_figure(figure: Any, file: Path, formats: Sequence[str], dpi: int = 200) -> list[Path]:
    """The figure as file.pdf and so on, at its own size; without dates, so that the same data give the same bytes."""
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}
    written = [file.with_suffix(f".{name}") for name in formats]
    for path, name in zip(written, formats, strict=True):
        figure.savefig(path, dpi=dpi, metadata=dates[name])
    pyplot().close(figure)
    return written
