"""Independent drafts: k draws from q."""

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import arrays as xp
from ..arrays import Array
from . import sets
from .base import Fact, padded, shares
from .fixed_tokens import FixedFirst


@dataclass(frozen=True)
class IID(FixedFirst):
    """Independent draws: k tokens from q [1]_; no token is fixed.

    References
    ----------
    .. [1] Sun et al., "SpecTr: Fast Speculative Decoding via Optimal Transport", NeurIPS 2023.

    Examples
    --------
    >>> import ot_draft as otd
    >>> float(otd.optimal_acceptance([0.5, 0.5], [0.75, 0.25], k=2, law=otd.IID()))
    0.9375
    """

    facts: ClassVar[Fact] = Fact.FIRST_FOLLOWS_Q | Fact.ABSENT_ANYWHERE | Fact.INDEPENDENT | Fact.NEVER_RUNS_OUT
    name: ClassVar[str] = "iid"

    def n_fixed(self, q: Array, k: int) -> int:
        return 0

    def fixed_drafts(self, q: Array, k: int, n_fixed: Any = None) -> Array:
        return padded(xp.broadcast_to(xp.arange(0, like=q), (*q.shape[:-1], 0)), k)

    def probability(self, q: Array, drafts: Array) -> Array:
        return xp.gather(q, drafts).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        return xp.inverse_cdf(q, uniforms)

    def draw_counted(self, q: Array, uniforms: Array) -> tuple[Array, int]:
        return self.draw(q, uniforms), 0

    def cut_order(self, p: Array, q: Array, k: int) -> Array:
        return xp.argsort(xp.ratio(p, q))

    def prefix_probabilities(self, q: Array, order: Array, k: int) -> Array:
        return shares(q, order) ** k

    def conditional(self, q: Array, siblings: Array, place: Array, n_fixed: Any = None) -> Array:
        return q

    def marginals(self, q: Array, k: int) -> Array:
        return xp.at_least_one(q, k)

    def set_probabilities(self, q: Array, k: int) -> dict[int, Any]:
        return sets.independent(0, q, k)
