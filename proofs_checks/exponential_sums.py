"""Sums of c e^{-r s} in exact arithmetic: what the distributions of exponential races are made of."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

Sum = dict[Fraction, Fraction]  # rate r >= 0 -> coefficient c


def plus(first: Sum, second: Sum, times: int | Fraction = 1) -> Sum:
    """Return first + times * second."""
    total = dict(first)
    for rate, coefficient in second.items():
        total[rate] = total.get(rate, Fraction(0)) + times * coefficient
    return {rate: coefficient for rate, coefficient in total.items() if coefficient}


def product(first: Sum, second: Sum) -> Sum:
    """Return first * second."""
    total: Sum = {}
    for rate, coefficient in first.items():
        for other_rate, factor in second.items():
            total[rate + other_rate] = total.get(rate + other_rate, Fraction(0)) + coefficient * factor
    return {rate: coefficient for rate, coefficient in total.items() if coefficient}


def power(base: Sum, exponent: int) -> Sum:
    """Return base^exponent."""
    result: Sum = {Fraction(0): Fraction(1)}
    for _ in range(exponent):
        result = product(result, base)
    return result


def integral(terms: Sum) -> Fraction:
    """Return the integral over s from 0 to infinity; every rate must be above 0."""
    return sum((coefficient / rate for rate, coefficient in terms.items()), Fraction(0))


def over_delays(exponent: Callable[[Fraction], Fraction], bends: list[Fraction], end: Fraction | None) -> Sum:
    """Return the integral over v from 0 to `end` (None: infinity) of s e^{-s exponent(v)}, as a sum in s.

    exponent: increasing, and straight between the bends.
    """
    inner = sorted({v for v in bends if v > 0 and (end is None or v < end)})
    marks = [Fraction(0), *inner] + ([] if end is None else [end])
    total: Sum = {}
    for low, high in pairwise(marks):
        slope = (exponent(high) - exponent(low)) / (high - low)
        total = plus(plus(total, {exponent(low): 1 / slope}), {exponent(high): -1 / slope})
    if end is None:
        slope = exponent(marks[-1] + 1) - exponent(marks[-1])
        total = plus(total, {exponent(marks[-1]): 1 / slope})
    return total
