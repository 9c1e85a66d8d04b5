"""Drafts of several models at one node: each draft is one draw from a law of its own, independent of the others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument, InvalidDrafts
from . import sets
from .base import DraftLaw
from .least_cut import least_cut


@dataclass(frozen=True)
class Several(DraftLaw):
    """Draft 1 is drawn from q, draft i + 1 from others[i], all independent of each other: k = 1 + len(others).

    others: rows (k - 1, n) of masses, of the other draft models (or of one at other temperatures; a law may come twice). The optimum is
    1 + min over H of p(H) - q(H) others[0](H) ..., found by branch and bound (`least_cut`), exactly on
    Fractions; the prefixes of one sorted list, which suffice for i.i.d. drafts, do not suffice here.
    """

    first_follows_q: ClassVar[bool] = True
    remedy: ClassVar[str] = "take Traversal(), which for one level is recursive rejection, or NaiveTarget()"

    others: Any = ()

    def __post_init__(self) -> None:
        rows = np.asarray(xp.to_host(self.others) if xp.is_torch(self.others) else self.others)
        rows = rows.reshape(0, 0) if not rows.size else rows
        if rows.ndim != 2 or rows.dtype.kind not in "fiuO" or not all(_is_law(row) for row in rows):
            raise InvalidArgument(
                f"Several(others of shape {rows.shape}): give rows (k - 1, n) of masses >= 0 that sum to 1 each"
            )
        object.__setattr__(self, "others", tuple(map(tuple, rows.tolist())))

    def __repr__(self) -> str:
        return f"Several({len(self.others)} others)" if self.others else "Several()"

    def check(self, k: int) -> None:
        if k != 1 + len(self.others):
            raise InvalidDrafts(f"this law has {1 + len(self.others)} drafts, one a draft model, not {k}")

    def probability(self, q: Array, drafts: Array) -> Array:
        chances = xp.full((*xp.batch_shape(q, drafts),), 1, q)
        for place in range(drafts.shape[-1]):
            chances = chances * xp.gather(self._of(q, place), drafts[..., place : place + 1])[..., 0]
        return chances

    def draw(self, q: Array, uniforms: Array) -> Array:
        columns = [xp.inverse_cdf(self._of(q, i), uniforms[..., i : i + 1]) for i in range(uniforms.shape[-1])]
        return xp.concatenate(columns)

    def order(self, p: Array, q: Array, k: int) -> Array:
        batch, n = xp.batch_shape(p, q), p.shape[-1]
        targets, drafts = (xp.to_host(xp.broadcast(x, (*batch, n))).reshape(-1, n) for x in (p, q))
        ranks = [~self._least(*row) for row in zip(targets, drafts, strict=True)]
        order = np.argsort(np.reshape(ranks, (*batch, n)), axis=-1, kind="stable")
        return xp.from_host(order, p).long() if xp.is_torch(p) else order

    def along(self, q: Array, order: Array, k: int) -> Array:
        masses: Any = 1
        for place in range(k):
            law = xp.broadcast(self._of(q, place), (*xp.batch_shape(q, order), q.shape[-1]))
            sums = xp.prefix_sums(xp.take(law, order))
            masses = masses * (sums if xp.is_exact(q) else sums / sums[..., -1:])
        return masses

    def child(self, q: Array, earlier: Array, token: Array, count: int, number: Any = None) -> Array:
        return self._of(q, earlier.shape[-1])

    def drafted(self, q: Array, k: int) -> Array:
        missed = xp.full(q.shape, 1, q)
        for place in range(k):
            missed = missed * (1 - self._of(q, place))
        return 1 - missed

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        masses: dict[int, Any] = {0: Fraction(1)}
        for place in range(k):
            after: dict[int, Any] = {}
            for bits, mass in masses.items():
                for token, share in enumerate(self._of(q, place).tolist()):
                    if share:
                        drawn = bits | 1 << token
                        after[drawn] = after.get(drawn, 0) + mass * share
            if len(after) > sets.MAX_SETS:
                raise sets.too_many()
            masses = after
        return masses

    @property
    def title(self) -> str:
        return "a draft from each of several models"

    @property
    def runs_out(self) -> bool:
        return False

    def _of(self, q: Array, place: int) -> Array:
        """Law of a draft: (..., n)."""
        if not place:
            return q
        row = self.others[place - 1]
        if len(row) != q.shape[-1]:
            raise InvalidDrafts(f"others have {len(row)} tokens, q has {q.shape[-1]}: bring all to one vocabulary")
        if xp.is_exact(q):
            return np.array([Fraction(mass) for mass in row], dtype=object)
        return xp.from_host(np.array(row, dtype=np.float64), q)

    def _least(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """The set of least cut, for one row: bool (n,)."""
        if not xp.is_exact(q):
            p, q = p.astype(np.float64), q.astype(np.float64)
        return least_cut(p, np.stack([self._of(q, place) for place in range(1 + len(self.others))]))[0]


def _is_law(row: np.ndarray) -> bool:
    whole = abs(sum(row.tolist()) - 1)
    return bool((row >= 0).all()) and bool(whole == 0 if row.dtype == object else whole <= 1e-6)
