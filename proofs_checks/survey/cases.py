"""The small cases on which verdicts are decided, in rational arithmetic, the simplest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np

from ot_draft import trees

Masses = tuple[Fraction, ...]
QUICK, FULL = 60, 600  # pairs of three tokens


@dataclass(frozen=True)
class Case:
    """Two distributions, or two models of order 1; k drafts or paths, each of `length` tokens.

    p, q: the rows of the target and the draft: at the root, and then, if there are more, after each token.
    """

    p: tuple[Masses, ...]
    q: tuple[Masses, ...]
    k: int

    def __str__(self) -> str:
        def shown(rows: tuple[Masses, ...]) -> str:
            return "; ".join(f"({', '.join(map(str, row))})" for row in rows)

        after = " (at the root; after token 0, 1, ..)" if len(self.p) > 1 else ""
        return f"p = {shown(self.p)}, q = {shown(self.q)}{after}, k = {self.k}"

    @property
    def n(self) -> int:
        return len(self.p[0])

    def target(self, prefix: Sequence[int] = ()) -> Masses:
        return self._row(self.p, prefix)

    def draft(self, prefix: Sequence[int] = ()) -> Masses:
        return self._row(self.q, prefix)

    def _row(self, rows: tuple[Masses, ...], prefix: Sequence[int]) -> Masses:
        return rows[1 + prefix[-1]] if prefix and len(rows) > 1 else rows[0]

    def through(self, settings: Callable[[Masses], Masses] | None) -> Case:
        """The case with every distribution changed by the sampling settings."""
        if settings is None:
            return self
        p, q = (tuple(tuple(settings(row)) for row in rows) for rows in (self.p, self.q))
        return Case(p, q, self.k)

    @property
    def model(self) -> trees.MarkovModel:
        """The same as a model of the library."""
        contexts = [(), *((token,) for token in range(len(self.p) - 1))]
        targets, drafts = (
            {context: np.array(row, dtype=object) for context, row in zip(contexts, rows, strict=True)}
            for rows in (self.p, self.q)
        )
        return trees.MarkovModel(targets, drafts, 1 if len(self.p) > 1 else 0)


def laws(n: int, wholes: tuple[int, ...]) -> list[Masses]:
    """All distributions on n tokens whose masses are multiples of 1 / whole; those without zeros and of small denominators first."""
    found = {
        tuple(Fraction(count, whole) for count in counts)
        for whole in wholes
        for counts in product(range(whole + 1), repeat=n)
        if sum(counts) == whole
    }
    return sorted(found, key=lambda law: (0 in law, sum(mass.denominator for mass in law), law))


def _simple(pair: tuple[Masses, Masses]) -> tuple[bool, int]:
    masses = pair[0] + pair[1]
    return 0 in masses, sum(mass.denominator for mass in masses)


@cache
def pairs(quick: bool = True) -> tuple[tuple[Masses, Masses], ...]:
    """Every pair on two tokens in halves, thirds and quarters; pairs on three in thirds, quarters, sixths; random ones on four."""
    two, three = laws(2, (1, 2, 3, 4)), laws(3, (3, 4, 6))
    of_two, of_three = (sorted(product(each, each), key=_simple) for each in (two, three))
    generator = np.random.default_rng(34)
    some = sorted(generator.choice(len(of_three), QUICK if quick else FULL, replace=False).tolist())
    twelfths = generator.multinomial(12, np.full(4, 0.25), (2, 10 if quick else 60)).tolist()
    of_four = [tuple(tuple(Fraction(c, 12) for c in row) for row in both) for both in zip(*twelfths, strict=True)]
    return (*of_two, *(of_three[i] for i in some), *of_four)


def one_token(ks: tuple[int, ...], quick: bool = True) -> list[Case]:
    """The pairs, for each number of drafts; few tokens and drafts first."""
    cases = [Case((p,), (q,), k) for p, q in pairs(quick) for k in ks]
    return sorted(cases, key=lambda case: (case.n, case.k))


def along_path(ks: tuple[int, ...], quick: bool = True, many_trees: bool = False) -> list[Case]:
    """Pairs that are the same at every step, and models of order 1; of three tokens few where there are many trees to draw."""
    two, three = ([pair for pair in pairs(True) if len(pair[0]) == n] for n in (2, 3))
    same = [*two[: 30 if quick else 60], *three[: (1 if many_trees else 4) * (1 if quick else 6)]]
    generator = np.random.default_rng(35)
    cases = [Case((p,), (q,), k) for p, q in same for k in ks]
    for n in (2, 2, 2, 3) * ((1 if many_trees else 2) if quick else 10):
        some = laws(n, (3, 4))
        rows = [tuple(some[i] for i in generator.integers(len(some), size=n + 1)) for _ in range(2)]
        cases += [Case(rows[0], rows[1], k) for k in ks]
    return sorted(cases, key=lambda case: (case.n, case.k, len(case.p)))


def span(quick: bool, length: int, many_trees: bool = False) -> str:
    """The cases in words."""
    if length > 1:
        threes, models = (1 if many_trees else 4) * (1 if quick else 6), (4 if many_trees else 8) if quick else 40
        return f"{30 if quick else 60} constant pairs on 2 tokens, {threes} on 3, {models} models of order 1, paths of {length}"
    return f"all pairs on 2 tokens in halves, thirds, quarters; {QUICK if quick else FULL} on 3; {10 if quick else 60} on 4 in twelfths"
