"""One run of `Auto`: the choice of every step, and what is learnt from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ...trees.drafting.drafter import family
from ..drafting import Drafting
from ..policy import Policy
from ..prompt_lookup import History, Match, PromptLookup
from ..step import Step
from .acceptance import AcceptanceCounts, Expected, Key
from .costs import StepCosts


class Estimate(NamedTuple):
    """Estimate of a candidate, by index: tokens per second, also at the upper bound of acceptance, and seconds per step."""

    candidate: int
    rate: float
    upper_bound: float
    seconds: float


class AutoRun(Policy):
    """Choices of one run among candidates, autoregressive decoding first: the one with the most expected tokens per second.

    It sees sequences and past steps, never the random numbers or drafts of the step that it chooses for.

    Exploration: a budget of time is spent on candidates that would be best at the upper bound of their acceptance. Every step adds a share
    of its time. Where acceptance was counted beforehand nothing is explored, because that loses more than it finds out.
    """

    uses_clock = True
    candidates: tuple[Drafting, ...] = ()

    def __init__(
        self,
        candidates: Sequence[Drafting],
        costs: StepCosts,
        acceptance: AcceptanceCounts,
        sizes: Sequence[int],
        source: PromptLookup | None = None,
        *,
        gain: float = 0.02,
        explored: float = 0.01,
        budget: float = 0.5,
        max_budget: float = 1.5,
        deviations: float = 0.5,
        review: int = 8,
    ) -> None:
        """sizes: of the candidates' target calls, see `call_size`. source: of looked-up tokens.

        gain: minimum gain in tokens per second over autoregressive decoding. explored: share of time for exploration; budget, max_budget:
        of it at the beginning and at most, in autoregressive steps. deviations: of acceptance in the upper bound. review: steps for which
        costs hold.
        """
        self.candidates, self._costs, self._acceptance, self._sizes = tuple(candidates), costs, acceptance, sizes
        self._gain, self._explored, self._max_budget, self._deviations = 1 + gain, explored, max_budget, deviations
        self._keys: list[Key] = [family(drafting.tree) for drafting in candidates]
        self._source = (
            source
            if any(
                key[0] == "lookup" and drafting.tree.bounds.length
                for key, drafting in zip(self._keys, candidates, strict=True)
            )
            else None
        )
        self._budget = None if acceptance.of_path else budget
        self._review, self._steps, self._chosen = review, 0, 0
        self._trial: tuple[float, float] | None = None  # best rate and expected seconds of a trial under way
        self._matches: list[Match] = []  # per sequence
        self._active: list[bool] = []
        self._used: set[int] = {0}
        self._recent: deque[int] = deque(maxlen=16)  # call sizes of the last steps, where they matter
        self._seconds: list[float] = []  # of a step of every candidate, at the last review

    def choose(self, texts: History) -> Drafting:
        self._trial, self._matches, self._active = None, [], texts.active
        needed = self._costs.needs(self.candidates)
        if needed is not None:
            self._chosen = needed
        else:
            self._matches = texts.look_up(self._source)
            self._decide(self._estimates())
        return self.candidates[self._chosen]

    def observe(self, step: Step, seconds: float) -> None:
        first_use = self._chosen not in self._used  # memory is taken then
        if first_use:
            self._costs.pass_over(step)
        else:
            self._costs.learn(step, seconds)
        lengths, active = step.length.tolist(), step.active.tolist()
        accepted = [length for length, goes_on in zip(lengths, active, strict=True) if goes_on]
        if self._seconds and self._budget is not None:
            lasted, lost = self._seconds[self._chosen], 0.0
            if self._trial is not None:  # it takes out what it has lost, or brings what it has won
                best, lasted = self._trial
                lost = lasted - (sum(accepted) / max(len(accepted), 1) + 1) / best
            self._budget = min(self._budget + (self._explored * lasted - lost) / self._seconds[0], self._max_budget)
        self._count(step, lengths, active)
        self._steps += 1
        if self._steps % self._review == 0 or self._trial is not None or first_use:
            self._seconds = []
        self._used.add(self._chosen)
        if size := self._sizes[self._chosen]:
            self._recent.append(size)

    def _decide(self, estimates: Sequence[Estimate]) -> None:
        """Take the best, or a trial."""
        baseline = estimates[0]
        best = max(estimates, key=lambda estimate: estimate.rate)
        if best.rate < self._gain * baseline.rate:
            best = baseline
        taken = best
        if best is not baseline and self._costs.baseline_is_old:
            taken = baseline  # in whose cost all others are expressed
        elif self._budget is not None:
            paid = [e for e in estimates[1:] if e.seconds * (1 - e.rate / best.rate) <= self._budget * baseline.seconds]
            taken = max((best, *paid), key=lambda e: e.upper_bound if e.upper_bound > self._gain * best.rate else 0.0)
            taken = taken if taken.upper_bound > self._gain * best.rate and taken is not best else best
        self._chosen = taken.candidate
        self._trial = None if taken is best else (best.rate, taken.seconds)

    def _estimates(self) -> list[Estimate]:
        """Estimates of all candidates that are possible now."""
        self._seconds = self._seconds or [self._costs.step(drafting) for drafting in self.candidates]
        matches = [match for match, goes_on in zip(self._matches, self._active, strict=True) if goes_on]
        longest = max((len(match.tokens) for match in matches), default=0)
        tables: dict[Key, Expected] = {}
        if longest:
            tables["lookup", 0] = self._of_matches(matches, longest)
        usual = max(set(self._recent), key=self._recent.count, default=None)
        estimates, change = [], self._costs.change()
        for index, (drafting, alone) in enumerate(zip(self.candidates, self._seconds, strict=True)):
            key, length, size = self._keys[index], drafting.tree.bounds.length, self._sizes[index]
            if key[0] == "lookup" and length > longest:
                continue
            if key not in tables:
                lengths = (
                    other.tree.bounds.length
                    for other, own in zip(self.candidates, self._keys, strict=True)
                    if own == key
                )
                tables[key] = self._acceptance.expected(key, max(lengths), self._deviations)
            means, upper_bounds = tables[key]
            changes = (size != self._recent[-1]) + (size != usual) if self._recent and size else 0  # there, and back
            seconds = alone + change * changes
            estimates.append(Estimate(index, means[length] / seconds, upper_bounds[length] / seconds, seconds))
        return estimates

    def _of_matches(self, matches: Sequence[Match], longest: int) -> Expected:
        """Expected tokens of what was found in each sequence that goes on, by length, as a mean over them."""
        tables = [self._acceptance.expected(("lookup", match.matched), longest, self._deviations) for match in matches]
        means, upper_bounds = (
            [
                sum(table[kind][min(length, len(match.tokens))] for table, match in zip(tables, matches, strict=True))
                / len(matches)
                for length in range(longest + 1)
            ]
            for kind in (0, 1)
        )
        return means, upper_bounds

    def _count(self, step: Step, lengths: Sequence[int], active: Sequence[bool]) -> None:
        """Take in how much of each draft was accepted."""
        tree, drafted = step.drafting.tree, list[tuple[Key, int, int]]()
        length = tree.bounds.length
        for row, accepted in enumerate(lengths):
            if not active[row] or not length:
                continue
            if tree.counts.n_model_calls:
                drafted.append((family(tree), length, accepted))
            elif found := self._matches[row].tokens:
                drafted.append((("lookup", self._matches[row].matched), min(len(found), length), accepted))
        self._acceptance.learn(drafted)
