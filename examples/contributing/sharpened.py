"""A draft law, for ot_draft/laws/sharpened.py."""

from dataclasses import dataclass

from ot_draft.arrays import Array
from ot_draft.laws import IID, DraftLaw, Fact

SHARP = IID()


@dataclass(frozen=True)
class Sharpened(DraftLaw):
    """k independent draws from q squared, normalised: the draft model at half its temperature."""

    facts = Fact.ABSENT_ANYWHERE  # an absent draft says nothing about the others

    def draw(self, q: Array, uniforms: Array) -> Array:
        return SHARP.draw(sharp(q), uniforms)

    def conditional(self, q: Array, siblings: Array, index: Array) -> Array:
        return sharp(q)

    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        return SHARP.cut_order(p, sharp(q), k)

    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        return SHARP.prefix_probabilities(sharp(q), order, k)


def sharp(q: Array) -> Array:
    return q * q / (q * q).sum(-1, keepdims=True)
