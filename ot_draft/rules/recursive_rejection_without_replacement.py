"""Recursive rejection of drafts drawn without replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import arrays as xp
from ..arrays import Array
from ..laws import DraftLaw, WithoutReplacement, outside
from ..selection import Selection, SelectionRule, in_turn


@dataclass(frozen=True)
class RecursiveRejectionWithoutReplacement(SelectionRule):
    """Test every draft against what is left of the target and of the draft's law: p_{i+1} = norm((p_i - q_i)+).

    q_{i+1} is q_i without the refused token, normalised; where no mass is left, uniform on what is not yet drafted.
    Source: Yang et al., multi-candidate speculative decoding, 2024; the fallback: Chen et al., Sequoia, 2024.
    """

    claims = ("maximal", "cover")
    any_number: ClassVar[bool] = True
    law: DraftLaw = WithoutReplacement()

    @property
    def label(self) -> str:
        return "recursive rejection, without replacement"

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        takes = []
        target = p
        for i in range(drafts.shape[-1]):
            token = drafts[..., i : i + 1]
            law = outside(q, drafts[..., :i])
            takes.append(xp.minimum(xp.divide(xp.gather(target, token), xp.gather(law, token), 0), 1))
            refused = xp.normalise(xp.excess(target, law), otherwise=target)
            target = xp.where(token >= 0, refused, target)
        return Selection(in_turn(xp.concatenate(takes)) if takes else xp.gather(p, drafts), target)
