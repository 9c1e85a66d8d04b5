"""Compilation of loops over the tokens of a row by numba (extra `fast`)."""

from collections.abc import Callable
from functools import cache, wraps
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..arrays import Array
from ..arrays.kinds import is_exact, is_torch, on_host
from ..arrays.masses import rows
from ..arrays.standard import broadcast_to

MIN_TOKENS = 4096  # min. row length for compiled loops
REORDERED = frozenset({"reassoc", "contract"})  # allow reordered sums, for SIMD


@cache
def installed() -> bool:
    """Whether numba can be imported."""
    return find_spec("numba") is not None


@cache
def compiled(
    function: Callable[..., Any], fastmath: frozenset[str] = frozenset(), errors: str = "python"
) -> Callable[..., Any] | None:
    """Return the function, compiled at its first call and kept on disk if there is a writable folder; None without numba.

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
    except RuntimeError:  # no writable cache folder
        jit = numba.njit(**options)(function)
    return jit


def loop(
    fastmath: frozenset[str] = frozenset(), errors: str = "python"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a loop: `compiled`, at its first call. numba must be `installed` then."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any) -> Any:
            jit = compiled(function, fastmath, errors)
            assert jit is not None
            return jit(*args)

        return call

    return decorate


def takes(mass: Array, *others: Array) -> bool:
    """Whether compiled loops are faster for these masses (..., n) and support all arrays: floats of one type on the CPU, no gradients."""
    if mass.shape[-1] < MIN_TOKENS or is_exact(mass) or not installed():
        return False
    if str(mass.dtype).removeprefix("torch.") not in ("float32", "float64"):
        return False
    every = (mass, *others)
    return all(on_host(x) and x.dtype == mass.dtype and not (is_torch(x) and x.requires_grad) for x in every)


def plain(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Return a small array in contiguous, writable memory: numba compiles a loop again for every other kind of memory."""
    return np.require(x, dtype, ("C", "W"))


def distinct_rows(batch: tuple[int, ...], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows (R, m) of x (..., m) in memory, and the index of each row of the batch, int (B,)."""
    once = x[tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides[:-1])]
    (each,) = rows(once.shape[:-1], once)
    return each, plain(broadcast_to(np.arange(len(each)).reshape(once.shape[:-1]), batch).reshape(-1))
