"""Functions of probability vectors (..., n) and draft tokens (..., k), for rules and draft laws."""

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
MIN_INVERTIBLE = 1e-30  # below this total, the inverse may overflow float32


def rows(batch: tuple[int, ...], *arrays: Array) -> list[Array]:
    """Arrays (..., m) as rows (R, m) of the batch, in numpy if that is a view without a copy."""
    return [xp.broadcast_to(host_view(x), (*batch, x.shape[-1])).reshape(prod(batch), x.shape[-1]) for x in arrays]


def excess(p: Array, q: Array, scale: Any = 1, out: Array | None = None) -> Array:
    """Return (p - scale q)+.

    Parameters
    ----------
    p, q : array of shape (..., n)
        Masses.
    scale : array of shape (..., 1) or number, default=1
        Factor of q.
    out : array of shape (..., n), optional
        Memory for the result.

    Returns
    -------
    mass : array of shape (..., n)
        The part of p above scale q.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.excess(np.array([0.5, 0.5]), np.array([0.75, 0.25])).tolist()
    [0.0, 0.25]
    """
    if is_torch(p):
        torch = namespace(p)
        if is_torch(scale):
            return torch.addcmul(p, q, scale, value=-1, out=out).clamp_(min=0)
        return torch.sub(p, q, alpha=scale, out=out).clamp_(min=0)
    scaled = q if type(scale) is int and scale == 1 else _scaled(q, scale)
    return np.maximum(np.subtract(p, scaled, out=out), zero(p), out=out)


@accelerated("residual")
def residual(p: Array, q: Array, scale: Any = 1, min_share: Any = 0, out: Array | None = None) -> Array:
    """Return the residual distribution of a rule: norm(max(p - scale q, min_share p)), and p where that is 0.

    Parameters
    ----------
    p, q : array of shape (..., n)
        Target and draft distributions.
    scale : array of shape (..., 1) or int, default=1
        Factor of q.
    min_share : array of shape (..., 1) or int, default=0
        Share of p that is kept at least.
    out : array of shape (..., n), optional
        Memory for the result.

    Returns
    -------
    residual : array of shape (..., n)
        A distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.residual(np.array([0.5, 0.5]), np.array([0.75, 0.25])).tolist()
    [0.0, 1.0]
    """
    mass = excess(p, q, scale, out)
    if not (type(min_share) is int and min_share == 0):
        mass = xp.maximum(mass, min_share * p)
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
    """p / q, infinite where q is 0: the sort key of tokens."""
    if is_torch(p):  # a negative zero is a zero, too
        return (p / q).nan_to_num_(nan=float("inf"), posinf=float("inf"), neginf=float("inf"))
    return xp.divide(p, q, float("inf"))


def normalise(mass: Array, otherwise: Any, out: Array | None = None) -> Array:
    """Return masses divided by their sum, and another value where the sum is 0.

    Parameters
    ----------
    mass : array of shape (..., n)
        Masses.
    otherwise : array or number
        Value where the sum is 0.
    out : array of shape (..., n), optional
        Memory for the result.

    Returns
    -------
    shares : array of shape (..., n)
        The shares.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.normalise(np.array([1.0, 3.0]), 0).tolist()
    [0.25, 0.75]
    """
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
    """1 - (1 - chance)^count, the probability of at least one of `count` independent events. Accurate for small probabilities."""
    if is_exact(chance):
        return 1 - (1 - chance) ** count
    module = namespace(chance)
    return -module.expm1(count * module.log1p(-xp.minimum(chance, 1 - epsilon(chance) / 2)))


def first_present(drafts: Array) -> Array:
    """Return a mask of the first present draft of each row.

    Parameters
    ----------
    drafts : int array of shape (..., k)
        Token ids, -1 for an absent draft.

    Returns
    -------
    first : bool array of shape (..., k)
        False everywhere in a row without a draft.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.first_present(np.array([-1, 5, 7])).tolist()
    [False, True, False]
    """
    present = drafts >= 0
    return present & (present.cumsum(-1) == 1)


def gather(x: Array, index: Array) -> Array:
    """Return x at indices, 0 at absent ones.

    Parameters
    ----------
    x : array of shape (..., n)
        Numbers.
    index : int array of shape (..., k)
        Indices, -1 for an absent one.

    Returns
    -------
    out : array of shape (..., k)
        The entries.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.gather(np.array([0.75, 0.25]), np.array([1, -1])).tolist()
    [0.25, 0.0]
    """
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
    """Return the sum of point masses.

    Parameters
    ----------
    mass : array of shape (..., k)
        Masses.
    index : int array of shape (..., k)
        Their tokens, -1 for an absent one.
    n : int
        Number of tokens.

    Returns
    -------
    out : array of shape (..., n)
        Mass of every token.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.scatter_add(np.array([0.5, 0.25, 1.0]), np.array([0, 0, -1]), 2).tolist()
    [0.75, 0.0]
    """
    return add_at(xp.full((*batch_shape(mass, index), n), 0, like=mass), index, mass)


def add_at(x: Array, index: Array, mass: Array) -> Array:
    """Add point masses (..., k) at indices (..., k) to x (..., n) in place, without absent indices (-1). Return x."""
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
    """A copy of x with `mark` at the present indices: (..., n), (..., k) -> (..., n), k >= 1."""
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
    """Return the most probable tokens in descending order, equal masses by token id.

    Parameters
    ----------
    mass : array of shape (..., n)
        Masses.
    count : int
        Number of tokens, at most n.

    Returns
    -------
    tokens : int array of shape (..., count)
        Token ids.

    Examples
    --------
    >>> import numpy as np
    >>> from ot_draft import arrays as xp
    >>> xp.top_tokens(np.array([0.2, 0.4, 0.4]), 2).tolist()
    [1, 2]
    """
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
    """`top_tokens` of floats; only tokens not smaller than the last one are sorted."""
    n = mass.shape[-1]
    rows = mass.reshape(-1, n)
    chosen = np.empty((len(rows), count), dtype=np.int64)
    for row, least, into in zip(rows, np.partition(rows, n - count, -1)[:, n - count], chosen, strict=True):
        large = np.flatnonzero(row >= least)
        into[:] = large[np.argsort(-row[large], kind="stable")[:count]]
    return chosen.reshape(*mass.shape[:-1], count)


def top_masses(mass: Array, count: int) -> Array:
    """The largest masses in descending order: (..., n) -> (..., count)."""
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
    """Sample tokens from unnormalised masses by inverse CDF: masses (..., n), uniforms (..., m) -> int (..., m).

    Uniform numbers are in [0, 1), and the comparison is strict, so that a token of mass 0 is never returned; with rounding at the upper
    end, the last token of positive mass is returned. Prefix sums are taken over block sums, and in one block.
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
    """Number of entries <= target, at most the index of the first entry equal to the total: (..., b), (..., 1) -> (...)."""
    return xp.minimum((cumulative <= target).sum(-1), (cumulative < cumulative[..., -1:]).sum(-1))


def _in_blocks(mass: Array) -> Array:
    n = mass.shape[-1]
    width = _width(n)
    missing = -n % width
    if missing:
        pad = xp.full((*mass.shape[:-1], missing), 0, like=mass)
        mass = namespace(mass).concatenate((mass, pad), -1)
    return mass.reshape(*mass.shape[:-1], mass.shape[-1] // width, width)  # not -1, which fails without rows


@cache
def _width(n: int) -> int:
    """A divisor of n near BLOCK_TOKENS, which avoids a copy, or BLOCK_TOKENS if there is none."""
    divisors = [d for d in range(BLOCK_TOKENS // 4, 4 * BLOCK_TOKENS) if n % d == 0]
    return min(divisors, key=lambda d: abs(d - BLOCK_TOKENS), default=BLOCK_TOKENS)


def _rows(blocks: Array, block: Array) -> Array:
    """The selected block of each uniform number: (..., b, w), (..., m) -> (..., m, w)."""
    if is_torch(blocks):
        return blocks.gather(-2, block[..., None].expand(*block.shape, blocks.shape[-1]))
    return np.take_along_axis(blocks, block[..., None], -2)
