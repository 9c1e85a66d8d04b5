"""Counts of outcomes: a view reads cells from the outcomes, whose distribution is known given all earlier events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import Array
from ..corners import LabelledProblem
from ..e_values import log_dirichlet_mixture

CLASSES = 4  # classes of cells, where one outcome is compared with another
PARTS = 16  # parts of equal probability, where a distribution changes from call to call
MOST_TOKENS = 64  # counted one by one; more are pooled
Read = Callable[[Array, Array, np.random.Generator], tuple[Array, Array]]


class View:
    """A statistic of a group of cases, and the counts of its cells.

    laws: distributions of the cells, (cases, conditions, cells). read(which (m,), outcomes (m, width), generator) -> condition, cell, int
    (m, events) each: given the events before it, each follows the distribution of its case and condition; cell -1: no event. shown(case,
    cell): description of a cell. main: whether its first event, of condition 0, is tested for dependence between calls. share: events
    per condition and call, averaged over the conditions that occur.
    """

    def __init__(
        self, name: str, laws: Array, read: Read, shown: Callable[[int, int], str], main: bool = False, share: float = 1.0
    ) -> None:  # fmt: skip
        self.name, self.laws, self.read, self.shown, self.main, self.share = name, laws, read, shown, main, share
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
        return log_dirichlet_mixture(self.counts, self.laws)

    def worst(self, case: int) -> tuple[int, float, float]:
        """The cell with the largest deviation, its observed share and its expected share, in one condition."""
        counts, law = self.counts[case], self.laws[case]
        expected = law * counts.sum(-1, keepdims=True)
        far = abs(counts - expected) / np.sqrt(np.maximum(expected, 1e-300))
        condition, cell = np.unravel_index(int(np.argmax(np.where(counts + expected > 0, far, 0))), far.shape)
        return int(cell), counts[condition, cell] / max(1, counts[condition].sum()), law[condition, cell]


def stacked(cases: list[LabelledProblem], name: str) -> Array:
    """p or q of all cases, normalised: (cases, n)."""
    laws = np.stack([getattr(case.problem, name) for case in cases])
    return laws / laws.sum(-1, keepdims=True)


def token_views(name: str, cases: list[LabelledProblem], texts: Callable[..., Array], places: int) -> list[View]:
    """Every token of a sequence follows p at its position: `texts(which, outcomes, generator)` -> int (m, places).

    More than 64 tokens are counted in classes: neighbours in p/q, ids modulo 64, random classes, and tokens that came before.
    """
    p, q = stacked(cases, "p"), stacked(cases, "q")
    views = [_class_view(name, p, *pooled(p, q, MOST_TOKENS), texts, places, main=True)]
    if (n := p.shape[-1]) <= MOST_TOKENS:
        return views
    for ids in (np.arange(n), np.random.default_rng(0).permutation(n)):
        pool = np.broadcast_to(ids % MOST_TOKENS, p.shape)
        views.append(_class_view(name, p, pool, _of_classes(pool, p, MOST_TOKENS), texts, places))

    def follows(case: int, which: Array, outcomes: Array, generator: Any) -> list[tuple[Array, Array]]:
        return [(p[case : case + 1], tokens) for tokens in texts(which, outcomes, generator).T]

    return [*views, SeenView(name, cases, follows, places)]


def _class_view(
    name: str, p: Array, pool: Array, laws: Array, texts: Callable[..., Array], places: int, main: bool = False
) -> View:
    """Count classes (cases, n) of tokens, with the distributions `laws` (cases, classes)."""

    def read(which: Array, outcomes: Array, generator: Any) -> tuple[Array, Array]:
        cells = pool[which[:, None], texts(which, outcomes, generator)]
        return np.broadcast_to(np.arange(places), cells.shape), cells

    def shown(case: int, cell: int) -> str:
        tokens = np.flatnonzero(pool[case] == cell)
        return f"token {tokens[0]}" if len(tokens) == 1 else f"one of the {len(tokens)} tokens like {tokens[0]}"

    return View(name, np.repeat(laws[:, None], places, axis=1), read, shown, main)


class SeenView(View):
    """Each token in sixteenths of its distribution: first the tokens that came before, then the others in a random order.

    follows(case, which, outcomes, generator): for every position the distribution, (m, n) or (1, n), and the token, -1 for none:
    (m,). A sampler that reaches few of many tokens repeats them; the tokens that came before are those of calls that were added.
    """

    def __init__(self, name: str, cases: list[LabelledProblem], follows: Callable[..., Any], places: int) -> None:
        n = cases[0].problem.n
        laws = np.full((len(cases), places, PARTS), 1 / PARTS)
        super().__init__(name, laws, self._read, self._shown)
        self.follows, self.order = follows, np.random.default_rng(1).permutation(n)
        self.seen, self.latest = np.zeros((len(cases), n), dtype=bool), np.zeros((0, places), dtype=np.int64)

    def _read(self, which: Array, outcomes: Array, generator: np.random.Generator) -> tuple[Array, Array]:
        cells = np.full((len(which), self.laws.shape[1]), -1)
        self.latest = cells.copy()
        for case, seen in enumerate(self.seen):
            mine = np.flatnonzero(which == case)
            order = np.concatenate([self.order[seen[self.order]], self.order[~seen[self.order]]])
            rank = np.argsort(order)
            for place, (law, token) in enumerate(self.follows(case, which[mine], outcomes[mine], generator)):
                sums, rows = law[:, order].cumsum(-1), np.arange(len(mine)) if len(law) > 1 else 0 * mine
                mass = law[rows, token]
                point = sums[rows, rank[token]] - generator.random(len(mine)) * mass
                whole = np.maximum(sums[rows, -1], 1e-300)
                parts = np.minimum((PARTS * np.maximum(point, 0) / whole).astype(np.int64), PARTS - 1)
                cells[mine, place] = np.where((token >= 0) & (mass > 0), parts, -1)
                self.latest[mine, place] = token
        return np.broadcast_to(np.arange(cells.shape[1]), cells.shape), cells

    def _shown(self, case: int, cell: int) -> str:
        return f"a token in the {cell + 1}. of {PARTS} equal parts of its distribution (tokens that came before first)"

    def add(self, which: Array, seen: tuple[Array, Array]) -> None:
        super().add(which, seen)
        there = self.latest >= 0
        self.seen[np.broadcast_to(which[:, None], there.shape)[there], self.latest[there]] = True


def joint_view(
    name: str, cases: list[LabelledProblem], texts: Callable[..., Array], places: int, classes: int = 1_024
) -> View:
    """All tokens of a sequence together, in classes of tokens, with about the given number of classes of sequences."""
    size = max(2, int(classes ** (1 / places) + 1e-9))
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
    """Classes of tokens, int (cases, n), and their probabilities (cases, classes): neighbours in the order of p/q are one class.

    At most `most` tokens are one class each. In larger vocabularies the last class has the tokens of probability 0.
    """
    n = p.shape[-1]
    if n <= most:
        return np.broadcast_to(np.arange(n), p.shape), p
    order = np.argsort(np.where(p > 0, p / np.maximum(q, 1e-300), np.inf), axis=-1, kind="stable")
    sums = np.take_along_axis(p, order, -1).cumsum(-1) - np.take_along_axis(p, order, -1) / 2
    pool = np.empty(p.shape, dtype=np.int64)
    np.put_along_axis(pool, order, np.minimum((sums * most).astype(np.int64), most - 1), -1)
    pool = np.where(p > 0, pool, most)
    return pool, _of_classes(pool, p, most + 1)


def draft_views(name: str, cases: list[LabelledProblem], tuples: int = 4_096) -> list[View]:
    """The first k columns of outcomes follow the draft law: counted as tuples if these are few, else one draft after the other.

    Above 64 tokens, drafts that came before are counted, too. tuples: maximum number of counted draft tuples, absent drafts included.
    """
    n, k, q = cases[0].problem.n, cases[0].problem.k, stacked(cases, "q")
    main = (_tuple_view if (n + 1) ** k <= tuples else _in_turn_view)(name, cases)

    def follows(case: int, which: Array, outcomes: Array, generator: Any) -> list[tuple[Array, Array]]:
        drafts = outcomes[:, :k]
        of_q = np.broadcast_to(q[case], (len(drafts), n))
        law = cases[case].problem.law
        return [(law.conditional(of_q, drafts, 0 * drafts[:, :1] + i), drafts[:, i]) for i in range(k)]

    return [main, SeenView(name, cases, follows, k)] if n > MOST_TOKENS and k else [main]


def _tuple_view(name: str, cases: list[LabelledProblem]) -> View:
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


def _in_turn_view(name: str, cases: list[LabelledProblem]) -> View:
    """Each draft given those before it, in sixteenths of its distribution. Condition: its position, and the class of the draft before."""
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
                follows = np.broadcast_to(law.conditional(of_q, drafts, 0 * drafts[:, :1] + i), of_q.shape)
                cells[mine, i] = _draft_part(follows, drafts[:, i], generator)
        before = np.minimum(np.maximum(cells, 0) * CLASSES // PARTS, CLASSES - 1)
        before = np.concatenate((0 * before[:, :1], before[:, :-1]), axis=-1)
        return np.arange(k) * CLASSES + before, cells

    def shown(case: int, cell: int) -> str:
        return f"a draft in the {cell + 1}. of {PARTS} parts of equal mass (the most probable first), given the drafts before it,"

    return View(name, laws, read, shown, main=True, share=k / (1 + (k - 1) * CLASSES))  # nothing is before the first


def _draft_part(law: Array, drafts: Array, generator: np.random.Generator) -> Array:
    """Parts of drafts: PARTS for an impossible draft, -1 for an absent one where no token was left to draw."""
    mass = np.take_along_axis(law, np.maximum(drafts, 0)[:, None], -1)[:, 0]
    none = law.sum(-1) <= 0
    right = np.where(none, drafts == -1, (drafts >= 0) & (mass > 0))
    parts = part(np.where(none[:, None], 1, law), np.maximum(drafts, 0), generator)
    return np.where(right, np.where(none, -1, parts), PARTS)


def part(law: Array, outcome: Array, generator: np.random.Generator) -> Array:
    """The part of a distribution with an outcome, the most probable first, random if it spans several: (m, n), (m,) -> (m,).

    Every part has probability 1/16 under any distribution. An outcome of probability 0 is in the last part.
    """
    mass = np.take_along_axis(law, outcome[:, None], -1)
    likelier = (law > mass) | ((law == mass) & (np.arange(law.shape[-1]) < outcome[:, None]))
    start = np.where(likelier, law, 0).sum(-1)
    point = (start + generator.random(len(law)) * mass[:, 0]) / law.sum(-1)
    return np.minimum((PARTS * point).astype(np.int64), PARTS - 1)


class Dependence:
    """Counts of outcomes given outcomes elsewhere, in classes, for the main views of a group.

    Kinds of "elsewhere": the row before; in batches also the same row of the batch before, the position in the batch, and other
    rows of the same batch, single pairs and pairs at one distance, or with one sum of their numbers. For these, all pairs of
    rows are compared on the batches so far, by one product of matrices (rows^2 x batches), and those that are most alike, or
    most unlike, are counted from then on. They are chosen before the counted outcomes, so that the e-value is valid.
    """

    kinds = 5  # in batches

    def __init__(
        self, views: list[View], rows: int, batched: bool, counted_pairs: int = 4, remembered_batches: int = 256
    ) -> None:
        """counted_pairs: pairs of rows between two looks at the evidence. remembered_batches: those from which they are chosen."""
        self.counted_pairs, self.remembered = counted_pairs, remembered_batches
        main = [view.laws[:, 0] for view in views if view.main]
        self.rows, self.batched = rows, batched
        middles = [laws.cumsum(-1) - laws / 2 for laws in main]
        self.scores = [np.sqrt(12) * (middle - 0.5) for middle in middles]
        self.classes = [np.minimum((CLASSES * middle).astype(np.int64), CLASSES - 1) for middle in middles]
        self.laws = np.stack([_of_classes(c, laws, CLASSES) for c, laws in zip(self.classes, main, strict=True)])
        shape = (len(main), self.kinds if batched else 1, main[0].shape[0], CLASSES ** len(main), CLASSES)
        self.counts = np.zeros(shape, dtype=np.int64)
        self.latest = np.zeros(0, dtype=np.int64)  # classes of the calls before, all main views in one number
        self.seen: list[Array] = []  # scores of latest batches: (main views, rows)
        self.pairs = [np.zeros((0, 2), dtype=np.int64)] * 2  # single ones, and those of one distance or sum

    def add(self, which: Array, cells: list[Array]) -> None:
        """Cells of the main views in the next calls, (m,) each; in batches, m is the batch."""
        classes = np.stack([table[which, cell] for table, cell in zip(self.classes, cells, strict=True)])
        together = (classes.T @ CLASSES ** np.arange(len(classes))).astype(np.int64)
        m = len(which)
        self._count(0, np.concatenate((self.latest[-1:], together[:-1])), which, classes, np.arange(m))
        if self.batched:
            if len(self.latest) == m:
                self._count(1, self.latest, which, classes, np.arange(m))
            if m > 2:
                slots = np.full(m, 3)
                slots[[0, 1, -1]] = 0, 1, 2
                self._count(2, slots, which, classes, np.arange(m))
            for kind, (i, j) in enumerate((pairs.T for pairs in self.pairs), 3):
                self._count(kind, together[i], which, classes, j)
            scores = [table[which, cell] for table, cell in zip(self.scores, cells, strict=True)]
            self.seen = [*self.seen[1 - self.remembered :], np.array(scores, dtype=np.float32)]
        self.latest = together

    def _count(self, kind: int, conditions: Array, which: Array, classes: Array, rows: Array) -> None:
        rows = rows[len(rows) - len(conditions) :]  # the first call of all follows none
        for view, own in enumerate(classes):
            np.add.at(self.counts[view, kind], (which[rows], conditions, own[rows]), 1)

    def choose_pairs(self) -> None:
        """The pairs of rows to count from now on, each row at most once as the later one: so far most alike, or most unlike."""
        if not self.seen or self.rows < 2:
            return
        scores = np.concatenate(self.seen)
        alike = np.tril(scores.T @ scores, -1)
        best = abs(alike).argmax(-1)
        later = np.argsort(-abs(alike)[np.arange(self.rows), best], kind="stable")[: self.counted_pairs]
        later = later[later > best[later]]
        self.pairs = [np.stack((best[later], later), axis=-1), _in_line(alike)]

    def evidence(self, explained: Array) -> Array:
        """Log e-value against independence, beyond `explained`, (cases,) each: the largest of all kinds.

        A case has its own evidence. That of all cases together replaces the largest of them, if it is larger.
        """
        laws = np.broadcast_to(self.laws[:, None, :, None], self.counts.shape)
        alone = log_dirichlet_mixture(self.counts, laws).max((0, 1)) - explained
        shape = (*self.counts.shape[:2], -1, CLASSES)
        together = log_dirichlet_mixture(self.counts.reshape(shape), laws.reshape(shape)).max() - explained.sum()
        alone[alone.argmax()] = max(alone.max(), together)
        return alone

    @property
    def tests(self) -> int:
        """Number of tests."""
        views, kinds, cases = self.counts.shape[:3]
        return views * kinds * (cases + 1)


def _of_classes(classes: Array, laws: Array, number: int) -> Array:
    return np.stack([np.bincount(c, w, number) for c, w in zip(classes, laws, strict=True)])


def _in_line(alike: Array) -> Array:
    """All pairs (i, j), i < j, of one distance j - i, or of one sum i + j, which together are most alike: (lower triangle) -> (m, 2)."""
    j, i = np.tril_indices(len(alike), -1)
    best, pairs = -1.0, np.zeros((0, 2), dtype=np.int64)
    for line in (j - i, i + j):
        number = np.bincount(line)
        strength = abs(np.bincount(line, alike[j, i])) / np.sqrt(np.maximum(number, 1))
        if strength.max() > best:
            best, mine = strength.max(), line == strength.argmax()
            pairs = np.stack((i[mine], j[mine]), axis=-1)
    return pairs
