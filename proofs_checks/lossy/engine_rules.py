"""Rules of engines and papers that do not keep the target's distribution, with their exact output distribution: for comparison, never
lossless.

`ALL` lists one instance of each, with the engine's defaults where it has any. How far each is from the target, and what the best rule
accepts at that distance: docs/lossy.md.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ot_draft import IID, DraftLaw, Hybrid, InvalidArgument, Selection, SelectionRule
from ot_draft import arrays as xp
from ot_draft.arrays import Array
from ot_draft.selection import with_fields


class Lossy(SelectionRule):
    """A rule that is determined by its settings."""

    @property
    def name(self) -> str:
        return with_fields(self)


def most_likely(p: Array) -> Array:
    """Return the point mass on the most probable token, the first of equal ones: (..., n) -> (..., n)."""
    top = xp.top_tokens(p, 1)
    return xp.scatter_add(xp.astype(top >= 0, p.dtype), top, p.shape[-1])


def _floats(x: Array) -> Array:
    """Return x with Fractions as float64."""
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.hasobject else x


RESIDUALS = ("excess", "target")


@dataclass(frozen=True)
class LenientSampling(Lossy):
    """Take the first draft with probability min(1, p / (l q)); else norm((p - q)+), or, with residual="target", a fresh draw from p.

    Output distribution with "excess": min(q, p/l) + (1 - its sum) norm((p - q)+), which is `published_targets.Lenience`. With "target" the
    second factor is p: tokens that were kept too often are drawn once more. Later drafts are ignored.
    Source: Leviathan et al. 2023, appendix A.5 ("excess"); SPEC-RL 2025 takes up rollouts of an older policy so, from p ("target").
    """

    lenience: Any = Fraction(1, 2)
    residual: str = "excess"
    law: DraftLaw = IID()

    def __post_init__(self) -> None:
        if self.residual not in RESIDUALS or not 0 < self.lenience <= 1:
            raise InvalidArgument(
                f"LenientSampling({self.lenience!r}, {self.residual!r}): give a lenience in (0, 1] and 'excess' or 'target'"
            )

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        first = xp.first_present(drafts)
        ratio = xp.divide(xp.gather(p, drafts), xp.number(self.lenience, p) * xp.gather(q, drafts), 0)
        left = p if self.residual == "target" else xp.residual(p, q)
        accept = xp.where(first, xp.minimum(ratio, 1), 0)
        return Selection(accept, xp.where(first.any(-1, keepdims=True), left, p))


INSIDE_LOG = 1e-5  # constant that Medusa and vLLM add to p inside the logarithm of the entropy
FALLBACKS = ("sample", "greedy")


@dataclass(frozen=True)
class TypicalAcceptance(Lossy):
    """Take a draft with p > min(threshold, alpha exp(-H(p))), of several the most probable under p; else draw from p, or take p's argmax.

    q plays no part. Output distribution for one draft: q where p is above the bar, and the rest of the mass by the fallback. Of many paths
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

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        masses = _floats(p)
        logarithm, exponential = (
            (np.log, np.exp) if isinstance(masses, np.ndarray) else (type(masses).log, type(masses).exp)
        )
        entropy = -(masses * logarithm(masses + INSIDE_LOG)).sum(-1, keepdims=True)
        bar = self.alpha * exponential(-entropy)
        bar = xp.where(bar < self.threshold, bar, 0 * bar + self.threshold)
        likely = xp.gather(p, drafts)
        passes = (drafts >= 0) & (_floats(likely) > bar)
        best = xp.where(passes, likely, -1 - 0 * likely)
        chosen = passes & (best == xp.max(best, axis=-1, keepdims=True)) if drafts.shape[-1] else passes
        first = chosen & (chosen.cumsum(-1) == 1)
        return Selection(xp.astype(first, p.dtype), p if self.fallback == "sample" else most_likely(p))


@dataclass(frozen=True)
class TwoThresholds(Lossy):
    """Go through the drafts with one uniform u: take x_i if u <= (p(x_1) + ... + p(x_i)) / accumulated, or if p(x_i) >= single.

    Where none is accepted, the output is drawn from p outside the drafts. q plays no part, so that the drafts may be the draft model's top
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

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        mass, k = xp.gather(p, drafts), drafts.shape[-1]
        if not k:
            return Selection(mass, p)
        reached = xp.minimum(mass.cumsum(-1) / xp.number(self.accumulated, p), 1)
        certain = (drafts >= 0) & (mass >= xp.number(self.single, p))
        reached = xp.where(certain.cumsum(-1) > 0, 1, reached)
        before = xp.concat((0 * reached[..., :1], reached[..., :-1]), axis=-1)
        drafted = xp.scatter_add(xp.astype(drafts >= 0, p.dtype), drafts, p.shape[-1])
        left = xp.where(drafted > 0, 0, p)
        return Selection(reached - before, xp.normalise(left, p))


@dataclass(frozen=True)
class RelaxedAcceptance(Lossy):
    """Take the first draft if it is among the target's `top` most probable tokens and p > max p - delta; else the target's most probable
    token.

    Made for greedy decoding: compared with sampling at temperature 1, its distribution is far from p. q plays no part; later drafts are
    ignored. Source: TensorRT-LLM, relaxed acceptance for the thinking phase (MTP), with relaxed_topk 10 and relaxed_delta .6 of its notes.
    """

    top: int = 10
    delta: Any = Fraction(3, 5)
    law: DraftLaw = IID()

    def __post_init__(self) -> None:
        if self.top < 1 or not 0 <= self.delta <= 1:
            raise InvalidArgument(
                f"RelaxedAcceptance({self.top!r}, {self.delta!r}): give top >= 1 and a delta from 0 to 1"
            )

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        ranked = xp.top_tokens(p, min(self.top, p.shape[-1]))
        first = xp.first_present(drafts)
        among = (drafts[..., :, None] == ranked[..., None, :]).any(-1)
        near = xp.gather(p, drafts) > xp.max(p, axis=-1, keepdims=True) - xp.number(self.delta, p)
        return Selection(xp.astype(first & among & near, p.dtype), most_likely(p))


ALL = (
    LenientSampling(),
    LenientSampling(residual="target"),
    TypicalAcceptance(),
    TypicalAcceptance(fallback="greedy"),
    TwoThresholds(),
    RelaxedAcceptance(),
)

__all__ = ["LenientSampling", "RelaxedAcceptance", "TwoThresholds", "TypicalAcceptance"]
