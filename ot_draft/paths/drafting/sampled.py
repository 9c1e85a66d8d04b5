"""Trees drawn without replacement where acceptance looks likeliest: the dynamic trees of DySpec, level by level."""

from __future__ import annotations

from dataclasses import dataclass

from ...arrays import (
    Array,
    add_at,
    copy,
    floats,
    gather,
    minimum,
    namespace,
    positions,
    settled,
    small,
    total,
    unsmall,
    where,
)
from ...laws import DraftLaw, WithoutReplacement
from ...rules.recursive_rejection_without_replacement import RecursiveRejectionWithoutReplacement
from ..rules.path_rule import PathRule
from ..rules.token_wise import TokenWise
from .candidates import BestCandidates, Offer
from .dynamic_tree import TreeDraws


@dataclass(frozen=True)
class SampledTree(BestCandidates):
    """The `budget` draws without replacement that are likeliest to be tried, as the draft estimates it, among those that a beam comes past.

    A draw's value is the estimate that it is tried, made before it is drawn: v (1 - q(y_1)) (1 - q(y_2)) ... for the next child of a node
    that is reached with v and has the children y_1, y_2, ..., with q outside the elder ones. The child y is then
    reached with its value times q(y). With a beam as wide as the budget it is the tree of `sampled_tree`; least: draws of smaller value are
    not made (DySpec's threshold).
    Whether a child is there depends on tokens drawn before it, never on its own: lossless are rules that take the children in turn and
    end with the residual of the last, `TokenWise(RecursiveRejectionWithoutReplacement())`, and naive target sampling. A value that knew
    the child's own token would be another thing: the tests plant it, and find it.
    Source: Xiong et al., DySpec, 2024.
    """

    budget: int
    length: int = 8
    most: int = 8
    beam: int = 16
    least: float = 0.0
    least_gain: float = 0.0

    @property
    def law(self) -> DraftLaw:
        return WithoutReplacement()

    @property
    def rule(self) -> PathRule:
        return TokenWise(RecursiveRejectionWithoutReplacement())

    @property
    def draws(self) -> int:
        return self.most * self.reads

    @property
    def label(self) -> str:
        return "DySpec"

    def offer(self, q: Array, reached: Array, floor: Array, draws: TreeDraws, first: int) -> Offer:
        value, left = reached[..., None], copy(q)
        drawn, values, chances = [], [], []
        numbers = first + self.most * positions(q.shape[-2], value)[:, None]
        for place in range(self.most):
            there = value > floor[..., None]
            if place and settled(~there):
                break
            drawn.append(where(there, draws.tokens(left, numbers + place + 0 * there, there), -1))
            token = unsmall(drawn[-1], q)
            share = gather(left, token)
            mass = minimum(small(floats(share)) / where(there, small(floats(total(left))), 1), 1)
            add_at(left, token, -share)
            values.append(where(there, value, 0.0))
            chances.append(values[-1] * mass)
            value = self.next_value(value, mass)
        join = namespace(value).concatenate
        return Offer(join(drawn, -1), join(values, -1), join(chances, -1))

    def next_value(self, value: Array, mass: Array) -> Array:
        """The value of the next child, by that of the one before and the mass of its token."""
        return value * (1 - mass)

    def tops(self, parents: Array) -> Array:
        return 0 * namespace(parents).concatenate((parents, parents[:, :1]), -1)
