"""A selection rule from a function that is written for one context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..laws import DraftLaw
from ..selection import Cost, Selection, SelectionRule

OneContext = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[Any, Any]]


class RuleFromFunction(SelectionRule):
    """The rule that `rule_from_function` returns."""

    cost = Cost(plans_on_host=True)

    def __init__(self, f: OneContext, law: DraftLaw) -> None:
        self.f, self.law = f, law

    @property
    def name(self) -> str:
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        batch, k, n = xp.batch_shape(p, q, drafts), drafts.shape[-1], p.shape[-1]
        contexts = zip(*xp.rows(batch, *map(xp.to_host, (p, q, drafts))), strict=True)
        found = [self._of_context(*context) for context in contexts]
        parts = (np.array([each[i] for each in found], xp.to_host(p).dtype) for i in range(2))
        accept, residual = (part.reshape(*batch, size) for part, size in zip(parts, (k, n), strict=True))
        return Selection(xp.from_host(accept, p), xp.from_host(residual, p))

    def _of_context(self, p: np.ndarray, q: np.ndarray, drafts: np.ndarray) -> tuple[np.ndarray, Any]:
        accept, present = np.zeros(len(drafts), dtype=p.dtype), drafts >= 0
        if not present.any():
            return accept, p
        given, residual = self.f(p, q, drafts[present])
        if len(given) != present.sum():
            raise ValueError(
                f"{self.name} must return one acceptance probability per draft token, got {len(given)} for {present.sum()} draft tokens."
                " Correct accept, or limit k: --k K, check_rule(..., k=K)."
            )
        accept[present] = given
        return accept, residual


def rule_from_function(f: OneContext, law: DraftLaw) -> SelectionRule:
    """Return a selection rule that calls a function once per context.

    The rule loops over the batch in Python, so it is made for checks and comparisons, not for decoding.

    Parameters
    ----------
    f : callable
        ``f(p, q, drafts) -> (accept, residual)`` for one context, with NumPy arrays: p and q of shape (n,), token ids
        drafts of shape (k,). accept of shape (k,) is the probability of accepting each draft token, residual of shape
        (n,) the output distribution if all are rejected. p and q hold Fractions in exact checks. f is called with the
        present draft tokens only, k >= 1. Without any, the rule samples from p.
    law : DraftLaw
        Joint distribution of the k drafts.

    Returns
    -------
    rule : SelectionRule
        Its name is that of the function.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> def first_draft(p, q, drafts):
    ...     x = drafts[0]
    ...     accept = [min(1, p[x] / q[x])] + [0] * (len(drafts) - 1)
    ...     left = np.maximum(p - q, 0)
    ...     return accept, left / left.sum() if left.sum() else p
    >>> rule = otd.rule_from_function(first_draft, otd.IID())
    >>> otd.evaluate(rule, otd.Problem([0.5, 0.5], [0.75, 0.25], k=1)).acceptance
    np.float64(0.75)
    """
    return RuleFromFunction(f, law)
