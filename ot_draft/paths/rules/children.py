"""The children of a node: which of them are top tokens and which are draws, and which child joint selection selects."""

from __future__ import annotations

import numpy as np

from ...arrays import (
    Array,
    add_at,
    as_number,
    cleared,
    divide,
    excess,
    gather,
    minimum,
    namespace,
    on_host,
    one,
    settled,
    small,
    total,
    where,
    zero,
)
from ...laws import DraftLaw, outside
from ...rules.optimal.rule import select_draft
from ..model import Path


def split_tops(law: DraftLaw, q: Array, lists: tuple[Path, ...]) -> tuple[Path, Path]:
    """The children of all living nodes in plain form, a list a node: the top tokens, once, and all draws."""
    longest = max(lists, key=len)
    number = int(np.ravel(law.number(q, len(longest)))[0])
    return longest[:number], tuple(token for tokens in lists for token in tokens[number:])


def select_child(target: Array, q: Array, tops: Array, draws: Array, classes: int | None = None) -> tuple[Array, Array]:
    """Which child is selected, and the law m of the selected token: (..., j + r), (..., n), the tops first.

    target: (..., n) masses w p with sum w <= 1; tops: int (..., j), distinct top tokens of q; draws: (..., r), i.i.d. from q outside
    the tops; absent ones are -1. choice sums to 1 (0 without a
    child), and m to its expectation. Without tops this is `select_draft`. With them a draw x is selected by the law m_R that
    is best for w p outside T; where m_R(x) > w p(x), a share of the excess goes to T in proportion to p, just so
    much that m = w p on T. Hence sum min(w p, m) is the optimum w p(T) + sum outside T of min(w p, m_R), and no rule of
    this law reaches more. Where nothing was drawn, T takes all, m = p / p(T) there. Other shares are as good for one token; on
    trees of 21 and 28 nodes, moving all the excess or just the highest of it made no difference to be seen in 1,500 iterations.
    """
    if not tops.shape[-1]:
        return _select_draw(target, q, draws, classes)
    choice, m = _select_draw(cleared(target, tops), outside(q, tops), draws, classes)
    over = excess(m, target, one(m) + 0 * m[..., :1])
    spare, wanted = total(over), gather(target, tops)
    moved = minimum(divide(total(wanted), spare, zero(q)), one(q))
    kept = excess(m, over, moved, over)
    drawn, present = (draws >= 0).any(-1)[..., None], as_number(tops >= 0, q)
    share = divide(wanted, total(wanted), divide(present, total(present), zero(q)))
    mass = where(drawn, moved * spare, one(q))
    choice = choice * divide(gather(kept, draws), gather(m, draws), zero(q))
    choice = namespace(q).concatenate(((1 - total(choice)) * share, choice), -1)
    return choice, add_at(kept, tops, mass * share)


def _select_draw(target: Array, q: Array, draws: Array, classes: int | None) -> tuple[Array, Array]:
    """`select_draft`; at once where no row has more than one draw, which then is selected, by the law q."""
    present = draws >= 0
    if settled(small(present).sum(-1) <= 1):
        drawn = present.any(-1)[..., None]
        return as_number(present, q), q if settled(drawn) else where(drawn, q, zero(q))
    if not on_host(draws) or draws.ndim == 1 or len(draws) == 1:
        return select_draft(target, q, draws, classes)
    # On the host each row is solved by itself, and in a batch once for every number of draws in it.
    rows = [slice(row, row + 1) for row in range(len(draws))]
    choices, laws = zip(*(_select_draw(target[row], q[row], draws[row], classes) for row in rows), strict=True)
    return namespace(q).concatenate(choices, 0), namespace(q).concatenate(laws, 0)
