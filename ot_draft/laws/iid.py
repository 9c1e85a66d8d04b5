"""Independent drafts: k draws from q."""

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from . import sets
from .base import DraftLaw, Fact, shares


@dataclass(frozen=True)
class IID(DraftLaw):
    """Independent draws: k tokens from q [1]_.

    References
    ----------
    .. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", NeurIPS 2023.

    Examples
    --------
    >>> import ot_draft as otd
    >>> float(otd.optimal_acceptance([0.5, 0.5], [0.75, 0.25], k=2, law=otd.IID()))
    0.9375
    """

    facts: ClassVar[Fact] = (
        Fact.FIRST_FOLLOWS_Q
        | Fact.ABSENT_ANYWHERE
        | Fact.INDEPENDENT
        | Fact.INDEPENDENT_OUTSIDE_FIXED
        | Fact.NEVER_RUNS_OUT
    )
    name: ClassVar[str] = "iid"

    def probability(self, q: Array, drafts: Array) -> Array:
        return xp.gather(q, drafts).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        return xp.inverse_cdf(q, uniforms)

    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        return xp.argsort(xp.ratio(p, q))

    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        return shares(q, order) ** k

    def conditional(self, q: Array, siblings: Array, index: Array) -> Array:
        return q

    def marginals(self, q: Array, k: int) -> Array:
        return xp.at_least_one(q, k)

    def set_probabilities(self, q: Array, k: int) -> dict[int, Any]:
        return sets.independent(0, q, k)
