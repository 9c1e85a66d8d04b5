"""Drafting methods of trees at equal numbers of nodes on simulated models: the table of docs/benchmarks.md.

`python -m figures.trees.tree_ways`; all methods have the same prompts, and the differences from the first method are paired.
"""

from __future__ import annotations

from itertools import product

import click
import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table

from figures.trees.budget import simulate_budget
from ot_draft.trees.model import SimulatedModel

WAYS = ("counted, traversal", "adaptive, joint", "Sequoia, traversal", "Sequoia", "EAGLE-2", "DySpec")


@click.command()
@click.option(
    "--acceptance",
    multiple=True,
    type=float,
    default=(0.4, 0.7),
    help="Acceptance probability of one draft token; may be repeated.",
)
@click.option("--nodes", multiple=True, type=int, default=(8, 32), help="May be repeated.")
@click.option(
    "--temperature", multiple=True, type=float, default=(1.0,), help="Temperature of both models; may be repeated."
)
@click.option("--way", "ways", multiple=True, type=click.Choice(WAYS), default=WAYS, help="May be repeated.")
@click.option("--texts", type=int, default=600, help="Number of prompts per cell.")
@click.option("--vocabulary", type=int, default=2000)
@click.option("--jobs", type=int, default=1)
def command(
    acceptance: tuple[float, ...],
    nodes: tuple[int, ...],
    temperature: tuple[float, ...],
    ways: tuple[str, ...],
    texts: int,
    vocabulary: int,
    jobs: int,
) -> None:
    """Print tokens per target call by drafting method, and differences from the first with standard errors."""
    cells = list(product(temperature, acceptance, nodes))
    lengths = Parallel(jobs)(delayed(accepted)(way, *cell, texts, vocabulary) for cell in cells for way in ways)
    table = Table("temperature", "acceptance", "nodes", *ways)
    for number, cell in enumerate(cells):
        found = lengths[number * len(ways) : (number + 1) * len(ways)]
        table.add_row(*map(str, cell), *(shown(each, found[0]) for each in found))
    Console().print(table)


def accepted(way: str, temperature: float, acceptance: float, nodes: int, texts: int, vocabulary: int) -> np.ndarray:
    """Return accepted lengths of a method, on a model with this acceptance at this temperature."""
    model = SimulatedModel(n=vocabulary, temperature=temperature).with_acceptance(acceptance)
    return simulate_budget(way, model, nodes, iterations=texts).lengths


def shown(lengths: np.ndarray, first: np.ndarray) -> str:
    """Return tokens per target call with standard error, and the paired difference from the first method."""
    error = lengths.std(ddof=1) / len(lengths) ** 0.5
    text = f"{1 + lengths.mean():.2f} ± {error:.2f}"
    if lengths is first:
        return text
    away = lengths - first
    return f"{text} ({away.mean():+.2f} ± {away.std(ddof=1) / len(away) ** 0.5:.2f})"


if __name__ == "__main__":
    command()
