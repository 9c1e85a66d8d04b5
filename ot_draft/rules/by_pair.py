"""The loop of rules that solve a program on the host for every pair (p, q) and number of drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidDistribution
from ..laws import DraftLaw


@dataclass(frozen=True)
class HostRows:
    """The rows of a call on the host. batch: its axes. targets, proposals: (pairs, n) different pairs; pair_of: (rows,) which is
    a row's; tokens: int (rows, k) drafts."""

    batch: tuple[int, ...]
    targets: np.ndarray
    proposals: np.ndarray
    pair_of: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, p: Array, q: Array, drafts: Array, needs: str) -> HostRows:
        """The rows of p, q (..., n) and drafts (..., k). needs: what takes values, for the error on torch's meta device."""
        if xp.is_meta(p):
            raise InvalidDistribution(f"p is on torch's meta device, which holds no values: {needs} them")
        k, batch = drafts.shape[-1], xp.batch_shape(p, q, drafts)
        pair_of, targets, proposals = xp.rows_of_batch(xp.to_host(p), xp.to_host(q), batch)
        tokens = np.broadcast_to(xp.to_host(drafts), (*batch, k)).reshape(len(pair_of), k)
        return cls(batch, targets, proposals, pair_of, tokens)

    def groups(self, law: DraftLaw) -> Iterator[tuple[int, int, np.ndarray]]:
        """Every pair and number of drafts that occurs: the pair, how many were drawn, and bool (rows,) where. Not without drafts."""
        k, n = self.tokens.shape[-1], self.targets.shape[-1]
        present = (self.tokens >= 0).sum(-1)
        for pair, count in sorted(set(zip(self.pair_of.tolist(), present.tolist(), strict=True))):
            if count:
                drawn = k if count == law.count(n, k) else count
                yield pair, drawn, (self.pair_of == pair) & (present == count)

    def back(self, x: np.ndarray, like: Array) -> Array:
        """(rows, m) as the caller's kind: (..., m)."""
        return xp.from_host(x.reshape(*self.batch, x.shape[-1]), like)
