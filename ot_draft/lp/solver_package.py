"""The packages of solvers, some of which exclude each other in one process."""

from __future__ import annotations

from typing import Any

from .. import optional
from ..errors import MissingPackage, SolverFailed


def load(package: str, extra: str) -> Any:
    """`optional.load`; SolverFailed where the package is there and does not load."""
    try:
        return optional.load(package, extra)
    except (MissingPackage, ModuleNotFoundError):
        raise
    except ImportError as error:
        # ortools and highspy (loaded by cvxpy and PuLP) each bring a libhighs of one name: a process holds one of them.
        root = package.partition(".")[0]
        raise SolverFailed(
            f"{root} is installed and does not load ({error}). ortools and highspy, which cvxpy and PuLP load, exclude"
            ' each other in one process: use them in separate ones, or take solver="flow"'
        ) from error
