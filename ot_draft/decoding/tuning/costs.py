"""Costs of steps: measured in the steps themselves, by part, or given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from ...trees import Costs
from ...trees.rules import short_name
from ..drafting import Drafting
from ..model import CallSizes
from ..step import Step


def call_size(drafting: Drafting, sequences: int, sizes: CallSizes) -> int:
    """Return the rows of a drafting's target call on a batch, if a change of this number costs time, since graphs are fitted to it.

    0 for a number with a graph of its own. sizes: of the target.
    """
    rows = max(sequences * (drafting.tree.bounds.size + 1), sizes.min_rows)
    return 0 if rows in sizes.fitted else rows


class StepCosts(ABC):
    """Seconds of a step of any drafting, or any other unit."""

    @abstractmethod
    def step(self, drafting: Drafting) -> float:
        """Cost of a step of a drafting."""

    @abstractmethod
    def change(self) -> float:
        """Additional cost of a target call of another size than the call before it; see `call_size`."""

    def reach(self, drafting: Drafting) -> bool:
        """Whether its cost can be estimated."""
        return True

    def needs(self, candidates: Sequence[Drafting]) -> int | None:
        """Index of a candidate that has to be measured before any choice, autoregressive decoding being the first; None for none."""
        return None

    @property
    def baseline_is_old(self) -> bool:
        """Whether an autoregressive step has to be measured again."""
        return False

    def learn(self, step: Step, seconds: float) -> None:
        """Learn from the time of a step."""

    def pass_over(self, step: Step) -> None:
        """Note a step whose time is not representative: the first of its kind allocates memory."""


@dataclass(frozen=True)
class GivenCosts(StepCosts):
    """Given costs: what is chosen depends on the sequences alone, and a seed reproduces them."""

    costs: Costs

    def change(self) -> float:
        return self.costs.change

    def step(self, drafting: Drafting) -> float:
        bounds, counts = drafting.tree.bounds, drafting.tree.counts
        if not bounds.size:
            return self.costs.verify[1]
        levels = bounds.length if counts.n_model_calls else 0
        return self.costs.of_tree(bounds.size, levels, counts.n_paths, short_name(drafting.rule))

    def reach(self, drafting: Drafting) -> bool:
        size, width = drafting.tree.bounds.size, drafting.tree.counts.n_paths
        return not size or self.costs.reach_tree(size, width)


@dataclass
class MeasuredCosts(StepCosts):
    """Target calls by number of positions, draft calls by number of sequences, and the rest of a step by kind of drafting.

    All are medians of the last measurements, in autoregressive target calls of their time, which every step tells: a machine with other
    work changes its speed within a sequence. What was not measured yet is guessed from what was.

    Parameters
    ----------
    share : float
        Cost of a draft call before it is measured, in autoregressive calls.
    position : float
        Cost of a further position of the target before it is measured.
    batch, sizes
        As for `call_size`.
    selection : float
        Cost of selection before it is measured; half of it for each path more.
    old : int
        Number of steps after which an autoregressive step is measured again.
    enough : int
        Number of measurements of the draft model before anything is decided.
    few : float
        Weight of the line through all numbers of positions, in measurements of one of them.
    strength : float
        Weight of `position` in the slope of this line, in squared positions.
    follows, at_once : float
        Share of a step's surprise that counts as the machine's speed, and the largest factor of it.
    """

    share: float
    position: float
    batch: int = 1
    sizes: CallSizes = field(default_factory=CallSizes)
    selection: float = 0.03
    old: int = 100
    enough: int = 2
    few: float = 4.0
    strength: float = 8.0
    follows: float = 0.25
    at_once: float = 1.5

    def __post_init__(self) -> None:
        self.verify, self.draft, self.rest = (defaultdict[int, deque[float]](lambda: deque(maxlen=25)) for _ in "vdr")
        self._change: deque[float] = deque(maxlen=25)
        self._size = 0  # of the last call whose size matters
        self._since_baseline = 0  # steps
        self._call = 0.0  # seconds of an autoregressive call at present

    @property
    def baseline_is_old(self) -> bool:
        return self._since_baseline > self.old

    def needs(self, candidates: Sequence[Drafting]) -> int | None:
        if len(self.rest[0]) < 2:
            return 0
        asking = (index for index, drafting in enumerate(candidates) if drafting.tree.counts.n_model_calls)
        first = next(asking, None)
        if first is None or len(self.draft[candidates[first].tree.counts.n_paths]) >= self.enough:
            return None
        return first

    def learn(self, step: Step, seconds: float) -> None:
        bounds, counts, parts = step.drafting.tree.bounds, step.drafting.tree.counts, step.seconds
        unit = self._learn_call(bounds.size + 1, call_size(step.drafting, self.batch, self.sizes), parts.verify)
        drafted = parts.draft if counts.n_model_calls else 0.0  # else it is the time of choosing and looking up
        self.rest[_kind(step.drafting)].append((seconds - parts.verify - drafted) / unit)
        if counts.n_model_calls:
            self.draft[counts.n_paths].append(drafted / unit / bounds.length)
        self._since_baseline = self._since_baseline + 1 if bounds.size else 0

    def pass_over(self, step: Step) -> None:
        self._size = call_size(step.drafting, self.batch, self.sizes) or self._size

    def step(self, drafting: Drafting) -> float:
        bounds, counts = drafting.tree.bounds, drafting.tree.counts
        cost = self._verified(bounds.size + 1)
        cost += _near(self.rest, _kind(drafting), self.selection / 2, self.selection)
        if counts.n_model_calls:
            cost += bounds.length * _near(self.draft, counts.n_paths, self.share * self._slope(), self.share)
        return self._call * cost

    def change(self) -> float:
        return self._call * self._changing()

    def _changing(self) -> float:
        return median_low(self._change) if self._change else 0.0

    def _learn_call(self, positions: int, size: int, seconds: float) -> float:
        """Learn from a target call; return the present seconds of an autoregressive one.

        A forward pass of another size than the previous one gives the cost of a change, once its own cost is known.
        """
        changed = 0 not in (size, self._size) and self._size != size
        self._size = size or self._size
        change = self._changing() if changed else 0.0
        known = positions == 1 or len(self.verify[positions]) >= self.enough
        unit = self._call = self._call or seconds
        if known and (not changed or len(self._change) >= self.enough):
            surprise = seconds / (unit * (self._verified(positions) + change))
            self._call = unit * min(max(surprise, 1 / self.at_once), self.at_once) ** self.follows
        if changed and known:
            self._change.append(max(seconds / unit - self._verified(positions), 0.0))
        elif positions > 1:
            self.verify[positions].append(max(seconds / unit - change, 0.1))
        return unit

    def _verified(self, positions: int) -> float:
        """Cost of a target call on a number of positions, shrunk to the line through all measurements if there are few."""
        line, recent = 1 + self._slope() * (positions - 1), self.verify.get(positions)
        return (len(recent) * median_low(recent) + self.few * line) / (len(recent) + self.few) if recent else line

    def _slope(self) -> float:
        """Cost per further position, at least 0: slope of the line through 1 fitted to all numbers measured more than once.

        A position costs at most one call.
        """
        weight, total = self.strength, self.strength * self.position
        for positions, recent in self.verify.items():
            if len(recent) > 1:
                weight += (positions - 1) ** 2
                total += (positions - 1) * min(median_low(recent) - 1, positions - 1)
        return max(total / weight, 0.0)


def _kind(drafting: Drafting) -> int:
    """0: autoregressive, -1: looked up, else the number of paths."""
    counts = drafting.tree.counts
    return 0 if not drafting.tree.bounds.size else counts.n_paths if counts.n_model_calls else -1


def _near(known: Mapping[int, deque[float]], number: int, each: float, otherwise: float) -> float:
    """Median of the measurements of a number; else that of the next measured one, `each` for every further one; `otherwise` without any."""
    if known.get(number):
        return median_low(known[number])
    measured = [other for other, recent in known.items() if recent and other >= 0]
    if not measured:
        return otherwise
    next_to = min(measured, key=lambda other: abs(other - abs(number)))
    return max(median_low(known[next_to]) + each * (abs(number) - next_to), 0.0)
