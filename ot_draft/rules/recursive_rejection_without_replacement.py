"""Recursive rejection of drafts drawn without replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..arrays import Array, divide, excess, gather, minimum, normalise, one, stack, where, zero
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

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        takes = []
        target = p
        for i in range(drafts.shape[-1]):
            token = drafts[..., i : i + 1]
            law = outside(q, drafts[..., :i])
            takes.append(minimum(divide(gather(target, token), gather(law, token), zero(p)), one(p)))
            refused = normalise(excess(target, law, one(p) + 0 * law[..., :1]), target)
            target = where(token >= 0, refused, target)
        return Selection(in_turn(stack(takes)) if takes else gather(p, drafts), target)
