"""Functions of masses (..., n) and of drafts (..., k) that no array library has: what rules and laws are written in."""

from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..dispatch import accelerated
from . import standard as xp
from .kinds import (
    Array,
    batch_shape,
    epsilon,
    exactly,
    from_view,
    holds_without_sync,
    host_view,
    is_exact,
    is_torch,
    namespace,
    zero,
)

BLOCK_TOKENS = 1024  # tokens a block: of what stays in the fastest memory, and of sums in the masses' own type
MIN_INVERTIBLE = 1e-30  # a total whose inverse is no float32


def rows(batch: tuple[int, ...], *arrays: Array) -> list[Array]:
    """Arrays (..., m) as rows (R, m) of the batch, in numpy where that is a free view."""
    return [xp.broadcast_to(host_view(x), (*batch, x.shape[-1])).reshape(prod(batch), x.shape[-1]) for x in arrays]


def excess(p: Array, q: Array, scale: Any = 1, out: Array | None = None) -> Array:
    """(p - scale q)+. `out`, an array of the result's shape, is used as memory: fresh pages cost more than the arithmetic."""
    if is_torch(p):
        torch = namespace(p)
        if is_torch(scale):
            return torch.addcmul(p, q, scale, value=-1, out=out).clamp_(min=0)
        return torch.sub(p, q, alpha=scale, out=out).clamp_(min=0)
    scaled = q if type(scale) is int and scale == 1 else _scaled(q, scale)
    return np.maximum(np.subtract(p, scaled, out=out), zero(p), out=out)


@accelerated("residual")
def residual(p: Array, q: Array, scale: Any = 1, least: Any = 0, out: Array | None = None) -> Array:
    """norm(max(p - scale q, least p)), p where that is 0: (..., n), (..., n), (..., 1), (..., 1) -> (..., n).

    The residual of a rule. scale and least may be whole numbers; `out` as in `excess`.
    """
    mass = excess(p, q, scale, out)
    if not (type(least) is int and least == 0):
        mass = xp.maximum(mass, least * p)
    return normalise(mass, p, out)


def overlap(p: Array, q: Array, scale: Any, out: Array | None = None) -> Array:
    """min(p, scale q), with `out` as in `excess`."""
    if is_torch(p):
        return namespace(p).minimum(namespace(q).multiply(q, scale, out=out), p, out=out)
    return np.minimum(_scaled(q, scale, out), p, out=out)


def _scaled(q: np.ndarray, scale: Any, out: np.ndarray | None = None) -> np.ndarray:
    if type(scale) is not np.ndarray and is_exact(q):
        (scale,) = exactly(scale)
    return np.multiply(q, scale, out=out)


def ratio(p: Array, q: Array) -> Array:
    """p / q, infinite where q is 0: the key by which tokens are sorted."""
    if is_torch(p):  # a negative zero is a zero, too
        return (p / q).nan_to_num_(nan=float("inf"), posinf=float("inf"), neginf=float("inf"))
    return xp.divide(p, q, float("inf"))


def normalise(mass: Array, otherwise: Any, out: Array | None = None) -> Array:
    """mass / its sum, and `otherwise` where the sum is 0; `out` as in `excess`."""
    sums = mass.sum(-1, keepdims=True)
    if not is_torch(mass):
        return xp.divide(mass, sums, otherwise)
    empty = xp.astype(
        sums == 0, sums.dtype
    )  # torch's `where` over a vocabulary takes eight times as long as a product on the CPU
    shares = namespace(mass).div(mass, sums + empty, out=out)
    if not is_torch(otherwise):
        return namespace(mass).add(shares, empty, alpha=otherwise, out=out)
    return namespace(mass).addcmul(shares, otherwise, empty, out=out)


def at_least_one(chance: Array, count: Array) -> Array:
    """1 - (1 - chance)^count: that at least one of `count` independent events happens. Accurate for small chances."""
    if is_exact(chance):
        return 1 - (1 - chance) ** count
    module = namespace(chance)
    return -module.expm1(count * module.log1p(-xp.minimum(chance, 1 - epsilon(chance) / 2)))


def first_present(drafts: Array) -> Array:
    """The first present draft of each row, as a mask: int (..., k) -> bool (..., k), none where all are absent (-1)."""
    present = drafts >= 0
    return present & (present.cumsum(-1) == 1)


def gather(x: Array, index: Array) -> Array:
    """x at the indices, 0 at absent ones (-1): (..., n), (..., k) -> (..., k)."""
    batch = batch_shape(x, index)
    x = xp.broadcast_to(x, (*batch, x.shape[-1]))
    index = xp.broadcast_to(index, (*batch, index.shape[-1]))
    if is_torch(x):
        return xp.where(index < 0, 0, x.gather(-1, index.clamp(min=0)))
    if x.shape[-1] == 0 or index.shape[-1] == 0:
        return np.zeros(index.shape, dtype=x.dtype)
    present = np.maximum(index, 0)
    if x.ndim == 2:  # take_along_axis does the same in three times the time on few numbers
        return np.where(index < 0, zero(x), x[np.arange(len(x))[:, None], present])
    return np.where(index < 0, zero(x), np.take_along_axis(x, present, -1))


def scatter_add(mass: Array, index: Array, n: int) -> Array:
    """Sum of point masses, absent indices (-1) dropped: (..., k), (..., k) -> (..., n)."""
    return add_at(xp.full((*batch_shape(mass, index), n), 0, like=mass), index, mass)


def add_at(x: Array, index: Array, mass: Array) -> Array:
    """Add point masses to x (..., n), in place, absent indices (-1) dropped: (..., k), (..., k); returns x."""
    batch, k = tuple(x.shape[:-1]), index.shape[-1]
    mass, index = xp.broadcast_to(mass, (*batch, k)), xp.broadcast_to(index, (*batch, k))
    mass, index = xp.where(index < 0, 0, mass), xp.maximum(index, 0)
    for i in range(k):  # one by one: sums of equal indices, and always in the same order
        token = index[..., i : i + 1]
        _put(x, token, xp.take_along_axis(x, token) + mass[..., i : i + 1])
    return x


def members(index: Array, n: int) -> Array:
    """Mask of the tokens that occur among the indices: (..., k) -> bool (..., n)."""
    out = xp.broadcast_to(xp.arange(n, like=index) < 0, (*index.shape[:-1], n))
    return _marked(out, index, True) if index.shape[-1] else out


def with_zeros_at(x: Array, index: Array) -> Array:
    """x with 0 at the indices, absent ones (-1) skipped: (..., n), (..., k) -> (..., n); x itself where k is 0.

    On the CPU a sixth of the time of `where` and `members`.
    """
    if not index.shape[-1]:
        return x
    batch = batch_shape(x, index)
    return _marked(
        xp.broadcast_to(x, (*batch, x.shape[-1])), xp.broadcast_to(index, (*batch, index.shape[-1])), zero(x)
    )


def _marked(x: Array, index: Array, mark: Any) -> Array:
    """A copy of x with the mark at the indices that are there: (..., n), (..., k) -> (..., n), k >= 1."""
    some = xp.max(index, axis=-1, keepdims=True)
    index = xp.where(index < 0, some, index)  # an absent index does what a present one does; if none is there, nothing
    marks = xp.where(some < 0, x[..., :1], mark)
    out = xp.copy(x)
    _put(out, xp.maximum(index, 0), xp.broadcast_to(marks, tuple(index.shape)))
    return out


def _put(x: Array, index: Array, values: Array) -> None:
    """Write the values to the indices of the last axis of x."""
    if is_torch(x):
        x.scatter_(-1, index, values)
    else:
        np.put_along_axis(x, index, values, -1)


def prefix_sums(x: Array) -> Array:
    """0, x_1, x_1 + x_2, ...: (..., n) -> (..., n + 1); float inputs are summed in float64."""
    if is_torch(x):
        torch = namespace(x)
        x = x.to(torch.float64)
        return torch.cat((x.new_zeros((*x.shape[:-1], 1)), x.cumsum(-1)), -1)
    out = xp.full((*x.shape[:-1], x.shape[-1] + 1), 0, like=x if is_exact(x) else np.empty(0))
    np.cumsum(x, axis=-1, out=out[..., 1:])
    return out


def top_tokens(mass: Array, count: int) -> Array:
    """The tokens of largest mass, in falling order, equal masses by token id: int (..., count)."""
    if not is_torch(mass):
        few = 0 < 16 * count < mass.shape[-1] and not is_exact(mass)  # a sort of all tokens takes longer
        return _top_few(mass, count) if few else xp.argsort(-mass, stable=True)[..., :count]
    if count == 0:
        return mass.argsort(-1)[..., :0]
    n = mass.shape[-1]
    values, chosen = mass.topk(min(count + 1, n), dim=-1)
    if holds_without_sync(values[..., 1:] < values[..., :-1]):
        return chosen[..., :count]
    least = values[..., count - 1 : count]  # topk alone ranks equal masses as it likes
    key = 2 * n * (mass > least) + (mass == least) * (n - xp.arange(n, like=mass))
    chosen = key.topk(count, dim=-1).indices.sort(-1).values
    return chosen.gather(-1, mass.gather(-1, chosen).argsort(dim=-1, descending=True, stable=True))


@accelerated("top_tokens")
def _top_few(mass: np.ndarray, count: int) -> np.ndarray:
    """`top_tokens` of floats, sorting only what is as large as the last one."""
    n = mass.shape[-1]
    rows = mass.reshape(-1, n)
    chosen = np.empty((len(rows), count), dtype=np.int64)
    for row, least, into in zip(rows, np.partition(rows, n - count, -1)[:, n - count], chosen, strict=True):
        large = np.flatnonzero(row >= least)
        into[:] = large[np.argsort(-row[large], kind="stable")[:count]]
    return chosen.reshape(*mass.shape[:-1], count)


def top_masses(mass: Array, count: int) -> Array:
    """The largest masses, in falling order: (..., n) -> (..., count)."""
    return mass.topk(count, dim=-1).values if is_torch(mass) else xp.take_along_axis(mass, top_tokens(mass, count))


def suffix_maximum(x: Array) -> Array:
    """Largest entry from each position to the end of the last axis."""
    if is_torch(x):
        return x.flip(-1).cummax(-1).values.flip(-1)
    return np.maximum.accumulate(x[..., ::-1], axis=-1)[..., ::-1]


def prefix_minimum(x: Array) -> Array:
    """Smallest entry up to each position of the last axis."""
    return x.cummin(-1).values if is_torch(x) else np.minimum.accumulate(x, axis=-1)


@accelerated("inverse_cdf")
def inverse_cdf(mass: Array, uniform: Array) -> Array:
    """Token whose stretch of the unnormalised cumulative mass holds uniform * total.

    Shapes: (..., n), (..., m) -> int (..., m). Uniforms lie in [0, 1) and the comparison is strict, so that a token of mass
    0 is never returned; rounding at the upper end falls back to the last token with mass. The vocabulary is read once, by
    sums of blocks; prefix sums are taken over the blocks and inside one of them.
    """
    batch, n = batch_shape(mass, uniform), mass.shape[-1]
    if n <= 4 * BLOCK_TOKENS:
        whole = host_view(xp.broadcast_to(mass, (*batch, n))).cumsum(-1)
        return from_view(_stretch(whole[..., None, :], (host_view(uniform) * whole[..., -1:])[..., None]), mass)
    blocks = _in_blocks(xp.broadcast_to(mass, (*batch, n)))
    sums, blocks = host_view(blocks.sum(-1)), host_view(blocks)
    outer = sums.cumsum(-1)
    target = host_view(xp.broadcast_to(uniform, (*batch, uniform.shape[-1]))) * outer[..., -1:]
    block = _stretch(outer[..., None, :], target[..., None])
    before = gather(outer, block - 1)  # 0 before the first block
    inner = _rows(blocks, block).cumsum(-1)
    return from_view(block * blocks.shape[-1] + _stretch(inner, (target - before)[..., None]), mass)


def _stretch(cumulative: Array, target: Array) -> Array:
    """Number of entries <= target, but never past the first entry that holds all: (..., b), (..., 1) -> (...)."""
    return xp.minimum((cumulative <= target).sum(-1), (cumulative < cumulative[..., -1:]).sum(-1))


def _in_blocks(mass: Array) -> Array:
    n = mass.shape[-1]
    width = _width(n)
    missing = -n % width
    if missing:
        pad = xp.full((*mass.shape[:-1], missing), 0, like=mass)
        mass = namespace(mass).concatenate((mass, pad), -1)
    return mass.reshape(*mass.shape[:-1], mass.shape[-1] // width, width)  # not -1: there may be no rows


@cache
def _width(n: int) -> int:
    """A divisor of n near BLOCK_TOKENS, which spares a copy; BLOCK_TOKENS itself where there is none."""
    divisors = [d for d in range(BLOCK_TOKENS // 4, 4 * BLOCK_TOKENS) if n % d == 0]
    return min(divisors, key=lambda d: abs(d - BLOCK_TOKENS), default=BLOCK_TOKENS)


def _rows(blocks: Array, block: Array) -> Array:
    """The chosen block of every uniform: (..., b, w), (..., m) -> (..., m, w)."""
    if is_torch(blocks):
        return blocks.gather(-2, block[..., None].expand(*block.shape, blocks.shape[-1]))
    return np.take_along_axis(blocks, block[..., None], -2)
