"""check_draws(fn, law): is the declared law the one by which the drafts are drawn?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...arrays import Array
from ...laws import IID, DraftLaw
from ...problem import Problem
from .black_box import BlackBox, numbers_shown, some_drafts
from .corners import Case
from .sampler_report import SamplerReport
from .trial import examine
from .views import View, draft_view


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

    problems: q, k and law are read from them, p is not; by default corner cases, with k drafts or with 1 to 8 in turn.
    Outcomes: possible_drafts, declared_law, independent_steps, end_uniforms, reproducible, generator_advances,
    inputs_unchanged; they, the error probabilities and the other arguments are those of `check_sampler`.
    """
    calls = (samples, seconds, false_alarm, seed)
    return examine(DraftSampler(draft, batched), problems, law, k, calls)


class DraftSampler(BlackBox):
    """fn(q, k, generator) -> drafts; the outcome is the drafts."""

    possible, called = "possible_drafts", "check_draws"

    def views(self, cases: list[Case]) -> list[View]:
        return [draft_view("declared_law", cases)]

    def rows(self, group: list[Case], which: Array, generator: np.random.Generator) -> tuple[Array, ...]:
        return (np.stack([case.problem.q for case in group])[which],)

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        return self.function(*row, problem.k, generator)

    def read(self, returned: Any, problem: Problem) -> Any:
        return some_drafts(returned, problem, self.batched)

    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        return f"drafts {outcome.tolist()}"

    def shown(self, row: tuple[Array, ...], problem: Problem) -> str:
        return f"q = {numbers_shown(row[0])}"
