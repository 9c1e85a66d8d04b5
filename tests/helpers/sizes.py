"""Cases of a test that `make test` leaves out, for the sake of its six minutes; `make test CASES=all` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

# What the fixture of that name gives: of the quick cases' number and that of all, the one to take.
Sized = Callable[[int, int], int]


def thorough(*values: Any) -> Any:
    """One case of a parametrised test, left out by `make test`: values of its arguments."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def first(number: int, cases: Iterable[Any]) -> list[Any]:
    """The cases of a test of one argument; those behind the first so many are left out by `make test`."""
    return [case if place < number else thorough(case) for place, case in enumerate(cases)]


def first_rows(number: int, cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The same for a test of several arguments."""
    return [case if place < number else thorough(*case) for place, case in enumerate(cases)]
