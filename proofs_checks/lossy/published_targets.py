"""Targets that published methods follow: lenience, the ensemble of target and draft, speculative cascades."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

from ot_draft import DraftLaw, InvalidArgument
from ot_draft import arrays as xp
from ot_draft.arrays import Array
from ot_draft.bias import total_variation
from ot_draft.lossy import Target


@dataclass(frozen=True)
class Lenience(Target):
    """Output distribution if one draft is accepted with probability min(1, p / (l q)), else norm((p - q)+): r <= p / l, between p and q.

    r = min(q, p/l) + (1 - sum of that) norm((p - q)+), for every k and draft law. For one draft it has the most acceptance of all
    distributions with r <= p / l, and its own total variation; under KL less than `KL` gives. Source: Leviathan et al. 2023, appendix A.5.
    """

    lenience: Any

    def __post_init__(self) -> None:
        if not 2.0**-40 <= self.lenience <= 1:
            raise InvalidArgument(f"lenience must lie in [2.0**-40, 1], got {self.lenience!r}.")

    @property
    def guarantee(self) -> tuple[str, Any]:
        return "ratio", -log(self.lenience)

    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        lenience = xp.number(self.lenience, p)
        kept = xp.minimum(q, p / lenience)
        return kept + (1 - kept.sum(-1, keepdims=True)) * xp.residual(p, q)


@dataclass(frozen=True)
class Ensemble(Target):
    """r = w p + (1 - w) q: TV(r, p) = (1 - w) TV(q, p), and r >= w p, hence KL(p || r) <= -log w.

    For one draft the acceptance is alpha(p) + TV(r, p), all that total variation allows; less than best under every other divergence.
    Source: DIVERSED 2026 (static ensemble); transformers' `assistant_ensemble_weight`.
    """

    weight: Any

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise InvalidArgument(f"weight must lie in [0, 1], got {self.weight!r}.")

    @property
    def guarantee(self) -> tuple[str, Any]:
        return "tv", 1 - self.weight

    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        weight = xp.number(self.weight, p)
        return weight * p + (1 - weight) * q


Trusts = Callable[[Array, Array, Any], Array]

# Where the draft model is trusted, given p, q and alpha: by context, (..., 1), or by token, (..., n).
BY_CONTEXT: dict[str, Trusts] = {
    "chow": lambda p, q, alpha: xp.max(q, axis=-1, keepdims=True) >= 1 - alpha,
    "diff": lambda p, q, alpha: xp.max(q, axis=-1, keepdims=True) >= xp.max(p, axis=-1, keepdims=True) - alpha,
    "opt": lambda p, q, alpha: (
        xp.max(q, axis=-1, keepdims=True) >= xp.max(p, axis=-1, keepdims=True) - alpha * total_variation(p, q)
    ),
}
BY_TOKEN: dict[str, Trusts] = {
    "token-v1": lambda p, q, alpha: q >= xp.max(p, axis=-1, keepdims=True) - alpha,
    "token-v2": lambda p, q, alpha: p >= xp.max(p, axis=-1, keepdims=True) - alpha,
    "token-v3": lambda p, q, alpha: p >= (1 - alpha) * xp.max(p, axis=-1, keepdims=True),
}


@dataclass(frozen=True)
class Cascade(Target):
    """r = q where the deferral rule trusts the draft model, else p; by token: q on the trusted tokens T, and (1 - q(T)) p everywhere.

    deferral: "chow" trusts where max q >= 1 - alpha, "diff" where max q >= max p - alpha, "opt" where
    max q >= max p - alpha TV(p, q); "token-v1" trusts the tokens with q >= max p - alpha, "token-v2" with p >= max p - alpha,
    "token-v3" with p >= (1 - alpha) max p. No distance to p is guaranteed: a trusted context takes q, whatever it is.
    The paper reads the criteria off the distributions at temperature 1, this off p and q as they are.
    Source: Narasimhan et al. 2025, equations 2, 5, 10, 13, 14, 15.
    """

    deferral: str
    alpha: Any

    def __post_init__(self) -> None:
        if self.deferral not in BY_CONTEXT | BY_TOKEN:
            raise InvalidArgument(
                f"deferral must be one of {', '.join(BY_CONTEXT | BY_TOKEN)}, got {self.deferral!r}. Use one of them."
            )
        if not abs(self.alpha) < float("inf"):
            raise InvalidArgument(f"alpha must be finite, got {self.alpha!r}.")

    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        alpha = xp.number(self.alpha, p)
        if self.deferral in BY_CONTEXT:
            return xp.where(BY_CONTEXT[self.deferral](p, q, alpha), q, p)
        trusted = xp.where(BY_TOKEN[self.deferral](p, q, alpha), q, 0)
        return trusted + (1 - trusted.sum(-1, keepdims=True)) * p
