"""Running code that only samples: what is called, on which arrays, and the counts that come out."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...arrays import Array, to_host
from ...problem import Problem
from .corners import Case
from .statistics import log_e_value, log_e_value_of_pairs

CLASSES = 4  # classes of tokens whose succession is tested
ROWS = 4096  # of a batch, at most
NUMBERS = 1 << 21  # in an array of p, at most


class Refused(Exception):  # an outcome, no error of this library
    """An outcome that no right sampler has. case: on which problem; the text says what came out of what."""

    def __init__(self, case: Case, seen: str) -> None:
        super().__init__(seen)
        self.case = case


class BlackBox(ABC):
    """The user's function, and how it is called: `rows` are arrays of one row a call."""

    possible: ClassVar[str]  # names of checks: no impossible outcome
    right_law: ClassVar[str]  # outcomes follow the law
    called: ClassVar[str]  # the public function

    def __init__(self, function: Callable[..., Any], batched: bool) -> None:
        self.function, self.batched = function, batched

    @abstractmethod
    def law(self, problem: Problem) -> Array:
        """The law that the outcomes must have: (cells,)."""

    @abstractmethod
    def rows(self, group: list[Case], which: Array, generator: np.random.Generator) -> tuple[Array, ...]:
        """Arguments of calls for the cases `which` (m,) of a group: arrays (m, ...)."""

    @abstractmethod
    def read(self, given: Any, problem: Problem) -> Any:
        """What one call, or a batch of calls, has given, as integers. Raises NoOutcome where it is none."""

    def cells(self, outcomes: Array, problem: Problem) -> Array:
        """Numbers of the cells of outcomes: (m, ...) -> int (m,)."""
        return outcomes

    @abstractmethod
    def outcome_shown(self, cell: int, case: Case) -> str:
        """An outcome, in a text."""

    @abstractmethod
    def shown(self, row: tuple[Array, ...]) -> str:
        """The arguments of one call, in a text."""

    @abstractmethod
    def needs_randomness(self, case: Case) -> bool:
        """Whether a right function cannot do without the generator."""

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        """One call of the function."""
        return self.function(*row, generator)

    def run(self, group: list[Case], which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        """Cells of the outcomes of all calls: int (m,). Raises Refused at the first that is impossible, or that raises an error."""
        cells = self.cells(self.outcomes(group, which, rows, generator), group[0].problem)
        wrong = np.flatnonzero(np.stack([case.law for case in group])[which, cells] <= 0)
        if wrong.size:
            i = int(wrong[0])
            case, row = group[which[i]], tuple(x[i] for x in rows)
            raise Refused(case, f"gave {self.outcome_shown(cells[i], case)}, of probability 0; {self.shown(row)}")
        return cells

    def outcomes(self, group: list[Case], which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        """What the function gives: (m, ...). Raises Refused where that is none, or where it raises an error."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the verdict must not depend on the caller's filters
            return (self._at_once if self.batched else self._one_by_one)(group, which, rows, generator)

    def _one_by_one(self, group: list[Case], which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        problem, found = group[0].problem, []
        try:
            for row in zip(*rows, strict=True):
                found.append(self.read(self.call(row, problem, generator), problem))  # noqa: PERF401  # its length tells the row
        except Exception as error:
            shown = self.shown(tuple(x[len(found)] for x in rows))
            raise Refused(group[which[len(found)]], f"{_said(error)}; {shown}") from error
        return np.array(found, dtype=np.int64)

    def _at_once(self, group: list[Case], which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        problem = group[0].problem
        try:
            found = self.read(self.call(rows, problem, generator), problem)
            if len(found) != len(which):
                raise NoOutcome(f"gave {len(found)} rows for {len(which)}")
            return found
        except Exception as error:
            raise Refused(group[0], f"{_said(error)}; in a batch of {len(which)} rows") from error


class NoOutcome(ValueError):
    """What came out is no token, or no drafts."""


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, NoOutcome) else f"raised {type(error).__name__}: {error}"


def token_ids(given: Any, n: int, absent: bool = False) -> Any:
    """A token, or an array of tokens, as integers. Raises NoOutcome where one is no id of the vocabulary, nor -1 if it may be."""
    if type(given) is int and 0 <= given < n:
        return given
    tokens = to_host(given)
    if tokens.dtype.kind not in "iu":
        raise NoOutcome(f"gave {type(given).__name__} of {tokens.dtype}, not whole numbers")
    bad = (tokens < (-1 if absent else 0)) | (tokens >= n)
    if bad.any():
        raise NoOutcome(f"gave token {tokens[bad].tolist()[0]}, outside the vocabulary 0 .. {n - 1}")
    return tokens.astype(np.int64)


class Counts:
    """What came out of a group of cases: the outcomes in the order of the calls, and how often what followed what.

    The cases take turns. lags: an outcome is set beside the one so many calls before; in batches of `rows` rows, also beside
    that of the same row of the batch before.
    """

    def __init__(self, group: list[Case], rows: int, batched: bool) -> None:
        self.lags = sorted({1, rows}) if batched else [1]
        self.laws = np.stack([case.law / case.law.sum() for case in group])
        middle = self.laws.cumsum(-1) - self.laws / 2
        self.classes = np.minimum((CLASSES * middle).astype(np.int64), CLASSES - 1)
        self.class_laws = np.stack([np.bincount(c, w, CLASSES) for c, w in zip(self.classes, self.laws, strict=True)])
        self.latest = np.zeros(0, dtype=np.int64)  # classes of the calls before, as many as the longest lag
        self.calls = 0
        self.counts = np.zeros(self.laws.shape, dtype=np.int64)
        self.pairs = np.zeros((len(self.lags), len(group), CLASSES, CLASSES), dtype=np.int64)

    @property
    def samples(self) -> int:
        """Calls for every case."""
        return self.calls // len(self.laws)

    def add(self, cells: Array) -> None:
        """Outcomes of the next calls; the first belongs to the first case."""
        which = np.arange(len(cells)) % len(self.laws)
        np.add.at(self.counts, (which, cells), 1)
        classes = np.concatenate((self.latest, self.classes[which, cells]))
        for place, lag in enumerate(self.lags):
            now = np.arange(max(len(self.latest), lag), len(classes))
            np.add.at(self.pairs[place], (which[now - len(self.latest)], classes[now - lag], classes[now]), 1)
        self.latest = classes[-self.lags[-1] :]
        self.calls += len(cells)

    def evidence(self) -> tuple[Array, Array]:
        """Log e-values against the law, (cases,), and against independence of what came before, (cases,).

        The second is the evidence beyond what the first explains, which keeps its error probability.
        """
        law = log_e_value(self.counts, self.laws)
        pairs = log_e_value_of_pairs(self.pairs, np.broadcast_to(self.class_laws, (*self.pairs.shape[:2], CLASSES)))
        return law, pairs.max(0) - np.maximum(law, 0)
