"""Recursive rejection of drafts drawn with replacement."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import Array, divide, excess, gather, maximum, minimum, normalise, one, stack, total, zero
from ..laws import IID, DraftLaw
from ..selection import Selection, SelectionRule, in_turn


@dataclass(frozen=True)
class RecursiveRejection(SelectionRule):
    """Test every draft against what the refused ones leave of the target: p_1 = p, p_{i+1} = norm((p_i - q)+).

    Draft i is taken with probability min(1, p_i/q); the residual is p_{k+1}.
    Source: Miao et al. (SpecInfer) 2024; Yang et al., multi-candidate speculative decoding, 2024 (with replacement).

    Since p_i is proportional to (p - s_i q)+ with a growing s_i, the vocabulary is read once a draft, for one sum.
    """

    law: DraftLaw = IID()

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        present = drafts >= 0
        scale, mass, left = 0 * p[..., :1], 0 * p[..., :1] + one(p), None
        scales, masses = [], []
        for i in range(drafts.shape[-1]):
            scales.append(scale)
            masses.append(mass)
            scale = scale + mass * present[..., i : i + 1]
            left = excess(p, q, scale, left)
            mass = total(left)
        if left is None:
            return Selection(gather(p, drafts), p)
        s, c = stack(scales), stack(masses)
        here = gather(q, drafts)
        take = minimum(divide(maximum(gather(p, drafts) - s * here, zero(p)), c * here, zero(p)), one(p))
        return Selection(in_turn(take), normalise(left, p, left))
