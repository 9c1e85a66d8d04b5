"""The optimal plan by construction, for fixed tokens and independent draft tokens: the rule `Optimal` over draft sets.

The rule samples a level, which partitions the tokens in the order of p/q into intervals. Of the draft tokens in the highest interval
that contains one, it selects the first one sampled (docs/theory.md). Over draft *sets* the sampling order is averaged out. Given the
number of times that each token of the set was sampled, c_1 .. c_s in the order of p/q, all orders are equally likely: the first of the
tokens j .. s is token i with probability c_i / (c_j + .. + c_s). There are C(k - 1, s - 1) vectors c with sum k.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations
from math import comb, factorial, lcm, prod
from typing import Any

import numpy as np

from .. import arrays as xp
from ..errors import InvalidArgument, SolverFailed
from ..laws import DraftLaw, Fact, SpecHubLaw, canonical, outside, sets
from ..laws.fixed_tokens import fixed_part
from ..laws.spec_hub import SAME_PAIRS
from ..lp.plan import Certificate, Plan, read_from
from ..lp.program import as_integers, of_floats
from ..problem import Problem
from ..rules.optimal import host
from ..selection import first_time
from .selected_law import selected_law


@dataclass(frozen=True, eq=False)
class Construction(Plan):
    """The optimal plan, stored as levels between neighbouring tokens.

    problem: as given. p: (n,) target distribution in Fractions, or in float64 with sum 1. fixed: int (j,) tokens in every draft set.
    draws: number of the other draft tokens, sampled from proposals (n,), q outside the fixed tokens. rank: int (n,) of each token in
    the order of p/q. level: (n,) of the boundary above each rank. selected: (n,) distribution m of the selected sampled token.
    """

    problem: Problem
    p: np.ndarray
    fixed: np.ndarray
    draws: int
    proposals: np.ndarray
    rank: np.ndarray
    level: np.ndarray
    selected: np.ndarray

    @cached_property
    def inner(self) -> Problem:
        return Problem(*in_own_numbers(self.problem), self.problem.k, self.problem.law)

    @property
    def accepted(self) -> Any:
        """The value in the number type of p: p on the fixed tokens, min(p, m) elsewhere."""
        return self.p[self.fixed].sum() + np.minimum(self.p, self.selected).sum()

    @cached_property
    def value(self) -> Fraction:
        """Return the acceptance that the rounded levels attain; the distribution m of the selected token is recomputed in integers."""
        p, q = self._targets, self._proposed
        whole, on_fixed = sum(p), sum(p[token] for token in self.fixed.tolist())
        if not self.draws:
            return Fraction(on_fixed, whole)
        order = [token for token in np.argsort(self.rank).tolist() if q[token]]
        levels, unit = in_integers(self.level[self.rank[order[:-1]]])
        law, scale = selected_law([q[token] for token in order], self.draws, levels, unit)
        self._check_selected(order, law, scale)
        taken = sum(min(p[token] * scale, mass * whole) for token, mass in zip(order, law, strict=True))
        return Fraction(on_fixed * scale + taken, whole * scale)

    def _check_selected(self, order: list[int], law: list[int], scale: int) -> None:
        """Raise SolverFailed if `selected`, from which rows are computed, is not the distribution that the levels give."""
        exact = xp.is_exact(self.p)
        wanted, known = 0 * self.p, self.selected
        wanted[order] = [Fraction(mass, scale) if exact else mass / scale for mass in law]
        wrong = known != wanted if exact else abs(known - wanted) > 2.0**-43 * len(law)
        if wrong.any():
            token = int(wrong.argmax())
            raise SolverFailed(
                f"the plan selects token {token} with probability {float(wanted[token]):.15g}, and has"
                f" {float(known[token]):.15g} for it. This is a bug in ot_draft; please report it."
            )

    def certificate(self, token_set: np.ndarray) -> Certificate:
        """Return value and cut, computed in integers. Raises SolverFailed if they are not of one problem, which is a bug."""
        fixed, draws = parts(self.problem, self.problem.q)
        if fixed.tolist() != self.fixed.tolist() or draws != self.draws:
            raise SolverFailed(
                f"{self.problem.law!r} has {draws} draws in addition to the tokens {fixed.tolist()}, the plan {self.draws} in addition to"
                f" {self.fixed.tolist()}. This is a bug in ot_draft; please report it."
            )
        p, q, members = self._targets, self._proposed, np.flatnonzero(token_set).tolist()
        inside = Fraction(sum(q[token] for token in members), max(sum(q), 1)) ** draws
        inside = inside if token_set[fixed].all() else Fraction(0)
        upper, lower = 1 + Fraction(sum(p[token] for token in members), sum(p)) - inside, self.value
        if lower > upper:
            raise SolverFailed(
                f"a plan of value {lower} exceeds the cut {upper}. This is a bug in ot_draft; please report it."
            )
        return Certificate(lower, upper, token_set, read_from(self.problem))

    @cached_property
    def _targets(self) -> list[int]:
        """(n,) integers proportional to the target distribution."""
        return as_integers(self.problem.p)

    @cached_property
    def _proposed(self) -> list[int]:
        """(n,) integers proportional to `proposals`."""
        masses, fixed = as_integers(self.problem.q), set(self.fixed.tolist())
        outer = [0 if token in fixed else mass for token, mass in enumerate(masses)]
        return outer if any(outer) else [token not in fixed for token in range(len(masses))]

    @cached_property
    def left(self) -> np.ndarray:
        return np.asarray(xp.normalise(xp.with_zeros_at(self._excess, self.fixed), self.p))

    @cached_property
    def _excess(self) -> np.ndarray:
        """(n,) (p - m)+ for the distribution m of the selected token."""
        return np.asarray(xp.excess(self.p, self.selected))

    def rows(self, drafts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = first_time(drafts)
        is_fixed = first & np.isin(drafts, self.fixed)
        drawn = first & ~is_fixed
        number, complete = drawn.sum(-1), is_fixed.sum(-1) == len(self.fixed)
        order = np.argsort(np.where(drawn, self.rank[drafts], len(self.p)), axis=-1)
        mass, accept = xp.full(drafts.shape[:1], 0, like=self.p), xp.full(drafts.shape, 0, like=self.p)
        for size in range(min(self.draws, 1), min(self.draws, drafts.shape[-1]) + 1):
            here = np.flatnonzero((number == size) & complete)
            columns = order[here, :size]
            tokens = drafts[here[:, None], columns]
            mass[here], choice = self._selection(tokens)
            accept[here[:, None], columns] = choice * self._take[tokens]
        if len(self.fixed):
            shares = xp.normalise(self._excess, 0)[np.where(is_fixed, drafts, 0)]
            accept = accept + np.where(is_fixed, shares, 0 * shares) * (1 - accept.sum(-1, keepdims=True))
        possible = (mass > 0)[:, None]
        return mass, np.where(possible, accept, 0 * accept)

    @cached_property
    def _take(self) -> np.ndarray:
        """(n,) probability that a selected token is accepted."""
        return np.asarray(xp.minimum(xp.divide(self.p, self.selected, 0), 1))

    def _selection(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probability of the set, (m,), and of each token to be selected given the set, (m, s). tokens: distinct, in the order of p/q."""
        size = tokens.shape[-1]
        shares = self.proposals[tokens]
        if not size:
            return xp.full(tokens.shape[:1], 1, like=shares), shares
        rank = self.rank[tokens]
        reached = self._levels.highest(
            rank, rank[:, -1:]
        )  # above this level, the token is in one interval with the last one
        begins = np.concatenate((1 - reached[:, :1], reached[:, :-1] - reached[:, 1:]), -1)
        if size == self.draws:
            choice = (begins / np.arange(size, 0, -1)).cumsum(-1)
            return factorial(size) * shares.prod(-1), choice
        largest = shares.max(-1, keepdims=True)
        relative = xp.divide(shares, largest, 0)
        chance, choice = 0 * shares[:, 0], 0 * shares
        for counts, ways in times_drawn(self.draws, size):
            weight = ways * (relative ** (counts - 1)).prod(-1)
            chance = chance + weight
            choice = choice + weight[:, None] * counts * (begins / counts[::-1].cumsum()[::-1]).cumsum(-1)
        mass = chance * shares.prod(-1) * largest[:, 0] ** (self.draws - size)
        return mass, xp.divide(choice, chance[:, None], 0)

    @cached_property
    def _levels(self) -> "RangeMaximum":
        return RangeMaximum(self.level)

    def sets(self) -> np.ndarray:
        k, support = self.problem.k, np.flatnonzero(self.proposals > 0)
        sizes = range(min(self.draws, 1), self.draws + 1)
        number = sum(comb(len(support), size) for size in sizes)
        max_entries = 1 << 22
        if number * k > max_entries:
            raise InvalidArgument(
                f"the plan has {number} draft sets of {k} drafts, too many for a table (limit {max_entries} entries)."
                " Read single rows with plan[drafts]."
            )
        parts = [_with_fixed(support[subsets(len(support), size)], self.fixed, k) for size in sizes]
        return np.concatenate(parts)


def construct(problem: Problem) -> Construction | None:
    """The optimal plan of one problem, or None if the optimum for its draft law has no closed form."""
    if set_law(problem) is None:
        return None
    p, q = in_own_numbers(problem)
    fixed, draws = parts(problem, q)
    proposals = outside(q, fixed)
    rank, level, selected = host.by_count(xp.with_zeros_at(p, fixed), proposals, np.array([draws]), None)
    return Construction(problem, p, fixed, draws, proposals, rank, level, selected)


def set_law(problem: Problem) -> DraftLaw | None:
    """A draft law of fixed tokens and independent samples with the same draft sets as the problem's, or None."""
    law = canonical(problem.law, problem.k)
    law = SAME_PAIRS if isinstance(law, SpecHubLaw) else law
    return law if Fact.INDEPENDENT_OUTSIDE_FIXED in law.facts else None


def parts(problem: Problem, q: np.ndarray) -> tuple[np.ndarray, int]:
    """The fixed tokens, int (j,), and the number of sampled draft tokens."""
    law = set_law(problem)
    assert law is not None  # checked by `construct`
    fixed = xp.to_host(fixed_part(law, q, problem.k))
    return fixed[fixed >= 0], sets.draws(law, q, problem.k)


def in_own_numbers(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """p and q, (n,) each, in Fractions, or in float64 with sum 1."""
    if xp.is_exact(problem.p):
        return problem.p, problem.q
    p, q = (xp.to_host(x).astype(np.float64) for x in (problem.p, problem.q))
    return p / p.sum(), q / q.sum()


def in_integers(x: np.ndarray) -> tuple[list[int], int]:
    """Numbers >= 0 exactly: integers (n,) over one denominator."""
    if not xp.is_exact(x):
        return of_floats(x)
    unit = lcm(*(number.denominator for number in x))
    return [number.numerator * (unit // number.denominator) for number in x], unit


@cache
def times_drawn(draws: int, size: int) -> list[tuple[np.ndarray, int]]:
    """Numbers of times that each token of a set is sampled, int (size,) with sum `draws`, and the number of sampling orders."""
    found = []
    for ends in combinations(range(1, draws), size - 1):
        counts = np.diff((0, *ends, draws))
        found.append((counts, factorial(draws) // prod(map(factorial, counts.tolist()))))
    return found


def subsets(number: int, size: int) -> np.ndarray:
    """All subsets of `size` of the numbers 0 .. number - 1, each in ascending order: int (sets, size)."""
    found = np.zeros((1, 0), dtype=np.int64)
    last = np.array([-1])
    for _ in range(size):
        further = number - 1 - last  # count of numbers that can follow
        before = np.repeat(np.arange(len(found)), further)
        start = np.repeat(further.cumsum() - further, further)
        last = last[before] + 1 + np.arange(len(before)) - start
        found = np.concatenate((found[before], last[:, None]), -1)
    return found


def _with_fixed(drawn: np.ndarray, fixed: np.ndarray, k: int) -> np.ndarray:
    """Rows of sampled and fixed tokens in ascending order, padded with -1 to k columns: int (m, s) -> (m, k)."""
    tokens = np.concatenate((drawn, np.broadcast_to(fixed, (len(drawn), len(fixed)))), -1)
    absent = np.full((len(drawn), k - tokens.shape[-1]), -1)
    return np.concatenate((np.sort(tokens, -1), absent), -1)


class RangeMaximum:
    """Range maximum queries by a sparse table: maxima of all ranges of 2^h numbers."""

    def __init__(self, x: np.ndarray) -> None:
        rows = [x]
        while 2 ** len(rows) <= len(x):
            half = 2 ** (len(rows) - 1)
            shifted = np.concatenate((rows[-1][half:], rows[-1][:half]))  # wrapped entries are never read
            rows.append(np.maximum(rows[-1], shifted))
        self.table = np.stack(rows)

    def highest(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """max x[start:stop], 0 for an empty range; start, stop: int arrays, broadcast."""
        start, stop = np.broadcast_arrays(start, stop)
        height = np.frexp(np.maximum(stop - start, 1))[1] - 1
        found = np.maximum(self.table[height, start], self.table[height, np.maximum(stop - 2**height, 0)])
        return np.where(stop > start, found, 0 * found)
