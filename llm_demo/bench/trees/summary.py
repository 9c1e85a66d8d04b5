"""What the table of ways says: means, which way wins in every cell, and by how much, with errors of differences on the same contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ABOUT = ("text", "kind", "temperature", "draft")  # columns that say what a row is about
LOOKUP = "lookup"
OURS = (
    "chains, Optimal",
    "chains, Joint",
    "hybrid, Joint",
    "adaptive, Joint",
    "adaptive, traversal",
    "counted",
    "counted, traversal",
    "counted and lookup, traversal",
)  # the others are published
Cell = tuple[str, float, int]  # draft, temperature, nodes


@dataclass(frozen=True)
class Of:
    """One cell. lengths: by way (texts,), the expected accepted lengths on the same contexts."""

    lengths: Mapping[str, np.ndarray]

    @property
    def texts(self) -> int:
        """How many."""
        return len(next(iter(self.lengths.values())))

    @property
    def first(self) -> str:
        """The way with the largest mean."""
        return max(self.lengths, key=self.mean)

    def mean(self, way: str) -> float:
        """Mean accepted length."""
        return float(self.lengths[way].mean())

    def error(self, way: str) -> float:
        """Standard error of the mean."""
        return _error(self.lengths[way])

    def behind(self, way: str, other: str) -> tuple[float, float]:
        """By how much one way is behind another, and the standard error of that: both on the same texts."""
        difference = self.lengths[other] - self.lengths[way]
        return float(difference.mean()), _error(difference)

    def best(self, ours: bool) -> str:
        """The best way of this project, or the best published one; empty where the table has none."""
        return max((way for way in self.lengths if (way in OURS) == ours), key=self.mean, default="")


def cells(rows: Sequence[Mapping[str, str]]) -> dict[Cell, Of]:
    """All cells of drafts that have a model, of the texts that all ways of a cell have; rows of several files may follow each other."""
    found: dict[Cell, dict[str, dict[int, float]]] = {}
    for row in rows:
        cell = row["draft"], float(row["temperature"]), int(row["nodes"])
        for way in (name for name in row if name not in (*ABOUT, "nodes", LOOKUP)):
            if row[way]:
                found.setdefault(cell, {}).setdefault(way, {})[int(row["text"])] = float(row[way])
    return {cell: _of(ways) for cell, ways in found.items()}


def _of(ways: Mapping[str, Mapping[int, float]]) -> Of:
    texts = sorted(set.intersection(*map(set, ways.values())))
    return Of({way: np.array([lengths[text] for text in texts]) for way, lengths in ways.items()})


def over(found: Mapping[Cell, Of], way: str, other: str = "") -> tuple[float, float]:
    """A way's tokens a call over those of another, mean over the cells, and its standard error over texts.

    Without another: over the best published one of each cell, which is chosen in hindsight, and all the luckier the fewer texts there are.
    Cells have the same texts, or the beginning of them.
    """
    texts = min(of.texts for of in found.values())
    ratios, slopes = [], np.zeros(texts)
    for of in found.values():
        mine, theirs = (1 + of.lengths[name][:texts] for name in (way, other or of.best(ours=False)))
        ratios.append(mine.mean() / theirs.mean())
        slopes += (mine / mine.mean() - theirs / theirs.mean()) * ratios[-1] / len(found)
    return float(np.mean(ratios)), _error(slopes)


def best_published(found: Mapping[Cell, Of]) -> str:
    """The one published way that does best on average over the cells."""
    names = [way for way in ways_in(found) if way not in OURS]
    return max(names, key=lambda way: over(found, way, names[0])[0])


def near_first(found: Mapping[Cell, Of], way: str) -> int:
    """Number of cells where the way is first, or within one standard error of the first, on the same texts."""
    gaps = (of.behind(way, of.first) for of in found.values())
    return sum(gap <= 0 or gap <= error for gap, error in gaps)


def ways_in(found: Mapping[Cell, Of]) -> list[str]:
    """The ways of a table, in its order."""
    return list(dict.fromkeys(way for of in found.values() for way in of.lengths))


def as_markdown(found: Mapping[Cell, Of]) -> str:
    """Two tables: a line for every cell, and one for every way."""
    return f"{_cells(found)}\n\n{_ways(found)}"


def _cells(found: Mapping[Cell, Of]) -> str:
    lines = [
        "| draft | temperature | nodes | texts | first, tokens per target call | within one error of it | best published | best of ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (draft, temperature, nodes), of in found.items():
        gaps = {way: of.behind(way, of.first) for way in of.lengths if way != of.first}
        near = ", ".join(way for way, (gap, error) in gaps.items() if gap <= error)
        sides = [f"{way} {1 + of.mean(way):.2f}" if (way := of.best(ours)) else "" for ours in (False, True)]
        lines.append(
            f"| {draft} | {temperature:g} | {nodes} | {of.texts} | {of.first} {1 + of.mean(of.first):.2f} ± {of.error(of.first):.2f} |"
            f" {near} | {sides[0]} | {sides[1]} |"
        )
    return "\n".join(lines)


def _ways(found: Mapping[Cell, Of]) -> str:
    """By temperature: tokens a call over the published way that is best there, and in how many cells a way is first or near it."""
    temperatures = sorted({temperature for _, temperature, _ in found})
    parts = {t: {cell: of for cell, of in found.items() if cell[1] == t} for t in temperatures}
    rivals = {t: best_published(part) for t, part in parts.items()}
    lines = [
        f"| way | {' | '.join(f'temperature {t:g}, over {rivals[t]}' for t in temperatures)} | first or within one error |",
        "|---" * (len(temperatures) + 2) + "|",
    ]
    for way in ways_in(found):
        shares = []
        for t in temperatures:
            known = all(way in of.lengths for of in parts[t].values())
            ratio, error = over(parts[t], way, rivals[t]) if known else (0.0, 0.0)
            shares.append(f"{ratio:.3f} ± {error:.3f}" if known else "")
        having = {cell: of for cell, of in found.items() if way in of.lengths}
        lines.append(f"| {way} | {' | '.join(shares)} | {near_first(having, way)} of {len(having)} |")
    return "\n".join(lines)


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
