"""Random Markov models with rational tables, as cases for statements about path rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ot_draft import trees
from ot_draft.trees.evaluation.evaluate import PathEvaluation

SIZES = ((2, 1, 2), (2, 2, 2), (3, 1, 2), (3, 2, 2), (2, 1, 3), (2, 2, 3), (2, 3, 2))  # tokens, paths K, length L
Prefix = tuple[int, ...]


@dataclass(frozen=True)
class PathCase:
    """K i.i.d. paths of length L from a model."""

    model: trees.MarkovModel
    K: int
    L: int

    def __str__(self) -> str:
        rows = []
        for prefix, p in self.model.targets.items():
            known = " ".join(map(str, prefix)) or "nothing"
            rows.append(f"after {known} p = {_shown(p)}, q = {_shown(self.model.drafts[prefix])}")
        return f"K = {self.K}, L = {self.L}; {'; '.join(rows)}"

    @property
    def size(self) -> tuple[int, ...]:
        """Small ones are easy to read."""
        masses = [mass for table in (self.model.targets, self.model.drafts) for row in table.values() for mass in row]
        return self.K * self.L, len(masses), max(mass.denominator for mass in masses)

    def evaluate(self, rule: Callable[[Any, Any], Any], K: int | None = None) -> PathEvaluation:
        """Return the exact evaluation of the rule on this model; paths: another number of paths than K."""
        return trees.evaluate(rule, self.model, (self.K if K is None else K, self.L))


@dataclass(frozen=True)
class Told:
    """A model that gives other distributions than the true one at some prefixes, for injecting errors."""

    target: Callable[[Prefix], Any]
    draft: Callable[[Prefix], Any]


def draw_paths(seed: int) -> PathCase:
    """Return the case of this number: all sizes in turn, Markov models of order 0, 1 and 2."""
    n, K, L = SIZES[seed % len(SIZES)]
    generator = np.random.default_rng([5, seed])
    return PathCase(trees.MarkovModel.random(generator, n, order=seed // len(SIZES) % 3), K, L)


def draw_one_path(seed: int) -> PathCase:
    """Return one drafted path."""
    case = draw_paths(seed)
    return PathCase(case.model, 1, case.L)


def markov(targets: list[str], drafts: list[str]) -> trees.MarkovModel:
    """Return a model of order 1 from its masses: at the root, then after token 0, 1, .."""

    def table(rows: list[str]) -> dict[Prefix, Any]:
        contexts = [(), *((token,) for token in range(len(rows) - 1))]
        return {c: np.array([Fraction(mass) for mass in row.split()]) for c, row in zip(contexts, rows, strict=True)}

    return trees.MarkovModel(table(targets), table(drafts), 1)


def _shown(row: Any) -> str:
    return f"({', '.join(map(str, row.tolist()))})"
