"""Our dynamic tree for joint selection: top tokens and i.i.d. draws, as many where as an estimate from q alone says.

The estimate is that of `Hybrid("auto")`, for every number of children and of top tokens among them, extended to the chance that a node is
reached. The numbers depend on levels above, never on a draw of the same level or below (`LevelTree`): that
is what `Joint` and `Optimal` need to be lossless (proofs_checks/paths/adapted_trees.py). Equal siblings are one place: the first
holds the children of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...arrays import Array, gather, minimum, small, top_tokens, unsmall
from ...laws import ByNode, DraftLaw, StandIn
from ..model import Model, Path
from ..rules.joint import Joint
from ..rules.path_rule import Nodes, PathRule
from .adaptive_estimate import AdaptiveEstimate
from .level_tree import Chosen, LevelTree
from .stepwise import History, Stepwise


@dataclass(frozen=True)
class AdaptiveTree(LevelTree):
    """Draft at most `budget` nodes, at most `length` deep and `most` children a node, as many where as the draft's q says.

    estimator: the stand-in for the target, of which q's top tokens carry the mass; closer to q than that of `Hybrid("auto")`,
    because it has to say, too, how likely each token is (`StandIn.fitted` makes one for a draft). Lossless with `Joint`,
    `TokenWise(Optimal(law=ByNode()))`, `NaivePath`, and `Traversal`.
    """

    budget: int
    length: int = 8
    most: int = 12
    estimator: StandIn = field(default=StandIn(head=128, power=0.8, seen=0.9))
    spread: float = 0.5  # weight of a target spread out like the stand-in; the rest, of one token drawn from it
    # What each child of a node adds on average, where it is known; else as on the level that is drafted.
    typical: tuple[float, ...] = ()

    def numbers(self, q: Array, reached: Array, left: Array, levels: int) -> Chosen:
        """Children of every node of a level: q (B, W, n), chance that each is reached (B, W), nodes left int (B, 1).

        levels: how many may still be drafted, that of the children included.
        """
        chosen = self.numbers_at(self.estimate(q), small(reached), small(left), levels)
        return unsmall(chosen[0], q), unsmall(chosen[1], q)

    def estimate(self, q: Array) -> AdaptiveEstimate:
        """What the draft says at nodes with the laws q (..., n), whose largest masses are all that counts."""
        return AdaptiveEstimate.of(q, self.estimator, self.most, self.spread)

    def below(self, q: Array, tokens: Array, fixed_count: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is: (..., n), int (..., C) children, (..., 1), (..., 1) -> (..., C).

        A fixed token is reached where the target draws it; of a drawn one, its mass is shared by the chance that it was drawn.
        """
        chances = self.estimate(q).below(gather(q, tokens), *map(small, (tokens, fixed_count, count)))
        return unsmall(chances, q)

    @property
    def law(self) -> DraftLaw:
        return ByNode()

    @property
    def rule(self) -> PathRule:
        return Joint()

    @property
    def label(self) -> str:
        return "adaptive"

    def stepwise(self, model: Model) -> Stepwise:
        """The same drafting in plain form, one prefix after the other, for exact work with `ot.paths.evaluate`."""
        nodes = Nodes.of(model)

        def step(history: History) -> tuple[Path, Path, int] | None:
            drafted = {expansion.prefix: expansion for expansion in history}
            level: dict[Path, float] = {(): 1.0}
            left, levels = self.budget, self.length
            while level and left and levels:
                q = np.stack([nodes.draft(prefix) for prefix in level]).astype(np.float64)
                reached = np.array([list(level.values())])
                (counts,), (fixed_count,) = self.numbers(q[None], reached, np.array([[left]]), levels)
                below: dict[Path, float] = {}
                for (prefix, chance), law, count, number in zip(level.items(), q, counts, fixed_count, strict=True):
                    fixed = tuple(top_tokens(law, min(self.most, len(law)))[:number].tolist())
                    if not count:
                        continue
                    if prefix not in drafted:
                        return prefix, fixed, int(count - number)
                    tokens = np.array(fixed + drafted[prefix].drawn)
                    chances = chance * self.below(law, tokens, np.array([number]), np.array([count]))
                    for token, further in zip(tokens.tolist(), chances.tolist(), strict=True):
                        below.setdefault((*prefix, token), further)
                    left -= len(tokens)
                level, levels = below, levels - 1
            return None

        return Stepwise(step, self.length)

    def fitted(self, p: Array, q: Array) -> AdaptiveTree:
        """The same with the stand-in and the spread that fit pairs of a target and its draft, numpy (rows, n).

        The stand-in is the likeliest; with the spread, one draw is estimated to be accepted as often as it is; the forest below
        is imagined as the pairs are on average.
        """
        found = replace(self, estimator=StandIn.fitted(p, q, self.estimator.head))
        estimate = found.estimate(q)
        head, c = estimate.head, estimate.stand_in
        all_of_it, one_token = minimum(c, head).sum(-1).mean(), (c * head).sum(-1).mean()
        accepted = minimum(p, q).sum(-1).mean()
        spread = (accepted - one_token) / max(all_of_it - one_token, 1e-9)
        found = replace(found, spread=float(min(max(spread, 0.0), 1.0)), typical=())
        return replace(found, typical=tuple(found.estimate(q).gains[0].mean(0).tolist()))
