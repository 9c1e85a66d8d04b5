"""Whether what comes out of a call depends on other calls, or on the row of the batch in which it stands."""

from __future__ import annotations

import numpy as np

from ...arrays import Array
from .statistics import log_e_value_given
from .views import CLASSES, View

SLOTS = 4  # the first row of a batch, the second, the last, and all others
PARTNERS = 4  # pairs of rows that are looked at between two looks at the evidence
KINDS = 5  # of what an outcome is set beside, in batches
REMEMBERED = 256  # batches from which such pairs are chosen


class Dependence:
    """Counts of what came out, given what came out elsewhere: of the main views of a group, in classes.

    Kinds of "elsewhere": the row before; in batches also the same row of the batch before, the place in the batch, and other
    rows of the same batch, single pairs and pairs at one distance, or with one sum of their numbers. For these, all pairs of
    rows are compared on what was seen so far, by one product of matrices (rows^2 x batches), and those that are most alike, or
    most unlike, are counted from then on: chosen before what is counted, so that the e-value holds.
    """

    def __init__(self, views: list[View], rows: int, batched: bool) -> None:
        main = [view.laws[:, 0] for view in views if view.main]
        self.rows, self.batched = rows, batched
        middles = [laws.cumsum(-1) - laws / 2 for laws in main]
        self.scores = [np.sqrt(12) * (middle - 0.5) for middle in middles]
        self.classes = [np.minimum((CLASSES * middle).astype(np.int64), CLASSES - 1) for middle in middles]
        self.laws = np.stack([_of_classes(c, laws) for c, laws in zip(self.classes, main, strict=True)])
        shape = (len(main), KINDS if batched else 1, main[0].shape[0], CLASSES ** len(main), CLASSES)
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
            self.seen = [*self.seen[1 - REMEMBERED :], np.array(scores, dtype=np.float32)]
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
        later = np.argsort(-abs(alike)[np.arange(self.rows), best], kind="stable")[:PARTNERS]
        later = later[later > best[later]]
        self.pairs = [np.stack((best[later], later), axis=-1), _in_line(alike)]

    def evidence(self, explained: Array) -> Array:
        """Log e-value against independence, beyond what is explained already, (cases,) each: the largest of all kinds.

        Of the case alone, or of all cases together, which stands where the case alone says most.
        """
        laws = np.broadcast_to(self.laws[:, None, :, None], self.counts.shape)
        alone = log_e_value_given(self.counts, laws).max((0, 1)) - explained
        shape = (*self.counts.shape[:2], -1, CLASSES)
        together = log_e_value_given(self.counts.reshape(shape), laws.reshape(shape)).max() - explained.sum()
        alone[alone.argmax()] = max(alone.max(), together)
        return alone

    @property
    def tests(self) -> int:
        """Number of tests."""
        views, kinds, cases = self.counts.shape[:3]
        return views * kinds * (cases + 1)


def _of_classes(classes: Array, laws: Array) -> Array:
    return np.stack([np.bincount(c, w, CLASSES) for c, w in zip(classes, laws, strict=True)])


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
