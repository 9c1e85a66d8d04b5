"""Nearly optimal selection without replacement, in O(n): heavy tokens as they were drawn, light ones as if they were put back.

Call the heaviest few tokens of q the head, the others the tail. Let tokens be drawn by q until k are there, a head token once at most
and a tail token as often as it comes. This drawing can be made from k drafts without replacement, and never needs a draft that is not
there: where i drafts are used, the next token drawn is one of the used tail tokens with probability q(these) / q(all but the used head
tokens), and else the next draft (`_used`). And what is drawn is simple:

    a set A of head tokens with a probability P(A) known in closed form, and k - |A| i.i.d. draws from the tail.

The rule first selects in the tail, which is i.i.d. drafting with a random number d of draws: optimal by levels as in `rule`, whose
levels ask of the law of the drafts no more than the convex function sum over d of P(d draws) t^d in the place of t^k. What the target
does not take of it goes to the head: the most that the sets A can give to the f in them, none of which needs more than p(f), is a
maximal flow (`flow`). A set that would have more to give to a token with room left is critical: it gives nothing to the tail, and all
is done once more without it (`_critical`); the best that was found is taken. Of all selections from what is drawn this is not always the
best, and near it.

The law m of the selected token is known exactly, so the rule is valid whatever head, levels and flow are.

Where there are more drafts than tokens with mass under q, all of these are drafted, and the other drafts are drawn with equal chances
from the rest (`WithoutReplacement`): all this is done for the rest alone, and what is refused there can always be accepted before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...arrays.compiled import REORDERED, compiled
from ...arrays.ratio_classes import layout
from ...errors import InvalidArgument
from ...laws import DraftLaw, WithoutReplacement, outside
from ...selection import Cost, Selection, SelectionRule
from ..by_pair import by_pair
from ..coupling import couple
from .classes import at_levels
from .host import classes_of, levels_of_rows

LARGEST_HEAD = 8  # tokens: its sets are gone through one by one
TINY = 1e-13  # a flow in floats that is none
HALVINGS = 6  # until it is known how often the tail selects first


class HeadPlan(NamedTuple):
    """What the rule does for one pair (p, q) and number of drafts.

    head: int (h,) tokens. left: (2^h,) mass under q of all but the head tokens of the bits. first: (2^h,) probability that the tail
    selects first where just these are drawn. take: (2^h, h) probability that each of them is selected where the tail's token is not
    taken. rank, level: class int (n,) of every token, and level (C,) above every class, of the tail. law: (n,) of what is selected.
    accepted: the sum of min(p, law).
    """

    head: np.ndarray
    left: np.ndarray
    first: np.ndarray
    take: np.ndarray
    rank: np.ndarray
    level: np.ndarray
    law: np.ndarray
    accepted: Any


@dataclass(frozen=True)
class HeadAndTail(SelectionRule):
    """Select a drafted token of the tail by levels, where the target does not take it one of the head by a maximal flow.

    For drafts without replacement; exact on Fractions. head: how many of q's heaviest tokens are the head, at most 8. classes: as in
    `Optimal`, for the tail; None sorts the vocabulary. On the CPU, whatever the device.
    """

    cost = Cost(on_host=True)
    claims = ("maximal",)
    law: DraftLaw = WithoutReplacement()
    head: int = LARGEST_HEAD
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.law != WithoutReplacement():
            raise InvalidArgument(
                f"HeadAndTail(law={self.law!r}): it is for WithoutReplacement(); RandomOrder takes any law"
            )
        if isinstance(self.head, bool) or not isinstance(self.head, int) or not 0 <= self.head <= LARGEST_HEAD:
            raise InvalidArgument(f"HeadAndTail(head={self.head!r}): give a number of tokens from 0 to {LARGEST_HEAD}")
        if self.classes is not None and not (isinstance(self.classes, int) and self.classes >= 1):
            raise InvalidArgument(
                f"HeadAndTail(classes={self.classes!r}): give a number of classes >= 1, or None for all tokens"
            )

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return by_pair(p, q, drafts, self.law, self._select)

    def _select(self, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray) -> Selection:
        certain, target, law, number = beyond(p, q, k)
        plan = self._plan(target, law, number)
        fixed = np.where((tokens >= 0) & certain[tokens], tokens, -1)
        choice = _choice(plan, target, law, number, np.where(fixed >= 0, -1, tokens))
        return couple(p[None], plan.law[None], choice, tokens, fixed if certain.any() else None)

    def selected_law(self, p: Array, q: Array, k: int) -> Array:
        """Law m (n,) of the selected token for one pair, on the host; the rule takes a draft with probability sum of min(p, m).

        It may sum to more than 1: what the target refuses of the tail is offered to the head. Where k is more than the tokens with mass
        under q, these are drafted whatever happens, and m is p there.
        """
        certain, target, law, number = beyond(p, q, k)
        return xp.where(certain, p, self._plan(target, law, number).law)

    def _plan(self, p: np.ndarray, q: np.ndarray, k: int) -> HeadPlan:
        head = heaviest(q, self.head)
        own, room = xp.double(q[head]), xp.double(p[head])
        tail = q.copy()
        tail[head] = 0
        drawn, left = drawing(own, xp.double(tail).sum(-1), k)
        number = k - sizes(len(head))  # of draws from the tail
        rank, p_mass, q_mass = classes_of(
            p[None], tail[None], None if self.classes is None else layout(self.classes, k)
        )
        # Shares of the tail, not its masses: what is selected there may be many times its mass.
        within, share = xp.divide(tail, left[-1], 0).astype(q.dtype), xp.divide(q_mass, left[-1], 0)

        def plan_of(first: np.ndarray) -> tuple[HeadPlan, np.ndarray]:
            """The plan where the tail selects first so often, (2^h,), and which sets are critical."""
            draws = {d: (drawn * first)[number == d].sum() for d in sorted(set(number[first > 0].tolist()))}
            levels, slopes = levels_of_rows(p_mass, share, draws)
            level, slope = levels[0], slopes[0]
            law, over = _over(p, within, rank[0], slope)
            refused = _refused(level, share[0], slope, over, k)[np.maximum(number, 0)]
            supply = drawn * (1 - first * (1 - refused))
            taken = flow(supply, room)
            law[head] = taken.sum(0)
            accepted = (slope * share[0] - over).sum() + taken.sum()
            plan = HeadPlan(head, left, first, xp.divide(taken, supply[:, None], 0), rank[0], level, law, accepted)
            return plan, (first > 0) & _critical(supply, room, taken)

        # What gives all that it has where everything is for the head will do so where the tail has selected first.
        always = (number > 0) & (drawn > 0) & ~_critical(drawn, room, flow(drawn, room))
        plan, critical = plan_of(xp.where(always, 1 + 0 * drawn, 0))
        if not critical.any():
            return plan
        plans = [plan, replace(self, head=0)._plan(p, q, k)]
        part = 0.0
        for step in range(HALVINGS):  # the largest part at which none of them is critical
            higher = xp.number(part + 0.5 ** (step + 1), drawn)
            found, now = plan_of(xp.where(critical, higher * plan.first, plan.first))
            plans.append(found)
            part = part if (critical & now).any() else float(higher)
        return max(plans, key=lambda each: each.accepted)


def beyond(p: np.ndarray, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Where k is more than the tokens with mass under q: which are drafted for certain, bool (n,), and the selection that is left.

    That is (p, q, k) beyond them: what p has there, and drafts that are drawn there with equal chances. Else none, p, q and k.
    """
    certain = q > 0
    number = int(np.count_nonzero(certain))
    if number >= min(k, len(q)):
        return certain & False, p, q, k
    return certain, xp.where(certain, 0, p), outside(q, np.flatnonzero(certain)), k - number


@cache
def sizes(number: int) -> np.ndarray:
    """How many of so many tokens are in each set of them: int (2^number,)."""
    return np.array([bits.bit_count() for bits in range(1 << number)])


def heaviest(q: np.ndarray, number: int) -> np.ndarray:
    """The tokens of largest mass, at most so many and none of mass 0: (n,) -> int (h,)."""
    found = xp.top_tokens(q, min(number, len(q))) if number else np.zeros(0, dtype=np.int64)
    return found[q[found] > 0]


def drawing(head: np.ndarray, tail: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(P(A), left) for the sets A of head tokens, (2^h,) each, after k draws: left is the mass of the tail and of the head without A."""
    drawn, left = (xp.full((1 << len(head),), 0, like=head) for _ in range(2))
    left += tail
    following = drawn.copy()
    _for_kind(_draw, head)(head, k, drawn, left, following)
    return drawn, left


def _draw(head, k, drawn, left, following):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes the probabilities and masses; left begins with the mass of the tail."""
    tail = left[0]
    for bits in range(len(left)):
        for token in range(len(head)):
            if not bits >> token & 1:
                left[bits] += head[token]
    drawn[0] += 1
    for _ in range(k):
        following[:] = 0 * tail
        for bits in range(len(left)):
            if drawn[bits] > 0 and left[bits] > 0:
                following[bits] += drawn[bits] * (tail / left[bits])
                for token in range(len(head)):
                    if not bits >> token & 1:
                        following[bits | 1 << token] += drawn[bits] * (head[token] / left[bits])
            else:
                following[bits] += drawn[bits]
        drawn[:] = following


def _for_kind(loop: Callable[..., Any], masses: np.ndarray) -> Callable[..., Any]:
    """The loop, compiled where the masses are floats and numba is there."""
    return (None if xp.is_exact(masses) else compiled(loop)) or loop


def flow(drawn: np.ndarray, room: np.ndarray) -> np.ndarray:
    """A maximal flow (2^h, h) from sets to their tokens: masses of the sets (2^h,), room of the tokens (h,).

    Of all maximal ones, one that takes as much as can be from sets of more tokens: every set, from the largest on, gives what it can while
    those before it give what they gave.
    """
    size = len(room)
    order = np.argsort(-sizes(size), kind="stable")
    order = order[drawn[order] > 0]
    taken = xp.full((len(drawn), size), 0, like=drawn)
    parent, via, queue = np.zeros((3, size), dtype=np.int64)
    _for_kind(_augment, drawn)(drawn, room.copy(), order, taken, parent, via, queue)
    return taken


def _augment(drawn, room, order, taken, parent, via, queue):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes the flow: along the shortest ways on which sets move what they gave to others of their tokens."""
    size, closed = len(room), 0  # closed: tokens from which no way leads to room, and none will
    for bits in order:
        rest = drawn[bits]
        while rest > 0:
            ahead = 0
            for token in range(size):
                parent[token] = -2  # not seen
                if (bits & ~closed) >> token & 1:
                    parent[token] = -1
                    queue[ahead] = token
                    ahead += 1
            found, place = -1, 0
            while place < ahead and found < 0:
                token = queue[place]
                place += 1
                if room[token] > 0:
                    found = token
                else:
                    for other in order:
                        if taken[other, token] > 0:
                            for free in range(size):
                                if (other & ~closed) >> free & 1 and parent[free] == -2:
                                    parent[free], via[free] = token, other
                                    queue[ahead] = free
                                    ahead += 1
            if found < 0:
                for token in range(size):
                    closed |= (parent[token] != -2) << token
                break
            amount, token = min(rest, room[found]), found
            while parent[token] >= 0:
                amount = min(amount, taken[via[token], parent[token]])
                token = parent[token]
            room[found] -= amount
            rest -= amount
            token = found
            while parent[token] >= 0:
                taken[via[token], token] += amount
                taken[via[token], parent[token]] -= amount
                token = parent[token]
            taken[bits, token] += amount


def _critical(supply: np.ndarray, room: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Whether a set, bool (2^h,), gives all that it has while one of its tokens, or of those that others give up for it, has room left."""
    tiny = 0 if xp.is_exact(supply) else TINY
    member = np.arange(len(supply))[:, None] >> np.arange(len(room)) & 1 == 1
    wanting = room - taken.sum(0) > tiny
    while True:
        critical = (member & wanting).any(-1) & (supply > tiny)
        wider = wanting | ((taken > tiny) & critical[:, None]).any(0)
        if (wider == wanting).all():
            return critical
        wanting = wider


def _over(p: np.ndarray, tail: np.ndarray, rank: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The law m of the token that the tail selects, (n,), and in every class the sum of (m - p)+, (C,)."""
    law, over = tail.copy(), xp.full(slope.shape, 0, like=slope)
    if loop := None if xp.is_exact(p) else compiled(_over_in_turn, REORDERED):
        loop(p, rank, slope.astype(tail.dtype), law, over)
    else:
        law = slope.astype(tail.dtype)[rank] * tail
        np.add.at(over, rank, xp.maximum(law - p, 0))
    return law, over


def _over_in_turn(p, rank, slope, law, over):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes both; law begins with the tail's law."""
    for y in range(len(p)):
        c = np.uint64(rank[y])  # without a sign there is nothing to be counted from the end
        law[y] *= slope[c]
        over[c] += max(law[y] - p[y], law[y] - law[y])


def _refused(level: np.ndarray, q: np.ndarray, slope: np.ndarray, over: np.ndarray, k: int) -> np.ndarray:
    """Probability that the target does not take what the tail selects, where it has d draws, for every d up to k: (k + 1,).

    level, q, slope, over: of the classes, (C,) each. Where d draws are all, the levels select in a class what they select where all of its
    intervals that live are chords of t^d.
    """
    refused = xp.full((k + 1,), 1, like=q)
    used = np.flatnonzero(q > 0)
    if not len(used) or not k:
        return refused
    t = xp.prefix_sums(q[used])
    t = t / t[-1]
    first, last, lasts = chords(level[used[:-1]], t)
    share = xp.divide(over[used], slope[used] * q[used], 0) * (
        t[1:] - t[:-1]
    )  # (t' - t): the classes' part of the tail
    g = t[:, None] ** np.arange(1, k + 1)
    steep = (g[last] - g[first]) * (lasts / (t[last] - t[first]))[:, None]
    turn = 0 * g
    np.add.at(turn, first, steep)
    np.add.at(turn, last, -steep)
    refused[1:] = (np.cumsum(turn, axis=0)[:-1] * share[:, None]).sum(0)
    return refused


def chords(level: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours while all between them are dead: their places int (m,), (m,), and how much of lambda that lasts, (m,).

    level: (N - 1,) of the breakpoints between the ends; t: (N + 1,).
    """
    whole = np.concatenate((1 + 0 * t[:1], level, 1 + 0 * t[:1]))
    size = 2 * len(t)
    first, last, stack = np.zeros((3, size), dtype=np.int64)
    lasts = xp.full((size,), 0, like=t)
    count = _for_kind(_chords, t)(whole, first, last, lasts, stack)
    return first[:count], last[:count], lasts[:count]


def _chords(level, first, last, lasts, stack):  # type: ignore[no-untyped-def]  # numba compiles this very function
    """Writes them, and returns their number."""
    count, height = 0, 0
    for right in range(len(level)):
        between = 0 * level[0]
        while height > 0:
            left = stack[height - 1]
            upper = min(level[left], level[right])
            if upper > between:
                first[count], last[count], lasts[count] = left, right, upper - between
                count += 1
            if level[left] > level[right]:
                break
            height -= 1
            between = max(between, level[left])
        stack[height] = right
        height += 1
    return count


def _choice(plan: HeadPlan, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray) -> np.ndarray:
    """Probability that each position is the selected one: tokens int (m, k), equally many of them present -> (m, k)."""
    present = np.argsort(tokens < 0, axis=-1, kind="stable")[:, : int((tokens[0] >= 0).sum())]
    drafts = np.take_along_axis(tokens, present, -1)
    is_head = np.isin(drafts, plan.head)
    place = (drafts[..., None] == plan.head).argmax(-1) if len(plan.head) else 0 * drafts
    bits = np.bitwise_or.accumulate(np.where(is_head, 1 << place, 0), -1)  # of the first i + 1 drafts
    used = _used(plan.left[bits], np.where(is_head, 0, xp.double(q[drafts])).cumsum(-1), k)
    among = np.tri(drafts.shape[-1], dtype=bool)  # the first i + 1, by position
    shape = (len(bits), *among.shape)
    rank = np.broadcast_to(plan.rank[drafts][:, None], shape)
    of_tail = plan.first[bits][..., None] * at_levels(plan.level, rank, among & ~is_head[:, None])
    take = xp.minimum(xp.divide(p[drafts], plan.law[drafts], 0), 1)
    refused = 1 - (of_tail * take[:, None]).sum(-1, keepdims=True)
    own = plan.take if len(plan.head) else xp.full((1, 1), 0, like=used)
    of_head = refused * np.take_along_axis(own[bits], np.broadcast_to(place[:, None], shape), -1)
    chosen = (used[..., None] * xp.where(is_head[:, None], xp.where(among, of_head, 0), of_tail)).sum(1)
    choice = xp.full(tokens.shape, 0, like=q)
    np.put_along_axis(choice, present, chosen.astype(q.dtype), -1)
    return choice


def _used(left: np.ndarray, tail: np.ndarray, k: int) -> np.ndarray:
    """Probability that the first i + 1 drafts are used by k draws, (m, c); what stays after them, and their tail's mass: (m, c) each."""
    fresh = xp.divide(xp.maximum(left - tail, 0), left, 0)  # the next token drawn is the next draft
    fresh[:, -1:] = 0
    used = 0 * left
    used[:, :1] = 1
    for _ in range(k - 1):
        goes = used * fresh
        used = used - goes
        used[:, 1:] += goes[:, :-1]
    return used
