"""Numbers of this project for the published ones: means over the real pairs and ratios over the real trees, from figures/data."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

import ot_draft as otd
from figures import model_pairs, style
from llm_demo.bench.trees.summary import cells, over


def with_error(row: dict[str, Any]) -> str:
    return f"{float(row['block_efficiency']):.2f} ± {float(row['error']):.2f}"


@cache
def pairs(of: model_pairs.ModelPair = model_pairs.SMOLLM2) -> dict[float, tuple[Any, Any]]:
    with np.load(of.contexts, allow_pickle=False) as stored:
        return {float(t): (p, q) for t, p, q in zip(stored["temperatures"], stored["p"], stored["q"], strict=True)}


def acceptance(rule: otd.SelectionRule, k: int, of: model_pairs.ModelPair = model_pairs.SMOLLM2) -> dict[float, float]:
    """Return the mean acceptance over the real contexts of a pair of models, by temperature."""
    kept = {t: rule.closed_form(otd.Problem(p, q, k, rule.law)) for t, (p, q) in pairs(of).items()}
    return {t: float(both[0].mean()) for t, both in kept.items() if both is not None}


def shares(k: int, of: model_pairs.ModelPair = model_pairs.SMOLLM2) -> list[float]:
    """Return K-SEQ's acceptance divided by the optimum in every real context of a pair of models."""
    found: list[float] = []
    for p, q in pairs(of).values():
        both = otd.rules.KSeq().closed_form(otd.Problem(p, q, k))
        assert both is not None
        found += (both[0] / otd.optimal_acceptance(p, q, k)).tolist()
    return found


@cache
def trees() -> Any:
    return cells(style.read(style.DATA / "real_trees.csv"))


def ratio(way: str, other: str, temperature: float) -> float:
    """Return tokens per target call of one method divided by those of another: mean over draft models and numbers of nodes."""
    return over({cell: of for cell, of in trees().items() if cell[1] == temperature}, way, other)[0]


def tokens(way: str, nodes: int, temperature: float) -> float:
    return float(np.mean([1 + of.mean(way) for cell, of in trees().items() if cell[1:] == (temperature, nodes)]))


def mean_ratio(above: tuple[str, int], below: tuple[str, int], temperature: float) -> float:
    """Return the mean ratio over draft models of the tokens per target call of two methods, each with its number of nodes."""
    found, drafts = trees(), {cell[0] for cell in trees()}
    ratios = [
        (1 + found[draft, temperature, above[1]].mean(above[0]))
        / (1 + found[draft, temperature, below[1]].mean(below[0]))
        for draft in sorted(drafts)
    ]
    return float(np.mean(ratios))


def same_everywhere(p: list[Fraction], q: list[Fraction]) -> otd.trees.MarkovModel:
    """Return models that ignore the context."""
    law, draft = np.array(p, dtype=object), np.array(q, dtype=object)
    return otd.trees.MarkovModel({(): law}, {(): draft}, order=0)
