"""Summary of the table: means, and the best method in every cell, with standard errors of differences on the same contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ABOUT = ("text", "kind", "temperature", "draft")  # columns that identify a row
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
)  # all others are published methods
Cell = tuple[str, float, int]  # draft, temperature, nodes


@dataclass(frozen=True)
class Of:
    """One cell. lengths: by method, the expected accepted lengths (texts,) on the same contexts."""

    lengths: Mapping[str, np.ndarray]

    @property
    def texts(self) -> int:
        """Number of contexts."""
        return len(next(iter(self.lengths.values())))

    @property
    def first(self) -> str:
        """The method with the largest mean."""
        return max(self.lengths, key=self.mean)

    def mean(self, way: str) -> float:
        """Return the mean accepted length."""
        return float(self.lengths[way].mean())

    def error(self, way: str) -> float:
        """Return the standard error of the mean."""
        return _error(self.lengths[way])

    def behind(self, way: str, other: str) -> tuple[float, float]:
        """Return the mean accepted length of `other` minus that of `way`, and its standard error on the same contexts."""
        difference = self.lengths[other] - self.lengths[way]
        return float(difference.mean()), _error(difference)

    def best(self, ours: bool) -> str:
        """Return the best method of this project, or the best published one; empty if the table has none."""
        return max((way for way in self.lengths if (way in OURS) == ours), key=self.mean, default="")


def cells(rows: Sequence[Mapping[str, str]]) -> dict[Cell, Of]:
    """Return all cells of drafts with a model, on the contexts that have all methods of a cell; rows may come from several files."""
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
    """Return the quotient of two methods' tokens per target call, mean over the cells, and its standard error over contexts.

    other: the method in the denominator, by default the best published one of each cell. It is selected in hindsight, with a selection
    bias that grows as the number of contexts decreases. All cells have the same contexts, or the first ones of them.
    """
    texts = min(of.texts for of in found.values())
    ratios, slopes = [], np.zeros(texts)
    for of in found.values():
        mine, theirs = (1 + of.lengths[name][:texts] for name in (way, other or of.best(ours=False)))
        ratios.append(mine.mean() / theirs.mean())
        slopes += (mine / mine.mean() - theirs / theirs.mean()) * ratios[-1] / len(found)
    return float(np.mean(ratios)), _error(slopes)


def best_published(found: Mapping[Cell, Of]) -> str:
    """Return the published method with the largest mean quotient over the cells."""
    names = [way for way in ways_in(found) if way not in OURS]
    return max(names, key=lambda way: over(found, way, names[0])[0])


def near_first(found: Mapping[Cell, Of], way: str) -> int:
    """Return the number of cells where a method is first, or within one standard error of the first, on the same contexts."""
    gaps = (of.behind(way, of.first) for of in found.values())
    return sum(gap <= 0 or gap <= error for gap, error in gaps)


def ways_in(found: Mapping[Cell, Of]) -> list[str]:
    """Return the methods of a table, in its order."""
    return list(dict.fromkeys(way for of in found.values() for way in of.lengths))


def as_markdown(found: Mapping[Cell, Of]) -> str:
    """Return two tables: one with a line for every cell, and one with a line for every method."""
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
    """Return the second table.

    For every temperature it has the quotient of tokens per target call to the best published method of that temperature, and the number of
    cells where a method is first or within one standard error.
    """
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
