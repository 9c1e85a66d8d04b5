"""Tokens per target call of every drafting method on real models, by draft model, temperature and number of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures import style
from figures.about import About, Number
from llm_demo.bench.trees.summary import OURS, best_published, cells, over, ways_in

TREES = style.DATA / "real_trees.csv"
ROOTS = style.DATA / "real_trees_acceptance.csv"
SHOWN = 32  # number of nodes in the figure
LOOKS = {
    "one path, block": style.Look("#5F5F5F", "x", "-", "one path, block verification"),
    "chains, K-SEQ": style.Look("#56B4E9", "s", "-", "paths, K-SEQ"),
    "Sequoia": style.Look("#E69F00", "v", "-", "Sequoia's tree"),
    "Sequoia, traversal": style.Look("#B8860B", "^", "--", "Sequoia's tree, traversal"),
    "DySpec": style.Look("#CC79A7", "D", "-", "DySpec"),
    "EAGLE-2": style.Look("#009E73", "P", "-", "EAGLE-2's tree"),
    "adaptive, traversal": style.Look("#0072B2", "o", "--", "adaptive tree, traversal"),
    "counted, traversal": style.Look("#D55E00", "o", "-", "counted tree, traversal"),
    "counted and lookup, traversal": style.Look("#882255", "*", "-", "counted tree with lookup"),
}
ABOUT = About(
    title="The best way to spend N nodes",
    claim="At temperatures 0.3 to 1 the tree that samples by counted acceptance and adds prompt lookup is ahead of every "
    "published method on average. For a greedy target it is the adaptive tree. A tree that follows only the confidence of "
    "the draft model is good at low temperatures and loses a quarter at temperature 1.",
    source="this project",
)
CAPTION = """SmolLM2-135M-Instruct and five draft models: its two-layer draft model (embedded), and the target without 8, 4, 2, 1 of its
layers; in brackets mean sum min(p, q). {shown} drafted nodes, at most 12 levels. Expected tokens per target call given the
drafted trees, {texts} prompts or more, one position in each, the same for all methods; bars: one standard error over prompts
(differences between methods have smaller errors, see the table)."""


def compute(full: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """Return a row per draft model, temperature, number of nodes and method, from committed data."""
    shared = _overlaps()
    rows = []
    for (draft, temperature, nodes), of in cells(style.read(TREES)).items():
        about = {
            "draft": draft,
            "overlap": shared.get((draft, temperature), ""),
            "temperature": temperature,
            "nodes": nodes,
        }
        first = of.first
        for way in of.lengths:
            behind, error = of.behind(way, first)
            line = {
                "way": way,
                "tokens": 1 + of.mean(way),
                "error": of.error(way),
                "behind": behind,
                "behind_error": error,
            }
            rows.append(about | line | {"texts": of.texts})
    return rows


def numbers(rows: style.Rows) -> list[Number]:
    """Return each method of this project divided by the best published one at the temperature, mean over draft models and nodes."""
    found = cells(style.read(TREES))
    lines = []
    for temperature in sorted({temperature for _, temperature, _ in found}):
        at = {cell: of for cell, of in found.items() if cell[1] == temperature}
        rival = best_published(at)
        for way in (way for way in OURS if way in ways_in(at)):
            ratio, error = over(at, way, rival)
            what = f"tokens per target call, {way} over {rival}, mean over draft models and nodes, temperature {temperature:g}"
            unsure = "" if abs(ratio - 1) > 2 * error else " (indistinguishable)"
            lines.append(Number(what + unsure, ratio, error=error))
    return lines


def table(rows: style.Rows) -> str:
    """Return tokens per target call: a row per draft model, temperature and number of nodes, a column per method, the best in bold."""
    ways = tuple(dict.fromkeys(row["way"] for row in rows))
    lines = [("draft", "temperature", "nodes", *ways)]
    for of_cell in style.split(rows, "draft", "temperature", "nodes"):
        tokens = {row["way"]: float(row["tokens"]) for row in of_cell}
        best = max(tokens.values())
        shown = {way: f"**{mean:.2f}**" if mean == best else f"{mean:.2f}" for way, mean in tokens.items()}
        lines.append(
            (
                of_cell[0]["draft"],
                f"{float(of_cell[0]['temperature']):g}",
                of_cell[0]["nodes"],
                *(shown.get(way, "") for way in ways),
            )
        )
    return style.markdown(lines)


def draw(rows: style.Rows) -> Any:
    """Draw tokens per target call against the quality of the draft model, a panel per temperature."""
    shown = [row for row in rows if int(row["nodes"]) == SHOWN]
    caption = CAPTION.format(shown=SHOWN, texts=min(int(row["texts"]) for row in shown))
    panels_of = style.split(shown, "temperature")
    figure, panels = style.canvas(2, caption, rows=-(-len(panels_of) // 2))
    entries = []
    for axes, panel_rows in zip(panels, panels_of, strict=False):
        drafts = sorted({row["draft"] for row in panel_rows}, key=lambda name: _best(panel_rows, name))
        names: list[style.Entry] = []
        for way, look in LOOKS.items():
            points = {row["draft"]: row for row in panel_rows if row["way"] == way}
            y, bars = ([float(points[draft][column]) for draft in drafts] for column in ("tokens", "error"))
            style_of = {
                "color": look.colour,
                "marker": look.marker,
                "ls": look.line,
                "ms": 4,
                "lw": 1.2,
                "elinewidth": 0.6,
            }
            axes.errorbar(range(len(drafts)), y, bars, **style_of)
            names.append((len(drafts) - 1, y[-1], look.label, look.colour))
        axes.set_xticks(range(len(drafts)), [_tick(panel_rows, draft) for draft in drafts])
        axes.set(title=f"temperature {float(panel_rows[0]['temperature']):g}", ylabel="tokens per target call")
        axes.set_xlabel("draft model (mean of sum min(p, q))")
        entries.append(names)
    style.label(panels[: len(entries)], entries)
    return figure


def _best(rows: style.Rows, draft: str) -> float:
    return max(float(row["tokens"]) for row in rows if row["draft"] == draft)


def _tick(rows: style.Rows, draft: str) -> str:
    overlap = next(row["overlap"] for row in rows if row["draft"] == draft)
    name = draft.replace(" layer", "\nlayer")
    return f"{name}\n({float(overlap):.2f})" if overlap else name


def _overlaps() -> dict[tuple[str, float], float]:
    """Return the mean of sum min(p, q) at the roots, by draft and temperature."""
    found: dict[tuple[str, float], list[float]] = {}
    for row in style.read(ROOTS):
        found.setdefault((row["draft"], float(row["temperature"])), []).append(float(row["overlap"]))
    return {cell: float(np.mean(values)) for cell, values in found.items()}
