"""Drafting with some tokens fixed beforehand, and i.i.d. draws outside them: tokens from anywhere, for `Hybrid` the draft's top ones."""

import sys
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument, InvalidDrafts
from .base import DraftLaw, padded
from .fixed_tokens import FixedFirst, FixedTokensOfNodes
from .iid import IID


@dataclass(frozen=True)
class Fixed(FixedFirst):
    """Given tokens first, then independent draws from q outside them.

    The tokens may come from a prompt, n-grams or another model. They may depend on anything that is known before the draws, such as q and
    the sequence so far, and must not depend on the draws. Without tokens it is i.i.d. drafting.

    Parameters
    ----------
    tokens : array_like of int, shape (j,) or (..., j)
        Token ids in drafting order, or rows of them for a batch of q (..., n). Repeated ids and -1 are skipped. With k or
        more tokens the first k are drafted, and nothing else.

    Raises
    ------
    InvalidArgument
        If tokens are not integers >= -1.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> otd.optimal_acceptance([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=1, law=otd.Fixed((1,)))
    Fraction(1, 2)
    """

    tokens: Any = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", _as_rows(self.tokens))

    def count(self, n: int, k: int) -> int:
        return k if self._lengths().min() < n else min(n, k)

    def n_fixed(self, q: Array, k: int) -> Any:
        if not self._batch:
            return min(len(self.tokens), k)
        found = (self._table(q)[..., :k] >= 0).sum(-1)[..., None]
        return xp.broadcast_to(found, (*xp.batch_shape(found, q), 1))

    def fixed_drafts(self, q: Array, k: int, n_fixed: Any = None) -> Array:
        table = self._table(q)[..., :k]
        return padded(xp.broadcast_to(table, (*xp.batch_shape(table, q), table.shape[-1])), k)

    @property
    def name(self) -> str:
        return f"fixed:{'+'.join(map(str, self.tokens))}" if not self._batch else "fixed"

    def canonical(self, k: int) -> DraftLaw:
        return self if self._lengths().any() and k else IID()

    @property
    def _batch(self) -> bool:
        return bool(self.tokens) and isinstance(self.tokens[0], tuple)

    def _lengths(self) -> np.ndarray:
        """Number of fixed tokens in every row: int (...)."""
        return np.asarray((_table(self.tokens) >= 0).sum(-1))

    def _table(self, q: Array) -> Array:
        """The tokens on q's device: int (..., j), -1 beyond a row's last."""
        table = _table(self.tokens, q.device if xp.is_torch(q) else None)
        if (largest := _table(self.tokens).max(initial=-1)) >= q.shape[-1]:
            raise InvalidDrafts(
                f"tokens of Fixed must be token ids in 0 .. {q.shape[-1] - 1}, got {largest}. Correct the token id."
            )
        try:
            xp.batch_shape(table, q)
        except ValueError:
            raise InvalidDrafts(
                f"tokens of Fixed must have one row per row of q, or one row for all, got rows {tuple(table.shape[:-1])} for q of shape"
                f" {tuple(q.shape)}. Pass such rows."
            ) from None
        return table


@dataclass(frozen=True)
class PerNodeFixedTokens(FixedTokensOfNodes, FixedFirst):
    """Some fixed tokens at every node of a tree, then independent draws from q outside them.

    How many tokens are fixed, and which, is given per node; they are the first children of each node.
    proofs_checks/paths/adapted_trees.py states what the numbers may depend on for `Joint` and `Optimal` to be lossless.

    Parameters
    ----------
    fixed : tuple of (prefix, tokens), optional
        For a tree in plain form: the fixed tokens after every prefix that has some. A `DraftTree` carries their numbers instead.

    Examples
    --------
    >>> from ot_draft.laws import PerNodeFixedTokens
    >>> PerNodeFixedTokens((((3,), (1, 2)),)).at((3,))
    Fixed(tokens=(1, 2))
    """

    of_node: ClassVar[Any] = Fixed

    def fixed_drafts(self, q: Array, k: int, n_fixed: Any = None) -> Array:
        raise InvalidDrafts(
            "PerNodeFixedTokens: the fixed tokens are the first children of each node in the tree. Call `at(prefix)`."
        )

    def canonical(self, k: int) -> DraftLaw:
        return PerNodeFixedTokens()


def _as_rows(tokens: Any) -> tuple[Any, ...]:
    """Nested tuples of token ids, each row without repetitions and -1, and rows of one length again by -1 at the end."""
    found = np.asarray(tokens if not xp.is_torch(tokens) else tokens.cpu())
    if not found.size:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu" or not found.ndim or (found < -1).any():
        raise InvalidArgument(
            f"tokens of Fixed must be token ids >= 0, or -1 for none, of shape (..., j), got {tokens!r}. Pass integers."
        )
    flat = found.reshape(prod(found.shape[:-1]), found.shape[-1]).tolist()
    rows = [tuple(dict.fromkeys(token for token in row if token >= 0)) for row in flat]
    if found.ndim == 1:
        return rows[0]
    longest = max(map(len, rows), default=0)
    table = np.array([(*row, *(-1,) * (longest - len(row))) for row in rows], dtype=np.int64)
    return _nested(table.reshape(*found.shape[:-1], longest))


def _nested(table: np.ndarray) -> tuple[Any, ...]:
    return tuple(table.tolist()) if table.ndim == 1 else tuple(map(_nested, table))


@lru_cache(maxsize=256)
def _table(tokens: tuple[Any, ...], device: Any = None) -> Array:
    """Made once for a device, because making it is a copy from the host."""
    return xp.integers(tokens, like=np.empty(0) if device is None else sys.modules["torch"].empty(0, device=device))
