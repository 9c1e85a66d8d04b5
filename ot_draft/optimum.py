"""The exact optimum of draft selection, and the token set that certifies it, without a linear program.

The optimum is 1 + min over token sets H of p(H) - Q(all drafts in H). A minimal H is found in one of two ways:

* `_least_cut`: the prefix of least value in the draft law's order of the tokens, for all draft laws, Fractions and devices.
* `_by_classes`: under `IID`, for floats on the CPU from MANY tokens on: the tokens are grouped by p/q instead of sorted, O(n).

Under `IID` in floats, the optimum is then summed over H (`_of_set`), so that it does not depend on how H was found, to the last bit.
Otherwise it is the value of the prefix.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .arrays.ratio_classes import OFFSET, by_ratio, edges, layout
from .boundary import int_from
from .dispatch import accelerated
from .errors import InvalidArgument, InvalidDrafts
from .laws import IID, DraftLaw, probability_inside
from .problem import Problem, common_batch

MANY = 1_024  # tokens from which on they are not sorted


def optimal_acceptance(p: Any, q: Any, k: int = 2, law: DraftLaw | None = None) -> Any:
    """Return the largest acceptance probability of any lossless rule.

    Parameters
    ----------
    p, q : array_like of shape (..., n)
        Target and draft distributions over n tokens: Fractions, floats, NumPy arrays or PyTorch tensors.
    k : int, default=2
        Number of draft tokens.
    law : DraftLaw, optional
        Joint distribution of the draft tokens, by default `IID()`.

    Returns
    -------
    alpha : float64 array of shape (...), or Fraction for exact input
        Acceptance probability in [0, 1].

    Raises
    ------
    InvalidDistribution
        If p or q is not a probability vector, or their shapes differ.
    InvalidDrafts
        If k is not an integer >= 0, or the draft law is not defined for k drafts.

    See Also
    --------
    optimal_cut : The same with the token set that proves it.

    Notes
    -----
    Among the prefixes of the tokens sorted by p/q is an optimal token set H [1]_, and alpha = 1 + p(H) - Q(all drafts in H).
    The draft law knows its order of the tokens and its prefix probabilities. Floats on the CPU under `IID` need no sort: O(n).

    References
    ----------
    .. [1] Hu et al., "Towards Optimal Multi-draft Speculative Decoding", 2025.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> otd.optimal_acceptance([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2)
    Fraction(15, 16)
    """
    problem = Problem(p, q, k, law)
    return _of_set(problem, _least_set(problem)) if _is_summed(problem) else _least_cut(problem)[0]


def optimal_cut(p: Any, q: Any, k: int = 2, law: DraftLaw | None = None) -> tuple[Any, Array]:
    """Return the largest acceptance probability and the token set that proves it.

    Parameters
    ----------
    p, q : array_like of shape (..., n)
        Target and draft distributions over n tokens: Fractions, floats, NumPy arrays or PyTorch tensors.
    k : int, default=2
        Number of draft tokens.
    law : DraftLaw, optional
        Joint distribution of the draft tokens, by default `IID()`.

    Returns
    -------
    alpha : float64 array of shape (...), or Fraction for exact input
        Acceptance probability, as by `optimal_acceptance`.
    token_set : bool array of shape (..., n)
        Token set H with alpha = 1 + p(H) - Q(all drafts in H). No valid rule accepts more: drafts that all lie in H
        can only become accepted tokens of H.

    Raises
    ------
    InvalidDistribution
        If p or q is not a probability vector, or their shapes differ.
    InvalidDrafts
        If k is not an integer >= 0, or the draft law is not defined for k drafts.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> alpha, token_set = otd.optimal_cut([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2)
    >>> alpha, token_set.tolist()
    (Fraction(15, 16), [True, False])
    """
    problem = Problem(p, q, k, law)
    if _is_summed(problem):
        chosen = _least_set(problem)
        return _of_set(problem, chosen), chosen
    alpha, order, size = _least_cut(problem)
    return alpha, _prefix(order, size)


def _is_summed(problem: Problem) -> bool:
    """Whether alpha is summed over H once H is known: however H was found, alpha is the same then, to the last bit."""
    return type(problem.law) is IID and not xp.is_exact(problem.p)


def _of_set(problem: Problem, chosen: Array) -> Any:
    """alpha (...) of H, bool (..., n), under IID, in float64."""
    inside, drawn, mass = _set_sums(problem, chosen)
    power = xp.minimum(drawn / mass, 1) ** problem.k  # of an array: one of a single number may round otherwise
    return 1 + xp.minimum(inside - power, 0)[..., 0]  # no rounding leads below 0 or above 1


@accelerated("optimum")
def _set_sums(problem: Problem, chosen: Array) -> tuple[Array, ...]:
    """p(H), q(H) and the mass of q, (..., 1) each, in float64."""
    of_set = (xp.where(chosen, problem.p, 0), xp.where(chosen, problem.q, 0), problem.q)
    return tuple(xp.double(x).sum(-1, keepdims=True) for x in of_set)


def _least_set(problem: Problem) -> Array:
    """H, bool (..., n), of the least cut under IID, in floats."""
    if xp.on_host(problem.p) and problem.n >= MANY:
        return _by_classes(problem.p, problem.q, problem.k)
    return _prefix(*_least_cut(problem)[1:])


def _prefix(order: Array, size: Array) -> Array:
    """The first tokens of an order as a token set: int (..., n), int (...) -> bool (..., n)."""
    return xp.argsort(order) < size[..., None]  # the inverse permutation


def _least_cut(problem: Problem) -> tuple[Any, Array, Array]:
    """alpha (...), the draft law's order of the tokens int (..., n), and the number of tokens in H, int (...)."""
    order, cut = cuts(problem.p, problem.q, problem.k, problem.law)
    size = cut.argmin(-1)
    return 1 + xp.take_along_axis(cut, size[..., None])[..., 0], order, size


def _by_classes(p: Array, q: Array, k: int) -> Array:
    """H, bool (..., n), of the least cut under IID, without a sort of all tokens: floats on the CPU."""
    rows = xp.rows(tuple(p.shape[:-1]), p, q)
    chosen = np.zeros(rows[0].shape, dtype=bool)
    for p_row, q_row, own in zip(*rows, chosen, strict=True):
        own[:] = _of_row(p_row, q_row, k)
    return xp.from_view(chosen.reshape(p.shape), p)


def _of_row(p: np.ndarray, q: np.ndarray, k: int, n_classes: int = 1024) -> np.ndarray:
    """H, bool (n,): where a prefix that ends inside a class may be better than all that end between two, its tokens are sorted.

    Inside a class of ratios from a to b, p(H) lies above the line of slope a from the class's begin and that of slope b to its end,
    and -q(H)^k is concave: no prefix of the class is below the smaller of its ends and the point where the two lines meet.
    Few of n_classes hold tokens that must be sorted, and their masses fit into the fastest memory.
    """
    classes = layout(n_classes, 2 * max(k, 1))  # ratios from k on are never in H: the last class has none below
    rank = np.empty(len(p), dtype=np.int16)  # a quarter of the memory of a numpy index
    p_mass, q_mass = by_ratio(p, q, classes, OFFSET, 0, rank)  # the last class holds q = 0, which is never in H
    total = q_mass.sum()
    f, t = (np.concatenate(([0.0], np.cumsum(mass[:-1]))) for mass in (p_mass, q_mass / total))
    cut = f - t**k
    best = int(cut.argmin())
    low, high = total * (edge := edges(classes))[:-1], total * edge[1:]
    rounding = 2.0**-22  # twice what rounding may move a ratio across the edge of its class, relative to ratio + OFFSET
    low, high = low - rounding * (low + OFFSET), high + rounding * (high + OFFSET)
    inner = np.flatnonzero((q_mass[:-1] > 0) & (np.arange(classes.number) < classes.number - 1))
    left, right, low, high = f[inner], f[inner + 1], np.maximum(low[inner], 0), high[inner]
    meet = (right - left + low * t[inner] - high * t[inner + 1]) / (low - high)
    meet = np.clip(meet, t[inner], t[inner + 1])
    least = left + low * (meet - t[inner]) - meet**k
    open_classes = inner[least < cut[best]]
    if not len(open_classes):
        return rank < best
    tokens = np.flatnonzero((rank >= open_classes[0]) & (rank <= open_classes[-1]))
    tokens = tokens[np.isin(rank[tokens], open_classes)]
    tokens = tokens[np.lexsort((p[tokens] / q[tokens], rank[tokens]))]
    own = rank[tokens].astype(np.int64)
    first = np.searchsorted(own, own)  # of the class's tokens
    ahead = [np.cumsum(x[tokens], dtype=np.float64) for x in (p, q)]
    within = [sums - (sums[first] - x[tokens[first]]) for sums, x in zip(ahead, (p, q), strict=True)]
    inside = f[own] + within[0] - (t[own] + within[1] / total) ** k
    last = int(inside.argmin())
    if inside[last] >= cut[best]:
        return rank < best
    chosen = rank < own[last]
    chosen[tokens[: last + 1]] = True
    return chosen


def cuts(p: Array, q: Array, k: int, law: DraftLaw) -> tuple[Array, Array]:
    """Return the draft law's order of the tokens, and p(H) - Q(all drafts in H) of its prefixes H: int (..., n), (..., n + 1)."""
    order = law.cut_order(p, q, k)
    return order, xp.prefix_sums(xp.take_along_axis(p, order)) - law.prefix_probabilities(q, order, k)


def cut_value(problem: Problem, token_set: Array) -> Any:
    """Return an upper bound on the acceptance of every valid rule, from one token set.

    Parameters
    ----------
    problem : Problem
        Target, draft distribution, number of drafts and draft law.
    token_set : bool array of shape (..., n)
        Any token set H.

    Returns
    -------
    bound : float64 array of shape (...), or Fraction for an exact problem
        1 + p(H) - Q(all drafts in H), which is at least the optimum.

    Raises
    ------
    InvalidArgument
        If token_set is not of booleans, or its shape does not fit the problem.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2)
    >>> otd.cut_value(problem, [True, False]), otd.cut_value(problem, [False, False])
    (Fraction(15, 16), Fraction(1, 1))
    """
    p, found = problem.p, token_set if xp.is_torch(token_set) else np.asarray(token_set)
    if str(found.dtype).removeprefix("torch.") != "bool" or found.shape[-1:] != p.shape[-1:]:
        raise InvalidArgument(
            f"token_set must be bool of shape (..., {p.shape[-1]}), got {found.dtype} of shape {tuple(found.shape)}. Correct it."
        )
    common_batch(InvalidArgument, token_set=found, p=p)
    chosen = xp.namespace(p).as_tensor(found, device=p.device) if xp.is_torch(p) else xp.to_host(found)
    return (
        1
        + xp.where(chosen, p, 0).sum(-1, keepdims=True)[..., 0]
        - probability_inside(problem.law, problem.q, chosen, problem.k)
    )


def kseq_bound(k: int) -> Fraction:
    """Return the guaranteed share of the optimum that K-SEQ accepts.

    Parameters
    ----------
    k : int
        Number of draft tokens, at least 1.

    Returns
    -------
    share : Fraction
        1 - (1 - 1/k)^k, which is above 1 - 1/e for every k.

    Raises
    ------
    InvalidDrafts
        If k is not an integer >= 1.

    References
    ----------
    .. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", NeurIPS 2023, Theorem 1.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.kseq_bound(2)
    Fraction(3, 4)
    """
    k = int_from("k", k, 1, error=InvalidDrafts, remedy="Pass the number of drafts.")
    return 1 - (1 - Fraction(1, k)) ** k
