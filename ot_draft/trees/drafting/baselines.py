"""Published ways to draft: EAGLE-2, OPT-Tree, DySpec, SpecDec++, prompt lookup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...boundary import int_from
from ...errors import InvalidArgument, InvalidDrafts
from ...laws import IID, DraftLaw, PerNodeFixedTokens, WithoutReplacement
from ...rules import RecursiveRejectionWithoutReplacement
from ..rules.block_verification import BlockVerification
from ..rules.path_rule import PathRule
from ..rules.token_wise import NaivePath, TokenWise
from ..tree import DraftTree, TreeBounds
from .candidates import BestCandidates, Offer
from .counted import CountedGrowth
from .drafter import DraftCounts, TreeDrafter
from .fixed import FixedTree
from .growing import Growing, TreeDraws
from .level_tree import Chosen

__all__ = ["ConfidentTree", "SampledTree", "StoppedPath"]


@dataclass(frozen=True)
class ConfidentTree(BestCandidates):
    """The `budget` nodes with the most probable paths under the draft model, found by beam search.

    max_children: number of top tokens per node that are candidates. beam: number of nodes per level that the draft model reads. min_gain:
    the tree ends if a level raises the accepted length that the draft model expects by at most this. min_value: minimum probability.
    EAGLE-2 has a beam of 10 and 10 top tokens. OPT-Tree (`ConfidentTree.opt_tree`) has a beam as wide as the budget, which finds the
    optimal tree, and ends by min_gain. All children are fixed tokens: naive target sampling is lossless, and so are `Joint` and
    `Optimal`, which accept no more here.
    Sources: Li et al., EAGLE-2, EMNLP 2024; Wang et al., OPT-Tree, TACL 2025.
    """

    budget: int
    length: int = 8
    max_children: int = 10
    beam: int = 10
    min_gain: float = 0.0
    min_value: float = 0.0
    law: ClassVar[DraftLaw] = PerNodeFixedTokens()
    rule: ClassVar[PathRule] = NaivePath()

    def n_draws(self, slots: int) -> int:
        return 0

    @classmethod
    def opt_tree(cls, budget: int, length: int = 8, min_gain: float = 0.2) -> ConfidentTree:
        """Return OPT-Tree: the optimal tree of top tokens, which grows while a level gains more than min_gain accepted tokens."""
        return cls(budget, length, budget, budget, min_gain)

    @property
    def label(self) -> str:
        return "OPT-Tree" if self.min_gain else "EAGLE-2"

    def offer(self, q: Array, reached: Array, floor: Array, draws: TreeDraws, first: int) -> Offer:
        tokens = xp.top_tokens(q, min(self.max_children, q.shape[-1]))
        values = reached[..., None] * xp.host_view(xp.floats(xp.gather(q, tokens)))
        return Offer(xp.host_view(tokens), values, values)


@dataclass(frozen=True)
class SampledTree(BestCandidates):
    """The `budget` draws without replacement that are most probably tested, as the draft model estimates it, found by beam search.

    A draw's value is the estimated probability that it is tested, computed before the draw: v (1 - q(y_1)) (1 - q(y_2)) ... for the next
    child of a node that is reached with probability v and has the children y_1, y_2, ..., with q outside earlier siblings. The child y
    is then reached with probability value times q(y). With a beam as wide as the budget, no draw outside the tree has a larger value.
    min_value: smaller draws are not made (DySpec's threshold).
    Whether a child is present depends on tokens drawn before it, never on its own token. Rules that test the children in order and end
    with the residual of the last one are therefore lossless: `TokenWise(RecursiveRejectionWithoutReplacement())` and naive target
    sampling. A value that depended on the child's own token would not be valid; the tests inject this error.
    Source: Xiong et al., DySpec, 2024.
    """

    budget: int
    length: int = 8
    max_children: int = 8
    beam: int = 16
    min_value: float = 0.0
    min_gain: float = 0.0
    law: ClassVar[DraftLaw] = WithoutReplacement()
    rule: ClassVar[PathRule] = TokenWise(RecursiveRejectionWithoutReplacement())
    label: ClassVar[str] = "DySpec"

    def n_draws(self, slots: int) -> int:
        return self.max_children * slots

    def offer(self, q: Array, reached: Array, floor: Array, draws: TreeDraws, first: int) -> Offer:
        value, left = reached[..., None], xp.copy(q)
        drawn, values, chances = [], [], []
        numbers = first + self.max_children * xp.arange(q.shape[-2], like=value)[:, None]
        for place in range(self.max_children):
            there = value > floor[..., None]
            if place and xp.holds_without_sync(~there):
                break
            number = numbers + place + 0 * there
            drawn.append(xp.where(there, draws.tokens(left, number, there, left=min(2, self.max_children - place)), -1))
            token = xp.from_view(drawn[-1], q)
            share = xp.gather(left, token)
            wanted, whole = (xp.host_view(xp.floats(x)) for x in (share, left.sum(-1, keepdims=True)))
            mass = xp.minimum(wanted / xp.where(there, whole, 1), 1)
            xp.add_at(left, token, -share)
            values.append(xp.where(there, value, 0.0))
            chances.append(values[-1] * mass)
            value = value * (1 - mass)
        return Offer(*(xp.concat(parts, axis=-1) for parts in (drawn, values, chances)))


@dataclass(frozen=True)
class StoppedPath(TreeDrafter):
    """One path that ends as soon as P(at least one of its tokens is rejected) exceeds a threshold [1]_.

    The end depends on tokens drafted before it. Token-wise speculative sampling, block verification and `Joint` are lossless for any such
    end.

    Parameters
    ----------
    budget : int
        Maximum number of tokens.
    threshold : float, default=0.7
        The threshold.
    edges : tuple of float, length bins - 1
        Increasing edges of bins of a token's own mass q.
    accepted : tuple of float, length bins
        Predicted probability that a draft token is accepted, by the bin of its mass. `fitted` counts them. The default is that of the
        pair of figures/data, at both temperatures.

    Raises
    ------
    InvalidArgument
        If the threshold is not a probability, or the lengths of edges and accepted do not fit.

    References
    ----------
    .. [1] Huang, Guo and Wang, "SpecDec++: Boosting Speculative Decoding via Adaptive Candidate Lengths", 2024, who train a head
       for the prediction.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.StoppedPath(6).bounds.length
    6
    """

    budget: int
    threshold: float = 0.7
    edges: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
    accepted: tuple[float, ...] = (0.2, 0.27, 0.29, 0.35, 0.41, 0.35, 0.47, 0.62, 0.88)
    law: ClassVar[DraftLaw] = IID()
    rule: ClassVar[PathRule] = BlockVerification()
    label: ClassVar[str] = "SpecDec++"

    def __post_init__(self) -> None:
        int_from("budget", self.budget, 1, error=InvalidDrafts)
        if not 0 <= self.threshold <= 1 or len(self.accepted) != len(self.edges) + 1:
            raise InvalidArgument(
                f"threshold must be from 0 to 1, and accepted have one entry more than edges, got threshold={self.threshold!r},"
                f" {len(self.accepted)} entries and {len(self.edges)} edges. Correct these arguments."
            )

    @property
    def bounds(self) -> TreeBounds:
        return TreeBounds(self.budget, self.budget, 1)

    def fitted(self, p: np.ndarray, q: np.ndarray) -> StoppedPath:
        """Return the drafter with predictions counted on pairs (rows, n) of target and draft: the share of accepted draws per bin."""
        place = np.searchsorted(self.edges, q, side="right")
        bins = range(len(self.edges) + 1)
        drawn, accepted = ([mass[place == i].sum() for i in bins] for mass in (q, np.minimum(p, q)))
        shares = [float(a / max(d, 1e-300)) for a, d in zip(accepted, drawn, strict=True)]
        return replace(self, accepted=tuple(shares))

    def lengths(self, chains: DraftTree) -> np.ndarray:
        """Return the number of tokens (B,) that it would draft of each of these single chains, at least 1."""
        q = xp.gather(np.asarray(chains.q)[:, : chains.bounds.size], chains.tokens[:, :, None])[..., 0]
        refused = 1 - np.cumprod(self.predicted(q), axis=-1) > self.threshold
        return np.where(refused.any(-1), refused.argmax(-1) + 1, chains.bounds.length)

    def growing(self, draws: TreeDraws) -> Growing:
        return StoppedGrowth(self, draws)

    def predicted(self, mass: Array) -> Array:
        """Return the predicted probability that a draft token of this mass is accepted."""
        chance = 0.0 * mass + self.accepted[0]
        # Numbers, not an array: nothing is copied to the device.
        for edge, accepted in zip(self.edges, self.accepted[1:], strict=True):
            chance = xp.where(mass >= edge, accepted, chance)
        return chance


class StoppedGrowth(CountedGrowth):
    """One path per sequence, token by token; a node is reached if no token before it is rejected."""

    drafting: StoppedPath

    def _decide(self, q: Array) -> Chosen:
        goes_on = (self._slots >= 0) & (1 - self._reached <= self.drafting.threshold)
        return xp.where(goes_on, 1, 0), 0 * self._slots

    def _chances(self, masses: Array, children: Array, fixed_count: Array, count: Array) -> Array:
        return xp.where(children < 0, 0, self.drafting.predicted(xp.host_view(xp.floats(masses))))


@dataclass(frozen=True)
class LookupPath(FixedTree):
    """One path of looked-up tokens instead of a draft model's; q of every node is the point mass on its token."""

    rule: ClassVar[PathRule] = NaivePath()
    label: ClassVar[str] = "prompt lookup"
    steps: ClassVar[tuple[()]] = ()  # the path is complete before any pass of a draft model
    family: ClassVar[tuple[str, int]] = ("lookup", 0)

    @property
    def counts(self) -> DraftCounts:
        return DraftCounts(0, 0, 0, self.budget, self.width)
