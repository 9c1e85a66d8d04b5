"""One run of `Auto`: the choice of every step, and what is learnt from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...trees import FixedTree, TreeDrafter
from ...trees.drafting.baselines import LookupPath
from ..drafting import Drafting
from ..policy import Policy
from ..prompt_lookup import History, Match, PromptLookup
from ..step import Step
from .acceptance import AcceptanceCounts, Expected, Key
from .costs import StepCosts

GAIN = 0.02  # min. gain in tokens per second over autoregressive decoding of a drafting that is chosen
# Exploration: every step adds this share of its time to the budget for candidates that promise less, unless acceptance of the draft model
# was counted beforehand. Where it was, exploring loses more than it finds out.
SHARE = 0.01
BUDGET, MAX_BUDGET = 0.5, 1.5  # autoregressive steps in it, at the beginning and at most
UCB_WIDTH = 0.5  # standard deviations of acceptance in the upper bound
HORIZON = 16  # steps of the draft model over which the reading of unread tokens is spread
USUAL = 16  # steps whose most frequent call size is the one that a step of another size returns to
REVIEW_STEPS = 8  # steps for which estimates of candidates that are not in use hold


class Estimate(NamedTuple):
    """Of a candidate, by its number: tokens per second, the same at the upper bound of acceptance, and seconds of a step."""

    candidate: int
    rate: float
    upper_bound: float
    seconds: float

    def loss(self, best: float) -> float:
        """Expected seconds of a step beyond those of as many tokens at the best rate."""
        return self.seconds * (1 - self.rate / best)


class AutoRun(Policy):
    """Choices of one run among candidates, autoregressive decoding first.

    It sees sequences and past steps, never the random numbers or drafts of the step that it chooses for.
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
        save: Callable[[], None] | None = None,
    ) -> None:
        """sizes: of the candidates' target calls, see `call_size`. source: of looked-up tokens. save: called after 16, 32, 64, ...
        steps."""
        self.candidates, self._costs, self._acceptance, self._save = tuple(candidates), costs, acceptance, save
        self._sizes = sizes
        self._lengths = [drafting.tree.bounds.length for drafting in candidates]
        self._keys: list[Key] = [family(drafting.tree) for drafting in candidates]
        self._looks_up = [
            key[0] == "lookup" and length > 0 for key, length in zip(self._keys, self._lengths, strict=True)
        ]
        self._source = source if any(self._looks_up) else None
        self._longest: dict[Key, int] = {}
        for key, length in zip(self._keys, self._lengths, strict=True):
            self._longest[key] = max(length, self._longest.get(key, 0))
        self._explores = not acceptance.of_path
        self._budget = BUDGET
        self._steps = self._unread = self._chosen = 0
        self._trial: float | None = None  # rate that the trial under way competes with
        self._expected: float | None = None  # seconds of the step under way
        self._matches: list[Match] = []  # per sequence
        self._active: list[bool] = []
        self._used: set[int] = set()
        self._recent: deque[int] = deque(maxlen=USUAL)  # call sizes of the last steps, where they matter
        self._seconds: list[float] = []  # of a step of every candidate, at the last review
        self._tables: dict[Key, Expected] = {}

    def choose(self, texts: History) -> Drafting:
        self._trial = self._expected = None
        self._matches, self._active = [], texts.active
        needed = self._costs.needs(self.candidates)
        if needed is not None:
            self._chosen = needed
        else:
            self._matches = texts.look_up(self._source)
            self._decide(self._estimates())
        return self.candidates[self._chosen]

    def _decide(self, estimates: Sequence[Estimate]) -> None:
        """Take the best, or a trial."""
        baseline = estimates[0]
        best = max(estimates, key=lambda estimate: estimate.rate)
        if best.rate < (1 + GAIN) * baseline.rate:
            best = baseline
        if best is not baseline and self._costs.baseline_is_old:
            trial: Estimate | None = baseline  # in whose cost all others are expressed
        else:
            trial = self._worth_a_trial(estimates, best) if self._explores else None
        taken = best if trial is None else trial
        self._chosen, self._expected, self._trial = taken.candidate, taken.seconds, None if trial is None else best.rate

    def _worth_a_trial(self, estimates: Sequence[Estimate], best: Estimate) -> Estimate | None:
        """The candidate of the highest upper bound that would beat the best, at an expected loss that the budget can pay."""
        budget = self._budget * estimates[0].seconds
        worth = [
            estimate
            for estimate in estimates[1:]
            if estimate.upper_bound > (1 + GAIN) * best.rate
            and estimate.candidate != best.candidate
            and max(estimate.loss(best.rate), 0) <= budget
        ]
        return max(worth, key=lambda estimate: estimate.upper_bound, default=None)

    def observe(self, step: Step, seconds: float) -> None:
        chosen, unknown = self._chosen, self._costs.unknown
        asks_model = step.drafting.tree.counts.n_model_calls > 0
        first_use = chosen > 0 and chosen not in self._used  # memory is taken then
        if first_use and not unknown:
            self._costs.pass_over(step)
        else:
            self._costs.learn(step, seconds, self._unread if asks_model else 0)
        lengths, active = step.length.tolist(), step.active.tolist()
        accepted = [length for length, goes_on in zip(lengths, active, strict=True) if goes_on]
        tokens = sum(accepted) / max(len(accepted), 1) + 1
        if self._seconds and self._explores:
            # A step brings its share to the budget; a trial takes out what it has lost, or brings what it has won.
            lasted = self._seconds[chosen] if self._expected is None else self._expected
            lost = 0.0 if self._trial is None else lasted - tokens / self._trial
            self._budget = min(self._budget + (SHARE * lasted - lost) / self._seconds[0], MAX_BUDGET)
        self._count(step, lengths, active)
        self._unread = 0 if asks_model else self._unread + round(tokens)
        self._steps += 1
        if self._steps % REVIEW_STEPS == 0 or self._trial is not None or first_use or unknown:
            self._seconds = []
            self._tables.clear()
        self._used.add(chosen)
        if size := self._sizes[chosen]:
            self._recent.append(size)
        if self._save is not None and self._steps >= 16 and self._steps & (self._steps - 1) == 0:
            self._save()

    def _estimates(self) -> list[Estimate]:
        """Of all candidates that are possible now."""
        if not self._seconds:
            self._seconds = [self._costs.step(drafting) for drafting in self.candidates]
        matches = [match for match, goes_on in zip(self._matches, self._active, strict=True) if goes_on]
        longest = max((len(match.tokens) for match in matches), default=0)
        looked_up = self._of_matches(matches, longest) if longest else None
        reading = self._costs.reading(self._unread) / HORIZON if self._unread else 0.0
        usual = max(set(self._recent), key=self._recent.count, default=None)
        estimates, change = [], self._costs.change()
        for index, seconds in enumerate(self._seconds):
            length, size, looks_up = self._lengths[index], self._sizes[index], self._looks_up[index]
            if looks_up and (looked_up is None or length > longest):
                continue
            means, upper_bounds = looked_up if looks_up and looked_up is not None else self._table(self._keys[index])
            whole = seconds + (reading if length and not looks_up else 0.0)
            if self._recent and size:  # to another size, and back
                whole += change * ((size != self._recent[-1]) + (size != usual))
            estimates.append(Estimate(index, means[length] / whole, upper_bounds[length] / whole, whole))
        return estimates

    def _table(self, key: Key, length: int | None = None) -> Expected:
        """Expected tokens of drafts of this source, by length."""
        if key not in self._tables:
            up_to = self._longest[key] if length is None else length
            self._tables[key] = self._acceptance.expected(key, up_to, UCB_WIDTH)
        return self._tables[key]

    def _of_matches(self, matches: Sequence[Match], longest: int) -> Expected:
        """Expected tokens of what was found in each sequence that goes on, by length, as a mean over them."""
        assert self._source is not None
        sums = [0.0] * (longest + 1), [0.0] * (longest + 1)
        for match in matches:
            table = self._table(("lookup", match.matched), self._source.num_tokens)
            for total, tokens in zip(sums, table, strict=True):
                for length in range(longest + 1):
                    total[length] += tokens[min(length, len(match.tokens))] / len(matches)
        return sums

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
        for key, _, _ in drafted:
            self._tables.pop(key, None)


def family(tree: TreeDrafter) -> Key:
    """Key of its acceptance: trees of one family are accepted alike."""
    if isinstance(tree, LookupPath):
        return "lookup", 0
    return ("model", tree.counts.n_paths) if isinstance(tree, FixedTree) else ("tree", tree.bounds.size)
