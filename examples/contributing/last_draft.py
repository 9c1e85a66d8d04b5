"""A selection rule, for ot_draft/rules/last_draft.py."""

from dataclasses import dataclass

from ot_draft import arrays as xp
from ot_draft.arrays import Array
from ot_draft.laws import IID, DraftLaw
from ot_draft.selection import Selection, SelectionRule


@dataclass(frozen=True)
class LastDraft(SelectionRule):
    """Take the last draft that is there with probability min(1, p/q), else draw from norm((p - q)+).

    The output has the target's law for i.i.d. drafts. Source: speculative sampling, on another draft.
    """

    law: DraftLaw = IID()  # the joint distribution of its draft tokens

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        present = drafts >= 0
        last = present & (present.cumsum(-1) == present.sum(-1, keepdims=True))
        ratio = xp.minimum(xp.divide(xp.gather(p, drafts), xp.gather(q, drafts), 0), 1)
        left = xp.residual(p, q)
        return Selection(xp.where(last, ratio, 0), xp.where(present.any(-1, keepdims=True), left, p))
