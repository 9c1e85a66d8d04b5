"""SGLang's verification with its two accept thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import DraftLaw, Hybrid
from ...selection import Selection, SelectionRule


@dataclass(frozen=True)
class TwoThresholds(SelectionRule):
    """Go through the drafts with one uniform u: take x_i if u <= (p(x_1) + ... + p(x_i)) / accumulated, or if p(x_i) >= single.

    Where none is taken, the output is drawn from p outside the drafts. q plays no part, so that the drafts may be the draft model's top
    tokens; with both thresholds 1 this is `NaiveTarget` on different drafts. Below 1 every drafted token gains, by up to 1/accumulated.
    Source: SGLang, speculative_accept_threshold_single and speculative_accept_threshold_acc (kernel
    tree_speculative_sampling_target_only); the rule on the children of one node.
    """

    single: Any = 1
    accumulated: Any = Fraction(1, 2)
    law: DraftLaw = Hybrid(top=2**20)

    def __post_init__(self) -> None:
        if not (0 <= self.single <= 1 and 0 < self.accumulated <= 1):
            raise InvalidArgument(
                f"TwoThresholds({self.single!r}, {self.accumulated!r}): give two thresholds up to 1, the second above 0"
            )

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({float(self.single):g}, {float(self.accumulated):g})"

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        mass, k = xp.gather(p, drafts), drafts.shape[-1]
        if not k:
            return Selection(mass, p)
        reached = xp.minimum(mass.cumsum(-1) / xp.number(self.accumulated, p), 1)
        certain = (drafts >= 0) & (mass >= xp.number(self.single, p))
        reached = xp.where(certain.cumsum(-1) > 0, 1, reached)
        before = xp.concatenate((0 * reached[..., :1], reached[..., :-1]))
        left = xp.cleared(p, drafts)
        return Selection(reached - before, xp.normalise(left, p))
