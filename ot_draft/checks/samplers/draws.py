"""check_draws(fn, law): is the declared law the one by which the drafts are drawn?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...arrays import Array
from ...laws import IID, DraftLaw
from ...problem import Problem
from .black_box import BlackBox, NoOutcome, token_ids
from .corners import Case, corner_problems, labelled
from .sampler_report import SamplerReport
from .trial import examine

MOST = {False: 20_000, True: 100_000}  # samples a problem, one by one and in batches
MOST_CELLS = 1 << 12  # draft tuples of a problem, absent drafts included


def check_draws(
    draft: Callable[..., Any],
    law: DraftLaw = IID(),
    problems: Iterable[Problem] | None = None,
    *,
    k: int | None = None,
    batched: bool = False,
    samples: int | None = None,
    seconds: float | None = 8.0,
    false_alarm: float = 1e-9,
    seed: int = 0,
) -> SamplerReport:
    """Check that `draft(q, k, generator) -> drafts` draws k drafts by the law: all k together, in their order.

    The function gets float64 numpy q (n,), k and a numpy Generator, and gives int (k,), -1 for an absent draft; with
    `batched`, q (m, n) and int (m, k). A rule keeps the target's law only under the draft law that it declares: greedy
    drafts reported as sampled, or drafts of another temperature than q, break every rule.

    problems: q, k and law are read from them, p is not; by default corner cases, with k drafts or with 1 to 3 in turn.
    Outcomes: possible_drafts, declared_law, independent_steps, end_uniforms, reproducible, generator_advances,
    inputs_unchanged; they, the error probabilities and the other arguments are those of `check_sampler`.
    """
    asked = None if problems is None else list(problems)
    found = countable(corner_problems(law, k, largest_k=3)) if asked is None else labelled(asked)
    most = MOST[batched] if samples is None else samples
    options = {"law": law, "k": k} if asked is None else {"problems": asked}
    return examine(DraftSampler(draft, batched), found, most, seconds, false_alarm, seed, options)


def countable(problems: dict[str, Problem]) -> dict[str, Problem]:
    """The problems whose draft tuples are few enough to be counted one by one."""
    return {label: each for label, each in problems.items() if (each.n + 1) ** each.k <= MOST_CELLS}


class DraftSampler(BlackBox):
    """fn(q, k, generator) -> drafts; the outcome is the number of the draft tuple, absent drafts counted as token -1."""

    possible, right_law, called = "possible_drafts", "declared_law", "check_draws"

    def law(self, problem: Problem) -> Array:
        n, k = problem.n, problem.k
        if (n + 1) ** k > MOST_CELLS:
            raise ValueError(
                f"n = {n} and k = {k}: too many draft tuples to count (limit {MOST_CELLS}); take fewer tokens"
            )
        tuples = np.array(list(np.ndindex(*(n + 1,) * k))).reshape(-1, k) - 1
        law = problem.law.probability(problem.q, tuples)
        return law / law.sum()

    def rows(self, group: list[Case], which: Array, generator: np.random.Generator) -> tuple[Array, ...]:
        return (np.stack([case.problem.q for case in group])[which],)

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        return self.function(*row, problem.k, generator)

    def read(self, given: Any, problem: Problem) -> Any:
        drafts = token_ids(given, problem.n, absent=True)
        if np.ndim(drafts) != 1 + self.batched or np.shape(drafts)[-1] != problem.k:
            raise NoOutcome(f"gave an array of shape {np.shape(drafts)}, not {problem.k} drafts")
        return drafts

    def cells(self, outcomes: Array, problem: Problem) -> Array:
        return (outcomes + 1) @ _weights(problem)

    def outcome_shown(self, cell: int, case: Case) -> str:
        return f"drafts {_digits(np.array([cell]), case.problem)[0].tolist()}"

    def shown(self, row: tuple[Array, ...]) -> str:
        return f"q = {row[0].tolist()}"

    def needs_randomness(self, case: Case) -> bool:
        return case.cells > 1


def _weights(problem: Problem) -> Array:
    """Value of each place of a draft tuple that is read as a number."""
    return (problem.n + 1) ** np.arange(problem.k)[::-1]


def _digits(cells: Array, problem: Problem) -> Array:
    return cells[:, None] // _weights(problem) % (problem.n + 1) - 1
