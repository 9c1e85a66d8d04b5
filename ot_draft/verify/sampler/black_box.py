"""Calls of a sampler: the function, its arguments, and its outcomes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ...arrays import Array, to_host
from ...errors import InvalidArgument
from ...problem import Problem
from ...selection import SelectionRule
from ..corners import LabelledProblem, is_used_up
from .views import View


class Impossible(Exception):  # an outcome of a sampler, not an error of ot_draft
    """An outcome that no correct sampler has. case: its problem; the message states the outcome and the arguments."""

    def __init__(self, case: LabelledProblem, seen: str) -> None:
        super().__init__(seen)
        self.case = case


class BlackBox(ABC):
    """The user's function, and how it is called: `rows` are arrays with one row per call."""

    possible: ClassVar[str]  # name of the check that no outcome is impossible
    called: ClassVar[str]  # the public function
    takes: ClassVar[str]  # signature of the function, as in its documentation
    names: ClassVar[tuple[str, ...]] = ("p", "q")  # names of the array arguments
    least_k: ClassVar[int] = 0  # min. number of drafts of a problem
    fills: ClassVar[bool] = False  # whether it must draw drafts from a q that is used up

    def __init__(self, function: Callable[..., Any], batched: bool) -> None:
        if isinstance(function, SelectionRule) or (isinstance(function, type) and issubclass(function, SelectionRule)):
            raise InvalidArgument(
                f"{self.called} takes a function {self.takes}, got the selection rule {function!r}. Use otd.check_rule or"
                " ot-draft check."
            )
        if not callable(function):
            raise InvalidArgument(f"{self.called} takes a function {self.takes}, got {function!r}. Pass a function.")
        self.function: Callable[..., Any] = function
        self.batched = batched

    @abstractmethod
    def views(self, cases: list[LabelledProblem]) -> list[View]:
        """Views that count the outcomes of a group of cases; the first says whether they are random at all."""

    def rows(self, group: list[LabelledProblem], which: Array, generator: np.random.Generator) -> tuple[Array, ...]:
        """Arguments of calls for the cases `which` (m,) of a group: arrays (m, ...)."""
        laws = [name for name in self.names if name in ("p", "q")]
        return tuple(np.stack([getattr(case.problem, name) for case in group])[which] for name in laws)

    @abstractmethod
    def read(self, returned: Any, problem: Problem) -> Any:
        """The outcome of one call, or of a batch of calls, as integers (width,) or (m, width). Raises NoOutcome if it is invalid."""

    @abstractmethod
    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        """An outcome, int (width,), as a string."""

    def shown(self, row: tuple[Array, ...], problem: Problem) -> str:
        """The arguments of one call, as a string."""
        return ", ".join(f"{name} = {numbers_shown(x)}" for name, x in zip(self.names, row, strict=True))

    def needs_randomness(self, case: LabelledProblem) -> bool:
        """Whether all randomness of the outcome comes from the function."""
        return True

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        """One call of the function."""
        return self.function(*row, problem.k, generator)

    def outcomes(self, group: list[LabelledProblem], which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        """Outcomes of the function: int (m, width). Raises Impossible if an outcome is invalid, or if the function raises an error."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the verdict must not depend on the caller's filters
            return (self._at_once if self.batched else self._one_by_one)(group, which, rows, generator)

    def _one_by_one(self, group: list[LabelledProblem], which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        problem, outcomes = group[0].problem, []
        try:
            for row in zip(*rows, strict=True):
                outcomes.append(self.read(self.call(row, problem, generator), problem))  # noqa: PERF401  # its length tells the row
        except (Exception, SystemExit) as error:
            shown = self.shown(tuple(x[len(outcomes)] for x in rows), problem)
            raise self._impossible(group[which[len(outcomes)]], error, shown) from error
        return np.array(outcomes, dtype=np.int64)

    def _at_once(self, group: list[LabelledProblem], which: Array, rows: tuple[Array, ...], generator: Any) -> Array:
        problem = group[0].problem
        try:
            outcomes = self.read(self.call(rows, problem, generator), problem)
            if len(outcomes) != len(which):
                raise NoOutcome(f"gave {len(outcomes)} rows for {len(which)}")
            return outcomes
        except (Exception, SystemExit) as error:
            raise self._impossible(group[0], error, f"in a batch of {len(which)} rows") from error

    def _impossible(self, case: LabelledProblem, error: BaseException, where: str) -> Impossible:
        said = f"{_said(error).removesuffix('.')}; {where}"
        if self.fills and is_used_up(case.problem):
            said += (
                ". Fewer than k tokens have positive probability: draw the others uniformly from the remaining tokens, and return -1 when"
                " no token remains. If this never occurs, pass problems=[otd.Problem(p, q, k, law)]"
            )
        return Impossible(case, said)


class NoOutcome(ValueError):
    """The function did not return a valid token, or valid drafts."""


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, NoOutcome) else f"raised {type(error).__name__}: {error}"


def token_ids(returned: Any, problem: Problem, batched: bool, drafts: bool = False) -> Array:
    """One token per row, or k drafts with -1 for an absent one. Raises NoOutcome for anything else."""
    if type(returned) is int and 0 <= returned < problem.n and not (batched or drafts):
        return np.asarray(returned)  # the fast path: samplers are called one token at a time
    tokens = to_host(returned)
    if tokens.dtype.kind not in "iu":
        raise NoOutcome(f"gave {type(returned).__name__} of {tokens.dtype}, not whole numbers")
    bad = (tokens < (-1 if drafts else 0)) | (tokens >= problem.n)
    if bad.any():
        raise NoOutcome(f"gave token {tokens[bad].tolist()[0]}, outside the vocabulary 0 .. {problem.n - 1}")
    if tokens.ndim != batched + drafts or (drafts and tokens.shape[-1] != problem.k):
        wanted = f"{problem.k} drafts" if drafts else "one token"
        raise NoOutcome(f"gave an array of shape {tokens.shape}, not {wanted}{' a row' * batched}")
    return tokens.astype(np.int64)


def numbers_shown(x: Array) -> str:
    """All numbers, or the first 64, as a string."""
    return str(x.tolist()) if len(x) <= 64 else f"[{', '.join(map(str, x[:64].tolist()))}, ...] ({len(x)} of them)"


class EndUniforms(np.random.Generator):
    """`random` and `uniform` (and `choice`, which calls them) give 0.0 or the largest float below 1 with probability 1/4 each.

    Both are values that a real generator may give: in float32 once in 2^24 uniforms. Of several uniforms that are drawn at
    once, one at most is at an end, since two at once occur once in 2^48 times, which no sampler is required to handle; in
    batches, one in every row.
    """

    end_probability = 0.25  # of each end
    asked = False  # whether a uniform was ever drawn
    batched = False  # whether the first axis of an array counts rows

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """As numpy's, with the ends often."""
        self.asked = True
        values = np.array(super().random(size if out is None else out.shape, dtype))
        if values.size:
            rows = len(values) if self.batched and values.ndim else 1
            table, row = values.reshape(rows, -1), np.arange(rows)
            place, which_end = self.integers(table.shape[1], size=rows), np.asarray(super().random(rows))
            last = np.nextafter(values.dtype.type(1), values.dtype.type(0))
            chosen = np.where(which_end >= 1 - self.end_probability, last, table[row, place])
            table[row, place] = np.where(which_end < self.end_probability, values.dtype.type(0), chosen)
        if out is not None:
            out[...] = values
            return out
        return values if size is not None else values[()]

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """As numpy's, with the ends often."""
        shape = np.broadcast_shapes(np.shape(low), np.shape(high)) if size is None else size
        return low + (np.asarray(high) - low) * self.random(shape if shape != () else None)
