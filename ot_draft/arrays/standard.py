"""Functions with the names of the array API standard, for all kinds of arrays.

`sum`, `any`, `all`, `prod` and `cumsum` are omitted, because the methods, such as `x.sum(-1, keepdims=True)`, are the same for all kinds.
Unlike the standard, `divide` has an argument for the value of a / 0, and integer operands of Fractions become Fractions.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from .kinds import Array, batch_shape, exactly, from_view, host_view, is_exact, is_torch, namespace, on_host


def full(shape: tuple[int, ...], value: Any, *, like: Array) -> Array:
    """Return a constant array.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    value : number
        Value of every entry.
    like : array
        Array whose kind, type and device it has.

    Returns
    -------
    out : array of this shape
        The array.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.full((2,), 1, like=np.zeros(1)).tolist()
    [1.0, 1.0]
    """
    if is_torch(like):
        return namespace(like).full(shape, float(value), dtype=like.dtype, device=like.device)
    (value,) = exactly(value) if is_exact(like) else [float(value)]
    return np.full(shape, value, dtype=like.dtype)


def empty(shape: tuple[int, ...], *, like: Array) -> Array:
    """Uninitialised array of the kind, type and device of `like`."""
    if is_torch(like):
        return namespace(like).empty(shape, dtype=like.dtype, device=like.device)
    return np.empty(shape, dtype=like.dtype)


def arange(stop: int, *, like: Array) -> Array:
    """The integers 0 .. stop - 1, on the device of `like`."""
    return namespace(like).arange(stop, device=like.device) if is_torch(like) else np.arange(stop)


def integers(values: Any, *, like: Array) -> Array:
    """Integer array on the device of `like`."""
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
    """Copy of x."""
    return x.clone() if is_torch(x) else x.copy()


def astype(x: Array, dtype: Any) -> Array:
    """Return x in another number type.

    Parameters
    ----------
    x : array
        Numbers or conditions.
    dtype : dtype
        Type of x's kind. Among Fractions (dtype object) a condition becomes 0 or 1.

    Returns
    -------
    out : array of x's shape
        The array.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.astype(np.array([True, False]), np.float64).tolist()
    [1.0, 0.0]
    """
    if is_torch(x):
        return x.to(dtype)
    if not np.dtype(dtype).hasobject:
        return x.astype(dtype)
    return x if is_exact(x) else np.where(x, *exactly(1, 0)) if x.dtype == bool else exactly(x)[0]


def concat(arrays: Sequence[Array], *, axis: int = 0) -> Array:
    """Return arrays joined along the last axis, after broadcasting the other axes.

    Parameters
    ----------
    arrays : sequence of array, shapes (..., a), (..., b), ...
        Arrays of one kind.
    axis : int
        -1, the last axis. The default is that of the array API standard, and raises.

    Returns
    -------
    out : array of shape (..., a + b + ...)
        The joined array.

    Raises
    ------
    InvalidArgument
        If axis is not -1.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.concat((np.zeros((2, 1)), np.ones((1, 2))), axis=-1).tolist()
    [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    if axis != -1:
        raise InvalidArgument(f"axis must be -1, got {axis}. Rules join arrays along the last axis: pass axis=-1.")
    batch = arrays[0].shape[:-1]
    if any(x.shape[:-1] != batch for x in arrays[1:]):
        batch = batch_shape(*arrays)
        arrays = [broadcast_to(x, (*batch, x.shape[-1])) for x in arrays]
    return namespace(arrays[0]).concatenate(tuple(arrays), -1)


def max(x: Array, *, axis: int, keepdims: bool = False) -> Array:
    """Return the largest entry along an axis.

    Parameters
    ----------
    x : array
        Numbers.
    axis : int
        The axis.
    keepdims : bool, default=False
        Whether the axis stays, with length 1. Without it a single row of Fractions gives a bare Fraction.

    Returns
    -------
    out : array
        The entries.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> int(xp.max(np.array([3, 1, 2]), axis=-1))
    3
    """
    return x.amax(axis, keepdim=keepdims) if is_torch(x) else x.max(axis, keepdims=keepdims)


def min(x: Array, *, axis: int, keepdims: bool = False) -> Array:
    """Return the smallest entry along an axis.

    Parameters
    ----------
    x : array
        Numbers.
    axis : int
        The axis.
    keepdims : bool, default=False
        Whether the axis stays, with length 1. Without it a single row of Fractions gives a bare Fraction.

    Returns
    -------
    out : array
        The entries.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> int(xp.min(np.array([3, 1, 2]), axis=-1))
    1
    """
    return x.amin(axis, keepdim=keepdims) if is_torch(x) else x.min(axis, keepdims=keepdims)


def minimum(a: Any, b: Any) -> Array:
    """Return the smaller of two arrays, entry by entry.

    Parameters
    ----------
    a, b : array or number
        Operands, one of them an array.

    Returns
    -------
    out : array
        The entries.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.minimum(np.array([1, 3]), 2).tolist()
    [1, 2]
    """
    if type(a) is not np.ndarray and (is_torch(a) or is_torch(b)):
        return a.clamp(max=b) if is_torch(a) else b.clamp(max=a)
    return np.minimum(*exactly(a, b)) if is_exact(a) or is_exact(b) else np.minimum(a, b)


def maximum(a: Any, b: Any) -> Array:
    """Return the larger of two arrays, entry by entry.

    Parameters
    ----------
    a, b : array or number
        Operands, one of them an array.

    Returns
    -------
    out : array
        The entries.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.maximum(np.array([1, 3]), 2).tolist()
    [2, 3]
    """
    if type(a) is not np.ndarray and (is_torch(a) or is_torch(b)):
        return a.clamp(min=b) if is_torch(a) else b.clamp(min=a)
    return np.maximum(*exactly(a, b)) if is_exact(a) or is_exact(b) else np.maximum(a, b)


def where(condition: Array, a: Any, b: Any) -> Array:
    """Return a where the condition holds, else b.

    Parameters
    ----------
    condition : bool array
        The condition.
    a, b : array or number
        Values.

    Returns
    -------
    out : array
        The chosen values.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.where(np.array([True, False]), 1, 0).tolist()
    [1, 0]
    """
    if type(condition) is not np.ndarray and is_torch(condition):
        return namespace(condition).where(condition, a, b)
    return np.where(condition, *exactly(a, b)) if is_exact(a) or is_exact(b) else np.where(condition, a, b)


_exact_divide = np.frompyfunc(lambda a, b, otherwise: Fraction(a) / b if b != 0 else otherwise, 3, 1)


def divide(a: Any, b: Any, otherwise: Any) -> Array:
    """Return a / b, and another value where b is 0.

    Parameters
    ----------
    a, b : array or number
        Numerator and denominator. 0/0 under `where` would warn in NumPy and raise on Fractions.
    otherwise : array or number
        Value where b is 0.

    Returns
    -------
    out : array
        The quotients.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.divide(np.array([1.0, 1.0]), np.array([2.0, 0.0]), 0).tolist()
    [0.5, 0.0]
    """
    if is_torch(b):
        none = b == 0  # 0/0 in `where` has gradient NaN
        return namespace(b).where(none, otherwise, a / b.masked_fill(none, 1))
    if is_exact(a) or is_exact(b):
        return np.asarray(_exact_divide(*exactly(a, b, otherwise)), dtype=object)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0, otherwise, np.divide(a, b))


def argsort(x: Array, *, stable: bool = False) -> Array:
    """Return the indices that sort the last axis in ascending order.

    Parameters
    ----------
    x : array of shape (..., n)
        Numbers.
    stable : bool, default=False
        Whether equal numbers keep their order.

    Returns
    -------
    order : int array of shape (..., n)
        The indices.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.argsort(np.array([0.3, 0.1, 0.2])).tolist()
    [1, 2, 0]
    """
    if not on_host(x):
        return x.argsort(dim=-1, stable=stable)
    if is_exact(x):
        return _exact_order(x)
    return from_view(np.argsort(host_view(x), axis=-1, kind="stable" if stable else None), x)


def _exact_order(x: np.ndarray) -> np.ndarray:
    """Stable order of Fractions by their floats; ties after rounding are compared exactly."""
    try:
        near = x.astype(np.float64)
    except OverflowError:  # ratio too large for a float
        return np.argsort(x, axis=-1, kind="stable")
    order = np.argsort(near, axis=-1, kind="stable")
    ranked, exact = take_along_axis(near, order), take_along_axis(x, order)
    tied = ranked[..., 1:] == ranked[..., :-1]
    one_order = bool((exact[..., 1:][tied] == exact[..., :-1][tied]).all())
    return order if one_order else np.argsort(x, axis=-1, kind="stable")


def take_along_axis(x: Array, indices: Array) -> Array:
    """Return x at indices of its last axis.

    Parameters
    ----------
    x : array of shape (..., n)
        Numbers.
    indices : int array of shape (..., m)
        Indices, all of them >= 0; `gather` takes absent ones.

    Returns
    -------
    out : array of shape (..., m)
        The entries.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.take_along_axis(np.array([0.3, 0.1]), np.array([1, 1, 0])).tolist()
    [0.1, 0.1, 0.3]
    """
    if is_torch(x):
        return x.gather(-1, indices)
    if x.ndim == 2:  # numpy's function does the same in three times the time on few numbers
        return x[np.arange(len(x))[:, None], indices]
    return np.take_along_axis(x, indices, -1)
