"""The linear program in reduced flow form, in rational numbers for all solvers, and the type of their solutions."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import comb, inf, lcm
from typing import Any

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidDistribution, SolverFailed
from ..laws import DraftLaw, set_probabilities, sets
from ..optional import load
from ..problem import Problem

__all__ = ["Program", "build"]


@dataclass(frozen=True, eq=False)
class Program:
    """Maximise sum flow(S, y) over the pairs y in S, flow >= 0, sum_y flow(S, y) <= Q(S), sum_S flow(S, y) <= p(y).

    Draft tuples with the same token set S are merged, and only pairs with y in S are kept; the value is that of
    SpecTr's transport problem with membership cost (Sun et al. 2023), because the rest of the rows is matched with the rest of the
    columns at gain 0. problem: as given. exact: the same in Fractions (floats are read as exact binary
    rationals, divided by their exact sum). token_sets, set_mass: (sets,) S and Q(S) > 0. token_mass: (n,) p. rows,
    tokens: (pairs,) the index of S and the token y of every variable, in order of S.
    """

    problem: Problem
    exact: Problem
    token_sets: tuple[tuple[int, ...], ...]
    set_mass: tuple[Fraction, ...]
    token_mass: tuple[Fraction, ...]
    rows: np.ndarray
    tokens: np.ndarray

    @cached_property
    def bounds(self) -> np.ndarray:
        """(sets + n,) right-hand sides in float64: Q(S), then p(y), each correctly rounded."""
        return np.array([float(mass) for mass in (*self.set_mass, *self.token_mass)])

    @cached_property
    def matrix(self) -> Any:
        """(sets + n, pairs) sparse 0/1 matrix of the constraints."""
        sparse = load("scipy.sparse", "lp")
        pairs = np.arange(len(self.rows))
        index = np.concatenate((self.rows, self.tokens + len(self.token_sets)))
        entries = (np.ones(len(index)), (index, np.concatenate((pairs, pairs))))
        return sparse.csr_matrix(entries, shape=(len(self.bounds), len(pairs)))

    @cached_property
    def denominator(self) -> int:
        """Common denominator of all masses. Raises SolverFailed if the integers exceed MAX_BITS."""
        return common_denominator((*self.set_mass, *self.token_mass))

    def capacities(self, denominator: int) -> tuple[list[int], list[int]]:
        """Q(S) and p(y) in units of 1 / denominator, rounded down (exact over the common denominator)."""
        of_sets = [mass.numerator * denominator // mass.denominator for mass in self.set_mass]
        return of_sets, [mass.numerator * denominator // mass.denominator for mass in self.token_mass]

    def lowest_cut(self, token_prices: np.ndarray, denominator: int) -> tuple[np.ndarray, int]:
        """The token set H with the smallest 1 + p(H) - Q(all drafts in H) among prefixes of tokens by falling price.

        Returns H, bool (n,), and its value in units of 1 / denominator, rounded up. Every threshold of an optimal dual
        is an optimal cut, so that rounded prices, too, give the right set; integers, because cuts may differ by 1e-20.
        """
        order = np.argsort(-token_prices, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        complete = np.zeros(len(self.token_sets), dtype=np.int64)  # smallest i such that S is in the first i tokens
        np.maximum.at(complete, self.rows, rank[self.tokens] + 1)
        of_sets, _ = self.capacities(denominator)
        cuts = [denominator] + [-(-mass.numerator * denominator // mass.denominator) for mass in self.exact.p[order]]
        for size, mass in zip(complete.tolist(), of_sets, strict=True):
            cuts[size] -= mass
        cuts = list(accumulate(cuts))
        size = cuts.index(min(cuts))
        return rank < size, cuts[size]

    def numbers(self, values: Any) -> np.ndarray:
        """Convert Fractions to the number type of the problem: Fractions, or float64 for numpy and torch floats."""
        exact = np.array(values, dtype=object)
        return exact if xp.is_exact(self.problem.p) else exact.astype(np.float64)


@dataclass(frozen=True, eq=False)
class RawSolution:
    """The numbers of a solver, not verified.

    flow: (pairs,) mass on every pair (draft set, token of it); floats, or integers over `denominator`.
    prices: (sets + n,) dual variables of the constraints, of draft sets and then of tokens, >= 0 in exact arithmetic.
    """

    flow: Any
    prices: np.ndarray
    status: str
    denominator: int | None = None


def build(problem: Problem) -> Program:
    """The reduced program of one problem. Raises InvalidDistribution for a batch, InvalidArgument for too many draft sets."""
    check_one(problem)
    exact = Problem(as_fractions(problem.p), as_fractions(problem.q), problem.k, problem.law)
    masses = sorted(drafted_sets(exact).items())
    token_sets = tuple(tokens for tokens, _ in masses)
    rows = np.array([row for row, tokens in enumerate(token_sets) for _ in tokens], dtype=np.int64)
    tokens = np.array([token for members in token_sets for token in members], dtype=np.int64)
    return Program(problem, exact, token_sets, tuple(mass for _, mass in masses), tuple(exact.p), rows, tokens)


def common_denominator(masses: tuple[Fraction, ...], max_total_bits: int = 1 << 31) -> int:
    """Least common denominator. Raises SolverFailed if the numerators need more than max_total_bits; default 256 MiB."""
    common, limit = 1, max_total_bits // len(masses)
    for mass in masses:
        common = lcm(common, mass.denominator)
        if common.bit_length() > limit:
            raise SolverFailed(
                f"the common denominator of {len(masses)} masses has over {limit} bits, too many for exact"
                ' integers. Use solver="highs".'
            )
    return common


def check_one(problem: Problem) -> None:
    """Raise InvalidDistribution for a batch, and for arrays without values."""
    if problem.batch:
        raise InvalidDistribution(
            f"problem must be a single problem, got a batch of shape {problem.batch}. Use otd.optimal_acceptance for"
            " batches."
        )
    if xp.is_meta(problem.p):
        raise InvalidDistribution(
            "p and q must hold values, got tensors on torch's meta device. Pass tensors on another device."
        )


def seconds(law: DraftLaw, q: Array, k: int, seconds_per_set: float = 25e-6, least_seconds: float = 1e-3) -> float:
    """Estimated seconds to solve the program for q (n,), from the number of draft sets; infinite if they are too many to solve.

    least_seconds: for two tokens, measured 1e-3 to 3e-3. seconds_per_set: with HiGHS, measured 10e-6 to 20e-6 for i.i.d. draft tokens,
    20e-6 to 90e-6 without replacement.
    """
    count = sets.most(law, q, k)
    return inf if q.shape[-1] > sets.MAX_TOKENS or count > sets.MAX_SETS else least_seconds + count * seconds_per_set


def drafted_sets(problem: Problem) -> dict[tuple[int, ...], Fraction]:
    """P(the drafted tokens are exactly S), for every S of positive probability; one problem in Fractions.

    Raises InvalidArgument before the enumeration if there are too many sets or tokens.
    """
    law, q, k = problem.law, problem.q, problem.k
    support = int((q > 0).sum())
    if problem.n > sets.MAX_TOKENS or comb(support, min(sets.draws(law, q, k), support)) > sets.MAX_SETS:
        raise sets.too_many()
    return {sets.tokens_of(bits): Fraction(mass) for bits, mass in set_probabilities(law, q, k).items()}


def as_fractions(x: Array) -> np.ndarray:
    """(n,) masses as Fractions with sum 1: floats are read as binary rationals and divided by their exact sum."""
    if xp.is_exact(x):
        return x
    units = as_integers(x)
    whole = sum(units)
    return np.array([Fraction(mass, whole) for mass in units], dtype=object)


def as_integers(x: Array) -> list[int]:
    """(n,) masses, exactly, as integers proportional to them."""
    if xp.is_exact(x):
        unit = lcm(*(mass.denominator for mass in x))
        return [mass.numerator * (unit // mass.denominator) for mass in x]
    return of_floats(xp.to_host(x))[0]


def of_floats(x: np.ndarray) -> tuple[list[int], int]:
    """Floats >= 0 exactly: integers (n,) over one denominator, a power of two."""
    parts, exponents = np.frexp(x.astype(np.float64))
    exponents = np.where(parts > 0, exponents - 53, 0)
    lowest = min(int(exponents.min(initial=0)), 0)
    wholes = (parts * 2.0**53).astype(np.int64)
    return [whole << up for whole, up in zip(wholes.tolist(), (exponents - lowest).tolist(), strict=True)], 1 << -lowest
