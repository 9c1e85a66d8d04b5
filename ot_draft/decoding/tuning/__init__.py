"""Adaptive draft length and number: the drafting with the most expected tokens per second in every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ... import defaults
from ...boundary import int_from
from ...errors import CannotDecode
from ...trees import BlockVerification, Costs, Joint
from ..drafting import Drafting
from ..language_model import bytes_read, split_between_processes
from ..model import DecoderModel
from ..pair import Pair
from ..prompt_lookup import PromptLookup
from .acceptance import AcceptanceCounts
from .auto_run import AutoRun
from .costs import GivenCosts, MeasuredCosts, StepCosts, call_size
from .warm_up import measure


@dataclass
class Auto:
    """Choose the drafting with the most expected tokens per second in every step, from times and acceptances of earlier steps.

    Settings, and what earlier runs have learnt; `begin` makes an `AutoRun`. A batch has one drafting for all its sequences.

    Parameters
    ----------
    model : bool, default=True
        Whether the draft model may draft: one path (block verification) or several (`ot_draft.trees.Joint`).
    lookup : PromptLookup or None
        Prompt lookup, of as many tokens as pay; None: not.
    costs : ot_draft.trees.Costs, optional
        Costs of steps, as `ot-draft decode --compare json` prints them. With given costs, choices do not depend on measured times, and a
        seed determines the output if the same prompts came before. None: measure costs.
    paths : tuple of (int, int)
        Numbers and lengths of the several paths that may be drafted.
    lengths, looked_up : tuple of int
        Lengths of the one path that may be drafted by the draft model, and by prompt lookup.
    max_positions : int
        Maximum number of positions of one target call.
    warm_up : float, default=0.5
        Seconds of steps on a prompt of its own before the first sequence of a batch of a size, which measure costs; 0: none.

    Raises
    ------
    CannotDecode
        If neither the draft model nor prompt lookup may draft; in a run, if the target is split between processes and no costs are given,
        since each would choose by its own clock.

    Examples
    --------
    >>> from ot_draft.decoding import Auto
    >>> Auto(paths=((2, 3),), warm_up=0).paths
    ((2, 3),)
    """

    model: bool = True
    lookup: PromptLookup | None = field(default_factory=lambda: PromptLookup(*defaults.AUTO_LOOKUP))
    costs: Costs | None = None
    paths: tuple[tuple[int, int], ...] = ((2, 2), (4, 2), (8, 2), (8, 4))
    lengths: tuple[int, ...] = (1, 2, 4, 8)
    looked_up: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 63)
    max_positions: int = 64
    warm_up: float = 0.5
    acceptance: AcceptanceCounts = field(default_factory=AcceptanceCounts, init=False, repr=False, compare=False)
    measured: dict[Any, StepCosts] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.model and self.lookup is None:
            raise CannotDecode(
                "model and lookup must not both be off. Allow one of them, or use Drafting.autoregressive()."
            )
        if not isinstance(self.warm_up, Real) or not 0 <= self.warm_up < float("inf"):
            raise CannotDecode(f"warm_up must be a number of seconds, got {self.warm_up!r}. Use 0 for none.")
        if self.lookup is not None and not isinstance(self.lookup, PromptLookup):
            raise CannotDecode(f"lookup must be a PromptLookup or None, got {self.lookup!r}. Use PromptLookup(16).")
        if self.costs is not None and not isinstance(self.costs, Costs):
            raise CannotDecode(f"costs must be otd.trees.Costs or None, got {self.costs!r}. Use None to measure them.")
        try:
            numbers = [number for K, L in self.paths for number in (K, L)]
        except (TypeError, ValueError):
            raise CannotDecode(
                f"paths must be pairs of a number and a length, got {self.paths!r}. Use ((2, 2), (4, 2))."
            ) from None
        for number in numbers:
            int_from("each number and length of paths", number, 1, error=CannotDecode)

    @property
    def uses_clock(self) -> bool:
        """Whether nothing else says what a step costs."""
        return self.costs is None

    def begin(self, pair: Pair, batch: int) -> AutoRun:
        """Return a run, with what the runs before it have learnt."""
        if self.costs is None and split_between_processes(pair.target):
            raise CannotDecode(
                "costs must be given for a target that is split between processes, each of which has its own clock. Pass costs, or one"
                " drafting."
            )
        self.acceptance.begin(() if pair.acceptance is None else pair.acceptance.of_path)
        target = pair.target_model
        costs = self._costs_of(pair, target, batch)
        candidates = [drafting for drafting in self._candidates(pair) if costs.reach(drafting)]
        calls = [call_size(drafting, batch, target.call_sizes) for drafting in candidates]
        return AutoRun(candidates, costs, self.acceptance, calls, self.lookup)

    def _candidates(self, pair: Pair) -> list[Drafting]:
        """Draftings of fewer than `max_positions` nodes, autoregressive decoding first.

        They are few: with more, the best by what is known would more often be one whose cost or acceptance is overestimated.
        """
        found = [Drafting.autoregressive()]
        if self.model and pair.draft is not None:
            sizes = [(1, length) for length in self.lengths] + list(self.paths)
            rules = (BlockVerification(), Joint())
            found += [Drafting.chains(K, L, rules[K > 1]) for K, L in sizes if self.max_positions > K * L]
        if self.lookup is not None:
            whole = Drafting.looked_up(self.lookup)
            most = min(self.max_positions - 1, self.lookup.num_tokens)
            found += [whole.shortened(L) for L in sorted({*self.looked_up, most}) if most >= L]
        return found

    def _costs_of(self, pair: Pair, target: DecoderModel, batch: int) -> StepCosts:
        """For models and a batch of this size; what depends on the machine's load is measured again on the way."""
        if self.costs is not None:
            return GivenCosts(self.costs)
        key = (pair.target, pair.draft, batch)
        if key not in self.measured:
            share = 0.0 if pair.draft is None else bytes_read(pair.draft) / bytes_read(pair.target)
            position = batch * (0.05 if target.info.device.type == "cpu" else 0.005)
            self.measured[key] = costs = MeasuredCosts(share, position, batch, target.call_sizes)
            if self.warm_up:
                measure(pair, batch, costs, self.model and pair.draft is not None, self.warm_up)
        return self.measured[key]
