"""One path that stops where the draft model expects a refusal: SpecDec++."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...arrays import Array, double, floats, gather, namespace, positions, small, unsmall, where
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw
from ..rules.block_verification import BlockVerification
from ..rules.path_rule import PathRule
from .dynamic import StoppingRule
from .dynamic_tree import DynamicTree, Growing, Grown, TreeDraws, check_bounds

EDGES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)


@dataclass(frozen=True)
class StoppedPath(DynamicTree):
    """One path of at most `budget` tokens, which ends as soon as P(at least one of its tokens is refused) exceeds the threshold.

    accepted (bins,) predicts the chance that a drafted token is accepted from its own mass q: one number for each bin between the
    increasing edges (bins - 1,); `fitted` counts them. The default is that of the pair of figures/data, at both temperatures. The end
    depends on tokens drafted up to it: token-wise speculative sampling, block
    verification and `Joint`, which take the end of the path as it comes, are lossless.
    Source: Huang, Guo, Wang, SpecDec++, 2024, who train a head for the prediction (`StoppingRule.fit` counts it).
    """

    budget: int
    threshold: float = 0.7
    edges: tuple[float, ...] = EDGES
    accepted: tuple[float, ...] = (0.2, 0.27, 0.29, 0.35, 0.41, 0.35, 0.47, 0.62, 0.88)
    length: int = field(init=False, compare=False)
    most: int = field(default=1, init=False, compare=False)

    def __post_init__(self) -> None:
        check_bounds(budget=self.budget)
        if not 0 <= self.threshold <= 1 or len(self.accepted) != len(self.edges) + 1:
            raise InvalidArgument(
                f"threshold is {self.threshold!r}, {len(self.accepted)} chances for {len(self.edges)} edges: give a probability, and"
                " one chance more than edges"
            )
        object.__setattr__(self, "length", self.budget)

    @classmethod
    def of(cls, rule: StoppingRule, budget: int) -> StoppedPath:
        """With the predictions of a fitted rule."""
        return cls(budget, rule.threshold, tuple(rule.edges.tolist()), tuple(rule.accepted.tolist()))

    def fitted(self, p: np.ndarray, q: np.ndarray) -> StoppedPath:
        """The same with the predictions that fit pairs of a target and its draft, (rows, n): in every bin the share of draws accepted."""
        place = np.searchsorted(self.edges, q, side="right")
        bins = range(len(self.edges) + 1)
        drawn, accepted = ([mass[place == i].sum() for i in bins] for mass in (q, np.minimum(p, q)))
        shares = [float(a / max(d, 1e-300)) for a, d in zip(accepted, drawn, strict=True)]
        return replace(self, accepted=tuple(shares))

    @property
    def law(self) -> DraftLaw:
        return IID()

    @property
    def rule(self) -> PathRule:
        return BlockVerification()

    @property
    def draws(self) -> int:
        return self.budget

    @property
    def reads(self) -> int:
        return self.budget

    @property
    def label(self) -> str:
        return "SpecDec++"

    def growing(self, draws: TreeDraws) -> Growing:
        return GrowingPath(self, draws)

    def predicted(self, mass: Array) -> Array:
        """Chance that a drafted token of this mass is accepted."""
        chance = 0.0 * mass + self.accepted[0]
        # Numbers, not an array: nothing is copied to the device.
        for edge, accepted in zip(self.edges, self.accepted[1:], strict=True):
            chance = where(mass >= edge, accepted, chance)
        return chance


class GrowingPath(Growing):
    """A path of every text, token after token."""

    def __init__(self, drafting: StoppedPath, draws: TreeDraws) -> None:
        self.drafting, self._draws, self.levels = drafting, draws, drafting.budget
        self.slots = self.read = self.above = draws.kind(draws.root)
        self._slots, self._passes = draws.root, double(draws.root) + 1  # the chance that nothing is refused
        self._tokens: list[Array] = []

    def grow(self, q: Array) -> None:
        depth = len(self._tokens)
        there = self._slots >= 0
        drawn = self._draws.tokens(q, (0 * self._slots + depth)[..., None], there[..., None])
        token = where(there, drawn[..., 0], -1)
        mass = small(floats(gather(q, unsmall(token[..., None], q))))[..., 0]
        self._tokens.append(token)
        self._passes = self._passes * self.drafting.predicted(mass)
        above, goes_on = where(there, self._slots, 0), there & (1 - self._passes <= self.drafting.threshold)
        self._slots = where(goes_on, depth + 1, -1)
        now = self._slots, where(goes_on, token, 0), above
        self.slots, self.read, self.above = map(self._draws.kind, now)
        self.levels -= 1

    def grown(self) -> Grown:
        size = self.drafting.budget
        none = 0 * self._tokens[0] - 1
        tokens = namespace(none).concatenate((*self._tokens, *[none] * (size - len(self._tokens))), -1)
        there, place = tokens >= 0, positions(size, tokens)
        further = namespace(none).concatenate((there[:, 1:], there[:, :1] & False), -1)  # a node with a child was read
        slots = where(further, place + 1, -1)
        slots = namespace(none).concatenate((none + 1, slots), -1)
        trees = tokens, where(there, place, size), 0 * slots, slots
        return Grown(*map(self._draws.kind, trees))
