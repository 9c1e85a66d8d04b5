"""Functions on arrays of all supported kinds, imported as `xp`, with the names of the array API standard where it has them.

Supported are object arrays of `Fraction` (proofs), NumPy arrays of floats, and torch tensors (decoding; also on the `meta` device, which
exposes host syncs). Rules use these functions, and operators, indexing and methods that numpy and torch share, such as
`x.sum(-1, keepdims=True)`; without `keepdims`, a row of Fractions is summed to a `Fraction`, which cannot be indexed. With arrays of
Fractions, integer operands become Fractions and other floats raise InvalidArgument, so that results stay exact. Names in `__all__` are
public, for rules of your own.

`standard` has the functions of the array API, `masses` those of probability vectors, `kinds` conversions. The package array-api-compat is
not used: on arrays of Fractions its `where`, `minimum`, `full`, `cumulative_sum` and `astype` return ints, floats or bools.

    from ot_draft import arrays as xp
"""

# ruff: noqa: F401  (the library uses private names of this namespace, too)

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
