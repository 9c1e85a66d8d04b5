"""Kinds of arrays, and conversions between them."""

import sys
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from ..errors import InvalidArgument

Array = Any  # numpy.ndarray of float or Fraction, or torch.Tensor


def is_torch(x: object) -> bool:
    """Whether x is a torch tensor; never imports torch."""
    if type(x) is np.ndarray:  # the short way: a path rule asks a thousand times
        return False
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_exact(x: Any) -> bool:
    """Whether x is an array of Fractions."""
    return type(x) is np.ndarray and x.dtype.hasobject


def is_meta(x: Array) -> bool:
    """Whether x is a torch tensor on the meta device, which has a shape but no values."""
    return is_torch(x) and x.device.type == "meta"


def namespace(x: Array) -> Any:
    """The module, numpy or torch, whose functions take x."""
    return sys.modules["torch"] if is_torch(x) else np


def epsilon(x: Array) -> float:
    """Distance from 1 to the next number of the type of x; 0 for Fractions."""
    return 0.0 if is_exact(x) else float(namespace(x).finfo(x.dtype).eps)


def number(value: Any, like: Array) -> Any:
    """Return a parameter in the kind of an array.

    Parameters
    ----------
    value : number
        A parameter, which may be a float.
    like : array
        An array.

    Returns
    -------
    out : Fraction or float
        The Fraction of just this value if like holds Fractions, else a float.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.number(0.5, np.ones(1))
    0.5
    """
    return Fraction(value) if is_exact(like) else float(value)


def zero(x: Array) -> Any:
    """The number 0 in the number type of x."""
    return Fraction(0) if is_exact(x) else 0


def exactly(*operands: Any) -> list[Any]:
    """Operands of an operation with Fractions: integers become Fractions, infinity stays. Raises InvalidArgument for other floats."""
    return [x if isinstance(x, Fraction) or is_exact(x) else _as_fraction(x) for x in operands]


def _as_fraction(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.ndim and x.dtype.kind in "biu":
        return np.asarray(np.frompyfunc(Fraction, 1, 1)(x.astype(np.int64)), dtype=object)
    if isinstance(x, int | np.integer | np.bool_):
        return Fraction(int(x))
    if isinstance(x, float | np.floating) and (np.isinf(x) or x.is_integer()):
        return x if np.isinf(x) else Fraction(int(x))
    shown, remedy = (f"the float {x!s}", f'fractions.Fraction("{x!s}")') if np.ndim(x) == 0 else ("floats", "Fractions")
    raise InvalidArgument(f"operands of Fractions must be Fractions or integers, got {shown}. Give {remedy}.")


def batch_shape(*arrays: Array) -> tuple[int, ...]:
    """Common shape of all axes but the last."""
    shapes = {tuple(a.shape[:-1]) for a in arrays}
    return shapes.pop() if len(shapes) == 1 else tuple(np.broadcast_shapes(*shapes))


def double(x: Array) -> Array:
    """x in float64; Fractions are unchanged."""
    if is_torch(x):
        return x.to(namespace(x).float64)
    return x if is_exact(x) else x.astype(np.float64)


def floats(x: Array) -> Array:
    """x in float64; Fractions are rounded, and infinite on overflow."""
    return np.asarray(_nearest_float(x), dtype=np.float64) if is_exact(x) else double(x)


def _float_of_fraction(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:
        return inf


_nearest_float = np.frompyfunc(_float_of_fraction, 1, 1)


def on_host(x: Array) -> bool:
    """Whether values can be read without a host sync."""
    return not is_torch(x) or x.device.type == "cpu"


def host_view(x: Array) -> Array:
    """x as numpy if that is a view without a copy (torch on the CPU): operations on small arrays take half the time."""
    return x.numpy() if is_torch(x) and on_host(x) else x


def host_views(*arrays: Array) -> tuple[Array, ...]:
    """`host_view` of all arrays; unchanged if one has no numpy view, as in bfloat16."""
    if any(is_torch(x) and str(x.dtype) == "torch.bfloat16" for x in arrays):
        return arrays
    return tuple(map(host_view, arrays))


def from_view(x: Array, other: Array) -> Array:
    """Inverse of `host_view`, to the kind of `other`."""
    return namespace(other).from_numpy(x) if is_torch(other) and not is_torch(x) else x


def to_host(x: Array) -> np.ndarray:
    """x as numpy, from any device: a host sync."""
    return np.asarray(x.detach().cpu().numpy() if is_torch(x) else x)


def from_host(x: np.ndarray, other: Array) -> Array:
    """Inverse of `to_host`, to the kind, type and device of `other`."""
    if is_torch(other):
        return namespace(other).as_tensor(x, dtype=other.dtype, device=other.device)
    return x if is_exact(other) else x.astype(other.dtype)


def holds_without_sync(condition: Array) -> bool:
    """Whether the condition holds everywhere, on the CPU; False on a device, where reading it would be a host sync."""
    return on_host(condition) and bool(condition.all())
