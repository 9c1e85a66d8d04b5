"""How many top tokens hybrid drafting should fix, chosen from q alone.

The number may depend on q and on k but not on p, which the draft model does not know. So the acceptance of every number j is
estimated on a stand-in for the target: half of its mass lies where the draft model does not see it, the other half is spread over the
draft's top tokens in proportion to q^0.3, flatter than q, as targets are that a weak draft model misjudges. Of this
mass c the target is taken to be either all of it, spread out (then the acceptance is the optimum of hybrid drafting against
c), or one token drawn from it (then the acceptance is the chance that this token is drafted); the estimate is the mean
of the two.

The three numbers below were chosen once, on the real pairs of figures/data, where their neighbours do about as well; half
of HEAD costs .006 at temperature 1 and k = 8 (figures/hybrid.py). They are made for language models: where p has nothing
to do with q, i.i.d. drafting is better.
"""

from __future__ import annotations

from .arrays import (
    Array,
    double,
    is_exact,
    minimum,
    prefix_sums,
    smallest,
    stack,
    take,
    top_tokens,
    total,
    where,
)

HEAD = 256  # top tokens that carry the stand-in
POWER = 0.3
SEEN = 0.5  # share of the target's mass on them


def top_by_stand_in(q: Array, k: int) -> Array:
    """Number of top tokens to fix among k drafts, at most n - 1: (..., n) -> int (..., 1), the first of equals. float64 inside."""
    q = q.astype(float) if is_exact(q) else double(q)
    head = take(q, top_tokens(q, min(HEAD, q.shape[-1])))
    estimates = stack([_estimate(head, j, k) for j in range(min(k, q.shape[-1] - 1) + 1)])
    return estimates.argmax(-1)[..., None]


def _estimate(head: Array, top: int, k: int) -> Array:
    """Estimated acceptance with `top` top tokens fixed: falling masses (..., m) -> (..., 1)."""
    stand_in = where(head > 0, 1, 0) * head**POWER
    stand_in = SEEN * stand_in / total(stand_in)
    covered, drawn = prefix_sums(stand_in)[..., top:], prefix_sums(head)[..., top:]
    rest = 1 - drawn[..., :1]
    rest = where(rest > 0, rest, 1)
    inside = minimum((drawn - drawn[..., :1]) / rest, 1)
    spread_out = 1 + minimum(smallest(covered - inside ** (k - top)), 0)
    caught = 1 - (1 - minimum(head[..., top:] / rest, 1)) ** (k - top)
    one_token = covered[..., :1] + total(stand_in[..., top:] * caught)
    return (spread_out + one_token) / 2
