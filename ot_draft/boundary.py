"""Checks of arguments and of parsed JSON, for the public functions and the readers of files."""

from __future__ import annotations

from math import inf
from operator import index
from typing import Any

import numpy as np

from .errors import DraftSelectionError, InvalidArgument


def int_from(
    name: str,
    value: Any,
    least: float = -inf,
    below: float = inf,
    error: type[DraftSelectionError] = InvalidArgument,
    remedy: str = "Pass such an integer.",
) -> int:
    """Return value as an int. Raises `error` unless it is an integer of at least `least` and below `below`."""
    if type(value) is int and least <= value < below:
        return value
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or not least <= number < below:
        limits = [f"of at least {least}"] * (least > -inf) + [f"below {below}"] * (below < inf)
        given = "an integer beyond 64 bits" if number is not None and abs(number) >= 2**64 else f"{value!r:.40}"
        raise error(f"{name} must be {' '.join(('an integer', ' and '.join(limits))).strip()}, got {given}. {remedy}")
    return number


def probability(name: str, value: Any, slack: float = 0.0, error: type[DraftSelectionError] = InvalidArgument) -> float:
    """Return value as a float. Raises `error` unless it is a number from 0 to 1 + slack, or NaN for an unknown probability."""
    if not isinstance(value, float | int | np.floating | np.integer) or not (0 <= value <= 1 + slack or value != value):
        given = "an integer beyond 64 bits" if type(value) is int and abs(value) >= 2**64 else f"{value!r:.40}"
        raise error(f"{name} must be a number from 0 to 1, got {given}. Pass a probability.")
    return float(value)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, for `object_pairs_hook`. Raises ValueError if a key occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(name for name in names if names.count(name) > 1)!r}")
    return found
