"""Drawing drafts by a law, and a token by a rule. Randomness comes from the generator that is handed in, fresh at every call."""

from fractions import Fraction
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .arrays.compiled import compiled
from .arrays.masses import inverse_cdf_of
from .errors import InvalidArgument
from .laws import DraftLaw
from .problem import as_array, check_kinds, check_law, common_batch, token_ids
from .selection import Selection, check_callable, checked


def uniforms(shape: tuple[int, ...], like: Array, generator: Any) -> Array:
    """Independent uniforms in [0, 1): from a numpy Generator for numpy and Fractions, from a torch Generator for torch."""
    wanted = xp.namespace(like).Generator if xp.is_torch(like) else np.random.Generator
    if not isinstance(generator, wanted) and not xp.is_meta(like):
        raise InvalidArgument(
            f"the generator is a {type(generator).__name__}: give a {'torch' if xp.is_torch(like) else 'numpy.random'}.Generator,"
            " as the masses are of that kind"
        )
    if xp.is_torch(like):
        return xp.namespace(like).rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    if not xp.is_exact(like):
        return generator.random(shape).astype(like.dtype)
    bits = generator.integers(0, 1 << 63, shape)  # a grid of 2^-63: exact comparisons, error below any test's power
    return np.asarray(np.frompyfunc(lambda b: Fraction(int(b), 1 << 63), 1, 1)(bits), dtype=object)


def draw(law: DraftLaw, q: Array, k: int, generator: Any) -> Array:
    """k drafts for every row of q: (..., n) -> int (..., k). The masses are trusted, as by rules."""
    check_law(law, k)
    q = as_array(q, "q")
    return law.draw(q, uniforms((*q.shape[:-1], k), q, generator))


def sample(rule: Any, p: Array, q: Array, drafts: Array, generator: Any) -> tuple[Array, Array]:
    """Run the rule once on every row: (..., n), (..., n), (..., k) -> token (...), position (...).

    position is the draft position that was taken, -1 for the residual. The token's law is the target's when the rule is valid
    under the law that the drafts were drawn by. The masses are trusted, as by rules. Raises InvalidDrafts for ids outside
    the vocabulary and shapes that do not fit together, InvalidArgument for a rule that gives no selection.
    """
    check_callable(rule)
    p, q = as_array(p, "p"), as_array(q, "q")
    check_kinds(p, q)
    drafts = token_ids(drafts, p)
    batch = common_batch(p=p, q=q, drafts=drafts)
    selection = checked(rule(p, q, drafts), p, drafts)
    return choose(selection, drafts, uniforms((*batch, 2), p, generator))


def choose(selection: Selection, drafts: Array, uniform: Array) -> tuple[Array, Array]:
    """Token and position that two uniforms in [0, 1) choose: (..., k), (..., 2) -> (...), (...)."""
    k = drafts.shape[-1]
    if k and (chosen := _choose_compiled(selection, drafts, uniform)):
        return chosen
    fresh = xp.inverse_cdf(selection.residual, uniform[..., 1:])[..., 0]
    if k == 0:
        return fresh, fresh * 0 - 1
    token, accept, ids, first = map(xp.host_view, (fresh, selection.accept, drafts, uniform[..., :1]))
    # Strict: a draft with probability 0 is never taken.
    taken = (accept.cumsum(-1) <= first).sum(-1)
    token = xp.where(taken < k, xp.gather(ids, xp.minimum(taken, k - 1)[..., None])[..., 0], token)
    return xp.from_view(token, fresh), xp.from_view(xp.where(taken < k, taken, -1), fresh)


def _choose_compiled(selection: Selection, drafts: Array, uniform: Array) -> tuple[Array, Array] | None:
    """The same where passes over rows of the residual are compiled: those of rows that take a draft are not read."""
    accept, residual = selection.accept, selection.residual
    if not xp.in_compiled(residual) or {accept.dtype, uniform.dtype} != {residual.dtype}:
        return None
    loop = compiled(_take)
    if loop is None:
        return None
    batch = xp.batch_shape(accept, residual, drafts, uniform)
    chances, ids, numbers = xp.rows(batch, accept, drafts, uniform)
    token, position = np.empty((2, len(ids)), dtype=np.int64)
    loop(chances, ids, numbers, token, position)
    refused = np.flatnonzero(position < 0)
    if len(refused):
        token[refused] = inverse_cdf_of(residual, batch, refused, numbers[refused, 1:])[:, 0]
    return tuple(xp.from_view(x.reshape(batch), residual) for x in (token, position))


def _take(accept, ids, uniform, token, position):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes the draft that the first uniform of each row takes, and its position, -1 where there is none."""
    for row in range(len(ids)):
        summed, taken = accept[row, 0] - accept[row, 0], 0
        for place in range(ids.shape[1]):
            summed += accept[row, place]
            taken += summed <= uniform[row, 0]
        position[row] = taken if taken < ids.shape[1] else -1
        token[row] = ids[row, min(taken, ids.shape[1] - 1)]
