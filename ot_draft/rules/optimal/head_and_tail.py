"""Nearly optimal selection without replacement, in O(n): the head is sampled without, the tail with replacement.

Samples. The most probable tokens of q are the head F, the others the tail T. Consider k samples from q, a head token at most once and a
tail token any number of times. They can be simulated from k draft tokens without replacement: if i draft tokens are used, the next sample
is one of the used tail tokens with probability q(these) / q(all but the used head tokens), else the next draft token
(`_selection_probabilities`). The samples are a set A of head tokens and k - |A| i.i.d. samples from the tail. After j samples, the set has
probability (`set_probabilities`)

    P_{j+1}(A) = P_j(A) q(T) / (1 - q(A)) + sum over f in A of P_j(A - f) q(f) / (1 - q(A - f)),    P_0(empty) = 1.

Tail. With probability s(A) the rule first selects from the tail: i.i.d. drafting with a random number d of samples, optimal by levels as
in `rule`, with the convex function g(t) = sum over A of P(A) s(A) t^(k - |A|) instead of t^k. The levels give the tail's token the
distribution m. Given d samples, this token is rejected with probability r(d) (`SampledSets.tail_rejection`).

Head. If nothing was selected or the tail's token is rejected, the rule selects from the head. The largest mass that the sets A can give to
their tokens f, each of which needs at most p(f), is a maximum flow (`flow`):

    acceptance = sum over y in T of min(p(y), m(y)) + max over x >= 0 of sum over A, f in A of x(A, f)
    subject to   sum over f of x(A, f) <= P(A) (1 - s(A) (1 - r(k - |A|))),    sum over A of x(A, f) <= p(f).

Choice of s. A set is critical if it gives all its mass and could give more to a token that needs more. s is 0 for sets that are critical
if the head is selected first, and for sets without samples from the tail, else 1 (`SampledSets.tail_first`). If some sets are critical
then, s is decreased at these, and a plan without a head is tried, too (`HeadAndTail._best`). The plan of largest acceptance is used. It is
near the maximum over all selections from the samples, and not always equal to it.

The distribution m of the selected token is computed exactly, so that the rule is lossless for any head, levels and flow.

With more draft tokens than tokens of positive q, all of these are drafted, and the others are sampled uniformly from the rest
(`WithoutReplacement`). The rule then selects from the rest; if that token is rejected, it can accept the tokens of positive q
(`without_certain_tokens`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil, log2
from typing import Any, NamedTuple

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...arrays.masses import BLOCK_TOKENS, MIN_INVERTIBLE
from ...arrays.ratio_classes import layout
from ...boundary import int_from
from ...dispatch import for_floats
from ...errors import InvalidArgument
from ...laws import DraftLaw, WithoutReplacement, outside
from ...selection import Cost, Selection, SelectionRule
from ..by_pair import by_pair
from ..coupling import couple
from .host import classes_of, levels_of


class HeadPlan(NamedTuple):
    """Plan of the rule for one pair (p, q) and number of draft tokens.

    head: int (h,) tokens. left: (2^h,) mass of q outside the head tokens of the bit set. tail_first: (2^h,) probability s that the rule
    selects from the tail first, given this set. take: (2^h, h) probability that each head token is selected if the tail's token is
    rejected. rank, level: int (n,) part of a class of each token, and level (F,) above each part, 0 within a class. selected: (n,)
    distribution m of the selected token. accepted: sum of min(p, m).
    """

    head: np.ndarray
    left: np.ndarray
    tail_first: np.ndarray
    take: np.ndarray
    rank: np.ndarray
    level: np.ndarray
    selected: np.ndarray
    accepted: Any


@dataclass(frozen=True)
class HeadAndTail(SelectionRule):
    """Select a draft token of the tail by levels; if it is rejected, select one of the head by a maximum flow.

    For draft tokens without replacement; exact on Fractions. Nearly optimal in O(n); computed on the CPU for arrays of all devices.

    Parameters
    ----------
    law : DraftLaw, default=WithoutReplacement()
        Draft law; no other one.
    head : int, default=8
        Number of the most probable tokens of q that are the head, at most 8.
    classes : int, optional
        As in `Optimal`, for the tail. By default the vocabulary is sorted.

    Raises
    ------
    InvalidArgument
        If the draft law is another one, head is not in 0..8, or classes is not an integer >= 1.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> problem = otd.Problem([F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)], k=2, law=otd.WithoutReplacement())
    >>> otd.evaluate(otd.rules.HeadAndTail(), problem).lossless
    True
    """

    cost = Cost(plans_on_host=True)
    claims = ("maximal",)
    law: DraftLaw = WithoutReplacement()
    head: int = 8
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.law != WithoutReplacement():
            raise InvalidArgument(
                f"law of HeadAndTail must be WithoutReplacement(), got {self.law!r}. Use RandomOrder for other draft laws."
            )
        max_head = 8  # all sets of head tokens are enumerated
        int_from("head", self.head, 0, max_head + 1, remedy="Pass a number of tokens.")
        if self.classes is not None:
            int_from("classes", self.classes, 1, remedy="Pass a number of classes, or None for all tokens.")

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return by_pair(p, q, drafts, self.law, self._selection_of_pair)

    def _selection_of_pair(self, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray) -> Selection:
        certain, target, draft, number = without_certain_tokens(p, q, k)
        plan = self._plan(target, draft, number)
        fixed = np.where((tokens >= 0) & certain[tokens], tokens, -1)
        # The tokens that are drafted with certainty; row 0 may have probability 0.
        drawn = int((tokens[0] >= 0).sum() - certain.sum())
        choice = _selection_probabilities(plan, target, draft, number, np.where(fixed >= 0, -1, tokens), drawn)
        return couple(p[None], plan.selected[None], choice, tokens, fixed if certain.any() else None)

    def selected_law(self, p: Array, q: Array, k: int) -> Array:
        """Distribution m (n,) of the selected token for one pair, on the host; the acceptance is the sum of min(p, m).

        m may sum to more than 1, because rejected mass of the tail is offered to the head. If k exceeds the number of tokens of positive
        q, m is p at these, which are drafted with certainty.
        """
        certain, target, draft, number = without_certain_tokens(p, q, k)
        return xp.where(certain, p, self._plan(target, draft, number).selected)

    def _plan(self, p: np.ndarray, q: np.ndarray, k: int) -> HeadPlan:
        head = most_probable_tokens(q, self.head)
        tail = xp.copy(q)
        tail[head] = 0
        rank, whole, of_tail, of_all = self._classes(p, q, tail, head, k)
        samples = SampledSets.of(head, p, q, whole, *of_tail, k)
        best = self._best(samples, lambda: SampledSets.of(head[:0], p, q, whole, *of_all, k))
        if len(best.samples.head) < len(head):
            tail[head] = q[head]
        return best.expanded(p, tail, rank, len(whole))

    def _classes(
        self, p: np.ndarray, q: np.ndarray, tail: np.ndarray, head: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Part of each token, int (n,), class of each part, int (F,), masses of p and q by part, for the tail and with the head.

        Parts are finer classes, from which the accepted mass of a class is computed.
        """
        if self.classes is None:
            (rank,), (p_mass,), (q_mass,) = classes_of(p[None], q[None], None)
            without = xp.copy(q_mass)
            without[rank[head]] = 0
            return rank, np.arange(len(q)), (p_mass, without), (p_mass, q_mass)
        # A tail token is selected with at most k q / (mass of the tail): larger ratios form one class without loss.
        min_tail_mass, min_parts = 2.0**-20, 1024
        most = k << max(ceil(-log2(max(1 - q[head].sum(), min_tail_mass))), 0)
        grouped, finer = layout(self.classes, most), layout(max(self.classes, min_parts), most)
        (rank,), (p_mass,), (q_mass,) = classes_of(p[None], tail[None], finer)
        (rank[head],), (p_head,), (q_head,) = classes_of(p[None, head], q[None, head], finer)
        whole = (np.arange(finer.number + 1) + finer.first >> grouped.shift - finer.shift) - grouped.first
        return rank, whole, (p_mass, q_mass), (p_mass + p_head, q_mass + q_head)

    def _best(self, samples: SampledSets, without_head: Callable[[], SampledSets], bisection_steps: int = 5) -> Attempt:
        """The attempt with the largest acceptance, by the masses of classes alone."""
        first = Attempt.of(samples, xp.where(samples.tail_first, 1 + 0 * samples.drawn, 0))
        if not first.critical.any():
            return first
        other = without_head()
        tried, part = [first, Attempt.of(other, 1 + 0 * other.drawn)], 0.0
        for step in range(bisection_steps):  # the largest fraction without critical sets
            higher = xp.number(part + 0.5 ** (step + 1), samples.drawn)
            found = Attempt.of(samples, xp.where(first.critical, higher * first.tail_first, first.tail_first))
            tried.append(found)
            part = part if (first.critical & found.critical).any() else float(higher)
        return max(tried, key=lambda each: each.accepted)


class SampledSets(NamedTuple):
    """The samples for a given head, and the classes of the tail.

    head: int (h,) tokens. capacity: (h,) their p. drawn, left: (2^h,) probability of the set of head tokens with these bits, and mass of q
    outside it. number: int (2^h,) of samples from the tail, k minus the size of the set. used: int (V,) parts with mass in the tail.
    p_part, q_part: (V,) their masses of p, and their fractions of the tail. start: int (U,) first part of each class. group: int (V,)
    class of each part, from 0. p_mass, share: (U,) by class. ends: (U + 1,) prefix sums of the shares, 0 to 1. k: number of draft tokens.
    """

    head: np.ndarray
    capacity: np.ndarray
    drawn: np.ndarray
    left: np.ndarray
    number: np.ndarray
    used: np.ndarray
    p_part: np.ndarray
    q_part: np.ndarray
    start: np.ndarray
    group: np.ndarray
    p_mass: np.ndarray
    share: np.ndarray
    ends: np.ndarray
    k: int

    @classmethod
    def of(
        cls,
        head: np.ndarray,
        p: np.ndarray,
        q: np.ndarray,
        whole: np.ndarray,
        p_part: np.ndarray,
        q_part: np.ndarray,
        k: int,
    ) -> SampledSets:
        """whole: int (F,) class of each part, in the order of p/q. p_part, q_part: (F,) masses of the tail."""
        used = np.flatnonzero(q_part > 0)
        p_part, q_part = xp.double(p_part[used]), xp.double(q_part[used])
        drawn, left = set_probabilities(xp.double(q[head]), q_part.sum(), k)
        number = np.maximum(k - sizes(len(head)), 0)
        # Fractions of the tail instead of masses: the selection probability may be many times its mass.
        share = xp.divide(q_part, left[-1], 0)
        begins = np.ones(len(used), dtype=bool)
        begins[1:] = whole[used[1:]] > whole[used[:-1]]
        start, group = np.flatnonzero(begins), begins.cumsum() - 1
        p_mass, q_mass = (np.add.reduceat(x, start) if len(start) else x for x in (p_part, share))
        ends = xp.prefix_sums(q_mass)
        ends = xp.divide(ends, ends[-1], 0)
        return cls(
            head, xp.double(p[head]), drawn, left, number, used, p_part, share, start, group, p_mass, q_mass, ends, k
        )

    @property
    def tail_first(self) -> np.ndarray:
        """Sets, bool (2^h,), with samples from the tail that are not critical if the head is selected first."""
        taken = flow(self.drawn, self.capacity)
        return (self.number > 0) & (self.drawn > 0) & ~critical(self.drawn, self.capacity, taken)

    def tail_rejection(self, level: np.ndarray, slope: np.ndarray, over: np.ndarray) -> np.ndarray:
        """Rejection probability of the tail's selected token given d samples, for d = 0 .. k: (k + 1,).

        level, slope: (U - 1,), (U,) by class. over: (V,) rejected mass by part. Given d samples, the selection probability of a class is
        that of chords of t^d over the live intervals.
        """
        rejected = xp.full((self.k + 1,), 1, like=self.share)
        if len(slope) and self.k:
            over = np.add.reduceat(over, self.start)
            part, stack = 0 * self.ends, np.zeros(len(self.ends), dtype=np.int64)
            for_floats(_write_tail_rejection, slope)(level, slope, over, self.share, self.ends, part, stack, rejected)
        return rejected

    def head_flow(self, tail_first: np.ndarray, rejected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mass of each set for the head, (2^h,), and its flow to each of its tokens, (2^h, h)."""
        supply = self.drawn * (1 - tail_first * (1 - rejected[self.number]))
        return supply, flow(supply, self.capacity)


class Attempt(NamedTuple):
    """A plan by classes, as if the tokens of a part had the same p/q; exact if each part has one token.

    samples: the samples. tail_first: as in `HeadPlan`. level, slope: (U - 1,), (U,) by class. accepted: sum of min(p, m). critical: sets,
    bool (2^h,), for which the tail is first and which could give more to a head token that needs more.
    """

    samples: SampledSets
    tail_first: np.ndarray
    level: np.ndarray
    slope: np.ndarray
    accepted: Any
    critical: np.ndarray

    @classmethod
    def of(cls, samples: SampledSets, tail_first: np.ndarray) -> Attempt:
        """The plan in which the tail is first with these probabilities, (2^h,)."""
        chance = xp.full((samples.k + 1,), 0, like=tail_first)
        np.add.at(chance, samples.number, samples.drawn * tail_first)
        draws = {number: chance[number] for number in range(1, samples.k + 1) if chance[number] > 0}
        level, slope = samples.share[:-1], 0 * samples.share
        if draws and len(slope):
            level, slope = levels_of(samples.p_mass, samples.share, draws)
        law = slope[samples.group] * samples.q_part
        over = xp.maximum(law - samples.p_part, 0)
        supply, taken = samples.head_flow(tail_first, samples.tail_rejection(level, slope, over))
        accepted = (law - over).sum() + taken.sum()
        return cls(
            samples, tail_first, level, slope, accepted, (tail_first > 0) & critical(supply, samples.capacity, taken)
        )

    def expanded(self, p: np.ndarray, tail: np.ndarray, rank: np.ndarray, number: int) -> HeadPlan:
        """Return the plan over all tokens. tail: q without the head, modified in place. number: number of parts of classes."""
        samples, mass = self.samples, self.samples.left[-1]
        level, slope, over = (xp.full((number,), 0, like=self.slope) for _ in range(3))
        level[samples.used[samples.start[1:] - 1]], slope[samples.used] = self.level, self.slope[samples.group]
        if (
            not xp.is_exact(tail) and mass < MIN_INVERTIBLE
        ):  # the selection probability may be many times the tail's mass
            tail, mass = xp.divide(tail, mass, 0).astype(tail.dtype), 1
        for_floats(_write_tail_distribution, tail)(p, rank, xp.divide(slope, mass, 0).astype(tail.dtype), tail, over)
        rejected = samples.tail_rejection(self.level, self.slope, over[samples.used])
        supply, taken = samples.head_flow(self.tail_first, rejected)
        tail[samples.head] = taken.sum(0)
        take = xp.divide(taken, supply[:, None], 0)
        accepted = (self.slope * samples.share).sum() - over.sum() + taken.sum()
        return HeadPlan(samples.head, samples.left, self.tail_first, take, rank, level, tail, accepted)


def without_certain_tokens(p: np.ndarray, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """For k above the number of tokens of positive q: mask (n,) of these, which are all drafted, and p, q, k of the other drafts.

    The other draft tokens are uniform outside the mask, and p is restricted to them. Otherwise an empty mask, and p, q, k.
    """
    if np.count_nonzero(q[:BLOCK_TOKENS] > 0) >= k:  # the usual case
        return np.zeros(len(q), dtype=bool), p, q, k
    certain = q > 0
    number = int(np.count_nonzero(certain))
    if number >= min(k, len(q)):
        return certain & False, p, q, k
    return certain, xp.where(certain, 0, p), outside(q, np.flatnonzero(certain)), k - number


@cache
def sizes(number: int) -> np.ndarray:
    """Number of tokens in each set of `number` tokens: int (2^number,)."""
    return np.array([bits.bit_count() for bits in range(1 << number)])


@cache
def largest_first(number: int) -> np.ndarray:
    """Sets of `number` tokens, the largest first: int (2^number,)."""
    return np.argsort(-sizes(number), kind="stable")


def most_probable_tokens(q: np.ndarray, number: int) -> np.ndarray:
    """The most probable tokens, at most `number` and none of mass 0: (n,) -> int (h,)."""
    found = xp.top_tokens(q, min(number, len(q))) if number else np.zeros(0, dtype=np.int64)
    return found[q[found] > 0]


def set_probabilities(head: np.ndarray, tail: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """P(A) and the mass outside A of the sets A of head tokens after k samples, (2^h,) each."""
    drawn, left = (xp.full((1 << len(head),), 0, like=head) for _ in range(2))
    left += tail
    following = drawn.copy()
    for_floats(_write_set_probabilities, head)(head, k, drawn, left, following)
    return drawn, left


def _write_set_probabilities(head, k, drawn, left, following):  # type: ignore[no-untyped-def]
    """Write the probabilities and masses; `left` initially has the mass of the tail."""
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


def flow(drawn: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """A maximum flow (2^h, h) from sets to their tokens: masses of the sets (2^h,), capacities of the tokens (h,).

    Among maximum flows, larger sets have priority: each set, the largest first, gives as much as possible without reducing earlier sets.
    """
    size = len(capacity)
    order = largest_first(size)
    order = order[drawn[order] > 0]
    taken = xp.full((len(drawn), size), 0, like=drawn)
    reach, parent, queue = np.zeros((3, size), dtype=np.int64)
    for_floats(_augment, drawn)(drawn, capacity.copy(), order, taken, reach, parent, queue)
    return taken


def _augment(drawn, capacity, order, taken, reach, parent, queue):  # type: ignore[no-untyped-def]  # noqa: C901 one loop nest
    """Write the flow, by shortest augmenting paths on which sets move their flow to other tokens.

    reach: int (h,), 0 at first: for each token, the bits of all sets that have given to it.
    """
    size, closed = len(capacity), 0  # closed: tokens without an augmenting path, now and later
    for bits in order:
        rest = drawn[bits]
        while rest > 0:
            ahead, seen = 0, closed
            for token in range(size):
                if (bits & ~seen) >> token & 1:
                    parent[token] = -1
                    queue[ahead] = token
                    ahead += 1
            seen |= bits
            found, place = -1, 0
            while place < ahead and found < 0:
                token = queue[place]
                place += 1
                if capacity[token] > 0:
                    found = token
                elif reach[token] & ~seen:
                    for free in range(size):
                        if (reach[token] & ~seen) >> free & 1:
                            parent[free] = token
                            queue[ahead] = free
                            ahead += 1
                    seen |= reach[token]
            if found < 0:
                closed = seen
                break
            amount, token = min(rest, capacity[found]), found
            while parent[token] >= 0 and amount > 0:
                before, most = parent[token], 0 * amount
                for other in order:
                    if other >> token & 1 and taken[other, before] > most:
                        most, via = taken[other, before], other
                amount = min(amount, most)
                if amount > 0:
                    queue[token], token = via, before  # the queue is empty
            if parent[token] >= 0:  # no set that has the last token gives to the one before any more
                reach[before] = 0
                for other in order:
                    if taken[other, before] > 0:
                        reach[before] |= other
                continue
            capacity[found] -= amount
            rest -= amount
            token = found
            while parent[token] >= 0:
                via, before = queue[token], parent[token]
                taken[via, token] += amount
                reach[token] |= via
                taken[via, before] -= amount
                token = before
            taken[bits, token] += amount
            reach[token] |= bits


def critical(supply: np.ndarray, capacity: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Mask (2^h,) of sets that give all their mass and have an augmenting path to a token with free capacity."""
    found = np.zeros(len(supply), dtype=bool)
    smallest_flow = 0 if xp.is_exact(supply) else 1e-13
    for_floats(_mark_critical, supply)(supply, capacity - taken.sum(0), taken, smallest_flow, found)
    return found


def _mark_critical(supply, rest, taken, tiny, critical):  # type: ignore[no-untyped-def]
    """Write `critical`. rest: (h,) free capacity."""
    wanting, before = 0, -1
    for token in range(len(rest)):
        wanting |= (rest[token] > tiny) << token
    while wanting != before:
        before = wanting
        for bits in range(len(supply)):
            if bits & wanting and supply[bits] > tiny and not critical[bits]:
                critical[bits] = True
                for token in range(len(rest)):
                    wanting |= (taken[bits, token] > tiny) << token


def _write_tail_distribution(p, rank, factor, law, over):  # type: ignore[no-untyped-def]
    """Write the distribution m of the token that the tail selects, (n,), over the masses in `law`, and sums of (m - p)+ by class, (C,)."""
    for start in range(0, len(p), BLOCK_TOKENS):
        p_in, own, into = (
            p[start : start + BLOCK_TOKENS],
            rank[start : start + BLOCK_TOKENS],
            law[start : start + BLOCK_TOKENS],
        )
        for y in range(len(own)):
            into[y] *= factor[np.uint64(own[y])]  # unsigned: no check for negative indices
        for y in range(len(own)):
            over[np.uint64(own[y])] += max(into[y] - p_in[y], into[y] - into[y])


def _write_tail_rejection(level, slope, over, share, t, part, stack, rejected):  # type: ignore[no-untyped-def]
    """Write `rejected`, by the live intervals.

    t: (U + 1,) ends of the classes. part: (U + 1,), 0 at first, for what is rejected up to there where all of the tail is equally likely.
    """
    whole, height, last = t[len(t) - 1], 0, len(t) - 1
    for c in range(last):
        part[c + 1] = part[c]
        if over[c] > 0:
            part[c + 1] += over[c] / (slope[c] * share[c]) * (t[c + 1] - t[c])
    for d in range(1, len(rejected)):
        rejected[d] = 0 * whole
    for right in range(last + 1):
        between, own = 0 * whole, level[right - 1] if 0 < right < last else whole
        while height > 0:
            left = stack[height - 1]
            other = level[left - 1] if left else whole
            upper = min(other, own)
            if upper > between:
                here, there = t[left], t[right]
                steep = (upper - between) * (part[right] - part[left]) / (there - here)
                for d in range(1, len(rejected)):
                    rejected[d] += steep * (there - here)
                    here, there = here * t[left], there * t[right]
            if other > own:
                break
            height -= 1
            between = max(between, other)
        stack[height] = right
        height += 1


def _selection_probabilities(
    plan: HeadPlan, p: np.ndarray, q: np.ndarray, k: int, tokens: np.ndarray, drawn: int
) -> np.ndarray:
    """Probability that each position is selected: tokens int (m, k), `drawn` of them present in each row -> (m, k).

    Rows with another number of tokens, which have probability 0, get arbitrary values and do not affect other rows.
    """
    there = tokens >= 0
    masses, selected = (np.where(there, xp.double(x[tokens]), 0) for x in (q, plan.selected))
    take = xp.minimum(xp.divide(xp.double(p[tokens]), selected, 0), 1)
    place = np.full(tokens.shape, -1)  # index in the head
    for i, token in enumerate(plan.head):
        place[tokens == token] = i
    choice = xp.full(tokens.shape, 0, like=masses)
    order = np.argsort(~there, axis=-1, kind="stable")[:, :drawn]
    used, fresh = xp.full((2, order.shape[-1]), 0, like=masses)
    memory = (np.zeros(order.shape[-1], dtype=np.int64), used, fresh, choice)
    for_floats(_sum_choice, masses)(order, place, plan.rank[tokens], masses, take, k, plan.level, *plan[1:4], *memory)
    return choice.astype(q.dtype)


def _sum_choice(order, place, rank, mass, take, k, level, left, tail_first, own, bits, used, fresh, choice):  # type: ignore[no-untyped-def]
    """Sum `choice` over the numbers of used draft tokens, for rows whose present draft tokens are at the positions `order`, (m, c)."""
    nothing, count = 0 * level[0], order.shape[1]
    for row in range(len(order)):
        head, of_tail = 0, nothing
        for i in range(count):  # i + 1 draft tokens are used
            at = order[row, i]
            if place[row, at] >= 0:
                head |= 1 << place[row, at]
            else:
                of_tail += mass[row, at]
            bits[i], used[i], fresh[i] = head, nothing, nothing
            if i < count - 1 and left[head] > of_tail:  # the next sample is the next draft token
                fresh[i] = (left[head] - of_tail) / left[head]
        used[0] = nothing + 1
        for _ in range(k - 1):
            for i in range(count - 2, -1, -1):
                goes = used[i] * fresh[i]
                used[i] -= goes
                used[i + 1] += goes
        for i in range(count):
            highest = -1
            for j in range(i + 1):
                if place[row, order[row, j]] < 0:
                    highest = max(highest, rank[row, order[row, j]])
            rest, taken = (
                nothing + 1,
                nothing,
            )  # above the level `rest`, the token of the tail is an earlier draft token
            for j in range(i + 1):
                at = order[row, j]
                if place[row, at] < 0:
                    cut = nothing
                    if rank[row, at] < highest:  # a slice is fast in Python, too
                        cut = max(cut, level[rank[row, at] : highest].max())
                    selected = tail_first[bits[i]] * (rest - min(rest, cut))
                    rest = min(rest, cut)
                    taken += selected * take[row, at]
                    choice[row, at] += used[i] * selected
            for j in range(i + 1):
                at = order[row, j]
                if place[row, at] >= 0:
                    choice[row, at] += used[i] * (1 - taken) * own[bits[i], place[row, at]]
