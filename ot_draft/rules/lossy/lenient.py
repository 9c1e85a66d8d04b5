"""Lenient speculative sampling, with its own residual and with a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw
from ...selection import Selection, SelectionRule

RESIDUALS = ("excess", "target")


@dataclass(frozen=True)
class LenientSampling(SelectionRule):
    """Take the first draft with probability min(1, p / (l q)); else norm((p - q)+), or, with residual="target", a fresh draw from p.

    Output law with "excess": min(q, p/l) + (1 - its sum) norm((p - q)+), which is `ot.targets.Lenience`. With "target" the second
    factor is p: tokens that were kept too often are drawn once more. Later drafts are ignored.
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

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({float(self.lenience):g}, {self.residual})"

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        first = xp.first_present(drafts)
        ratio = xp.divide(xp.gather(p, drafts), xp.number(self.lenience, p) * xp.gather(q, drafts), 0)
        left = p if self.residual == "target" else xp.normalise(xp.excess(p, q), otherwise=p)
        accept = xp.where(first, xp.minimum(ratio, 1), 0)
        return Selection(accept, xp.where(first.any(-1, keepdims=True), left, p))
