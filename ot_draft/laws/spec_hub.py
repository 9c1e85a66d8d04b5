"""SpecHub's drafts: the top token and one other."""

from dataclasses import dataclass
from typing import ClassVar

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidDrafts
from .base import DraftLaw, Fact, outside
from .hybrid import Hybrid

SAME_PAIRS = Hybrid(top=1)  # drafts the same token sets, in another order


@dataclass(frozen=True)
class SpecHubLaw(DraftLaw):
    """SpecHub's joint distribution of two drafts [1]_.

    With a = argmax q, the pair (i, a) has mass q(i), and (a, i) has mass q(a) q(i) / (1 - q(a)): the first draft is drawn from q; the pair
    also holds a, and after a comes a draw from q outside a.

    References
    ----------
    .. [1] Sun et al., "SpecHub: Provable Acceleration to Multi-Draft Speculative Decoding", EMNLP 2024.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> otd.optimal_acceptance([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2, law=otd.SpecHubLaw())
    Fraction(1, 1)
    """

    facts: ClassVar[Fact] = Fact.FIRST_FOLLOWS_Q
    name: ClassVar[str] = "hub"

    def check(self, k: int) -> None:
        if k != 2:
            remedy = f"take Hybrid(top={k - 1})" if k > 2 else "give k = 2"
            raise InvalidDrafts(f"the hub law has k = 2 drafts, not {k}: {remedy}")

    def count(self, n: int, k: int) -> int:
        return min(n, k)

    def draw(self, q: Array, uniforms: Array) -> Array:
        hub, rest = self._parts(q)
        first = xp.inverse_cdf(q, uniforms[..., :1])
        other = xp.inverse_cdf(rest, uniforms[..., 1:]) if q.shape[-1] > 1 else -1 + 0 * first
        return xp.concat((first, xp.where(first == hub, other, hub)), axis=-1)

    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        return SAME_PAIRS.cut_order(p, q, k)

    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        return SAME_PAIRS.prefix_probabilities(q, order, k)

    def marginals(self, q: Array, k: int) -> Array:
        """P(token y is among the drafts) for every y, (..., n)."""
        return SAME_PAIRS.marginals(q, k)

    def conditional(self, q: Array, siblings: Array, index: Array) -> Array:
        hub, after_hub = self._parts(q)
        second = xp.where(siblings[..., :1] == hub, after_hub, xp.astype(xp.members(hub, q.shape[-1]), q.dtype))
        return xp.where(index == 0, q, second)

    def _parts(self, q: Array) -> tuple[Array, Array]:
        hub = xp.top_tokens(q, 1)
        return hub, outside(q, hub)
