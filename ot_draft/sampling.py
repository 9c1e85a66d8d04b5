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
            f"generator must be a {'torch' if xp.is_torch(like) else 'numpy.random'}.Generator, like the arrays p and q,"
            f" got a {type(generator).__name__}. Pass one."
        )
    if xp.is_torch(like):
        return xp.namespace(like).rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    if not xp.is_exact(like):
        return generator.random(shape).astype(like.dtype)
    bits = generator.integers(0, 1 << 63, shape)  # a grid of 2^-63: exact comparisons, error below any test's power
    return np.asarray(np.frompyfunc(lambda b: Fraction(int(b), 1 << 63), 1, 1)(bits), dtype=object)


def draw(law: DraftLaw, q: Array, k: int, generator: Any) -> Array:
    """Return k draft tokens for every row of q.

    Parameters
    ----------
    law : DraftLaw
        Joint distribution of the draft tokens.
    q : array of shape (..., n)
        Draft distribution. The masses are not checked.
    k : int
        Number of draft tokens.
    generator : numpy.random.Generator or torch.Generator
        Source of random numbers, of the kind of q.

    Returns
    -------
    drafts : int array of shape (..., k)
        Token ids, -1 for an absent draft.

    Raises
    ------
    InvalidDrafts
        If k is not an integer >= 0, or not possible under the draft law.
    InvalidArgument
        If the generator is of another kind than q.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> otd.draw(otd.WithoutReplacement(), np.array([0.7, 0.2, 0.1]), 3, np.random.default_rng(0)).shape
    (3,)
    """
    check_law(law, k)
    q = as_array(q, "q")
    return law.draw(q, uniforms((*q.shape[:-1], k), q, generator))


def sample(rule: Any, p: Array, q: Array, drafts: Array, generator: Any) -> tuple[Array, Array]:
    """Run a rule once on every row, and return the token and the draft position that was taken.

    Parameters
    ----------
    rule : SelectionRule or callable
        ``rule(p, q, drafts) -> Selection``.
    p, q : array of shape (..., n)
        Target and draft distributions. The masses are not checked.
    drafts : int array of shape (..., k)
        Token ids, drawn by the rule's draft law; -1 for an absent draft.
    generator : numpy.random.Generator or torch.Generator
        Source of random numbers, of the kind of p.

    Returns
    -------
    token : int array of shape (...)
        Output token, with distribution p if the rule is valid under the draft law.
    position : int array of shape (...)
        Draft position that was taken, -1 if the residual gave the token.

    Raises
    ------
    InvalidDrafts
        If a token id is outside the vocabulary, or shapes do not fit together.
    InvalidArgument
        If the rule does not return a `Selection` of the right shapes, or the generator is of another kind than p.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> p, q = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    >>> generator = np.random.default_rng(0)
    >>> drafts = otd.draw(otd.IID(), q, 2, generator)
    >>> token, position = otd.sample(otd.rules.KSeq(), p, q, drafts, generator)
    >>> int(token) in (0, 1), int(position) in (-1, 0, 1)
    (True, True)
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
