"""The inequalities in one unknown that the bounds for K-SEQ use, k = 2 .. 16, and the limits."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import sympy

import ot_draft as otd

from ...polynomials import X, is_nonnegative, rational, single_root
from ...statement import Proof

MOST = 16
DIGITS = 60
MORE, CONCAVE, LIMIT = "factor 1 % larger", "t^k >= 1 + k (t - 1) + (t - 1)^2/100 everywhere", "limit 1 - 1/3"


def root_equation(k: int) -> Any:
    """Return k^k x^{k-1} - (k-1)^{k-1} (1 + x + ... + x^{k-1}), whose root in (0, 1) is x_k."""
    return k**k * X ** (k - 1) - (k - 1) ** (k - 1) * sum(X**j for j in range(k))


@cache
def share_between(k: int) -> tuple[Fraction, Fraction]:
    """Return numbers at most 1e-15 apart with rho_k = 1 - x_k^k between them."""
    low, high = single_root(root_equation(k), Fraction(0), Fraction(1), DIGITS)
    return 1 - high**k, 1 - low**k


def inequalities(k: int, error: str) -> Iterator[tuple[str, Any, Fraction | int, Fraction | int]]:
    """Yield name, polynomial, and the interval on which it is claimed to be >= 0."""
    factor = rational(otd.kseq_bound(k)) * (sympy.Rational(101, 100) if error == MORE else 1)
    passes = 1 - (1 - X) ** k
    yield "1 - (1 - b)^k >= factor k b", passes - factor * k * X, 0, Fraction(1, k)
    yield "1 - (1 - b)^k >= b", passes - X, 0, 1
    yield "1 - (1 - b)^k <= k b", k * X - passes, 0, 1
    more = (X - 1) ** 2 * sympy.Rational(101, 100) if error == CONCAVE else 0
    yield "t^k >= 1 + k (t - 1)", X**k - 1 - k * (X - 1) - more, 0, 2
    above, below = sum(j * X ** (j - 1) for j in range(1, k)), k * X ** (k - 1)
    yield "-h'/P' falls in x", above * sympy.diff(below, X) - sympy.diff(above, X) * below, 0, 1


def limits(error: str) -> Iterator[tuple[str, bool]]:
    """Yield the limits: 1 - (1 - 1/k)^k falls to 1 - 1/e; with x = 1 - t/k the equation of x_k tends to t e^{1-t} = 1 - e^{-t}.

    rho_k falls.
    """
    k, t = sympy.Symbol("k", positive=True), sympy.Symbol("t", positive=True)
    last = sympy.Rational(2, 3) if error == LIMIT else 1 - sympy.exp(-1)
    factors = [rational(otd.kseq_bound(number)) for number in range(1, MOST + 1)]
    falls = all(a > b for a, b in pairwise([*factors, last]))
    yield "1 - (1 - 1/k)^k falls to 1 - 1/e", falls and sympy.limit(1 - (1 - 1 / k) ** k, k, sympy.oo) == last
    left = sympy.limit((1 - t / k) ** (k - 1) * (1 - 1 / k) ** (1 - k), k, sympy.oo)
    yield "equation of x_k", sympy.simplify(left - sympy.exp(1 - t)) == 0
    shares = [share_between(number) for number in range(2, MOST + 1)]
    yield "rho_k falls", all(first[0] > second[1] for first, second in pairwise(shares))
    t_limit = sympy.nsolve(sympy.exp(t) - 1 - sympy.E * t, t, 1.75)
    yield "rho_k stays above its limit", float(shares[-1][0]) > float(1 - sympy.exp(-t_limit)) > 0.8263


def lemmas(error: str) -> Proof:
    """Return all of them."""
    outcome, count = f"proved for k = 2 .. {MOST}", 0
    for k in range(2, MOST + 1):
        for name, expression, low, high in inequalities(k, error):
            if not is_nonnegative(expression, low, high):
                return Proof(outcome, count, f"k = {k}: not {name}")
            count += 1
    for name, holds in limits(error):
        if not holds:
            return Proof(outcome, count, f"not: {name}")
        count += 1
    return Proof(f"{outcome}, and the limits ({count} lemmas)", count)
