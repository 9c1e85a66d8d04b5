"""What is counted of the calls: a view reads cells from outcomes, whose law is known given all that came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import Array
from .corners import Case
from .statistics import log_e_value_given

CLASSES = 4  # of cells, where one outcome is set beside another
PARTS = 16  # of a law that changes from call to call
MOST_TOKENS = 64  # counted one by one; more are pooled
MOST_TUPLES = 1 << 12  # draft tuples counted one by one, absent drafts included
MOST_TEXTS = 1 << 10  # classes of whole texts
Read = Callable[[Array, Array, np.random.Generator], tuple[Array, Array]]


class View:
    """A statistic of a group of cases, and how often each of its cells was seen.

    laws: (cases, conditions, cells). read(which (m,), outcomes (m, width), generator) -> condition, cell, int (m, events) each:
    given the events before it, each has the law of its case and condition; cell -1: no event. shown(case, cell): for a text.
    main: whether its first event, of condition 0, is looked at for dependence between calls.
    """

    def __init__(
        self, name: str, laws: Array, read: Read, shown: Callable[[int, int], str], main: bool = False
    ) -> None:
        self.name, self.laws, self.read, self.shown, self.main = name, laws, read, shown, main
        self.counts = np.zeros(laws.shape, dtype=np.int64)

    def impossible(self, which: Array, seen: tuple[Array, Array]) -> Array:
        """Rows in which a cell of probability 0 was seen: int."""
        condition, cell = seen
        return np.flatnonzero(((self.laws[which[:, None], condition, cell] <= 0) & (cell >= 0)).any(-1))

    def add(self, which: Array, seen: tuple[Array, Array]) -> None:
        condition, cell = seen
        there = cell >= 0
        np.add.at(self.counts, (np.broadcast_to(which[:, None], cell.shape)[there], condition[there], cell[there]), 1)

    def evidence(self) -> Array:
        """Log e-value against the laws: (cases,)."""
        return log_e_value_given(self.counts, self.laws)

    def worst(self, case: int) -> tuple[int, float, float]:
        """The cell that is furthest from its law, its share and the share that it ought to have, in one condition."""
        counts, law = self.counts[case], self.laws[case]
        expected = law * counts.sum(-1, keepdims=True)
        far = abs(counts - expected) / np.sqrt(np.maximum(expected, 1e-300))
        condition, cell = np.unravel_index(int(np.argmax(np.where(counts + expected > 0, far, 0))), far.shape)
        return int(cell), counts[condition, cell] / max(1, counts[condition].sum()), law[condition, cell]


def stacked(cases: list[Case], name: str) -> Array:
    """p or q of all cases, normalised: (cases, n)."""
    laws = np.stack([getattr(case.problem, name) for case in cases])
    return laws / laws.sum(-1, keepdims=True)


def token_view(name: str, cases: list[Case], texts: Callable[..., Array], places: int) -> View:
    """Every token of a text follows p at its place: `texts(which, outcomes, generator)` -> int (m, places)."""
    p, q = stacked(cases, "p"), stacked(cases, "q")
    pool, laws = pooled(p, q, MOST_TOKENS)

    def read(which: Array, outcomes: Array, generator: Any) -> tuple[Array, Array]:
        cells = pool[which[:, None], texts(which, outcomes, generator)]
        return np.broadcast_to(np.arange(places), cells.shape), cells

    def shown(case: int, cell: int) -> str:
        tokens = np.flatnonzero(pool[case] == cell)
        return f"token {tokens[0]}" if len(tokens) == 1 else f"one of the {len(tokens)} tokens like {tokens[0]}"

    return View(name, np.repeat(laws[:, None], places, axis=1), read, shown, main=True)


def joint_view(name: str, cases: list[Case], texts: Callable[..., Array], places: int) -> View:
    """All tokens of a text together, in classes of tokens."""
    size = max(2, int(MOST_TEXTS ** (1 / places) + 1e-9))
    pool, laws = pooled(stacked(cases, "p"), stacked(cases, "q"), size)
    size = laws.shape[-1]
    joint = laws
    for _ in range(places - 1):
        joint = (joint[:, :, None] * laws[:, None]).reshape(len(cases), -1)

    def read(which: Array, outcomes: Array, generator: Any) -> tuple[Array, Array]:
        cells = pool[which[:, None], texts(which, outcomes, generator)] @ size ** np.arange(places)[::-1]
        return np.zeros_like(cells)[:, None], cells[:, None]

    def shown(case: int, cell: int) -> str:
        return f"tokens of the classes {[cell // size**i % size for i in range(places)][::-1]}"

    return View(name, joint[:, None], read, shown)


def pooled(p: Array, q: Array, most: int) -> tuple[Array, Array]:
    """Classes of tokens, int (cases, n), and their laws (cases, classes): neighbours in the order of p/q together.

    At most `most` tokens are left alone. Tokens of mass 0 are the last class, whose law is 0.
    """
    n = p.shape[-1]
    if n <= most:
        return np.broadcast_to(np.arange(n), p.shape), p
    order = np.argsort(np.where(p > 0, p / np.maximum(q, 1e-300), np.inf), axis=-1, kind="stable")
    sums = np.take_along_axis(p, order, -1).cumsum(-1) - np.take_along_axis(p, order, -1) / 2
    pool = np.empty(p.shape, dtype=np.int64)
    np.put_along_axis(pool, order, np.minimum((sums * most).astype(np.int64), most - 1), -1)
    pool = np.where(p > 0, pool, most)
    return pool, np.stack([np.bincount(c, w, most + 1) for c, w in zip(pool, p, strict=True)])


def draft_view(name: str, cases: list[Case]) -> View:
    """The first k columns of outcomes are drafts by the law: all together where they can be counted, else one after the other."""
    problem = cases[0].problem
    if (problem.n + 1) ** problem.k <= MOST_TUPLES:
        return _tuple_view(name, cases)
    return _in_turn_view(name, cases)


def _tuple_view(name: str, cases: list[Case]) -> View:
    n, k = cases[0].problem.n, cases[0].problem.k
    values = (n + 1) ** np.arange(k)[::-1]  # of each place of a tuple that is read as a number
    tuples = np.array(list(np.ndindex(*(n + 1,) * k))).reshape(-1, k) - 1
    laws = np.stack([case.problem.law.probability(case.problem.q, tuples) for case in cases])

    def read(which: Array, outcomes: Array, generator: Any) -> tuple[Array, Array]:
        cells = (outcomes[:, :k] + 1) @ values
        return np.zeros_like(cells)[:, None], cells[:, None]

    def shown(case: int, cell: int) -> str:
        return f"drafts {tuples[cell].tolist()}"

    return View(name, (laws / laws.sum(-1, keepdims=True))[:, None], read, shown, main=True)


def _in_turn_view(name: str, cases: list[Case]) -> View:
    """Each draft given those before it, in sixteenths of its law; the condition is its place and where the one before it fell."""
    q, k = stacked(cases, "q"), cases[0].problem.k
    laws = np.zeros((len(cases), k * CLASSES, PARTS + 1))
    laws[..., :PARTS] = 1 / PARTS

    def read(which: Array, outcomes: Array, generator: np.random.Generator) -> tuple[Array, Array]:
        cells = np.empty((len(which), k), dtype=np.int64)
        for place, case in enumerate(cases):
            mine, law = which == place, case.problem.law
            drafts = outcomes[mine, :k]
            of_q = np.broadcast_to(q[place], (len(drafts), q.shape[-1]))
            for i in range(k):
                follows = np.broadcast_to(law.child(of_q, drafts[:, :i], drafts[:, i : i + 1], k), of_q.shape)
                cells[mine, i] = _draft_part(follows, drafts[:, i], generator)
        before = np.minimum(np.maximum(cells, 0) * CLASSES // PARTS, CLASSES - 1)
        before = np.concatenate((0 * before[:, :1], before[:, :-1]), axis=-1)
        return np.arange(k) * CLASSES + before, cells

    def shown(case: int, cell: int) -> str:
        return f"a draft in the {cell + 1}. of {PARTS} equal parts of its law (the likeliest first), given the drafts before it,"

    return View(name, laws, read, shown, main=True)


def _draft_part(law: Array, drafts: Array, generator: np.random.Generator) -> Array:
    """Parts of drafts; one more where the draft is impossible, -1 where none was left to draw and it is absent."""
    mass = np.take_along_axis(law, np.maximum(drafts, 0)[:, None], -1)[:, 0]
    none = law.sum(-1) <= 0
    right = np.where(none, drafts == -1, (drafts >= 0) & (mass > 0))
    parts = part(np.where(none[:, None], 1, law), np.maximum(drafts, 0), generator)
    return np.where(right, np.where(none, -1, parts), PARTS)


def part(law: Array, outcome: Array, generator: np.random.Generator) -> Array:
    """The part of its law in which an outcome falls, the likeliest first, by lot where it spans several: (m, n), (m,) -> (m,).

    Every part has probability 1/16 under the law, whatever the law. An outcome of mass 0 falls in the last one.
    """
    mass = np.take_along_axis(law, outcome[:, None], -1)
    likelier = (law > mass) | ((law == mass) & (np.arange(law.shape[-1]) < outcome[:, None]))
    start = np.where(likelier, law, 0).sum(-1)
    point = (start + generator.random(len(law)) * mass[:, 0]) / law.sum(-1)
    return np.minimum((PARTS * point).astype(np.int64), PARTS - 1)
