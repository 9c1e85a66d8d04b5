"""Drafting with some tokens fixed beforehand, and i.i.d. draws outside them: tokens from anywhere, for `Hybrid` the draft's top ones."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument, InvalidDrafts
from . import sets
from .base import DraftLaw, Prefix, fixed_or_drawn, outside, padded, shares
from .iid import IID

TABLES = 256  # of fixed tokens, kept on the device


class FixedFirst(DraftLaw):
    """The first drafts are tokens T fixed beforehand, the others i.i.d. draws from q outside T. A law says which by two methods:

    `number`, how many, and `top_drafts`, which: distinct tokens, which may depend on q and on all that was known before the draws,
    and not on the draws.
    """

    independent: ClassVar[bool] = True

    def probability(self, q: Array, drafts: Array) -> Array:
        fixed = self.top_drafts(q, drafts.shape[-1])
        free = outside(q, fixed)
        drawn = xp.where(xp.total(free) > 0, xp.gather(free, drafts), xp.as_number(drafts == -1, q))
        return xp.where(fixed >= 0, xp.as_number(drafts == fixed, q), drawn).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        return self.draw_with_number(q, uniforms)[0]

    def draw_with_number(self, q: Array, uniforms: Array) -> tuple[Array, Any]:
        number = self.number(q, uniforms.shape[-1])
        fixed = self.top_drafts(q, uniforms.shape[-1], number)
        free = outside(q, fixed)
        drawn = xp.where(xp.total(free) > 0, xp.inverse_cdf(free, uniforms), -1)
        return xp.where(fixed >= 0, fixed, drawn), number

    def order(self, p: Array, q: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        # A set without all fixed tokens holds no draft tuple.
        return xp.argsort(xp.where(xp.members(fixed, q.shape[-1], q), -1, xp.ratio(p, outside(q, fixed))))

    def along(self, q: Array, order: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        top = xp.members(fixed, q.shape[-1], q)
        draws = xp.where(top.all(-1, keepdims=True), 0, xp.total(xp.as_number(fixed < 0, q)))
        topped = xp.prefix_sums(xp.take(xp.as_number(top, q), order))
        return xp.where(topped < topped[..., -1:], 0, shares(outside(q, fixed), order) ** draws)

    @property
    def remedy(self) -> str:  # type: ignore[override]  # it names the law with its fields
        return f"take TokenWise(Optimal(law={self!r})), Joint(), or NaiveTarget() where nothing was drawn"

    def child(self, q: Array, siblings: Array, place: Array, number: Any = None) -> Array:
        number = self.number(q, siblings.shape[-1]) if number is None else number
        where_it_stands = xp.positions(siblings.shape[-1], siblings)
        gone = xp.where((where_it_stands < place) & (where_it_stands < number), siblings, -1)
        return fixed_or_drawn(q, xp.gather(siblings, place), place < number, gone)

    def sets(self, q: Array, k: int) -> dict[int, Any]:
        fixed = self.top_drafts(q, k)
        return sets.independent(sets.bits_of(fixed), outside(q, fixed), sets.draws(self, q, k))


@dataclass(frozen=True)
class Fixed(FixedFirst):
    """The first drafts are given tokens, from a prompt, n-grams or another model; the others are i.i.d. draws from q outside them.

    tokens: ids in drafting order, or rows (..., j) of them for a batch of q (..., n). What is given twice, or as -1, takes no place: a draw
    does. With k or more tokens the first k are drafted, and nothing else. They may follow from anything that is known before the
    draws, q and the text so far among it, and must not be looked up in the draws. Without tokens it is i.i.d. drafting.
    """

    title: ClassVar[str] = "fixed tokens, draws outside them"
    tokens: Any = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", _as_rows(self.tokens))

    def count(self, n: int, k: int) -> int:
        return k if self._lengths().min() < n else min(n, k)

    def number(self, q: Array, k: int) -> Any:
        if not self._batch:
            return min(len(self.tokens), k)
        found = (self._table(q)[..., :k] >= 0).sum(-1)[..., None]
        return xp.broadcast(found, (*xp.batch_shape(found, q), 1))

    def top_drafts(self, q: Array, k: int, number: Any = None) -> Array:
        table = self._table(q)[..., :k]
        return padded(xp.broadcast(table, (*xp.batch_shape(table, q), table.shape[-1])), k)

    @property
    def spelling(self) -> str:
        return f"fixed:{'+'.join(map(str, self.tokens))}" if not self._batch else "fixed"

    def plain(self, k: int) -> DraftLaw:
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
                f"Fixed holds token {largest}, and the vocabulary is 0 .. {q.shape[-1] - 1}: give ids of its tokens"
            )
        try:
            xp.batch_shape(table, q)
        except ValueError:
            raise InvalidDrafts(
                f"Fixed has rows of tokens {tuple(table.shape[:-1])}, q has shape {tuple(q.shape)}: give a row of tokens for every"
                " row of q, or one for all"
            ) from None
        return table


@dataclass(frozen=True)
class ToldByNode(DraftLaw):
    """Fixed tokens that were decided node by node: a `DraftTree` carries their numbers in `fixed_count`, and has them among its tokens.

    A tree in plain form has them in the law: fixed holds (prefix, tokens) for every prefix after which some are.
    """

    of_node: ClassVar[Any]  # the law of the children of one node, made from its fixed tokens
    last: ClassVar[bool] = False  # whether they stand behind the draws
    fixed: tuple[tuple[Prefix, Prefix], ...] = ()

    def told(self, nodes: Iterable[tuple[Prefix, Prefix, int]]) -> DraftLaw:
        starts = ((prefix, of, len(of) - number if self.last else 0, number) for prefix, of, number in nodes if number)
        return type(self)(fixed=tuple(sorted((prefix, of[i : i + number]) for prefix, of, i, number in starts)))

    def number(self, q: Array, k: int) -> Any:
        raise InvalidDrafts(
            f"{self.name}: how many children are fixed is told with the tree: give DraftTree(..., fixed_count=...)"
        )

    @property
    def number_by_q(self) -> bool:
        return True

    def at(self, prefix: Prefix) -> DraftLaw:
        return self.of_node(dict(self.fixed).get(prefix, ()))


@dataclass(frozen=True)
class ByNode(ToldByNode, FixedFirst):
    """At every node some fixed tokens, then i.i.d. draws from q outside them: how many, and which, is told node by node.

    The tokens are the first children of each node. What the numbers may depend on for `Joint` and `Optimal` to be lossless:
    proofs_checks/paths/adapted_trees.py.
    """

    of_node: ClassVar[Any] = Fixed

    def top_drafts(self, q: Array, k: int, number: Any = None) -> Array:
        raise InvalidDrafts(
            "ByNode: the fixed tokens stand in the tree, as the first children of their node: ask `at(prefix)`"
        )

    def plain(self, k: int) -> DraftLaw:
        return ByNode()


def _as_rows(tokens: Any) -> tuple[Any, ...]:
    """Nested tuples of token ids, each row without repetitions and -1, and rows of one length again by -1 at the end."""
    found = np.asarray(tokens if not xp.is_torch(tokens) else tokens.cpu())
    if not found.size:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu" or not found.ndim or (found < -1).any():
        raise InvalidArgument(
            f"Fixed({tokens!r}): give token ids, integers >= 0 and -1 for none: (j,), or rows of one length (..., j)"
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


@lru_cache(maxsize=TABLES)
def _table(tokens: tuple[Any, ...], device: Any = None) -> Array:
    """Made once for a device, because making it is a copy from the host."""
    return xp.integers(tokens, np.empty(0) if device is None else sys.modules["torch"].empty(0, device=device))
