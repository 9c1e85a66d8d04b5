"""Acceptance divided by the optimum against the quality of the draft model, from weak to nearly the target, on real distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures import style
from figures.about import About, Number

ROOTS = style.DATA / "real_trees_acceptance.csv"
OPTIMUM = "Optimal"
RULES = ("SpeculativeSampling", "RecursiveRejection", "KSeq", "RecursiveRejectionWithoutReplacement")
LINES = {"1.0": "-", "0.6": "--", "0.3": ":"}
ABOUT = About(
    title="Acceptance against the draft's quality",
    claim="Using one draft token instead of k is farthest from the optimum. Recursive rejection stays within 12 % of the optimum "
    "and K-SEQ within 8 % on these distributions, from a weak draft model to one that is nearly the target.",
    source="this project",
)
CAPTION = """Acceptance of a rule divided by the optimum of k i.i.d. draft tokens: ratio of means over the same {contexts} contexts for
each of five draft models of SmolLM2-135M-Instruct, its two-layer draft model and the target without 8, 4, 2, 1 layers.
Temperature 1 solid, 0.6 dashed, 0.3 dotted. Bars: one standard error over sequences, at temperature 1. Exact except for
draft tokens without replacement, sampled once per context."""


def compute(full: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """Return a row per temperature, draft model, k and rule, from committed data."""
    rows = []
    for of in style.split(style.read(ROOTS), "temperature", "draft", "k"):
        about = {name: of[0][name] for name in ("temperature", "draft", "k")}
        overlap, optimum = (np.array([float(row[name]) for row in of]) for name in ("overlap", OPTIMUM))
        for rule in RULES:
            ratio, error = ratio_of_means(np.array([float(row[rule]) for row in of]), optimum)
            line = {
                "overlap": float(overlap.mean()),
                "rule": rule,
                "over_optimum": ratio,
                "error": error,
                "contexts": len(of),
            }
            rows.append(about | line)
    return rows


def ratio_of_means(values: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Return the ratio of two means over the same contexts, and its standard error to first order."""
    ratio = float(values.mean() / others.mean())
    slopes = (values - ratio * others) / others.mean()
    return ratio, float(slopes.std(ddof=1) / np.sqrt(len(slopes)))


def numbers(rows: style.Rows) -> list[Number]:
    """Return the smallest share of the optimum of each rule."""
    lines = []
    for of_rule in style.split(rows, "rule", "k"):
        least = min(of_rule, key=lambda row: float(row["over_optimum"]))
        where = f"{least['draft']}, temperature {least['temperature']}"
        what = f"acceptance over the optimum, {style.look(least['rule']).label}, k = {least['k']}: least, with {where}"
        lines.append(Number(what, float(least["over_optimum"]), error=float(least["error"])))
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw a panel per k: share of the optimum against the mean of sum min(p, q)."""
    ks = list(dict.fromkeys(row["k"] for row in rows))
    caption = CAPTION.format(contexts=min(int(row["contexts"]) for row in rows))
    figure, panels = style.canvas(len(ks), caption)
    entries: list[list[style.Entry]] = []
    for axes, k in zip(panels, ks, strict=True):
        names: list[style.Entry] = []
        for line in style.split([row for row in rows if row["k"] == k], "rule", "temperature"):
            points = sorted(line, key=lambda row: float(row["overlap"]))
            x, y, bars = ([float(row[name]) for row in points] for name in ("overlap", "over_optimum", "error"))
            look, temperature = style.look(points[0]["rule"]), points[0]["temperature"]
            drawn = {"color": look.colour, "ls": LINES[temperature], "lw": 1.1, "ms": 3.5, "marker": look.marker}
            if temperature == "1.0":
                axes.errorbar(x, y, bars, elinewidth=0.6, **drawn)
                names.append((x[-1], y[-1], look.label, look.colour))
            else:
                axes.plot(x, y, **drawn)
        axes.axhline(1, color="#000000", lw=0.8)
        axes.set(title=f"k = {k}", xlabel="mean of sum min(p, q)")
        entries.append(names)
    panels[0].set_ylabel("acceptance / optimum")
    style.label(panels, entries)
    return figure
