"""The exact optimum of draft selection, and the token set that certifies it, without a linear program."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .errors import InvalidArgument, InvalidDrafts
from .laws import DraftLaw
from .problem import Problem, common_batch


def optimal_acceptance(p: Any, q: Any, k: int = 2, law: DraftLaw | None = None, *, token_set: bool = False) -> Any:
    """Largest acceptance of any rule that keeps the target's law.

    p, q: (..., n), validated as in `Problem`. Returns alpha (...), exact on Fractions, float64 on floats. With token_set=True
    returns (alpha, H) with bool H (..., n): the set that attains alpha = 1 + p(H) - Q(all drafts in H). No valid rule can
    do better, whatever it does: drafts all in H can only be turned into accepted tokens of H.

    O(n log n): among the prefixes of the tokens sorted by p/q is an optimal H (Hu et al. 2025, 'Towards Optimal Multi-draft
    Speculative Decoding'); the law knows its order and its prefix probabilities.
    """
    problem = Problem(p, q, k, law)
    order = problem.law.order(problem.p, problem.q, problem.k)
    cut = xp.prefix_sums(xp.take(problem.p, order)) - problem.law.along(problem.q, order, problem.k)
    size = cut.argmin(-1)
    alpha = 1 + xp.take(cut, size[..., None])[..., 0]
    if not token_set:
        return alpha
    rank = xp.argsort(order)  # the inverse permutation
    return alpha, rank < size[..., None]


def cut_value(problem: Problem, token_set: Array) -> Any:
    """1 + p(H) - Q(all drafts in H): an upper bound on every valid rule's acceptance, for any token set H, bool (..., n)."""
    token_set = _as_set(token_set, problem.p)
    mass = xp.total(xp.where(token_set, problem.p, 0))[..., 0]
    return 1 + mass - problem.law.inside(problem.q, token_set, problem.k)


def _as_set(token_set: Any, p: Array) -> Array:
    found = token_set if xp.is_torch(token_set) else np.asarray(token_set)
    if str(found.dtype).removeprefix("torch.") != "bool" or found.shape[-1:] != p.shape[-1:]:
        raise InvalidArgument(
            f"token_set has dtype {found.dtype} and shape {tuple(found.shape)}: give bool (..., {p.shape[-1]}), True for its tokens"
        )
    common_batch(InvalidArgument, token_set=found, p=p)
    return xp.namespace(p).as_tensor(found, device=p.device) if xp.is_torch(p) else xp.to_host(found)


def kseq_bound(k: int) -> Fraction:
    """K-SEQ's guaranteed share of the optimum, 1 - (1 - 1/k)^k, above 1 - 1/e for every k >= 1 (SpecTr, Theorem 1)."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidDrafts(f"k is {k!r}: the number of drafts is an integer >= 1 here")
    k = int(k)
    return 1 - (1 - Fraction(1, k)) ** k
