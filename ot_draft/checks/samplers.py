"""check_sampler(fn): is what a black box emits distributed as the target? check_draws(fn, law): do drafts follow their law?

An engine's sampler is called through a few lines that speak its language; that of transformers, one draft at a time:

    import numpy as np
    import torch
    from transformers.generation.utils import _speculative_sampling

    def transformers_sampler(p, q, drafts, generator):
        torch.manual_seed(int(generator.integers(2**63)))  # its uniforms come from torch's global generator
        target, draft = torch.tensor(np.stack([p, p])).log()[None], torch.tensor(q).log()[None, None]
        tokens, _ = _speculative_sampling(torch.tensor(drafts)[None], draft, 1, target)
        return tokens[0, 0]

    print(ot.check_sampler(transformers_sampler, k=1))

It passes its law and independence (transformers 5.23). Where `generator.random` feeds its `torch.rand_like`, it
fails `end_uniforms`: it accepts at u <= p/q, and emits a token of target mass 0 when u is 0, once in 2^24 float32 uniforms.

A sampler that draws its uniforms once, which is rejected by `output_law` after 250 calls a problem:

    def fixed_uniforms(p, q, drafts, generator, u=(0.3, 0.6)):
        if u[0] < p[drafts[0]] / q[drafts[0]]:
            return int(drafts[0])
        left = np.maximum(p - q, 0)
        return int((left.cumsum() <= u[1] * left.sum()).sum())

    print(ot.check_sampler(fixed_uniforms, k=1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..arrays import Array
from ..laws import IID, DraftLaw
from ..problem import Problem
from ..sampling import draw
from .black_box import BlackBox, Impossible, one_token, some_drafts
from .corners import Case
from .sampler_report import SamplerReport
from .trial import examine
from .views import View, draft_view, token_view


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

    possible, called, names = "possible_drafts", "check_draws", ("q",)

    def views(self, cases: list[Case]) -> list[View]:
        return [draft_view("declared_law", cases)]

    def read(self, returned: Any, problem: Problem) -> Any:
        return some_drafts(returned, problem, self.batched)

    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        return f"drafts {outcome.tolist()}"


def check_sampler(
    sampler: Callable[..., Any],
    problems: Iterable[Problem] | None = None,
    *,
    law: DraftLaw = IID(),
    k: int | None = None,
    draft: Callable[..., Any] | None = None,
    batched: bool = False,
    samples: int | None = None,
    seconds: float | None = 8.0,
    false_alarm: float = 1e-9,
    seed: int = 0,
) -> SamplerReport:
    """Check that `sampler(p, q, drafts, generator) -> token` emits the target's law, by sequential statistical tests.

    The sampler gets float64 numpy p (n,), q (n,), int drafts (k,) and a numpy Generator; with `batched`, p (m, n), q (m, n),
    drafts (m, k), for m tokens (m,), where neighbouring rows are different problems. It must take its randomness from the
    generator alone: code that has a generator of its own is seeded at every call by `int(generator.integers(2**63))`.

    problems: pairs (p, q) with their k and law; by default corner cases under `law`, with k drafts or with 1 to 8 in turn.
    draft: `draft(q, k, generator) -> drafts` in the place of the law's own draws, batched as the sampler is.
    samples: calls a problem at most (20,000; 100,000 with `batched`). seconds: when the sequential test ends, None for when
    it has them all. The same seed and number of samples make the same calls.

    Outcomes, each failing by itself:
    possible_tokens: whole numbers in the vocabulary, of positive target mass, and no error.
    output_law: tokens are distributed as p. An e-value against a Dirichlet mixture around p; a chi-square p-value beside it.
    independent_steps: a token does not depend on the call before, on another row, on this row a batch before, on its place.
    small_batches: with `batched`, all of that in batches of 1, 2, 5 and 33 rows.
    end_uniforms: no impossible token or error where `generator.random()` is 0.0 or the largest float below 1.
    reproducible, generator_advances: the generator's state determines the token, and is used up.
    inputs_unchanged: p, q and drafts are left as they were.

    A right sampler fails with probability at most `false_alarm`, all problems, checks and looks together (Ville's
    inequality, Bonferroni over the tests). Each outcome states which total variation distance was found with probability 0.99.
    """
    calls = (samples, seconds, false_alarm, seed)
    return examine(TokenSampler(sampler, batched, draft), problems, law, k, calls, draft=draft)


class TokenSampler(BlackBox):
    """fn(p, q, drafts, generator) -> token; the outcome is the token."""

    possible, called, names = "possible_tokens", "check_sampler", ("p", "q", "drafts")

    def __init__(self, function: Callable[..., Any], batched: bool, draft: Callable[..., Any] | None) -> None:
        super().__init__(function, batched)
        self.drafter = None if draft is None else DraftSampler(draft, batched)

    def views(self, cases: list[Case]) -> list[View]:
        return [token_view("output_law", cases, lambda which, outcomes, generator: outcomes, 1)]

    def rows(self, group: list[Case], which: Array, generator: np.random.Generator) -> tuple[Array, ...]:
        p, q = super().rows(group, which, generator)
        problem = group[0].problem
        if self.drafter is not None:
            try:
                return p, q, self.drafter.outcomes(group, which, (q,), generator)
            except Impossible as impossible:
                raise Impossible(impossible.case, f"the draft sampler {impossible}") from impossible
        drafts = np.empty((len(which), problem.k), dtype=np.int64)
        for place, case in enumerate(group):
            mine = which == place
            drafts[mine] = draw(case.problem.law, q[mine], problem.k, generator)
        return p, q, drafts

    def read(self, returned: Any, problem: Problem) -> Any:
        return one_token(returned, problem, self.batched)[..., None]

    def outcome_shown(self, outcome: Array, problem: Problem) -> str:
        return f"token {outcome[0]}"

    def call(self, row: tuple[Array, ...], problem: Problem, generator: Any) -> Any:
        return self.function(*row, generator)

    def needs_randomness(self, case: Case) -> bool:
        return case.fixed_drafts
