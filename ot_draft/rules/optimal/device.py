"""The levels of optimal selection for all classes at once: no sort, no sweep, no host sync.

The sweep (`levels`) goes from death to death. But its state has a closed form: after lambda, what is left of G is the lower convex
hull of G - lambda g, so breakpoint i lives until it leaves that hull. Its level is the largest lambda <= 1 with

    max over a < i of the slope of G - lambda g from a to i  <=  min over b > i of its slope from i to b,

the root of a concave piecewise-linear function of lambda, which Newton's method reaches from 1 in a few steps. All classes and rows
take these steps together, in memory quadratic in the number of classes. The distribution of the selected token is computed from the
levels as they come out, whatever they are, so that a step too few costs acceptance and not validity.
"""

from ... import arrays as xp
from ...arrays import Array
from ...arrays.ratio_classes import LARGE, OFFSET, layout
from .classes import CLASSES, STEPS, choose


def selection_probabilities(p: Array, q: Array, drafts: Array, classes: int | None) -> tuple[Array, Array]:
    """`rule.selection_probabilities`, always by classes."""
    count = xp.astype(drafts >= 0, p.dtype).sum(-1, keepdims=True)
    rank, level, selected = plan_in_parallel(p, q, count, drafts.shape[-1], classes)
    return choose(level, rank, drafts), selected


def plan_in_parallel(p: Array, q: Array, count: Array, k: int, classes: int | None) -> tuple[Array, Array, Array]:
    """Class of every token, level above every class, law of the selected token. torch only.

    p, q: (..., n); count: (..., 1) number of drafts of each row, at most k -> int (..., n), (..., C), (..., n).
    """
    torch = xp.namespace(p)
    batch, n = xp.batch_shape(p, q, count), p.shape[-1]
    p, q = xp.broadcast_to(p, (*batch, n)), xp.broadcast_to(q, (*batch, n))
    first, shift, size = layout(classes or CLASSES, max(k, 1))
    key = (p / q).nan_to_num_(nan=0.0, posinf=LARGE).clamp_(max=LARGE).to(torch.float32) + OFFSET
    rank = ((key.view(torch.int32) >> shift) - first).clamp(max=size - 1).to(torch.int64)
    zeros = torch.zeros((*batch, size), dtype=torch.float64, device=p.device)
    drafted = xp.astype(q > 0, q.dtype) * p  # what is never drafted has no place among the classes
    p_mass, q_mass = (zeros.scatter_add(-1, rank, xp.double(x)) for x in (drafted, q))
    level, slope = levels_and_slopes(p_mass, q_mass, xp.double(count))
    return rank, xp.astype(level[..., 1:], p.dtype), q * xp.astype(slope, q.dtype).gather(-1, rank)


def levels_and_slopes(p: Array, q: Array, count: Array) -> tuple[Array, Array]:
    """Levels (..., C + 1), ends 1, and slopes m / q (..., C), for the masses of classes (..., C) in the order of p/q."""
    f, t = xp.prefix_sums(p), xp.prefix_sums(q)
    mass = t[..., -1:]
    mass = xp.where(mass == 0, 1, mass)
    t = t / mass
    g = t**count
    gain = g - f
    envelope = f + gain.cummax(-1).values.minimum(gain.flip(-1).cummax(-1).values.flip(-1))
    level = levels_at_once(t, g, envelope)
    slope = slopes_of(t, g, level) / mass
    return level, xp.where(count == 0, 0, slope)


def levels_at_once(t: Array, g: Array, envelope: Array) -> Array:
    """Levels of all breakpoints: (..., N + 1) each. Breakpoints in one place are one breakpoint: all but the first get level 0."""
    inner = _inner(t)
    g_slopes, big_slopes = _chords(g, t), _chords(envelope, t)
    level = xp.where(inner, 1.0, 0.0) + 0 * t
    for _ in range(STEPS):
        left, right = _steepest(big_slopes - level[..., :, None] * g_slopes, t)
        rise = big_slopes.gather(-1, right) - big_slopes.gather(-1, left)
        root = xp.divide(rise, g_slopes.gather(-1, right) - g_slopes.gather(-1, left), 0.0)[..., 0]
        level = xp.where(inner, level.minimum(root.clamp(min=0)), 0.0)
    return xp.where(_ends(t), 1.0, level)


def slopes_of(t: Array, g: Array, level: Array) -> Array:
    """Slope over every interval of the integral of g_B(lambda), for any levels: (..., N + 1) each -> (..., N).

    The chord from a to b is there while both live and all between are dead: min(c_a, c_b) - max of c between.
    """
    number = t.shape[-1]
    row, column = xp.arange(number, like=t)[:, None], xp.arange(number, like=t)
    after = xp.where(column > row, level[..., None, :], 0.0)
    between = xp.namespace(t).nn.functional.pad(after.cummax(-1).values[..., :-1], (1, 0))
    lasts = (level[..., :, None].minimum(level[..., None, :]) - between).clamp(min=0)
    share = xp.where(column > row, lasts * _chords(g, t), 0.0)
    return (share.sum(-1) - share.sum(-2)).cumsum(-1)[..., :-1]


def _chords(h: Array, t: Array) -> Array:
    """Slope of h from every breakpoint to every other, 0 between breakpoints in one place: (..., N) -> (..., N, N)."""
    return xp.divide(h[..., None, :] - h[..., :, None], t[..., None, :] - t[..., :, None], 0.0)


def _steepest(slopes: Array, t: Array) -> tuple[Array, Array]:
    """For every row i, the a < i of largest slope and the b > i of smallest slope; the ends stand in where there is none."""
    row, column = t[..., :, None], t[..., None, :]  # breakpoints in one place have no slope between them
    left = xp.where(column < row, slopes, -LARGE).argmax(-1, keepdim=True)
    right = xp.where(column > row, slopes, LARGE).argmin(-1, keepdim=True)
    return left, right


def _ends(t: Array) -> Array:
    place = xp.arange(t.shape[-1], like=t)
    return (place == 0) | (place == t.shape[-1] - 1)


def _inner(t: Array) -> Array:
    """Breakpoints strictly inside, one for each place."""
    rises = xp.namespace(t).nn.functional.pad(t[..., 1:] > t[..., :-1], (1, 0))
    return rises & (t < t[..., -1:])
