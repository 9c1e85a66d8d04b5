"""Gain of a second draft token against the acceptance of the first one, on real pairs. For figures/acceptance/second_draft.py."""

from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number
from ot_draft.data import read_pairs

FILE = style.DATA / "smollm2_pairs.npz"
ABOUT = About(
    title="The gain of a second draft token",
    claim="A second draft token gains most where the first one is accepted about half of the time.",
    source="this project",
)
CAPTION = "Optimal acceptance with one and two i.i.d. drafts, a dot per pair: {pairs} real pairs (figures/data)."


def compute(full: bool = False, jobs: int = 1, limit: int = 40) -> list[dict[str, Any]]:
    """A row for each pair: optimal acceptance with one and with two drafts."""
    pairs = read_pairs(FILE) if full else read_pairs(FILE).first(limit)
    one, two = (otd.optimal_acceptance(pairs.p, pairs.q, k) for k in (1, 2))
    return [{"one": a, "two": b} for a, b in zip(one, two, strict=True)]


def numbers(rows: style.Rows) -> list[Number]:
    """The mean gain, for the report: give `published` where a paper has the same number, and `note` where they differ by over 10 %."""
    gains = [float(row["two"]) - float(row["one"]) for row in rows]
    return [Number("mean gain of a second draft", np.mean(gains), error=np.std(gains, ddof=1) / len(gains) ** 0.5)]


def draw(rows: style.Rows) -> Any:
    """One panel."""
    figure, (axes,) = style.canvas(1, CAPTION.format(pairs=len(rows)))
    one, two = ([float(row[name]) for row in rows] for name in ("one", "two"))
    axes.plot(one, np.subtract(two, one), "o", color=style.look("Optimal").colour, ms=4)
    axes.set(xlabel="acceptance with one draft", ylabel="gain of the second draft")
    return figure
