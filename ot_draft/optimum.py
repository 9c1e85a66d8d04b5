"""The exact optimum of draft selection, and the token set that certifies it, without a linear program."""

from fractions import Fraction
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .errors import InvalidArgument, InvalidDrafts
from .laws import DraftLaw, probability_inside
from .problem import Problem, common_batch


def optimal_acceptance(p: Any, q: Any, k: int = 2, law: DraftLaw | None = None) -> Any:
    """Largest acceptance alpha (...) of any rule that keeps the target's law.

    p, q: (..., n), validated as in `Problem`. Exact on Fractions, float64 on floats. `optimal_cut` gives the token set that proves it.

    O(n log n): among the prefixes of the tokens sorted by p/q is an optimal H (Hu et al. 2025, 'Towards Optimal Multi-draft
    Speculative Decoding'); the law knows its order and its prefix probabilities.
    """
    return _least_cut(p, q, k, law)[0]


def optimal_cut(p: Any, q: Any, k: int = 2, law: DraftLaw | None = None) -> tuple[Any, Array]:
    """(alpha, H): `optimal_acceptance`, and the token set, bool (..., n), that attains alpha = 1 + p(H) - Q(all drafts in H).

    No valid rule can do better, whatever it does: drafts all in H can only be turned into accepted tokens of H.
    """
    alpha, order, size = _least_cut(p, q, k, law)
    rank = xp.argsort(order)  # the inverse permutation
    return alpha, rank < size[..., None]


def _least_cut(p: Any, q: Any, k: int, law: DraftLaw | None) -> tuple[Any, Array, Array]:
    """alpha (...), the law's order of the tokens int (..., n), and how many of them are in H, int (...)."""
    problem = Problem(p, q, k, law)
    order, cut = cuts(problem.p, problem.q, problem.k, problem.law)
    size = cut.argmin(-1)
    return 1 + xp.take_along_axis(cut, size[..., None])[..., 0], order, size


def cuts(p: Array, q: Array, k: int, law: DraftLaw) -> tuple[Array, Array]:
    """The law's order of the tokens, and p(H) - Q(all drafts in H) of its prefixes H: int (..., n), (..., n + 1)."""
    order = law.order(p, q, k)
    return order, xp.prefix_sums(xp.take_along_axis(p, order)) - law.along(q, order, k)


def cut_value(problem: Problem, token_set: Array) -> Any:
    """1 + p(H) - Q(all drafts in H): an upper bound on every valid rule's acceptance, for any token set H, bool (..., n)."""
    p, found = problem.p, token_set if xp.is_torch(token_set) else np.asarray(token_set)
    if str(found.dtype).removeprefix("torch.") != "bool" or found.shape[-1:] != p.shape[-1:]:
        raise InvalidArgument(
            f"token_set has dtype {found.dtype} and shape {tuple(found.shape)}: give bool (..., {p.shape[-1]}), True for its tokens"
        )
    common_batch(InvalidArgument, token_set=found, p=p)
    chosen = xp.namespace(p).as_tensor(found, device=p.device) if xp.is_torch(p) else xp.to_host(found)
    return (
        1
        + xp.where(chosen, p, 0).sum(-1, keepdims=True)[..., 0]
        - probability_inside(problem.law, problem.q, chosen, problem.k)
    )


def kseq_bound(k: int) -> Fraction:
    """K-SEQ's guaranteed share of the optimum, 1 - (1 - 1/k)^k, above 1 - 1/e for every k >= 1 (SpecTr, Theorem 1)."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidDrafts(f"k is {k!r}: the number of drafts is an integer >= 1 here")
    k = int(k)
    return 1 - (1 - Fraction(1, k)) ** k
