"""Drawing drafts by a law, and a token by a rule. Randomness comes from the generator that is handed in, fresh at every call."""

from fractions import Fraction
from typing import Any

import numpy as np

from . import arrays as xp
from .arrays import Array
from .dispatch import accelerated
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


@accelerated("sampling")
def choose(selection: Selection, drafts: Array, uniform: Array) -> tuple[Array, Array]:
    """Token and position that two uniforms in [0, 1) choose: (..., k), (..., 2) -> (...), (...)."""
    k = drafts.shape[-1]
    fresh = xp.inverse_cdf(selection.residual, uniform[..., 1:])[..., 0]
    if k == 0:
        return fresh, fresh * 0 - 1
    token, accept, ids, first = map(xp.host_view, (fresh, selection.accept, drafts, uniform[..., :1]))
    # Strict: a draft with probability 0 is never taken.
    taken = (accept.cumsum(-1) <= first).sum(-1)
    token = xp.where(taken < k, xp.gather(ids, xp.minimum(taken, k - 1)[..., None])[..., 0], token)
    return xp.from_view(token, fresh), xp.from_view(xp.where(taken < k, taken, -1), fresh)
