"""Functions by the array API standard's names, for every kind of array, where the kinds differ.

`sum`, `any`, `all`, `prod`, `cumsum` are not among them: as methods of an array, `x.sum(-1, keepdims=True)`, they are the same on
all kinds. Beside the standard, `divide` says what stands for a / 0, and whole numbers beside Fractions become Fractions.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from ..errors import InvalidArgument
from .kinds import Array, batch_shape, exactly, from_view, host_view, is_exact, is_torch, namespace, on_host


def full(shape: tuple[int, ...], value: Any, *, like: Array) -> Array:
    """Constant array of like's kind, type and device."""
    if is_torch(like):
        return namespace(like).full(shape, float(value), dtype=like.dtype, device=like.device)
    (value,) = exactly(value) if is_exact(like) else [float(value)]
    return np.full(shape, value, dtype=like.dtype)


def empty(shape: tuple[int, ...], *, like: Array) -> Array:
    """Memory of like's kind, type and device, with nothing said about what it holds."""
    if is_torch(like):
        return namespace(like).empty(shape, dtype=like.dtype, device=like.device)
    return np.empty(shape, dtype=like.dtype)


def arange(stop: int, *, like: Array) -> Array:
    """The integers 0 .. stop - 1, on like's device."""
    return namespace(like).arange(stop, device=like.device) if is_torch(like) else np.arange(stop)


def integers(values: Any, *, like: Array) -> Array:
    """Integer array on like's device."""
    if is_torch(like):
        torch = namespace(like)
        return torch.as_tensor(values, dtype=torch.int64, device=like.device)
    return np.asarray(values, dtype=np.int64)


def broadcast_to(x: Array, shape: tuple[int, ...]) -> Array:
    """View of x in the given shape."""
    if x.shape == shape:
        return x
    return x.expand(shape) if is_torch(x) else np.broadcast_to(x, shape)


def copy(x: Array) -> Array:
    """x in memory of its own."""
    return x.clone() if is_torch(x) else x.copy()


def astype(x: Array, dtype: Any) -> Array:
    """x in another number type; among Fractions (dtype object) a condition becomes 0 or 1."""
    if is_torch(x):
        return x.to(dtype)
    if not np.dtype(dtype).hasobject:
        return x.astype(dtype)
    return x if is_exact(x) else np.where(x, *exactly(1, 0)) if x.dtype == bool else exactly(x)[0]


def concat(arrays: Sequence[Array], *, axis: Literal[-1]) -> Array:
    """Arrays (..., a), (..., b), ... joined along the last axis: (..., a + b + ...), after broadcasting the others."""
    if axis != -1:
        raise InvalidArgument(f"axis is {axis}: rules join along the last axis, -1")
    batch = arrays[0].shape[:-1]
    if any(x.shape[:-1] != batch for x in arrays[1:]):
        batch = batch_shape(*arrays)
        arrays = [broadcast_to(x, (*batch, x.shape[-1])) for x in arrays]
    return namespace(arrays[0]).concatenate(tuple(arrays), -1)


def max(x: Array, *, axis: int, keepdims: bool = False) -> Array:
    """Largest entry along an axis. Keep the axis where x may be a single row of Fractions: else a bare Fraction is left."""
    return x.amax(axis, keepdim=keepdims) if is_torch(x) else x.max(axis, keepdims=keepdims)


def min(x: Array, *, axis: int, keepdims: bool = False) -> Array:
    """Smallest entry along an axis, as in `max`."""
    return x.amin(axis, keepdim=keepdims) if is_torch(x) else x.min(axis, keepdims=keepdims)


def minimum(a: Any, b: Any) -> Array:
    """Smaller of two arrays, or of an array and a number."""
    if type(a) is not np.ndarray and (is_torch(a) or is_torch(b)):
        return a.clamp(max=b) if is_torch(a) else b.clamp(max=a)
    return np.minimum(*exactly(a, b)) if is_exact(a) or is_exact(b) else np.minimum(a, b)


def maximum(a: Any, b: Any) -> Array:
    """Larger of two arrays, or of an array and a number."""
    if type(a) is not np.ndarray and (is_torch(a) or is_torch(b)):
        return a.clamp(min=b) if is_torch(a) else b.clamp(min=a)
    return np.maximum(*exactly(a, b)) if is_exact(a) or is_exact(b) else np.maximum(a, b)


def where(condition: Array, a: Any, b: Any) -> Array:
    """a where the condition holds, else b: arrays or numbers."""
    if type(condition) is not np.ndarray and is_torch(condition):
        return namespace(condition).where(condition, a, b)
    return np.where(condition, *exactly(a, b)) if is_exact(a) or is_exact(b) else np.where(condition, a, b)


_exact_divide = np.frompyfunc(lambda a, b, otherwise: Fraction(a) / b if b != 0 else otherwise, 3, 1)


def divide(a: Any, b: Any, otherwise: Any) -> Array:
    """a / b, and `otherwise` where b is 0: 0/0 under a `where` warns in numpy and raises on Fractions."""
    if is_torch(b):
        none = b == 0  # 0/0 under a `where` has gradient NaN
        return namespace(b).where(none, otherwise, a / b.masked_fill(none, 1))
    if is_exact(a) or is_exact(b):
        return np.asarray(_exact_divide(*exactly(a, b, otherwise)), dtype=object)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0, otherwise, np.divide(a, b))


def argsort(x: Array, *, stable: bool = False) -> Array:
    """Ascending order along the last axis. On the CPU numpy's sort: torch's takes seven times as long."""
    if not on_host(x):
        return x.argsort(dim=-1, stable=stable)
    if is_exact(x):
        return _exact_order(x)
    return from_view(np.argsort(host_view(x), axis=-1, kind="stable" if stable else None), x)


def _exact_order(x: np.ndarray) -> np.ndarray:
    """Stable order of Fractions by their floats, which rounding may make equal, but never turns round."""
    try:
        near = x.astype(np.float64)
    except OverflowError:  # a ratio of masses beyond the floats
        return np.argsort(x, axis=-1, kind="stable")
    order = np.argsort(near, axis=-1, kind="stable")
    ranked, exact = take_along_axis(near, order), take_along_axis(x, order)
    tied = ranked[..., 1:] == ranked[..., :-1]
    one_order = bool((exact[..., 1:][tied] == exact[..., :-1][tied]).all())
    return order if one_order else np.argsort(x, axis=-1, kind="stable")


def take_along_axis(x: Array, indices: Array) -> Array:
    """x at the indices of its last axis, all of them there (`gather` knows absent ones): (..., n), int (..., m) -> (..., m)."""
    if is_torch(x):
        return x.gather(-1, indices)
    if x.ndim == 2:  # numpy's function does the same in three times the time on few numbers
        return x[np.arange(len(x))[:, None], indices]
    return np.take_along_axis(x, indices, -1)
