"""What a step costs: measured in the steps themselves, by part, or read from a file."""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from statistics import median_low

from ...trees import Costs
from ...trees import rules as path_rules
from ..drafting import Drafting
from ..model import CallSizes
from ..step import Step

OLD = 100  # steps after which an autoregressive one is measured again
RECENT = 25  # measurements of each part that count: the last ones
ENOUGH = 2  # measurements of the draft model before anything is decided
KEPT = 12  # measurements of each part that another process begins with
ALIKE = 1.5  # how many times as dear as then a part of a step may be now, or the other way round, for what was kept to be believed
LEAST = 0.1  # of an autoregressive call, that a call may take
FEW = 4.0  # measurements of a number of positions that the line through all others weighs
SURE = 2  # measurements of a number of positions that weigh as much as any number of them in that line
# How much of a step's surprise is put down to the machine's speed, and the largest that is believed.
FOLLOWS, AT_ONCE = 0.25, 1.5
# Before anything was measured, in autoregressive steps: a further position of the target, for every text of a batch, and what selection
# takes.
POSITION_ON_CPU, POSITION_ELSEWHERE, SELECTION = 0.05, 0.005, 0.03
STRENGTH = 8.0  # of the guess for a further position: so many squared positions of measurements outweigh it


ANY_SIZE = CallSizes()


def call_size(drafting: Drafting, texts: int, sizes: CallSizes) -> int:
    """Rows of its target call on so many texts, where another number of them may take time by itself: graphs are fitted to it.

    0 for a number that has a graph of its own, which leaves all others as they are. sizes: of the target.
    """
    rows = max(texts * (drafting.tree.bounds.size + 1), sizes.min_rows)
    return 0 if rows in sizes.fitted else rows


class StepCosts(ABC):
    """Seconds of a step of any drafting, or any other unit."""

    @abstractmethod
    def baseline(self) -> float:
        """Of an autoregressive step."""

    @abstractmethod
    def step(self, drafting: Drafting) -> float:
        """Of a step of a drafting."""

    def reading(self, unread: int) -> float:
        """Of so many tokens that the draft model has to read up."""
        return 0.0

    def reach(self, drafting: Drafting) -> bool:
        """Whether its cost can be estimated."""
        return True

    def change(self) -> float:
        """Of a target call on another number of positions than the call before it, beside its own; see `call_size`."""
        return 0.0

    @property
    def unknown(self) -> bool:
        """Whether too little was measured to estimate any cost."""
        return False

    def needs(self, candidates: Sequence[Drafting]) -> int | None:
        """Index of a candidate that has to be measured before any choice, autoregressive decoding being the first; None if there is
        none."""
        return None

    @property
    def baseline_is_old(self) -> bool:
        """Whether an autoregressive step has to be measured again."""
        return False

    def learn(self, step: Step, seconds: float, unread: int = 0) -> None:
        """Take a step's time in; unread: tokens that the draft model read up in it."""

    def pass_over(self, step: Step) -> None:
        """Take in that there was a step, whose time says nothing: the first of its kind takes memory."""


class GivenCosts(StepCosts):
    """Costs from elsewhere: what is chosen depends on the texts alone then, and a seed reproduces them."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self._target = costs, Costs(costs.verify, dict.fromkeys(costs.draft, 0.0), costs.select)

    def baseline(self) -> float:
        return self._costs.verify[1]

    def change(self) -> float:
        return self._costs.change

    def step(self, drafting: Drafting) -> float:
        if not drafting.tree.bounds.size:
            return self.baseline()
        costs = self._costs if drafting.tree.counts.n_model_calls else self._target
        bounds, width = drafting.tree.bounds, drafting.tree.counts.n_paths
        return costs.of_tree(bounds.size, bounds.length, width, path_rules.short_name(drafting.rule))

    def reach(self, drafting: Drafting) -> bool:
        size, width = drafting.tree.bounds.size, drafting.tree.counts.n_paths
        return not size or self._costs.reach_tree(size, width)


def _recent() -> deque[float]:
    """The last measurements. Their middle counts, where a machine that does something else for a moment does not; of few the lowest: the
    first step of its kind takes memory and warms up."""
    return deque(maxlen=RECENT)


class MeasuredCosts(StepCosts):
    """Learnt from steps: target calls by positions, draft calls by rows, and the rest of a step by kind of drafting.

    What was not measured yet is guessed from what was: between measured numbers of positions by a line, beyond them by
    their slope, and before there is any by a guess in autoregressive steps. share: a draft call's, of an autoregressive step. least,
    fitted: see
    `call_size`.

    A machine with other work changes its speed within a text, and what was measured at one speed would be compared with what was measured
    at another. So all measurements count in autoregressive target calls of their time, which every step tells, whatever it drafted.
    """

    PARTS = "verify", "draft", "rest", "read", "change"

    def __init__(self, share: float, on_cpu: bool, batch: int = 1, sizes: CallSizes = ANY_SIZE) -> None:
        self._share, self._position = share, batch * (POSITION_ON_CPU if on_cpu else POSITION_ELSEWHERE)
        self._batch, self._sizes = batch, sizes
        self._verify, self._draft, self._rest = (defaultdict[int, deque[float]](_recent) for _ in range(3))
        self._read, self._change = _recent(), _recent()
        self._size = 0  # of the last call whose size matters
        self._steps, self._baseline_at, self._baseline_steps = 0, 0, 0
        self._baseline_call = 0.0  # seconds, at present
        self._line: float | None = None  # the slope, until there is another call: it is asked for by all candidates

    def measured(self) -> dict[str, dict[int, list[float]]]:
        """The last measurements by part, and by positions, rows or kind of step, in autoregressive target calls."""
        return {
            name: {at: list(recent)[-KEPT:] for at, recent in part.items() if recent}
            for name, part in zip(self.PARTS, self._parts(), strict=True)
        }

    def _parts(self) -> tuple[Mapping[int, deque[float]], ...]:
        return self._verify, self._draft, self._rest, {0: self._read}, {0: self._change}

    def begin_with(self, measured: Mapping[str, Mapping[int, Sequence[float]]]) -> None:
        """Take over what was measured before anything was measured here."""
        for name, part in zip(self.PARTS, self._parts(), strict=True):
            for at, values in measured[name].items():
                part[at].extendleft(reversed(values))
        self._line = None

    def agree_with(self, measured: Mapping[str, Mapping[int, Sequence[float]]]) -> bool:
        """Whether calls of target and draft cost here what they cost elsewhere, as far as both were measured, give or take ALIKE."""
        both = [
            (median_low(recent), median_low(measured[name][at]))
            for name, part in (("verify", self._verify), ("draft", self._draft))
            for at, recent in part.items()
            if at in measured[name]
        ]
        return all(here <= ALIKE * there and there <= ALIKE * here for here, there in both)

    @property
    def unknown(self) -> bool:
        return self._baseline_steps < 2

    def needs(self, candidates: Sequence[Drafting]) -> int | None:
        if self.unknown:
            return 0
        for index, drafting in enumerate(candidates):
            if counts := drafting.tree.counts if drafting.tree.counts.n_model_calls else None:
                if len(self._draft.get(counts.n_paths, ())) < ENOUGH:
                    return index
                break
        return None

    @property
    def baseline_is_old(self) -> bool:
        """The sequence has grown since the last autoregressive step, and the machine may do other things now."""
        return self._steps - self._baseline_at > OLD

    def learn(self, step: Step, seconds: float, unread: int = 0) -> None:
        drafting, parts = step.drafting, step.seconds
        self._steps += 1
        size, width = drafting.tree.bounds.size, drafting.tree.counts.n_paths
        unit = self._learn_call(size + 1, self._size_of(drafting), parts.verify)
        drafted = (
            parts.draft if drafting.tree.counts.n_model_calls else 0.0
        )  # else it is the time of choosing and looking up
        self._rest[self._kind(drafting)].append((seconds - parts.verify - drafted) / unit)
        if not size:
            self._baseline_at = self._steps
            self._baseline_steps += 1
        elif drafting.tree.counts.n_model_calls:
            self._learn_draft(width, drafting.tree.bounds.length, drafted / unit, unread)

    def pass_over(self, step: Step) -> None:
        self._size = self._size_of(step.drafting) or self._size

    def _size_of(self, drafting: Drafting) -> int:
        return call_size(drafting, self._batch, self._sizes)

    def _learn_call(self, positions: int, size: int, seconds: float) -> float:
        """Take in a target call; seconds of an autoregressive one at its time. One of another size than the call before tells what a
        change costs,
        once it is known what the call itself does."""
        changed = 0 not in (size, self._size) and self._size != size
        self._size = size or self._size
        change = self._changing() if changed else 0.0
        known = positions == 1 or len(self._verify.get(positions, ())) >= ENOUGH
        told = not changed or len(self._change) >= ENOUGH  # what such a call takes beside its own
        unit = self._unit(positions, seconds, change) if told or not self._baseline_call else self._baseline_call
        if changed and known:
            self._change.append(max(seconds / unit - self._verified(positions), 0.0))
        elif positions > 1:
            self._verify[positions].append(max(seconds / unit - change, LEAST))
            self._line = None
        return unit

    def _learn_draft(self, width: int, length: int, drafted: float, unread: int) -> None:
        """A step that read up besides what it drafted tells what reading costs, once it is known what drafting does."""
        if unread and width in self._draft:
            self._read.append(max(drafted - length * self._drafted(width), 0.0) / unread)
        else:
            self._draft[width].append(max(drafted - self._reading(unread), 0.0) / length)

    def baseline(self) -> float:
        return self._baseline_call * (1 + median_low(self._rest[0]))

    def step(self, drafting: Drafting) -> float:
        cost = self._verified(drafting.tree.bounds.size + 1) + self._remaining(drafting)
        cost += (
            drafting.tree.bounds.length * self._drafted(drafting.tree.counts.n_paths)
            if drafting.tree.counts.n_model_calls
            else 0.0
        )
        return self._baseline_call * cost

    def reading(self, unread: int) -> float:
        return self._baseline_call * self._reading(unread)

    def change(self) -> float:
        return self._baseline_call * self._changing()

    def _changing(self) -> float:
        return median_low(self._change) if len(self._change) else 0.0

    def _reading(self, unread: int) -> float:
        one = median_low(self._read) if len(self._read) else self._share * self._position
        return one * unread

    def _unit(self, positions: int, seconds: float, change: float) -> float:
        """Seconds of an autoregressive target call when this one, on so many positions, was made."""
        if not self._baseline_call:
            self._baseline_call = seconds
        before = self._baseline_call
        if positions == 1 or positions in self._verify:
            surprise = seconds / (before * (self._verified(positions) + change))
            self._baseline_call = before * min(max(surprise, 1 / AT_ONCE), AT_ONCE) ** FOLLOWS
        return before

    def _kind(self, drafting: Drafting) -> int:
        """0: autoregressive, -1: looked up, else the number of paths."""
        return (
            0
            if not drafting.tree.bounds.size
            else drafting.tree.counts.n_paths
            if drafting.tree.counts.n_model_calls
            else -1
        )

    def _verified(self, positions: int) -> float:
        """A target call on so many positions, near the line through all measurements as long as there are few of it."""
        slope = self._slope()
        if positions in self._verify:
            recent = self._verify[positions]
            return (len(recent) * median_low(recent) + FEW * (1 + slope * (positions - 1))) / (len(recent) + FEW)
        below = max((known for known in self._verify if known < positions), default=1)
        above = min((known for known in self._verify if known > positions), default=None)
        first = self._verified(below) if below > 1 else 1.0
        if above is not None:
            slope = (self._verified(above) - first) / (above - below)
        return first + slope * (positions - below)

    def _slope(self) -> float:
        """Cost of a further position, at least 0: the line through 1 that fits all measurements.

        A single one may have met something else that the machine did: it weighs little, and no position counts for more than a call.
        """
        if self._line is None:
            self._line = self._slope_of_calls()
        return self._line

    def _slope_of_calls(self) -> float:
        weight, total = STRENGTH, STRENGTH * self._position
        for positions, recent in self._verify.items():
            further, sure = positions - 1, (min(len(recent), SURE) / SURE) ** 2
            weight += sure * further**2
            total += sure * further * min(median_low(recent) - 1, further)
        return max(total / weight, 0.0)

    def _drafted(self, width: int) -> float:
        """A draft call on so many rows."""
        if width in self._draft:
            return median_low(self._draft[width])
        known = min(self._draft, key=lambda other: abs(other - width), default=0)
        first = median_low(self._draft[known]) if known else self._share
        return first * max(1 + self._slope() * (width - max(known, 1)), 0.5)

    def _remaining(self, drafting: Drafting) -> float:
        kind = self._kind(drafting)
        if kind in self._rest:
            return median_low(self._rest[kind])
        guess = median_low(self._rest[0]) + SELECTION * (1 + 0.5 * max(kind - 1, 0))
        fewer = max((known for known in self._rest if 1 < known < kind), default=0)  # paths
        if not fewer or 1 not in self._rest:
            return guess
        one, several = median_low(self._rest[1]), median_low(self._rest[fewer])
        return max(guess, several + (several - one) / (fewer - 1) * (kind - fewer))
