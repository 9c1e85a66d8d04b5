"""Numbers in texts for people: short fractions as they are, long ones as the float that they are, or are next to."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ...arrays import Array

DIGITS = 20  # of a fraction, in all; one next to a float's last place has 33, one with a subnormal mass hundreds
NEAREST = Context(prec=17)  # decimals of a float64; unlike a float itself they tell subnormal numbers apart


def is_long(value: Any) -> bool:
    """Whether a number is a fraction that nobody can read."""
    return isinstance(value, Fraction) and len(f"{value.numerator}{value.denominator}") > DIGITS


def number(value: Any) -> str:
    """1/3; of a fraction of over 20 digits the float, 0.49999999999999994, with ≈ before it where it is next to one only."""
    if not is_long(value):
        return str(value)
    near = float(value)
    if Fraction(near) == value:
        return repr(near)
    return f"≈{NEAREST.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize()}"


def numbers(values: Array) -> str:
    """Masses in a text: (1/2, 1/3)."""
    return "(" + ", ".join(map(number, np.asarray(values).ravel().tolist())) + ")"


def fraction_source(value: Fraction) -> str:
    """Python that makes exactly this Fraction, with `F` for the class: of floats where it has over 20 digits and they can."""
    if is_long(value):
        near = float(value)
        rest = value - Fraction(near)
        if rest == 0:
            return f"F({near!r})"
        if Fraction(float(rest)) == rest:
            return f"F({near!r}) {'-' if rest < 0 else '+'} F({float(abs(rest))!r})"
    return f"F({value.numerator}, {value.denominator})" if value.denominator > 1 else f"F({value})"
