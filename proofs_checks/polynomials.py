"""Signs of polynomials in one unknown, decided exactly by counting real roots (Sturm)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sympy import Poly, Rational, Symbol

X = Symbol("x")


def polynomial(expression: Any) -> Poly:
    """Return an expression as a polynomial in X with rational coefficients."""
    return Poly(expression, X, domain="QQ")


def at(poly: Poly, x: Fraction) -> Fraction:
    """Return the value of a polynomial."""
    value = poly.eval(rational(x))
    return Fraction(int(value.p), int(value.q))


def rational(x: Fraction | int) -> Any:
    """Return a Fraction as a sympy number."""
    return Rational(Fraction(x).numerator, Fraction(x).denominator)


def is_nonnegative(expression: Any, low: Fraction | int, high: Fraction | int) -> bool:
    """Return whether it is >= 0 on all of [low, high]: no factor of odd multiplicity changes its sign inside, and one value is > 0."""
    poly, low, high = polynomial(expression), Fraction(low), Fraction(high)
    if poly.is_zero:
        return True
    for factor, multiplicity in poly.sqf_list()[1]:
        ends = sum(at(factor, end) == 0 for end in {low, high})
        if multiplicity % 2 and factor.count_roots(rational(low), rational(high)) > ends:
            return False
    inside = (low + (high - low) * Fraction(i, 2 * poly.degree() + 3) for i in range(1, 2 * poly.degree() + 3))
    return next(value for x in inside if (value := at(poly, x))) > 0


def single_root(expression: Any, low: Fraction, high: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Return two numbers 2^-digits apart that enclose the only root in (low, high), at which the sign changes from negative to positive."""
    poly = polynomial(expression)
    if poly.count_roots(rational(low), rational(high)) != 1 or not at(poly, low) < 0 < at(poly, high):
        raise ValueError(f"{poly.as_expr()} does not rise through a single root in ({low}, {high})")
    while high - low > Fraction(1, 1 << digits):
        middle = (low + high) / 2
        low, high = (middle, high) if at(poly, middle) <= 0 else (low, middle)
    return low, high
