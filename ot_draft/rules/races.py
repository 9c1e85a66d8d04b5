"""Rules whose drafts and output are winners of the same exponential races (Gumbel noise), as distributions of the output given the drafts.

Token z of a list has E_z ~ Exp(1). The drafts of the list are the tokens of least E_z / q_z, the output that of least E_z / p_z, over all
lists. Drafting does not need p, and the output does not depend on q. The races are integrated here given the drafts, so that the
distribution of the output is rational if p and q are.

Let s be the least E_z / p_z, reached by token j. Every other E_z is at least s p_z, and exponential from there on. In units of s, token z
arrives at u >= w_z = p_z / q_z with the density s q_z e^{-s q_z u}; `chance` integrates over the arrivals from the last draft to the first.
All that depends on s is a sum of c e^{-s a}, of which the integral over s is the sum of c / a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..laws import IID, DraftLaw, WithoutReplacement
from ..lp.program import as_fractions
from ..selection import Cost, Selection, SelectionRule
from .by_pair import by_pair

Masses = tuple[Fraction, ...]
Sum = dict[Fraction, Fraction]  # a -> c of the sum of c e^{-s a}
Terms = dict[tuple[Fraction, Fraction], Fraction]  # (a, b) -> c of the sum of c e^{-s (a + b u)}
Pieces = list[
    tuple[Fraction | None, Terms]
]  # a function of u: up to where (None: infinity) it is which sum; 0 beyond the last
ZERO = Fraction(0)


@dataclass(frozen=True)
class GumbelCoupling(SelectionRule):
    """Output of the exponential race that also made the drafts, its first k arrivals: distinct tokens. Small n; exact.

    For k = 1 the acceptance is sum_j 1 / sum_i max(p_i/p_j, q_i/q_j), at least (1 - TV)/(1 + TV) [1]_. If the rates q have come to an end,
    the race goes on among the other tokens at equal rates, as the draft law has it.

    Parameters
    ----------
    law : DraftLaw, default=WithoutReplacement()
        Draft law.

    References
    ----------
    .. [1] Daliri et al., "Coupling without Communication and Drafter-Invariant Speculative Decoding", 2024.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2, law=otd.WithoutReplacement())
    >>> otd.evaluate(otd.rules.GumbelCoupling(), problem).lossless
    True
    """

    cost = Cost(solves_program=True, slow=True)
    law: DraftLaw = WithoutReplacement()

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return by_pair(p, q, drafts, self.law, self._selection_of_pair)

    def _selection_of_pair(self, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray) -> Selection:
        """For rows of tokens (m, k) of one pair (n,)."""
        masses = tuple(as_fractions(p)), tuple(as_fractions(q))
        different, row_of = np.unique(tokens, axis=0, return_inverse=True)  # thousands of rows have few drafts
        accept, residual = xp.full(different.shape, 0, like=p), xp.full((len(different), len(p)), 0, like=p)
        for row, drafts in enumerate(different.tolist()):
            law = np.array(
                output_distribution(*masses, self.lists(tuple(token for token in drafts if token >= 0))), dtype=object
            )
            for place, token in enumerate(drafts):
                if token >= 0:  # of equal drafts the first is taken
                    accept[row, place], law[token] = law[token], ZERO
            left = law.sum()
            residual[row] = law / left if left else masses[0]
        return Selection(accept[row_of.reshape(-1)], residual[row_of.reshape(-1)])

    def lists(self, drafts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """The lists that raced, each with its drafts in order."""
        return (drafts,)


@dataclass(frozen=True)
class ListCoupling(GumbelCoupling):
    """Output of the k exponential races that also made the drafts, the winner of each [1]_. Small n; exact.

    Parameters
    ----------
    law : DraftLaw, default=IID()
        Draft law.

    References
    ----------
    .. [1] Rowan, Phan and Khisti, list-level distribution coupling (Gumbel list sampling), 2025.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2)
    >>> otd.evaluate(otd.rules.ListCoupling(), problem).lossless
    True
    """

    law: DraftLaw = IID()

    def lists(self, drafts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple((token,) for token in sorted(drafts))  # the lists are alike


@lru_cache(maxsize=20_000)
def output_distribution(p: Masses, q: Masses, lists: tuple[tuple[int, ...], ...]) -> Masses:
    """Law (n,) of the output, given the drafts of each list in order of arrival; p where no races can make such drafts."""
    mass = []
    for j, target in enumerate(p):
        total: Sum = {}
        if target:
            others = [chance(p, q, drafts) for drafts in lists]
            for winner, drafts in enumerate(lists):
                terms = chance(p, q, drafts, j)
                for number, other in enumerate(others):
                    terms = terms if number == winner else _product(terms, other)
                for rate, factor in terms.items():
                    total[rate] = total.get(rate, ZERO) + factor
        mass.append(target * sum((factor / rate for rate, factor in total.items()), ZERO))
    whole = sum(mass, ZERO)
    return tuple(part / whole for part in mass) if whole else p


def chance(p: Masses, q: Masses, drafts: tuple[int, ...], winner: int | None = None) -> Sum:
    """That these are the first arrivals of a list in which no E_z is below s p_z; that of the winner is s p_z, if there is one."""
    there = [z for z, rate in enumerate(q) if rate]
    nowhere = [z for z, rate in enumerate(q) if not rate]
    first, later = [z for z in drafts if q[z]], [z for z in drafts if not q[z]]
    if later and len(first) < len(there):
        return {}
    in_race = _arrivals({z: (q[z], p[z]) for z in there}, first, winner)
    return _product(in_race, _arrivals({z: (Fraction(1), p[z]) for z in nowhere}, later, winner))


def _arrivals(tokens: dict[int, tuple[Fraction, Fraction]], drafts: Sequence[int], winner: int | None) -> Sum:
    """The same of the tokens of rates above 0; tokens: their (rate, p)."""
    starts = {z: mass / rate for z, (rate, mass) in tokens.items()}
    others = {z: token for z, token in tokens.items() if z not in drafts}
    pieces: Pieces = [(None, {(ZERO, ZERO): Fraction(1)})]
    for z, token in others.items():  # which arrive later than u
        pieces = _times(pieces, starts[z], token, z == winner)
    for z in reversed(drafts):
        rate, mass = tokens[z]
        pieces = _fixed(pieces, starts[z], mass) if z == winner else _integrated(pieces, starts[z], rate)
    return {a: c for (a, _), c in _at(pieces[0][1], ZERO).items()} if pieces else {}


def _times(pieces: Pieces, start: Fraction, token: tuple[Fraction, Fraction], wins: bool) -> Pieces:
    """Times the chance that a token arrives after u: its arrivals begin at `start`, which is when a winner arrives."""
    rate, mass = token
    before = [(end, _shifted(terms, mass, ZERO)) for end, terms in _up_to(pieces, start)]
    return before if wins else before + [(end, _shifted(terms, ZERO, rate)) for end, terms in _beyond(pieces, start)]


def _fixed(pieces: Pieces, start: Fraction, mass: Fraction) -> Pieces:
    """The winner is this draft: it arrives at `start`, if all before it have."""
    behind = _beyond(pieces, start)
    return [(start, _at(_shifted(behind[0][1], mass, ZERO), start))] if behind else []


def _integrated(pieces: Pieces, start: Fraction, rate: Fraction) -> Pieces:
    """The integral over the arrival of a draft, from u or its own start on: of s rate e^{-s rate v} times the function at v."""
    made: Pieces = []
    behind: Terms = {}  # the integral from the end of a piece on
    for low, (end, terms) in reversed(list(zip(_begins(pieces), pieces, strict=True))):
        if end is not None and end <= start:
            break
        inner = {(a, b + rate): c * rate / (b + rate) for (a, b), c in terms.items()}
        here = _added(inner, _at(inner, end), -1) if end is not None else inner
        made.append((end, _added(here, behind)))
        behind = _at(made[-1][1], low)
    if not made:
        return []
    constant = _at(made[-1][1], start)
    if start:
        made.append((start, constant))
    return made[::-1]


def _begins(pieces: Pieces) -> list[Fraction]:
    return [ZERO, *(end for end, _ in pieces if end is not None)][: len(pieces)]


def _up_to(pieces: Pieces, mark: Fraction) -> Pieces:
    """The function up to a mark."""
    cut: Pieces = [(end, terms) for end, terms in pieces if end is not None and end < mark]
    if len(cut) < len(pieces) and mark:
        cut.append((mark, pieces[len(cut)][1]))
    return cut


def _beyond(pieces: Pieces, mark: Fraction) -> Pieces:
    """The pieces that reach over a mark."""
    return [(end, terms) for end, terms in pieces if end is None or end > mark]


def _shifted(terms: Terms, a: Fraction, b: Fraction) -> Terms:
    return {(old_a + a, old_b + b): c for (old_a, old_b), c in terms.items()}


def _at(terms: Terms, u: Fraction) -> Terms:
    """The sum at u, a constant."""
    total: Terms = {}
    for (a, b), c in terms.items():
        total[a + b * u, ZERO] = total.get((a + b * u, ZERO), ZERO) + c
    return total


def _added(first: Terms, second: Terms, times: int = 1) -> Terms:
    total = dict(first)
    for key, c in second.items():
        total[key] = total.get(key, ZERO) + times * c
    return total


def _product(first: Sum, second: Sum) -> Sum:
    total: Sum = {}
    for rate, c in first.items():
        for other, factor in second.items():
            total[rate + other] = total.get(rate + other, ZERO) + c * factor
    return total
