"""Typical acceptance: a draft is taken where the target finds it likely enough."""

from __future__ import annotations

from dataclasses import dataclass

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw
from ...selection import Selection, SelectionRule
from .numbers import floats, most_likely

INSIDE_LOG = 1e-5  # what Medusa and vLLM add to p under the logarithm of the entropy
FALLBACKS = ("sample", "greedy")


@dataclass(frozen=True)
class TypicalAcceptance(SelectionRule):
    """Take a draft with p > min(threshold, alpha exp(-H(p))), of several the likeliest under p; else draw from p, or take p's argmax.

    q plays no part. Output law for one draft: q where p is above the bar, and the rest of the mass by the fallback. Of many paths
    Medusa keeps the longest that pass; at one node that is this.
    Source: Cai et al. (Medusa) 2024, section 3.3.1; vLLM's TypicalAcceptanceSampler (until 0.8) with its defaults .09 and .3, which had
    the argmax as its fallback first and the target's sample later.
    """

    threshold: float = 0.09
    alpha: float = 0.3
    fallback: str = "sample"
    law: DraftLaw = IID()

    def __post_init__(self) -> None:
        if self.fallback not in FALLBACKS or not 0 <= self.threshold <= 1 or self.alpha < 0:
            raise InvalidArgument(
                f"TypicalAcceptance({self.threshold!r}, {self.alpha!r}, {self.fallback!r}): give a threshold from 0 to 1, alpha >= 0"
                " and 'sample' or 'greedy'"
            )

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self.threshold:g}, {self.alpha:g}, {self.fallback})"

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        masses = floats(p)
        module = xp.namespace(masses)
        entropy = -xp.total(masses * module.log(masses + INSIDE_LOG))
        bar = self.alpha * module.exp(-entropy)
        bar = xp.where(bar < self.threshold, bar, 0 * bar + self.threshold)
        likely = xp.gather(p, drafts)
        passes = (drafts >= 0) & (floats(likely) > bar)
        best = xp.where(passes, likely, -1 - 0 * likely)
        chosen = passes & (best == xp.largest(best)) if drafts.shape[-1] else passes
        first = chosen & (chosen.cumsum(-1) == 1)
        return Selection(xp.as_number(first, p), p if self.fallback == "sample" else most_likely(p))
