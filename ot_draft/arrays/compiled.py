"""Loops that array operations cannot express, compiled by numba where it is installed (extra `fast`)."""

from collections.abc import Callable
from functools import cache
from typing import Any

REORDERED = frozenset({"reassoc", "contract"})  # sums in any order, which the processor adds many at a time


@cache
def compiled(
    function: Callable[..., Any], fastmath: frozenset[str] = frozenset(), errors: str = "python"
) -> Callable[..., Any] | None:
    """The function, compiled at its first call and kept on disk where there is a place; None without numba. One way for each function.

    errors: "numpy" lets x / 0 be infinite, as in numpy, where a check would keep the processor from dividing many at a time.
    """
    try:
        import numba
    except ImportError:
        return None
    options: Any = {"fastmath": set(fastmath), "error_model": errors}
    jit: Callable[..., Any]
    try:
        jit = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's can be written
        jit = numba.njit(**options)(function)
    return jit
