"""Functions on arrays, as `xp`, by the array API's names where it has them: a rule that is written with them runs on every kind.

Three kinds run through the same code: object arrays of `Fraction` (proof), float numpy (theory) and torch tensors
(decoding; also on the `meta` device, which exposes every hidden host sync). All else is operators, indexing and methods that numpy
and torch share (`x.sum(-1, keepdims=True)`; without `keepdims` a single row of Fractions is summed to a bare `Fraction`, which
cannot be indexed). Where an array holds Fractions, whole numbers beside it become Fractions and other floats are refused, so that
nothing ends exactness in silence. What stands in `__all__` is for rules of your own; the rest is how the library does it.

`standard` has the array API's functions, `masses` those of the domain, `kinds` tells kinds apart. The package array-api-compat was tried
(1.16, 22 calls of rules): it carries all of them on numpy and all but `put_along_axis` on torch and its meta device, but 13 on arrays of
Fractions. There `where(c, x, 1)`, `where(c, x, 0.5)`, `minimum(x, 0)`, `full`, `cumulative_sum` and `astype` leave ints, floats or bools
behind without a word, and a / 0 raises: just these would have to be written beside it. Its `take_along_axis` takes about three times as
long on 2 x 8 numbers, its `argsort` of a vocabulary on the CPU six times. So the names are the standard's, and the package is not needed.

    from ot_draft import arrays as xp
"""

# ruff: noqa: F401  (the library asks for more of this namespace than is public)

from typing import TYPE_CHECKING, Any

from ..names import did_you_mean
from .kinds import (
    Array,
    batch_shape,
    double,
    epsilon,
    floats,
    from_host,
    from_view,
    holds_without_sync,
    host_view,
    host_views,
    is_exact,
    is_meta,
    is_torch,
    namespace,
    number,
    on_host,
    to_host,
)
from .masses import (
    add_at,
    at_least_one,
    excess,
    first_present,
    gather,
    inverse_cdf,
    members,
    normalise,
    overlap,
    prefix_minimum,
    prefix_sums,
    ratio,
    residual,
    rows,
    scatter_add,
    suffix_maximum,
    top_masses,
    top_tokens,
    with_zeros_at,
)
from .standard import (
    arange,
    argsort,
    astype,
    broadcast_to,
    concat,
    copy,
    divide,
    empty,
    full,
    integers,
    max,
    maximum,
    min,
    minimum,
    take_along_axis,
    where,
)

__all__ = [
    "Array",
    "argsort",
    "astype",
    "concat",
    "divide",
    "excess",
    "first_present",
    "full",
    "gather",
    "max",
    "maximum",
    "min",
    "minimum",
    "normalise",
    "number",
    "residual",
    "scatter_add",
    "take_along_axis",
    "top_tokens",
    "where",
]

if not TYPE_CHECKING:  # type checkers would take every name for defined

    def __getattr__(name: str) -> Any:
        """Raise AttributeError with the closest public names."""
        remedy = (
            did_you_mean(name, __all__)
            or f"Use arithmetic operators, methods such as x.sum(-1), or {', '.join(__all__)}."
        )
        raise AttributeError(f"module {__name__} must have the attribute, got {name!r}. {remedy}")
