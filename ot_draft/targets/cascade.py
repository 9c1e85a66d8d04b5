"""The laws of speculative cascades: the draft's law where a deferral rule trusts it, else the target's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import arrays as xp
from ..arrays import Array
from ..bias import total_variation
from ..errors import InvalidArgument
from ..laws import DraftLaw
from .base import Target, budget

Trusts = Callable[[Array, Array, Any], Array]

# Where the draft model is trusted, given p, q and alpha: by context, (..., 1), or by token, (..., n).
BY_CONTEXT: dict[str, Trusts] = {
    "chow": lambda p, q, alpha: xp.largest(q) >= 1 - alpha,
    "diff": lambda p, q, alpha: xp.largest(q) >= xp.largest(p) - alpha,
    "opt": lambda p, q, alpha: xp.largest(q) >= xp.largest(p) - alpha * total_variation(p, q),
}
BY_TOKEN: dict[str, Trusts] = {
    "token-v1": lambda p, q, alpha: q >= xp.largest(p) - alpha,
    "token-v2": lambda p, q, alpha: p >= xp.largest(p) - alpha,
    "token-v3": lambda p, q, alpha: p >= (1 - alpha) * xp.largest(p),
}


@dataclass(frozen=True)
class Cascade(Target):
    """r = q where the deferral rule trusts the draft model, else p; by token: q on the trusted tokens T, and (1 - q(T)) p everywhere.

    deferral: "chow" trusts where max q >= 1 - alpha, "diff" where max q >= max p - alpha, "opt" where
    max q >= max p - alpha TV(p, q); "token-v1" trusts the tokens with q >= max p - alpha, "token-v2" with p >= max p - alpha,
    "token-v3" with p >= (1 - alpha) max p. No distance to p is guaranteed: a trusted context takes q, whatever it is.
    The paper reads the criteria off the laws at temperature 1, this off p and q as they are.
    Source: Narasimhan et al. 2025, equations 2, 5, 10, 13, 14, 15.
    """

    deferral: str
    alpha: Any

    def __post_init__(self) -> None:
        if self.deferral not in BY_CONTEXT | BY_TOKEN:
            raise InvalidArgument(
                f"Cascade(deferral={self.deferral!r}): give one of {', '.join(BY_CONTEXT | BY_TOKEN)}"
            )
        budget(self.alpha, "Cascade(alpha)", -float("inf"))

    def __call__(self, p: Array, q: Array, k: int = 1, law: DraftLaw | None = None) -> Array:
        alpha = xp.number(self.alpha, p)
        if self.deferral in BY_CONTEXT:
            return xp.where(BY_CONTEXT[self.deferral](p, q, alpha), q, p)
        trusted = xp.where(BY_TOKEN[self.deferral](p, q, alpha), q, 0)
        return trusted + (1 - xp.total(trusted)) * p
