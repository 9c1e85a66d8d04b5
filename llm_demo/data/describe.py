"""Statistics of the stored pairs: `python -m llm_demo.data.describe figures/data/smollm2_pairs.npz`, with numpy and click only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from ot_draft.data.merge import TAIL, optimum


def acceptance_lines(pairs: Any) -> list[str]:
    """Return the mean of sum min(p, q) on the whole vocabulary, by kind and by origin, with a column per temperature."""
    overlap = pairs["full_optimum"][..., pairs["drafts"].tolist().index(1)]
    lines = []
    for name in ("kind", "origin"):
        for value in dict.fromkeys(pairs[name].tolist()):
            chosen = overlap[:, pairs[name] == value]
            lines.append(_row(f"{value} ({chosen.shape[1]})", chosen.mean(-1)))
    return [*lines, _row(f"all ({overlap.shape[1]})", overlap.mean(-1)), _row("standard deviation", overlap.std(-1))]


def tail_lines(pairs: Any) -> list[str]:
    """Return the mean and the largest total mass of the tail classes under p and under q."""
    lines = []
    for name in ("p", "q"):
        tail = one_tail(pairs, name)[..., -1]
        lines += [_row(f"tail of {name}, mean", tail.mean(-1)), _row(f"tail of {name}, largest", tail.max(-1))]
    return lines


def one_tail(pairs: Any, name: str) -> Any:
    """Return the masses with all tail classes merged into the last slot."""
    kept = int((pairs["tokens"][0] != TAIL).sum())
    masses = pairs[name]
    return np.concatenate([masses[..., :kept], masses[..., kept:].sum(-1, keepdims=True)], axis=-1)


def merging_lines(pairs: Any) -> list[str]:
    """Return the difference between the optimum on merged classes and on the whole vocabulary, for every k."""
    merged = {
        "stored classes": (pairs["p"], pairs["q"]),
        "one tail class": (one_tail(pairs, "p"), one_tail(pairs, "q")),
    }
    lines = []
    for column, k in enumerate(pairs["drafts"].tolist()):
        full = pairs["full_optimum"][..., column]
        lines.append(_row(f"k = {k}: full optimum, mean", full.mean(-1)))
        for name, (p, q) in merged.items():
            excess = optimum(p, q, k) - full
            for label, values in (("mean", excess.mean(-1)), ("largest", excess.max(-1))):
                lines.append(_row(f"k = {k}: excess with {name}, {label}", values, "{:.1e}"))
    return lines


def _row(label: str, values: Any, pattern: str = "{:.4f}") -> str:
    return " | ".join(["| " + label, *(pattern.format(value) for value in values)]) + " |"


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(file: Path) -> None:
    """Print the tables of figures/data/README.md for FILE."""
    with np.load(file) as found:
        pairs = dict(found)
    header = _row("temperature", pairs["temperatures"], "{:.1f}")
    rule = "|---" * (1 + len(pairs["temperatures"])) + "|"
    for table in (acceptance_lines(pairs), tail_lines(pairs), merging_lines(pairs)):
        click.echo("\n".join([header, rule, *table, ""]))


if __name__ == "__main__":
    main()
