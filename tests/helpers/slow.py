"""Cases of a test that `make test` leaves out and `make test-all` runs: those marked slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow(*values: Any, **named: Any) -> Any:
    """One slow case of a parametrised test: the values of its arguments, and `id=` its name."""
    return pytest.param(*values, marks=pytest.mark.slow, **named)


def slow_except(cases: Iterable[Any], *quick: str, name: Callable[[Any], str] = str) -> list[Any]:
    """The cases of a parametrised test under their names: values, or tuples of them. Those not named here are slow."""
    every = [(name(case), case if isinstance(case, tuple) else (case,)) for case in cases]
    names = [id for id, _ in every]
    if unknown := [id for id in quick if names.count(id) != 1]:
        raise ValueError(f"not one case is called {', '.join(unknown)}: there are {', '.join(names)}")
    return [(pytest.param if id in quick else slow)(*values, id=id) for id, values in every]
