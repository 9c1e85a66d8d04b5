"""Functions of masses (..., n) and of drafts (..., k) that no array library has: what rules and laws are written in."""

from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..kernels import wanted
from . import standard as xp
from .compiled import REORDERED, compiled
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
    on_host,
    zero,
)

COMPILE = 4096  # tokens from which on compiled passes pay (numba, if it is installed)
FEW = 16  # of so many tokens one or less: then the largest are searched for, and the rest is not sorted
BLOCK = 1024  # tokens a block: of what stays in the fastest memory, and of sums in the masses' own type
SMALL = 1e-30  # a total whose inverse is no float32


def rows(batch: tuple[int, ...], *arrays: Array) -> list[Array]:
    """Arrays (..., m) as rows (R, m) of the batch, in numpy where that is a free view."""
    return [xp.broadcast_to(host_view(x), (*batch, x.shape[-1])).reshape(prod(batch), x.shape[-1]) for x in arrays]


def distinct_rows(batch: tuple[int, ...], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows (R, m) of x (..., m) that are not the same memory again, and which of them each row of the batch is, int (B,)."""
    once = x[tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides[:-1])]
    (each,) = rows(once.shape[:-1], once)
    return each, xp.broadcast_to(np.arange(len(each)).reshape(once.shape[:-1]), batch).reshape(-1)


def excess(p: Array, q: Array, scale: Any = 1, out: Array | None = None) -> Array:
    """(p - scale q)+. `out`, an array of the result's shape, is used as memory: fresh pages cost more than the arithmetic."""
    if is_torch(p):
        torch = namespace(p)
        if is_torch(scale):
            return torch.addcmul(p, q, scale, value=-1, out=out).clamp_(min=0)
        return torch.sub(p, q, alpha=scale, out=out).clamp_(min=0)
    scaled = q if type(scale) is int and scale == 1 else _scaled(q, scale)
    return np.maximum(np.subtract(p, scaled, out=out), zero(p), out=out)


def residual(p: Array, q: Array, scale: Any = 1, least: Any = 0, out: Array | None = None) -> Array:
    """norm(max(p - scale q, least p)), p where that is 0: (..., n), (..., n), (..., 1), (..., 1) -> (..., n).

    The residual of a rule. scale and least may be whole numbers; `out` as in `excess`.
    """
    if in_compiled(p) and in_compiled(q) and q.dtype == p.dtype and (loop := compiled(_residual, REORDERED)):
        factors = [host_view(x) if hasattr(x, "dtype") else np.full(1, x) for x in (scale, least)]
        batch = batch_shape(p, q, *factors)
        memory = np.empty((*batch, p.shape[-1]), host_view(p).dtype) if out is None else host_view(out)
        into = memory.reshape(prod(batch), p.shape[-1])
        loop(*rows(batch, p, q, *(x.astype(into.dtype) for x in factors)), into)
        return from_view(into.reshape(memory.shape), p)
    mass = excess(p, q, scale, out)
    if not (type(least) is int and least == 0):
        mass = xp.maximum(mass, least * p)
    return normalise(mass, p, out)


def _residual(p, q, scale, least, out):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes it. Sums are in the masses' type within a block, where they can be added many at a time, and in float64 over the blocks."""
    for row in range(p.shape[0]):
        s, c, total = scale[row, 0], least[row, 0], 0.0
        for start in range(0, p.shape[1], BLOCK):
            p_in, q_in, into = (
                p[row, start : start + BLOCK],
                q[row, start : start + BLOCK],
                out[row, start : start + BLOCK],
            )
            part = s - s
            for y in range(len(p_in)):
                into[y] = max(p_in[y] - s * q_in[y], c * p_in[y])
                part += into[y]
            total += part
        if total > SMALL:
            share = p.dtype.type(1 / total)
            for y in range(p.shape[1]):
                out[row, y] *= share
        else:
            for y in range(p.shape[1]):
                out[row, y] = out[row, y] / total if total > 0 else p[row, y]


def in_compiled(x: Array) -> bool:
    """Whether rows of x are long enough, and of a type, for compiled passes: floats on the CPU that no gradient is asked for."""
    if x.shape[-1] < COMPILE or is_exact(x) or not on_host(x) or (is_torch(x) and x.requires_grad):
        return False
    return str(x.dtype).removeprefix("torch.") in ("float32", "float64")


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
        few = 0 < FEW * count < mass.shape[-1] and not is_exact(mass)
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


def _top_few(mass: np.ndarray, count: int) -> np.ndarray:
    """The same, sorting only what is as large as the last one: a thirtieth of the time at 64 of 49,152 tokens."""
    n = mass.shape[-1]
    rows = mass.reshape(-1, n)
    chosen = np.empty((len(rows), count), dtype=np.int64)
    if count <= FEW and in_compiled(mass) and (loop := compiled(_in_turn)):
        loop(rows, np.empty(count, dtype=mass.dtype), chosen)
        return chosen.reshape(*mass.shape[:-1], count)
    for row, least, into in zip(rows, np.partition(rows, n - count, -1)[:, n - count], chosen, strict=True):
        large = np.flatnonzero(row >= least)
        into[:] = large[np.argsort(-row[large], kind="stable")[:count]]
    return chosen.reshape(*mass.shape[:-1], count)


def _in_turn(mass, largest, chosen):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes them, for rows: of most blocks no token is as large as the last of those that were found."""
    for row in range(mass.shape[0]):
        found = 0
        for start in range(0, mass.shape[1], BLOCK):
            inner, above, least = mass[row, start : start + BLOCK], 0, largest[len(largest) - 1]
            if found == len(largest):
                for y in range(len(inner)):
                    above += inner[y] > least
                if not above:
                    continue
            for y in range(len(inner)):
                if found < len(largest) or inner[y] > largest[found - 1]:
                    found = min(found + 1, len(largest))
                    place = found - 1
                    while place > 0 and largest[place - 1] < inner[y]:
                        largest[place], chosen[row, place] = largest[place - 1], chosen[row, place - 1]
                        place -= 1
                    largest[place], chosen[row, place] = inner[y], start + y


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


def inverse_cdf(mass: Array, uniform: Array) -> Array:
    """Token whose stretch of the unnormalised cumulative mass holds uniform * total.

    Shapes: (..., n), (..., m) -> int (..., m). Uniforms lie in [0, 1) and the comparison is strict, so that a token of mass
    0 is never returned; rounding at the upper end falls back to the last token with mass. The vocabulary is read once, by
    sums of blocks; prefix sums are taken over the blocks and inside one of them.
    """
    batch, n = batch_shape(mass, uniform), mass.shape[-1]
    if wanted(mass, uniform):
        from ..kernels.draw import inverse_cdf as draw

        return draw(mass, xp.broadcast_to(uniform, (*batch, uniform.shape[-1])))
    if in_compiled(mass) and uniform.dtype == mass.dtype and compiled(_inverse_cdf, REORDERED):
        found = inverse_cdf_of(mass, batch, slice(None), *rows(batch, uniform))
        return from_view(found.reshape(*batch, uniform.shape[-1]), mass)
    if n <= 4 * BLOCK:
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


def inverse_cdf_of(mass: Array, batch: tuple[int, ...], some: Any, uniform: np.ndarray) -> np.ndarray:
    """`inverse_cdf`, compiled, for some rows of the batch: uniforms (r, m) -> int (r, m). For masses that are `in_compiled`."""
    each, row_of = distinct_rows(batch, host_view(mass))
    loop = compiled(_inverse_cdf, REORDERED)
    assert loop is not None
    return loop(each, row_of[some], uniform, np.empty(-(-mass.shape[-1] // BLOCK)))


def _inverse_cdf(mass, row_of, uniform, until):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """The same for rows, each of one row of masses. until: memory for the sums up to the end of every block."""
    found, blocks, total = np.empty(uniform.shape, np.int64), len(until), 0.0
    for row in range(len(uniform)):
        own = mass[row_of[row]]
        if row == 0 or row_of[row] != row_of[row - 1]:
            total = 0.0
            for block in range(blocks):
                inner = own[block * BLOCK : (block + 1) * BLOCK]
                part = inner[0] - inner[0]
                for y in range(len(inner)):
                    part += inner[y]
                total += part
                until[block] = total
        for place in range(uniform.shape[1]):
            target, block = mass.dtype.type(uniform[row, place] * total), 0
            while until[block] <= target and until[block] < total:
                block += 1
            rest = target - (until[block - 1] if block else 0.0)
            inner = own[block * BLOCK : (block + 1) * BLOCK]
            summed, last = 0.0, 0
            for y in range(len(inner)):
                if inner[y] > 0:
                    last = y
                    summed += inner[y]
                    if summed > rest:
                        break
            found[row, place] = block * BLOCK + last
    return found


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
    """A divisor of n near BLOCK, which spares a copy; BLOCK itself where there is none."""
    divisors = [d for d in range(BLOCK // 4, 4 * BLOCK) if n % d == 0]
    return min(divisors, key=lambda d: abs(d - BLOCK), default=BLOCK)


def _rows(blocks: Array, block: Array) -> Array:
    """The chosen block of every uniform: (..., b, w), (..., m) -> (..., m, w)."""
    if is_torch(blocks):
        return blocks.gather(-2, block[..., None].expand(*block.shape, blocks.shape[-1]))
    return np.take_along_axis(blocks, block[..., None], -2)
