"""The policy that chooses before every step what promises most tokens a second: nothing, one path or several, drafted or looked up."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from ... import defaults
from ...errors import CannotDecode
from ...trees import BlockVerification, Costs, FixedTree, Joint, TreeDrafter
from ...trees.drafting.baselines import LookupPath
from ..drafting import Drafting
from ..given import check_whole
from ..language_model import bytes_read, language_model, split_between_processes
from ..pair import Pair
from ..passes import Passes
from ..policy import Policy
from ..prompt_lookup import History, Match, PromptLookup
from ..step import Step
from . import kept
from .acceptance import AcceptanceCounts, Expected, Key
from .costs import GivenCosts, MeasuredCosts, StepCosts, call_size
from .rehearsal import CHAINS, rehearse

PLAIN = Drafting.plain()
# Few of them: of more, the best by what is known would the more often be one whose cost or acceptance is taken for better than it is.
ONE_PATH = (1, 2, 4, 8)
SEVERAL = ((2, 2), (4, 2), (8, 2), (8, 4))
LOOKED_UP = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 63)
POSITIONS = 64  # of one target call, at most


GAIN = 0.02  # of tokens a second over plain decoding that a drafting has to promise
# Of the time that may be lost by trying what promises less, where nothing was counted of the draft model before: every step adds so much of
# its own to the budget for exploring. Where something was, trying loses more than it finds out.
SHARE = 0.01
BUDGET, FULL = 0.5, 1.5  # plain steps in it at the beginning and at most
UCB_WIDTH = 0.5  # standard deviations of acceptance that make another drafting worth trying
HORIZON = 16  # steps of the draft model over which what it has to read up first is spread
KEPT_FROM = 16  # steps after which costs are kept for the next process, and from then on after twice as many each time
USUAL = 16  # steps of which the commonest shape of a target call is the one that a step of another shape comes back to
REVIEWED_EVERY = 8  # steps for which costs and expectations of what is not in use hold


class Candidate(NamedTuple):
    """Of a drafting, by its place on the menu: tokens a second, the same at the upper bound of acceptance, and the seconds of a step."""

    place: int
    rate: float
    upper_bound: float
    seconds: float

    def loss(self, best: float) -> float:
        """Seconds that a step of it costs, on average, beyond those of as many tokens at the best rate."""
        return self.seconds * (1 - self.rate / best)


@dataclass
class Auto(Policy):
    """Every step takes the drafting that promises most tokens a second by what the steps before it cost and brought.

    model: let the draft model draft, one path (block verification) or several (`ot_draft.trees.Joint`). lookup: prompt lookup too,
    as many tokens as pay; None: not. costs: read from elsewhere instead of measured (a reader of `ot-draft decode --compare
    --json` has them); nothing depends on the clock then, and a seed reproduces the texts, if the same prompts came before.
    paths: numbers and lengths of the several paths that may be drafted. rehearsal: seconds that may be spent, before the first text of a
    batch of a size, on steps of a text of its own, which measure what a step costs and let memory be taken and code be loaded; 0: none.

    It sees texts and past steps, never the random numbers or drafts of the step that it chooses for. What was learnt is kept from run to
    run; runs may not take turns step by step. A batch has one shape for all its texts.
    CannotDecode where the target is split between processes, which might measure differently, and no costs are given.
    """

    model: bool = True
    lookup: PromptLookup | None = field(default_factory=lambda: PromptLookup(*defaults.AUTO_LOOKUP))
    costs: Costs | None = None
    paths: tuple[tuple[int, int], ...] = SEVERAL
    rehearsal: float = 0.5
    acceptance: AcceptanceCounts = field(default_factory=AcceptanceCounts, repr=False, compare=False)
    measured: dict[Any, StepCosts] = field(default_factory=dict, repr=False, compare=False)
    menu: tuple[Drafting, ...] = field(default=(PLAIN,), init=False, repr=False, compare=False)  # of a run

    _kept: Path | None = field(default=None, init=False, repr=False, compare=False)  # of a run

    def __post_init__(self) -> None:
        if not self.model and self.lookup is None:
            raise CannotDecode(
                "neither the draft model nor prompt lookup may draft: allow one of them, or decode plainly"
            )
        if not isinstance(self.rehearsal, Real) or not 0 <= self.rehearsal < float("inf"):
            raise CannotDecode(f"rehearsal is {self.rehearsal!r}: give seconds, 0 for none")
        if self.lookup is not None and not isinstance(self.lookup, PromptLookup):
            raise CannotDecode(f"lookup is {self.lookup!r}: give PromptLookup(16), or None")
        if self.costs is not None and not isinstance(self.costs, Costs):
            raise CannotDecode(f"costs are {self.costs!r}: give otd.trees.Costs, or None to measure them")
        if not isinstance(self.paths, Sequence) or not all(
            isinstance(each, Sequence) and len(each) == 2 for each in self.paths
        ):
            raise CannotDecode(f"paths are {self.paths!r}: give numbers and lengths of paths, ((2, 2), (4, 2))")
        for number in (number for each in self.paths for number in each):
            check_whole("a number or a length of paths", number, 1)

    @property
    def uses_clock(self) -> bool:
        """Whether nothing else says what a step costs."""
        return self.costs is None

    def begin(self, pair: Pair, batch: int) -> Auto:
        """For one run, with what the runs before it have learnt."""
        if self.costs is None and split_between_processes(pair.target):
            raise CannotDecode("the processes of a split target have to choose alike: give costs, or one shape")
        self.acceptance.begin(() if pair.acceptance is None else pair.acceptance.of_path)
        run, costs = copy(self), self._costs_of(pair, batch)
        run._kept = kept.file_of(pair, batch)
        menu, target = [drafting for drafting in self._fitting(pair) if costs.reach(drafting)], _target(pair)
        sizes = [call_size(drafting, batch, target.least_rows, target.fitted) for drafting in menu]
        run._choose_among(menu, costs, sizes)
        return run

    def _choose_among(self, menu: Sequence[Drafting], costs: StepCosts, call_sizes: list[int]) -> None:
        """Nothing of this run is known yet but what its steps can be, and the sizes of their target calls."""
        self.menu, self._costs = tuple(menu), costs
        self._lengths = [drafting.tree.bounds.length for drafting in menu]
        self._looked_up = [
            drafting.tree.counts.n_lookup_tokens > 0 and not drafting.tree.counts.n_model_calls for drafting in menu
        ]
        self._source = self.lookup if any(self._looked_up) else None
        self._keys: list[Key] = [family(drafting.tree) for drafting in menu]
        self._longest: dict[Key, int] = {}
        for key, length in zip(self._keys, self._lengths, strict=True):
            self._longest[key] = max(length, self._longest.get(key, 0))
        asking = (place for place, drafting in enumerate(menu) if drafting.tree.counts.n_model_calls)
        self._simplest = next(asking, 0)  # of those that ask the draft model
        self._share, self._budget = (0.0, 0.0) if self.acceptance.of_path else (SHARE, BUDGET)
        self._steps, self._unread, self._place = 0, 0, 0
        self._trial: float | None = None  # while one is under way, the rate that it competes with
        self._found: list[Match] = []  # for each text
        self._going: list[bool] = []  # texts
        self._used: set[int] = set()
        self._call_sizes = call_sizes
        self._recent: deque[int] = deque(maxlen=USUAL)  # of the last steps, where they matter
        self._lasts: float | None = None  # seconds of what was chosen, as they were expected
        self._seconds: list[float] = []  # of a step of everything on the menu, as it was some steps ago at most
        self._tables: dict[Key, Expected] = {}

    def choose(self, texts: History) -> Drafting:
        self._trial, self._place, self._lasts = None, 0, None
        self._found, self._going = [], texts.active
        if self._costs.known:
            self._found = texts.look_up(self._source)
            if self._simplest and self._costs.lacks(self.menu[self._simplest]):
                self._place = self._simplest
            else:
                self._decide(self._candidates())
        return self.menu[self._place]

    def _decide(self, candidates: Sequence[Candidate]) -> None:
        """The best, or another one for a trial."""
        plain = candidates[0]
        best = max(candidates, key=lambda candidate: candidate.rate)
        if best.rate < (1 + GAIN) * plain.rate:
            best = plain
        other = self._another(candidates, best)
        taken = best if other is None else other
        self._place, self._lasts, self._trial = taken.place, taken.seconds, None if other is None else best.rate

    def observe(self, step: Step, seconds: float) -> None:
        place, measured = self._place, self._costs.known
        first_use = place > 0 and place not in self._used  # memory is taken then
        if first_use and measured:
            self._costs.pass_over(step)
        else:
            self._costs.learn(step, seconds, self._unread if step.drafting.tree.counts.n_model_calls else 0)
        lengths, active = step.length.tolist(), step.active.tolist()
        accepted = [length for length, going in zip(lengths, active, strict=True) if going]
        chosen = sum(accepted) / max(len(accepted), 1) + 1
        if self._seconds:
            # A step brings its share to the budget for exploring; a trial takes out what it has lost, or brings what it has won.
            lasted, plain = self._seconds[place] if self._lasts is None else self._lasts, self._seconds[0]
            lost = 0.0 if self._trial is None else lasted - chosen / self._trial
            self._budget = min(self._budget + (self._share * lasted - lost) / plain, FULL)
        self._count(step, lengths, active)
        self._unread = 0 if step.drafting.tree.counts.n_model_calls else self._unread + round(chosen)
        self._steps += 1
        if self._steps % REVIEWED_EVERY == 0 or self._trial is not None or not measured or first_use:
            self._seconds = []
            self._tables.clear()
        self._used.add(place)
        if size := self._call_sizes[place]:
            self._recent.append(size)
        often = self._steps >= KEPT_FROM and self._steps & (self._steps - 1) == 0
        if self._kept and often and isinstance(self._costs, MeasuredCosts):
            kept.write(self._kept, self._costs)

    def _candidates(self) -> list[Candidate]:
        """Of everything on the menu that can be done now."""
        if not self._seconds:
            self._seconds = [self._costs.step(drafting) for drafting in self.menu]
        texts = [match for match, going in zip(self._found, self._going, strict=True) if going]
        longest = max((len(match.tokens) for match in texts), default=0)
        found: Expected | None = self._of_found(texts, longest) if longest else None
        reading = self._costs.reading(self._unread) / HORIZON if self._unread else 0.0
        candidates, change = [], self._costs.change()
        usual = max(set(self._recent), key=self._recent.count, default=None)
        for place, seconds in enumerate(self._seconds):
            length = self._lengths[place]
            if self._looked_up[place]:
                if found is None or length > longest:
                    continue
                means, upper_bound = found
            else:
                key = self._keys[place]  # expected tokens of so many paths, by length
                if key not in self._tables:
                    self._tables[key] = self.acceptance.expected(key, self._longest[key], UCB_WIDTH)
                means, upper_bound = self._tables[key]
            whole = seconds + (reading if self._unread and length and not self._looked_up[place] else 0.0)
            if self._recent and (size := self._call_sizes[place]):  # to another shape, and back
                whole += change * ((size != self._recent[-1]) + (size != usual))
            candidates.append(Candidate(place, means[length] / whole, upper_bound[length] / whole, whole))
        return candidates

    def _of_found(self, texts: Sequence[Match], longest: int) -> Expected:
        """Expected tokens of what was found in each text that goes on, by length, as a mean over them."""
        assert self._source is not None
        sums = [0.0] * (longest + 1), [0.0] * (longest + 1)
        for match in texts:
            key = ("lookup", match.matched)
            if key not in self._tables:
                self._tables[key] = self.acceptance.expected(key, self._source.num_tokens, UCB_WIDTH)
            for total, tokens in zip(sums, self._tables[key], strict=True):
                for length in range(longest + 1):
                    total[length] += tokens[min(length, len(match.tokens))] / len(texts)
        return sums

    def _another(self, candidates: Sequence[Candidate], best: Candidate) -> Candidate | None:
        """What is worth a trial: a plain step now and then, whose cost all others are told in; else at a loss that the budget can pay."""
        if best.place and self._costs.plain_is_old:
            return candidates[0]
        if not self._share:
            return None
        budget = self._budget * candidates[0].seconds
        worth = [
            candidate
            for candidate in candidates[1:]
            if candidate.upper_bound > (1 + GAIN) * best.rate
            and candidate.place != best.place
            and max(candidate.loss(best.rate), 0) <= budget
        ]
        return max(worth, key=lambda candidate: candidate.upper_bound, default=None)

    def _count(self, step: Step, lengths: Sequence[int], active: Sequence[bool]) -> None:
        drafting, drafted = step.drafting, list[tuple[Key, int, int]]()
        length = drafting.tree.bounds.length
        for row, accepted in enumerate(lengths):
            if not active[row] or not length:
                continue
            if drafting.tree.counts.n_model_calls:
                drafted.append((family(drafting.tree), length, accepted))
            elif found := self._found[row].tokens:
                drafted.append((("lookup", self._found[row].matched), min(len(found), length), accepted))
        self.acceptance.learn(drafted)
        for key, _, _ in drafted:
            self._tables.pop(key, None)

    def _fitting(self, pair: Pair) -> list[Drafting]:
        """Draftings of less than POSITIONS nodes, autoregressive decoding first."""
        found = [PLAIN]
        if self.model and pair.draft is not None:
            block = BlockVerification()
            found += [Drafting.chains(1, length, block) for length in ONE_PATH if length < POSITIONS]
            joint = Joint()
            found += [Drafting.chains(K, L, joint) for K, L in self.paths if K * L < POSITIONS]
        if self.lookup is not None:
            whole = Drafting.looked_up(self.lookup)
            most = min(POSITIONS - 1, self.lookup.num_tokens)
            found += [whole.shortened(L) for L in sorted({*LOOKED_UP, most}) if most >= L]
        return found

    def _costs_of(self, pair: Pair, batch: int) -> StepCosts:
        """For models and a batch of this size; what depends on the machine's load is measured again on the way."""
        if self.costs is not None:
            return GivenCosts(self.costs)
        key = (pair.target, pair.draft, batch)
        if key not in self.measured:
            target, draft = _target(pair), pair.draft
            share = 0.0 if draft is None else bytes_read(draft) / bytes_read(pair.target)
            costs = MeasuredCosts(share, target.device.type == "cpu", batch, target.least_rows, target.fitted)
            self.measured[key] = costs
            self._begin_to_know(pair, batch, costs, kept.file_of(pair, batch))
        return self.measured[key]

    def _begin_to_know(self, pair: Pair, batch: int, costs: MeasuredCosts, file: Path | None) -> None:
        """By a rehearsal, or by what another process kept, which a short one has to confirm: the machine may have been busy then."""
        chains = len(CHAINS) if self.model and pair.draft is not None else 0
        known = None if file is None else kept.read(file)
        if known is not None:
            if self.rehearsal:
                rehearse(pair, batch, costs, min(chains, 1), self.rehearsal)
            if costs.agree_with(known):
                costs.begin_with(known)
                return
        if self.rehearsal:
            rehearse(pair, batch, costs, chains, self.rehearsal)
            if file is not None:
                kept.write(file, costs)


def _target(pair: Pair) -> Passes:
    passes: Passes = language_model(pair.target, pair.n)
    return passes


def family(tree: TreeDrafter) -> Key:
    """Key of its acceptance: trees of one family are accepted alike."""
    if isinstance(tree, LookupPath):
        return "lookup", 0
    return ("model", tree.counts.n_paths) if isinstance(tree, FixedTree) else ("tree", tree.bounds.size)
