"""Rules of engines and papers that do not keep the target's law, with their exact output law: for comparison, never lossless.

`ALL` lists one instance of each, with the engine's defaults where it has any. How far each is from the target, and what the best rule
accepts at that distance: docs/lossy.md.
"""

from .lenient import LenientSampling
from .relaxed import RelaxedAcceptance
from .two_thresholds import TwoThresholds
from .typical import TypicalAcceptance

ALL = (
    LenientSampling(),
    LenientSampling(residual="target"),
    TypicalAcceptance(),
    TypicalAcceptance(fallback="greedy"),
    TwoThresholds(),
    RelaxedAcceptance(),
)

__all__ = [
    "ALL",
    "LenientSampling",
    "RelaxedAcceptance",
    "TwoThresholds",
    "TypicalAcceptance",
]
