"""What the kinds of arrays do differently, as `xp`: a rule that is written with it runs on every kind.

Three kinds run through the same code: object arrays of `Fraction` (proof), float numpy (theory) and torch tensors
(decoding; also on the `meta` device, which exposes every hidden host sync). Everything else is operators, `.sum(-1)` and
indexing. Reductions keep the last axis, with length 1, because a 1-D object array would otherwise collapse to a bare
`Fraction`. Where an array holds Fractions, whole numbers beside it become Fractions and other floats are refused, so that
nothing ends exactness in silence. What stands in `__all__` is for rules of your own; the rest is how the library does it.

    from ot_draft import arrays as xp
"""

import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import inf, prod
from typing import Any

import numpy as np

from .errors import InvalidArgument
from .kernels import wanted

__all__ = [
    "Array",
    "argsort",
    "as_number",
    "concatenate",
    "divide",
    "excess",
    "first_present",
    "full",
    "gather",
    "largest",
    "maximum",
    "minimum",
    "normalise",
    "number",
    "smallest",
    "spread",
    "take",
    "top_tokens",
    "total",
    "where",
]

Array = Any  # numpy.ndarray of float or Fraction, or torch.Tensor

FEW = 16  # of so many tokens one or less: then the largest are searched for, and the rest is not sorted
BLOCK = 1024  # tokens a block in `inverse_cdf`: the vocabulary is read once, by sums, and one block by prefix sums


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
    """Whether x is a torch tensor without data: shapes only, values must not be asked for."""
    return is_torch(x) and x.device.type == "meta"


def namespace(x: Array) -> Any:
    """The module, numpy or torch, whose functions take x."""
    return sys.modules["torch"] if is_torch(x) else np


def epsilon(x: Array) -> float:
    """Distance from 1 to the next number of x's type; 0 for Fractions."""
    return 0.0 if is_exact(x) else float(namespace(x).finfo(x.dtype).eps)


def number(value: Any, like: Array) -> Any:
    """A parameter, which may be a float, in like's kind: the Fraction of just this value among Fractions, else a float."""
    return Fraction(value) if is_exact(like) else float(value)


def _nothing(x: Array) -> Any:
    """The number 0 of x's kind."""
    return Fraction(0) if is_exact(x) else 0


def _exactly(*operands: Any) -> list[Any]:
    """Operands among Fractions: whole numbers become Fractions, infinity stays. Raises InvalidArgument for other floats."""
    return [x if isinstance(x, Fraction) or is_exact(x) else _as_fraction(x) for x in operands]


def _as_fraction(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.ndim and x.dtype.kind in "biu":
        return np.asarray(np.frompyfunc(Fraction, 1, 1)(x.astype(np.int64)), dtype=object)
    if isinstance(x, int | np.integer | np.bool_):
        return Fraction(int(x))
    if isinstance(x, float | np.floating) and (np.isinf(x) or x.is_integer()):
        return x if np.isinf(x) else Fraction(int(x))
    shown, remedy = (f"the float {x!s}", f'fractions.Fraction("{x!s}")') if np.ndim(x) == 0 else ("floats", "Fractions")
    raise InvalidArgument(f"{shown} among Fractions would end exactness: give {remedy}, or whole numbers")


def full(shape: tuple[int, ...], value: Any, like: Array) -> Array:
    """Constant array of like's kind, type and device."""
    if is_torch(like):
        return namespace(like).full(shape, float(value), dtype=like.dtype, device=like.device)
    (value,) = _exactly(value) if is_exact(like) else [float(value)]
    return np.full(shape, value, dtype=like.dtype)


def empty(shape: tuple[int, ...], like: Array) -> Array:
    """Memory of like's kind, type and device, with nothing said about what it holds."""
    if is_torch(like):
        return namespace(like).empty(shape, dtype=like.dtype, device=like.device)
    return np.empty(shape, dtype=like.dtype)


def positions(count: int, like: Array) -> Array:
    """The integers 0 .. count - 1, on like's device."""
    return namespace(like).arange(count, device=like.device) if is_torch(like) else np.arange(count)


def integers(values: Any, like: Array) -> Array:
    """Integer array on like's device."""
    if is_torch(like):
        torch = namespace(like)
        return torch.as_tensor(values, dtype=torch.int64, device=like.device)
    return np.asarray(values, dtype=np.int64)


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    """View of x in the given shape."""
    if x.shape == shape:
        return x
    return x.expand(shape) if is_torch(x) else np.broadcast_to(x, shape)


def copy(x: Array) -> Array:
    """x in memory of its own."""
    return x.clone() if is_torch(x) else x.copy()


def batch_shape(*arrays: Array) -> tuple[int, ...]:
    """Common shape of all axes but the last."""
    shapes = {tuple(a.shape[:-1]) for a in arrays}
    return shapes.pop() if len(shapes) == 1 else tuple(np.broadcast_shapes(*shapes))


def as_number(condition: Array, like: Array) -> Array:
    """1 where the condition holds, else 0, in like's type."""
    if is_torch(like):
        return condition.to(like.dtype)
    return where(condition, full((), 1, like), 0) if is_exact(like) else condition.astype(like.dtype)


def concatenate(parts: Sequence[Array]) -> Array:
    """Arrays (..., a), (..., b), ... side by side: (..., a + b + ...), after broadcasting the other axes."""
    batch = parts[0].shape[:-1]
    if any(x.shape[:-1] != batch for x in parts[1:]):
        batch = batch_shape(*parts)
        parts = [broadcast(x, (*batch, x.shape[-1])) for x in parts]
    return namespace(parts[0]).concatenate(tuple(parts), -1)


def total(x: Array) -> Array:
    """Sum over the last axis, kept: (..., n) -> (..., 1)."""
    return x.sum(-1, keepdim=True) if is_torch(x) else x.sum(-1, keepdims=True)


def minimum(a: Any, b: Any) -> Array:
    """Smaller of two arrays, or of an array and a number."""
    if type(a) is not np.ndarray and (is_torch(a) or is_torch(b)):
        return a.clamp(max=b) if is_torch(a) else b.clamp(max=a)
    return np.minimum(*_exactly(a, b)) if is_exact(a) or is_exact(b) else np.minimum(a, b)


def maximum(a: Any, b: Any) -> Array:
    """Larger of two arrays, or of an array and a number."""
    if type(a) is not np.ndarray and (is_torch(a) or is_torch(b)):
        return a.clamp(min=b) if is_torch(a) else b.clamp(min=a)
    return np.maximum(*_exactly(a, b)) if is_exact(a) or is_exact(b) else np.maximum(a, b)


def where(condition: Array, a: Any, b: Any) -> Array:
    """a where the condition holds, else b: arrays or numbers."""
    if type(condition) is not np.ndarray and is_torch(condition):
        return namespace(condition).where(condition, a, b)
    return np.where(condition, *_exactly(a, b)) if is_exact(a) or is_exact(b) else np.where(condition, a, b)


def any_of(chance: Array, count: Array) -> Array:
    """1 - (1 - chance)^count: that at least one of `count` independent events happens. Accurate for small chances."""
    if is_exact(chance):
        return 1 - (1 - chance) ** count
    module = namespace(chance)
    return -module.expm1(count * module.log1p(-minimum(chance, 1 - epsilon(chance) / 2)))


def double(x: Array) -> Array:
    """x in float64; Fractions stay."""
    if is_torch(x):
        return x.to(namespace(x).float64)
    return x if is_exact(x) else x.astype(np.float64)


def floats(x: Array) -> Array:
    """x in float64; Fractions are rounded, and infinite beyond its range."""
    return np.asarray(_nearest_float(x), dtype=np.float64) if is_exact(x) else double(x)


def _float_of_fraction(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:
        return inf


_nearest_float = np.frompyfunc(_float_of_fraction, 1, 1)


def like(x: Array, other: Array) -> Array:
    """x in other's number type."""
    return x.to(other.dtype) if is_torch(x) else x.astype(other.dtype)


def on_host(x: Array) -> bool:
    """Whether values can be looked at without a host sync."""
    return not is_torch(x) or x.device.type == "cpu"


def host_view(x: Array) -> Array:
    """A few numbers a row, as numpy where that is a free view (torch on the CPU): an operation there costs half as much."""
    return x.numpy() if is_torch(x) and on_host(x) else x


def from_view(x: Array, other: Array) -> Array:
    """Back from `host_view` to other's kind."""
    return namespace(other).from_numpy(x) if is_torch(other) and not is_torch(x) else x


def to_host(x: Array) -> np.ndarray:
    """x as numpy, wherever it lives: a host sync, for what must look at values."""
    return np.asarray(x.detach().cpu().numpy() if is_torch(x) else x)


def from_host(x: np.ndarray, other: Array) -> Array:
    """Back from `to_host` to other's kind, type and device."""
    if is_torch(other):
        return namespace(other).as_tensor(x, dtype=other.dtype, device=other.device)
    return x if is_exact(other) else x.astype(other.dtype)


def rows(batch: tuple[int, ...], *arrays: Array) -> list[Array]:
    """Arrays (..., m) as rows (R, m) of the batch, in numpy where that is a free view."""
    return [broadcast(host_view(x), (*batch, x.shape[-1])).reshape(prod(batch), x.shape[-1]) for x in arrays]


def settled(condition: Array) -> bool:
    """Whether the condition holds everywhere, where asking is free (on the CPU); False where it would be a host sync."""
    return on_host(condition) and bool(condition.all())


def excess(p: Array, q: Array, scale: Any = 1, out: Array | None = None) -> Array:
    """(p - scale q)+. `out`, an array of the result's shape, is used as memory: fresh pages cost more than the arithmetic."""
    if is_torch(p):
        torch = namespace(p)
        if is_torch(scale):
            return torch.addcmul(p, q, scale, value=-1, out=out).clamp_(min=0)
        return torch.sub(p, q, alpha=scale, out=out).clamp_(min=0)
    scaled = q if type(scale) is int and scale == 1 else _scaled(q, scale)
    return np.maximum(np.subtract(p, scaled, out=out), _nothing(p), out=out)


def overlap(p: Array, q: Array, scale: Any, out: Array | None = None) -> Array:
    """min(p, scale q), with `out` as in `excess`."""
    if is_torch(p):
        return namespace(p).minimum(namespace(q).multiply(q, scale, out=out), p, out=out)
    return np.minimum(_scaled(q, scale, out), p, out=out)


def _scaled(q: np.ndarray, scale: Any, out: np.ndarray | None = None) -> np.ndarray:
    if type(scale) is not np.ndarray and is_exact(q):
        (scale,) = _exactly(scale)
    return np.multiply(q, scale, out=out)


_exact_divide = np.frompyfunc(lambda a, b, otherwise: Fraction(a) / b if b != 0 else otherwise, 3, 1)


def divide(a: Any, b: Any, otherwise: Any) -> Array:
    """a / b, and `otherwise` where b is 0: 0/0 under a `where` warns in numpy and raises on Fractions."""
    if is_torch(b):
        return namespace(b).where(b == 0, otherwise, a / b)
    if is_exact(a) or is_exact(b):
        return np.asarray(_exact_divide(*_exactly(a, b, otherwise)), dtype=object)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b == 0, otherwise, np.divide(a, b))


def ratio(p: Array, q: Array) -> Array:
    """p / q, infinite where q is 0: the key by which tokens are sorted."""
    if is_torch(p):
        return (p / q).nan_to_num_(nan=float("inf"), posinf=float("inf"))
    return divide(p, q, float("inf"))


def normalise(mass: Array, otherwise: Any, out: Array | None = None) -> Array:
    """mass / its sum, and `otherwise` where the sum is 0; `out` as in `excess`."""
    sums = total(mass)
    if not is_torch(mass):
        return divide(mass, sums, otherwise)
    empty = like(sums == 0, sums)  # torch's `where` over a vocabulary takes eight times as long as a product on the CPU
    shares = namespace(mass).div(mass, sums + empty, out=out)
    if not is_torch(otherwise):
        return namespace(mass).add(shares, empty, alpha=otherwise, out=out)
    return namespace(mass).addcmul(shares, otherwise, empty, out=out)


def first_present(drafts: Array) -> Array:
    """Which draft is the first that is present in its row: int (..., k) -> bool (..., k), none where all are absent (-1)."""
    present = drafts >= 0
    return present & (present.cumsum(-1) == 1)


def gather(x: Array, index: Array) -> Array:
    """x at the indices, 0 at absent ones (-1): (..., n), (..., k) -> (..., k)."""
    batch = batch_shape(x, index)
    x = broadcast(x, (*batch, x.shape[-1]))
    index = broadcast(index, (*batch, index.shape[-1]))
    if is_torch(x):
        return where(index < 0, 0, x.gather(-1, index.clamp(min=0)))
    if x.shape[-1] == 0 or index.shape[-1] == 0:
        return np.zeros(index.shape, dtype=x.dtype)
    present = np.maximum(index, 0)
    if x.ndim == 2:  # take_along_axis does the same in three times the time on few numbers
        return np.where(index < 0, _nothing(x), x[np.arange(len(x))[:, None], present])
    return np.where(index < 0, _nothing(x), np.take_along_axis(x, present, -1))


def spread(mass: Array, index: Array, n: int) -> Array:
    """Sum of point masses, absent indices (-1) dropped: (..., k), (..., k) -> (..., n)."""
    return add_at(full((*batch_shape(mass, index), n), 0, mass), index, mass)


def add_at(x: Array, index: Array, mass: Array) -> Array:
    """Add point masses to x (..., n), in place, absent indices (-1) dropped: (..., k), (..., k); returns x."""
    batch, k = tuple(x.shape[:-1]), index.shape[-1]
    mass, index = broadcast(mass, (*batch, k)), broadcast(index, (*batch, k))
    mass, index = where(index < 0, 0, mass), maximum(index, 0)
    for i in range(k):  # one by one: sums of equal indices, and always in the same order
        token = index[..., i : i + 1]
        _put(x, token, take(x, token) + mass[..., i : i + 1])
    return x


def members(index: Array, n: int, like: Array) -> Array:
    """Which tokens occur among the indices: (..., k) -> bool (..., n)."""
    out = broadcast(positions(n, like) < 0, (*index.shape[:-1], n))
    return _marked(out, index, True) if index.shape[-1] else out


def cleared(x: Array, index: Array) -> Array:
    """x with 0 at the indices, absent ones (-1) skipped: (..., n), (..., k) -> (..., n); x itself where k is 0.

    On the CPU a sixth of the time of `where` and `members`.
    """
    if not index.shape[-1]:
        return x
    batch = batch_shape(x, index)
    return _marked(broadcast(x, (*batch, x.shape[-1])), broadcast(index, (*batch, index.shape[-1])), _nothing(x))


def _marked(x: Array, index: Array, mark: Any) -> Array:
    """A copy of x with the mark at the indices that are there: (..., n), (..., k) -> (..., n), k >= 1."""
    some = largest(index)
    index = where(index < 0, some, index)  # an absent index does what a present one does; if none is there, nothing
    marks = where(some < 0, x[..., :1], mark)
    out = copy(x)
    _put(out, maximum(index, 0), broadcast(marks, tuple(index.shape)))
    return out


def _put(x: Array, index: Array, values: Array) -> None:
    """Write the values to the indices of the last axis of x."""
    if is_torch(x):
        x.scatter_(-1, index, values)
    else:
        np.put_along_axis(x, index, values, -1)


def argsort(x: Array, stable: bool = False) -> Array:
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
    ranked, exact = take(near, order), take(x, order)
    tied = ranked[..., 1:] == ranked[..., :-1]
    one_order = bool((exact[..., 1:][tied] == exact[..., :-1][tied]).all())
    return order if one_order else np.argsort(x, axis=-1, kind="stable")


def take(x: Array, order: Array) -> Array:
    """x rearranged by an order of its last axis."""
    if is_torch(x):
        return x.gather(-1, order)
    if x.ndim == 2:  # as in `gather`
        return x[np.arange(len(x))[:, None], order]
    return np.take_along_axis(x, order, -1)


def prefix_sums(x: Array) -> Array:
    """0, x_1, x_1 + x_2, ...: (..., n) -> (..., n + 1); float inputs are summed in float64."""
    if is_torch(x):
        torch = namespace(x)
        x = x.to(torch.float64)
        return torch.cat((x.new_zeros((*x.shape[:-1], 1)), x.cumsum(-1)), -1)
    out = full((*x.shape[:-1], x.shape[-1] + 1), 0, x if is_exact(x) else np.empty(0))
    np.cumsum(x, axis=-1, out=out[..., 1:])
    return out


def largest(x: Array) -> Array:
    """Largest entry of the last axis, kept: (..., n) -> (..., 1)."""
    return x.amax(-1, keepdim=True) if is_torch(x) else x.max(-1, keepdims=True)


def smallest(x: Array) -> Array:
    """Smallest entry of the last axis, kept: (..., n) -> (..., 1)."""
    return x.amin(-1, keepdim=True) if is_torch(x) else x.min(-1, keepdims=True)


def top_tokens(mass: Array, count: int) -> Array:
    """The tokens of largest mass, in falling order, equal masses by token id: int (..., count)."""
    if not is_torch(mass):
        few = 0 < FEW * count < mass.shape[-1] and not is_exact(mass)
        return _top_few(mass, count) if few else argsort(-mass, stable=True)[..., :count]
    if count == 0:
        return mass.argsort(-1)[..., :0]
    n = mass.shape[-1]
    values, chosen = mass.topk(min(count + 1, n), dim=-1)
    if settled(values[..., 1:] < values[..., :-1]):
        return chosen[..., :count]
    least = values[..., count - 1 : count]  # topk alone ranks equal masses as it likes
    key = 2 * n * (mass > least) + (mass == least) * (n - positions(n, mass))
    chosen = key.topk(count, dim=-1).indices.sort(-1).values
    return chosen.gather(-1, mass.gather(-1, chosen).argsort(dim=-1, descending=True, stable=True))


def _top_few(mass: np.ndarray, count: int) -> np.ndarray:
    """The same, sorting only what is as large as the last one: a thirtieth of the time at 64 of 49,152 tokens."""
    n = mass.shape[-1]
    rows = mass.reshape(-1, n)
    chosen = np.empty((len(rows), count), dtype=np.int64)
    for row, least, into in zip(rows, np.partition(rows, n - count, -1)[:, n - count], chosen, strict=True):
        large = np.flatnonzero(row >= least)
        into[:] = large[np.argsort(-row[large], kind="stable")[:count]]
    return chosen.reshape(*mass.shape[:-1], count)


def top_masses(mass: Array, count: int) -> Array:
    """The largest masses, in falling order: (..., n) -> (..., count)."""
    return mass.topk(count, dim=-1).values if is_torch(mass) else take(mass, top_tokens(mass, count))


def suffix_maximum(x: Array) -> Array:
    """Largest entry from each position to the end of the last axis."""
    if is_torch(x):
        return x.flip(-1).cummax(-1).values.flip(-1)
    return np.maximum.accumulate(x[..., ::-1], axis=-1)[..., ::-1]


def prefix_minimum(x: Array) -> Array:
    """Smallest entry up to each position of the last axis."""
    return x.cummin(-1).values if is_torch(x) else np.minimum.accumulate(x, axis=-1)


def inverse_cdf(mass: Array, uniform: Array) -> Array:
    """Token whose stretch of the unnormalised cumulative mass holds uniform * total.

    Shapes: (..., n), (..., m) -> int (..., m). Uniforms lie in [0, 1) and the comparison is strict, so that a token of mass
    0 is never returned; rounding at the upper end falls back to the last token with mass. The vocabulary is read once, by
    sums of blocks; prefix sums are taken over the blocks and inside one of them.
    """
    batch, n = batch_shape(mass, uniform), mass.shape[-1]
    if wanted(mass, uniform):
        from .kernels.draw import inverse_cdf as draw

        return draw(mass, broadcast(uniform, (*batch, uniform.shape[-1])))
    blocks = _in_blocks(broadcast(mass, (*batch, n)))
    sums, blocks = host_view(blocks.sum(-1)), host_view(blocks)
    outer = sums.cumsum(-1)
    target = host_view(broadcast(uniform, (*batch, uniform.shape[-1]))) * outer[..., -1:]
    if blocks.shape[-2] == 1:
        return from_view(_stretch(blocks.cumsum(-1), target[..., None]), mass)
    block = _stretch(outer[..., None, :], target[..., None])
    before = gather(outer, block - 1)  # 0 before the first block
    inner = _rows(blocks, block).cumsum(-1)
    return from_view(block * blocks.shape[-1] + _stretch(inner, (target - before)[..., None]), mass)


def _stretch(cumulative: Array, target: Array) -> Array:
    """Number of entries <= target, but never past the first entry that holds all: (..., b), (..., 1) -> (...)."""
    return minimum((cumulative <= target).sum(-1), (cumulative < cumulative[..., -1:]).sum(-1))


def _in_blocks(mass: Array) -> Array:
    n = mass.shape[-1]
    width = n if n <= 4 * BLOCK else _width(n)
    missing = -n % width
    if missing:
        pad = full((*mass.shape[:-1], missing), 0, mass)
        mass = namespace(mass).concatenate((mass, pad), -1)
    return mass.reshape(*mass.shape[:-1], mass.shape[-1] // width, width)  # not -1: there may be no rows


@cache
def _width(n: int) -> int:
    """A divisor of n near BLOCK, which spares a copy; BLOCK itself where there is none."""
    divisors = [d for d in range(BLOCK // 4, 4 * BLOCK) if n % d == 0]
    return min(divisors, key=lambda d: abs(d - BLOCK), default=BLOCK)


def _rows(blocks: Array, block: Array) -> Array:
    """The chosen block of every uniform: (..., b, w), (..., m) -> (..., m, w)."""
    if is_torch(blocks):
        return blocks.gather(-2, block[..., None].expand(*block.shape, blocks.shape[-1]))
    return np.take_along_axis(blocks, block[..., None], -2)
