"""The children of a node under each draft law: which list a rule is given, which child is selected, the law of each child."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import (
    Array,
    add_at,
    as_number,
    cleared,
    divide,
    excess,
    gather,
    members,
    minimum,
    namespace,
    on_host,
    one,
    positions,
    settled,
    small,
    top_tokens,
    total,
    where,
    zero,
)
from ...errors import InvalidDrafts
from ...laws import IID, DraftLaw, Hub, Hybrid, WithoutReplacement, outside
from ...laws.top_number import top_by_stand_in
from ...rules.coupling import couple
from ...rules.optimal.rule import select_draft
from ...selection import Selection
from ..model import Path


def number_of_tops(law: Hybrid, q: Array, count: int) -> Any:
    """How many of a node's `count` children are top tokens of q: an integer, or int (..., 1) where q decides."""
    if isinstance(law.top, str):
        return minimum(top_by_stand_in(q, count), count)
    return max(count - 1, 0) if law.top == -1 else min(law.top, count)


def split_tops(law: DraftLaw, q: Array, lists: tuple[Path, ...]) -> tuple[Path, Path]:
    """The children of all living nodes in plain form, a list a node: the top tokens, once, and all draws."""
    longest = max(lists, key=len)
    number = 0
    if isinstance(law, Hybrid):
        number = int(np.ravel(number_of_tops(law, q, len(longest)))[0])
    return longest[:number], tuple(token for tokens in lists for token in tokens[number:])


def take_tops_or_draws(p: Array, q: Array, tops: Array, draws: Array, classes: int | None) -> tuple[Array, Selection]:
    """Optimal selection among top tokens and draws outside them: all drafts (..., j + r), and the selection.

    tops: int (..., j), distinct; draws: (..., r), i.i.d. from q outside the tops. Absent ones are -1.
    """
    choice, selected = select_draft(cleared(p, tops), outside(q, tops), draws, classes)
    join = namespace(p).concatenate
    drafts, fixed = join((tops, draws), -1), join((tops, 0 * draws - 1), -1)
    choice = join((as_number(tops < -1, p), choice), -1)
    return drafts, couple(p, selected, choice, drafts, fixed)


def select_child(target: Array, q: Array, tops: Array, draws: Array, classes: int | None = None) -> tuple[Array, Array]:
    """Which child is selected, and the law m of the selected token: (..., j + r), (..., n), the tops first.

    target: (..., n) masses w p with sum w <= 1; tops, draws: as in `take_tops_or_draws`. choice sums to 1 (0 without a
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


def law_of_child(law: DraftLaw, q: Array, earlier: Array, token: Array, count: int) -> Array:
    """Law of a node's next child, given its elder siblings: (..., n).

    earlier: int (..., i) the i elder siblings; token: (..., 1) the child itself, of which no more is read than that it is a top
    token, which is no draw; count: number of children of the node.
    """
    n, place = q.shape[-1], earlier.shape[-1]
    if isinstance(law, IID):
        return q
    if isinstance(law, WithoutReplacement):
        return outside(q, earlier)
    if isinstance(law, Hub) and place == 0:
        return q
    if isinstance(law, Hub):
        hub = top_tokens(q, 1)
        after_hub = outside(q, hub)
        return where(earlier[..., :1] == hub, after_hub, as_number(members(hub, n, q), q))
    if isinstance(law, Hybrid):
        number = number_of_tops(law, q, count)
        tops = where(positions(place, q) < number, earlier, -1)
        fixed = (place + 0 * token) < number
        return where(fixed, as_number(members(token, n, q), q), outside(q, tops))
    raise InvalidDrafts(f"the law of one child after the other is not known for {law!r}: take NaiveTarget()")
