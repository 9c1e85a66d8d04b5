"""The policy that chooses before every step what promises most tokens a second: nothing, one path or several, drafted or looked up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ot_draft as ot

from ...errors import CannotDecode
from ..cpu import bytes_read
from ..drafting import Chooser, Drafting, Run
from ..language_model import split_between_processes
from ..lookup import Lookup
from .acceptance import Acceptance
from .choice import Choice
from .costs import GivenCosts, MeasuredCosts, StepCosts

PLAIN = Drafting()
ONE_PATH = (1, 2, 3, 4, 5, 6, 8)
SEVERAL = ((2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (4, 4), (8, 2), (8, 4))
LOOKED_UP = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 63)
POSITIONS = 64  # of one target call, at most
DEEP = 8  # levels of a tree that follows the draft


@dataclass
class Auto:
    """Every step takes the drafting that promises most tokens a second by what the steps before it cost and brought.

    model: let the draft model draft, one path (block verification) or several (`ot_draft.paths.Joint`). lookup: prompt lookup too,
    as many tokens as pay; None: not. costs: read from elsewhere instead of measured (a reader of `ot-draft decode --compare
    --json` has them); nothing depends on the clock then, and a seed reproduces the texts, if the same prompts came before.
    paths: numbers and lengths of the several paths that may be drafted. together: sizes of trees in which lookup and model draft together
    (`ot_draft.paths.LookupTree`), where both may and costs are measured; whether they pay was not measured, hence none.

    What was learnt is kept from run to run; runs may not take turns step by step. A batch has one shape for all its texts.
    CannotDecode where the target is split between processes, which might measure differently, and no costs are given.
    """

    model: bool = True
    lookup: Lookup | None = field(default_factory=lambda: Lookup(16, 3))
    costs: ot.paths.Costs | None = None
    paths: tuple[tuple[int, int], ...] = SEVERAL
    together: tuple[int, ...] = ()
    acceptance: Acceptance = field(default_factory=Acceptance, repr=False, compare=False)
    measured: dict[Any, StepCosts] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.model and self.lookup is None:
            raise CannotDecode(
                "neither the draft model nor prompt lookup may draft: allow one of them, or decode plainly"
            )

    def begin(self, run: Run) -> Chooser:
        """Who chooses in a run, with what the runs before it have learnt."""
        if self.costs is None and split_between_processes(run.pair.target):
            raise CannotDecode("the processes of a split target have to choose alike: give costs, or one shape")
        self.acceptance.begin()
        costs = self._costs(run)
        menu = [drafting for drafting in self._menu(run) if costs.reach(drafting)]
        return Choice(menu, costs, self.acceptance, run.batch)

    def without_clock(self) -> Auto | None:
        """Itself where costs are given."""
        return None if self.costs is None else self

    def _menu(self, run: Run) -> list[Drafting]:
        """All that fits, plain decoding first."""
        longest = POSITIONS - 1 if run.room is None else min(max(run.room, 0), POSITIONS - 1)
        found = [PLAIN]
        if self.model and run.pair.draft is not None:
            found += [_one_path(length) for length in ONE_PATH if length <= longest]
            joint = ot.paths.Joint().quick(ot.IID())
            found += [Drafting.chains(K, L, joint) for K, L in self.paths if longest >= L and K * L < POSITIONS]
            if self.lookup is not None:
                grown = [ot.paths.LookupTree(size, min(self.lookup.num_tokens, DEEP)) for size in self.together]
                counted = run.pair.acceptance
                grown = grown if counted is None else [tree.for_pair(counted) for tree in grown]
                fitting = [tree for tree in grown if tree.budget < POSITIONS and tree.length <= longest]
                found += [Drafting(tree, lookup=self.lookup.for_tree) for tree in fitting]
        if self.lookup is not None:
            whole = Drafting.looked_up(self.lookup)
            most = min(longest, self.lookup.num_tokens)
            found += [whole.shortened(L) for L in sorted({*LOOKED_UP, most}) if 0 < L <= most]
        return found

    def _costs(self, run: Run) -> StepCosts:
        """For models and a batch of this size; what depends on the machine's load is measured again on the way."""
        if self.costs is not None:
            return GivenCosts(self.costs)
        key = (run.pair.target, run.pair.draft, run.batch)
        if key not in self.measured:
            target, draft = run.pair.target, run.pair.draft
            on_cpu = next(target.parameters()).device.type == "cpu"
            share = 0.0 if draft is None else bytes_read(draft) / bytes_read(target)
            self.measured[key] = MeasuredCosts(share, on_cpu, run.batch)
        return self.measured[key]


def _one_path(length: int) -> Drafting:
    """Of one token, where block verification is speculative sampling, by the cheaper of the two."""
    rule = ot.paths.TokenWise(ot.rules.SpeculativeSampling()) if length == 1 else ot.paths.BlockVerification()
    return Drafting.chains(1, length, rule)
