"""Hybrid drafting: some top tokens of q, and i.i.d. draws outside them; how many, where that is chosen from q.

The number may depend on q and on k but not on p, which the draft model does not know. So the acceptance of every number j is
estimated on a stand-in for the target: half of its mass lies where the draft model does not see it, the other half is spread over the
draft's top tokens in proportion to q^0.3, flatter than q, as targets are that a weak draft model misjudges. Of this
mass c the target is taken to be either all of it, spread out (then the acceptance is the optimum of hybrid drafting against
c), or one token drawn from it (then the acceptance is the chance that this token is drafted); the estimate is the mean
of the two.

The three fields of `StandIn` were chosen once, on the contexts of figures/data with an earlier draft model. With the present one
their neighbours do about as well, within .003 of acceptance (figures/laws/hybrid.py). They are made for language models: where p has
nothing to do with q, i.i.d. drafting is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from .. import arrays as xp
from ..arrays import Array
from ..boundary import int_from
from .base import DraftLaw, padded
from .fixed_tokens import FixedFirst
from .iid import IID

__all__ = ["StandIn"]


@dataclass(frozen=True)
class StandIn:
    """The stand-in for the target. head: top tokens that carry it; power: of q on them; seen: share of its mass on them."""

    head: int = 256
    power: float = 0.3
    seen: float = 0.5

    def number(self, q: Array, k: int, max_cells: int = 1 << 24) -> Array:
        """Number of top tokens to fix among k drafts, at most n - 1: (..., n) -> int (..., 1), the first of equals. float64 inside.

        max_cells: rows times numbers times top tokens in memory.
        """
        n = q.shape[-1]
        q = q.detach() if xp.is_torch(q) else q.astype(float) if xp.is_exact(q) else q  # a choice has no gradient
        head = xp.host_view(xp.double(xp.top_masses(q, min(max(self.head, k), n))))
        numbers = min(k, n - 1) + 1
        step = max(1, max_cells // max(1, prod(head.shape)))
        parts = [self._estimates(head, start, min(start + step, numbers), k) for start in range(0, numbers, step)]
        return xp.from_view(xp.concat(parts, axis=-1).argmax(-1)[..., None], q)

    @classmethod
    def fitted(cls, p: Array, q: Array, head: int = 128) -> StandIn:
        """The stand-in of largest likelihood for pairs (rows, n) of a target and its draft, in powers of .1 to 1.5 by tenths.

        `number` does well with a stand-in flatter than the target; who asks how likely a token is (`otd.trees.AdaptiveTree`) takes this.
        """
        p, q = (x.astype(float) if xp.is_exact(x) else xp.double(x) for x in (p, q))
        head = min(head, q.shape[-1])
        tops = xp.top_tokens(q, head)
        masses, wanted = xp.gather(q, tops), xp.gather(p, tops)
        powers = [power / 10 for power in range(1, 16)]
        there = xp.where(masses > 0, masses, 1)
        likely = []
        for power in powers:
            shares = xp.where(masses > 0, there**power, 0)
            shares = shares / shares.sum(-1, keepdims=True)
            likely.append(float((wanted * xp.namespace(q).log(xp.where(masses > 0, shares, 1))).sum()))
        seen = float(wanted.sum() / wanted.reshape(-1, head).shape[0])
        return cls(head, powers[likely.index(max(likely))], min(max(seen, 0.0), 1.0))

    def _estimates(self, head: Array, start: int, stop: int, k: int) -> Array:
        """Estimated acceptance for start .. stop - 1 fixed top tokens: falling masses (..., m) -> (..., stop - start)."""
        stand_in = xp.where(head > 0, 1, 0) * head**self.power
        stand_in = self.seen * stand_in / stand_in.sum(-1, keepdims=True)
        covered, drawn = xp.prefix_sums(stand_in), xp.prefix_sums(head)
        rest = 1 - drawn[..., start:stop]
        rest = xp.where(rest > 0, rest, 1)[..., None]
        # (..., j, i): j tokens are fixed, k - j are drawn outside them; the first j entries of a row say nothing.
        j = start + xp.arange(stop - start, like=head)[:, None]
        beyond = xp.arange(drawn.shape[-1], like=head) >= j
        inside = (drawn[..., None, :] - drawn[..., start:stop, None]) / rest
        inside = xp.maximum(xp.minimum(inside, 1), 0)
        spread_out = 1 + xp.min(xp.where(beyond, covered[..., None, :] - inside ** (k - j), 0), axis=-1, keepdims=True)
        caught = 1 - (1 - xp.minimum(head[..., None, :] / rest, 1)) ** (k - j)
        one_token = xp.where(beyond[:, :-1], stand_in[..., None, :] * caught, 0).sum(-1, keepdims=True)
        return ((spread_out + covered[..., start:stop, None] + one_token) / 2)[..., 0]


@dataclass(frozen=True)
class Hybrid(FixedFirst):
    """Top tokens of the draft distribution in falling order, then independent draws outside them.

    Parameters
    ----------
    top : int or "auto"
        Number of top tokens; equal masses are ranked by token id. 0 is i.i.d. drafting, -1 stands for k - 1 (greedy drafting [1]_).
        "auto" chooses the number for every row from q and k alone. With k <= top the top k tokens are drafted, and nothing else.
    estimator : StandIn, optional
        Stand-in for the target by which "auto" estimates the acceptance of every number.

    References
    ----------
    .. [1] Hu et al., "Towards Optimal Multi-draft Speculative Decoding", 2025.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> otd.optimal_acceptance([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2, law=otd.Hybrid(top=1))
    Fraction(1, 1)
    """

    top: int | str
    estimator: StandIn = StandIn()

    def __repr__(self) -> str:
        usual = self.estimator == StandIn()
        return f"Hybrid(top={self.top!r})" if usual else f"Hybrid(top={self.top!r}, estimator={self.estimator!r})"

    def __post_init__(self) -> None:
        if self.top != "auto":
            int_from("top", self.top, -1, remedy="Pass the number of top tokens, -1 for greedy drafting, or 'auto'.")

    def count(self, n: int, k: int) -> int:
        return k if self.top == "auto" or self._fixed(k) < n else min(n, k)

    def n_fixed(self, q: Array, k: int) -> Any:
        return xp.minimum(self.estimator.number(q, k), k) if self.top == "auto" else min(self._fixed(k), k)

    @property
    def n_fixed_by_node(self) -> bool:
        return self.top == "auto"

    @property
    def n_fixed_is_constant(self) -> bool:
        return self.top not in (-1, "auto")

    def fixed_drafts(self, q: Array, k: int, n_fixed: Any = None) -> Array:
        n = q.shape[-1]
        ranked = xp.top_tokens(q, min(k, n))
        fixed = xp.where(
            xp.arange(min(k, n), like=q) < (self.n_fixed(q, k) if n_fixed is None else n_fixed), ranked, -1
        )
        return padded(fixed, k)

    @property
    def name(self) -> str:
        return "greedy" if self.top == -1 else f"hybrid:{self.top}"

    def canonical(self, k: int) -> DraftLaw:
        top = max(k - 1, 0) if self.top == -1 else self.top
        return IID() if top == 0 else Hybrid(top, self.estimator)

    def _fixed(self, k: int) -> int:
        return max(k - 1, 0) if self.top == -1 else int(self.top)
