"""The only file with randomness. It always comes from an explicit generator, fresh at every call."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .arrays import Array, batch_shape, gather, inverse_cdf, is_exact, is_torch, minimum, namespace, where
from .laws import DraftLaw
from .problem import check_drafts
from .selection import Selection


def uniforms(shape: tuple[int, ...], like: Array, generator: Any) -> Array:
    """Independent uniforms in [0, 1): from a numpy Generator for numpy and Fractions, from a torch Generator for torch."""
    if is_torch(like):
        return namespace(like).rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    if not is_exact(like):
        return generator.random(shape).astype(like.dtype)
    bits = generator.integers(0, 1 << 63, shape)  # a grid of 2^-63: exact comparisons, error below any test's power
    return np.asarray(np.frompyfunc(lambda b: Fraction(int(b), 1 << 63), 1, 1)(bits), dtype=object)


def draw(law: DraftLaw, q: Array, k: int, generator: Any) -> Array:
    """k drafts for every row of q: (..., n) -> int (..., k)."""
    law.check(k)
    return law.draw(q, uniforms((*q.shape[:-1], k), q, generator))


def sample(rule: Any, p: Array, q: Array, drafts: Array, generator: Any) -> tuple[Array, Array]:
    """Run the rule once on every row: (..., n), (..., n), (..., k) -> token (...), position (...).

    position is the draft position that was taken, -1 for the residual. The token's law is the target's when the rule is valid
    under the law that the drafts were drawn by. Raises InvalidDrafts for ids outside the vocabulary.
    """
    check_drafts(drafts, p.shape[-1])
    batch = batch_shape(p, q, drafts)
    return choose(rule(p, q, drafts), drafts, uniforms((*batch, 2), p, generator))


def choose(selection: Selection, drafts: Array, uniform: Array) -> tuple[Array, Array]:
    """Token and position that two uniforms in [0, 1) choose: (..., k), (..., 2) -> (...), (...)."""
    fresh = inverse_cdf(selection.residual, uniform[..., 1:])[..., 0]
    k = drafts.shape[-1]
    if k == 0:
        return fresh, fresh * 0 - 1
    # Strict: a draft with probability 0 is never taken.
    taken = (selection.accept.cumsum(-1) <= uniform[..., :1]).sum(-1)
    token = gather(drafts, minimum(taken, k - 1)[..., None])[..., 0]
    return where(taken < k, token, fresh), where(taken < k, taken, -1)
