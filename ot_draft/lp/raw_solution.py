"""What a solver hands back before anything is believed, and how an optional package is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import MissingPackage, SolverFailed


@dataclass(frozen=True, eq=False)
class RawSolution:
    """A solver's own numbers, unchecked.

    flow: (pairs,) mass on every pair (draft set, token of it); floats, or integers over `denominator`.
    set_prices: (sets,), token_prices: (n,) dual variables of the two families of constraints, >= 0 in exact arithmetic.
    """

    flow: Any
    set_prices: np.ndarray
    token_prices: np.ndarray
    status: str
    denominator: int | None = None


def load(package: str, extra: str) -> Any:
    """The module, imported when first used; MissingPackage names the extra to install."""
    root = package.partition(".")[0]
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != root:
            raise
        raise MissingPackage(root, extra) from None
    except ImportError as error:
        # ortools and highspy (loaded by cvxpy and PuLP) each bring a libhighs of one name: a process holds one of them.
        raise SolverFailed(
            f"{root} is installed and does not load ({error}). ortools and highspy, which cvxpy and PuLP load, exclude"
            ' each other in one process: use them in separate ones, or take solver="flow"'
        ) from error
