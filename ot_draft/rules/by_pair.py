"""The loop over pairs (p, q) and numbers of drafts, for rules that compute on the host."""

from collections.abc import Callable

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidDistribution
from ..laws import DraftLaw
from ..selection import Selection


def by_pair(p: Array, q: Array, drafts: Array, law: DraftLaw, select: Callable[..., Selection]) -> Selection:
    """Return the selections of all different pairs and numbers of drafts; without drafts the residual is p.

    For a single pair in numpy, a residual that all rows share is one read-only row in memory. p, q: (..., n). drafts: int (..., k).
    select(p, q, k, tokens): for one pair, (n,) each, k drafts by the draft law, and rows of tokens int (m, k), returns accept (m, k) and
    residual (m, n).
    """
    if xp.is_meta(p):
        raise InvalidDistribution(
            "p must hold values, got a tensor on torch's meta device. Pass a tensor on another device."
        )
    n, k, pairs, batch = p.shape[-1], drafts.shape[-1], xp.batch_shape(p, q), xp.batch_shape(p, q, drafts)
    targets, proposals = xp.rows(pairs, xp.to_host(p), xp.to_host(q))
    (tokens,) = xp.rows(batch, xp.to_host(drafts))
    pair_of = np.broadcast_to(np.arange(len(targets)).reshape(pairs), batch).reshape(-1)
    present = (tokens >= 0).sum(-1)
    cases = sorted(set(zip(pair_of.tolist(), present.tolist(), strict=True)))
    alone = len(cases) == 1 and not xp.is_torch(p)
    accept, residual = xp.full(tokens.shape, 0, like=targets), np.empty((0 if alone else len(tokens), n), targets.dtype)
    for pair, count in cases:
        here, left = (pair_of == pair) & (present == count), targets[pair]
        if count:
            drawn = k if count == law.count(n, k) else count
            selection = select(targets[pair], proposals[pair], drawn, tokens[here])
            accept[here], left = selection.accept, selection.residual
        if alone:
            residual = np.broadcast_to(left.astype(targets.dtype, copy=False), (len(tokens), n))
        else:
            residual[here] = left
    if alone:
        return Selection(accept.reshape(*batch, k), residual.reshape(*batch, n))
    return Selection(*(xp.from_host(x.reshape(*batch, x.shape[-1]), p) for x in (accept, residual)))
