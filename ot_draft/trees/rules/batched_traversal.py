"""Traversal verification of a batch of trees: one node per step in every tree, each tree in its own post-order.

The state of a node is w p, the weight times the target, stored as S (n,) and a factor s, so that a rejection writes it once. A child x
drawn from Q enters with weight min(1, s S(x) / Q(x)). When it and all nodes below it are rejected, with R the mass of (s S - Q)+, S
becomes (S - Q / s)+, s becomes s / (R + 1 - w), and w becomes R / (R + 1 - w).
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ... import arrays as xp
from ...arrays import Array
from ...dispatch import accelerated
from ...laws import Fact, FixedTokensLaw
from ...laws.fixed_tokens import n_fixed_is_constant
from ..layout import Layout
from ..tree import DraftTree, PathSelection
from .survivors import Draws, Survivors

LARGEST = 1e30  # max. product of ratios, which is cut to 1 afterwards, and max. 1 / s: neither may overflow


@accelerated("trees")
def select_by_traversal(tree: DraftTree, draws: Draws) -> PathSelection:
    """Test node i in post-order by uniform i, from 1 on, and draw the token after the accepted node by uniform 0."""
    if not tree.bounds.size:  # nothing was drafted
        survivors = Survivors(tree)
        return survivors.selection(survivors.here, draws.index(survivors.target(), 0))
    traversal = _Traversal(tree)
    for step in range(tree.bounds.size):
        if traversal.visit(step, draws):
            break
    return traversal.survivors.selection(traversal.accepted, draws.index(traversal.target(), 0))


class Present:
    """The nodes that are present with all their ancestors, for trees in which any node may be absent.

    tokens: int (B, N), -1 where absent. order: int (B, N) nodes in the order of their tests, absent ones last. counts: int (B, N + 1)
    numbers of children. places: int (B, N) index of each node among its siblings. following: int (B, N) its next sibling, or any node.
    children: int (B, N) tokens with absent siblings after the others.
    """

    def __init__(self, tokens: Array, layout: Layout) -> None:
        self.order, self.counts, self.places = layout.post_order, layout.counts, layout.places
        self.tokens = self.children = tokens
        self.following = 2 + xp.arange(tokens.shape[1], like=tokens) + 0 * tokens
        if not xp.holds_without_sync(tokens >= 0):
            self._leave_out(tokens >= 0, layout)

    def _leave_out(self, there: Array, layout: Layout) -> None:
        parents = layout.parents
        above = xp.concat((there[:, :1] | True, there), axis=-1)
        for _ in range(layout.length - 1):
            there = there & xp.take_along_axis(above, parents)
            above = xp.concat((above[:, :1], there), axis=-1)
        self.tokens = xp.where(there, self.tokens, -1)
        self.order = xp.take_along_axis(
            self.order, xp.argsort(xp.where(xp.take_along_axis(there, self.order - 1), 0, 1), stable=True)
        )
        # Nodes that are there, up to each.
        before = xp.concat((0 * parents[:, :1], xp.where(there, 1, 0).cumsum(-1)), axis=-1)
        first = xp.minimum(layout.firsts - 1, parents.shape[1])
        self.counts = xp.take_along_axis(
            before, xp.minimum(first + layout.counts, parents.shape[1])
        ) - xp.take_along_axis(before, first)
        self.places = before[:, :-1] - xp.take_along_axis(xp.take_along_axis(before, first), parents)
        # Siblings stay neighbours: no parent has a smaller key than the one before it.
        compact = xp.argsort(2 * parents + xp.where(there, 0, 1), stable=True)
        self.children = xp.take_along_axis(self.tokens, compact)
        self.following = 1 + xp.take_along_axis(
            xp.concat((compact[:, 1:], compact[:, -1:]), axis=-1), xp.argsort(compact)
        )


class _Traversal:
    """State of a batch of trees: the accepted node, int (B, 1), and w p at all nodes with children."""

    def __init__(self, tree: DraftTree) -> None:
        self.tree, self.survivors = tree, Survivors(tree)
        present = Present(self.survivors.tokens, tree.layout)
        self._tokens, self._order, self._following = present.tokens, present.order, present.following
        self._counts, self._places = present.counts, present.places
        self._parents, self._rows = tree.layout.parents, self.survivors.rows
        self._nodes = xp.arange(tree.bounds.size + 1, like=self._tokens)
        self.accepted, self._any = self.survivors.here, self.survivors.here < 0
        self._number = _inner(tree, self._parents)
        self._fixed = _fixed_counts(tree, tree.layout.counts, self._number)
        self._siblings = self._children(present.children)
        self._alike = Fact.INDEPENDENT in tree.law.facts  # all children of a node have one distribution
        # S, and the distribution of the next child, for nodes whose first child was rejected. Nothing is written before, when S is p,
        # because new memory costs more than the arithmetic. The last row is scratch, the target of masked writes.
        self._mass, self._laws = (
            xp.empty((len(tree.p), self._number + 1, tree.p.shape[-1]), like=tree.p) for _ in range(2)
        )
        ones = xp.host_view(1 + 0 * tree.p[:, 0, :1]) + 0 * self._nodes
        self._weight, self._scale, self._start = ones, ones, ones
        self._top, self._cut, self._product = self._first_children(ones)

    def visit(self, step: int, draws: Draws) -> bool:
        """Test one node of every tree, and remove it if it is rejected. Return True if all trees are known to be decided."""
        node = self._order[:, step : step + 1]
        open_ = (xp.take_along_axis(self._tokens, node - 1) >= 0) & ~self._any
        if xp.holds_without_sync(~open_):
            return True
        weight = xp.where(
            xp.take_along_axis(self._counts, node) > 0, xp.take_along_axis(self._weight, node), self._entry(node)
        )
        now = draws.happens(xp.where(open_, weight, 0 * weight), step + 1) & open_
        self.accepted, self._any = xp.where(now, node, self.accepted), self._any | now
        if not xp.holds_without_sync(self._any):
            self._refuse(node, open_ & ~now)
        return False

    def target(self) -> Array:
        """Return masses (B, n) of the token after the accepted node."""
        p = self.survivors.at(self.tree.p, self.accepted)
        tested = xp.take_along_axis(self._counts, self.accepted) > 0
        if xp.holds_without_sync(~tested):
            return p
        left = self._now(self._mass, xp.minimum(self.accepted, self._number), ~tested, lambda: p)
        left_over = xp.from_view(tested, p) & (left.sum(-1, keepdims=True) > 0)
        return left if xp.holds_without_sync(left_over) else xp.where(left_over, left, p)

    def _refuse(self, node: Array, refused: Array) -> None:
        """Write the new state of the parent of a rejected node, and the weight of its next sibling."""
        parent, place = xp.take_along_axis(self._parents, node - 1), xp.take_along_axis(self._places, node - 1)
        untouched = place == 0
        entry = self._entry(parent)
        weight, scale = (xp.where(untouched, entry, xp.take_along_axis(x, parent)) for x in (self._weight, self._scale))
        row, fresh = xp.where(refused, parent, self._number), untouched | ~refused
        inner = xp.minimum(parent, self._number - 1)
        mass = self._now(self._mass, row, fresh, lambda: self.survivors.at(self.tree.p, inner))
        law = self._now(self._laws, row, fresh | self._alike, lambda: self._law(parent, 0 * place))
        # s (S - Q / s)+ is (s S - Q)+, and one pass less.
        apart = xp.minimum(xp.divide(1 + 0 * scale, scale, 0), LARGEST)
        in_place = self.survivors.at(self._mass, row) if self._single(row) else mass
        mass = xp.excess(mass, law, xp.astype(xp.from_view(apart, mass), mass.dtype), in_place)
        if not self._single(row):
            self._write(self._mass, row, mass)
        rest = scale * xp.host_view(mass.sum(-1, keepdims=True))
        scale = xp.divide(scale, rest + 1 - weight, 0)
        weight = xp.divide(rest, rest + 1 - weight, 1)
        here = (self._nodes == parent) & refused
        self._weight, self._scale = xp.where(here, weight, self._weight), xp.where(here, scale, self._scale)
        more = refused & (place + 1 < xp.take_along_axis(self._counts, parent))
        if not xp.holds_without_sync(~more):
            self._go_on(node, xp.where(more, parent, self._number), place + 1, scale, mass)

    def _go_on(self, node: Array, row: Array, place: Array, scale: Array, mass: Array) -> None:
        """Continue with the next child of the parent in this row: its distribution and its weight."""
        # Without a next child the result goes to the scratch row: any index is valid.
        q, law = self.tree.q, self._law(row, xp.minimum(place, self._siblings.shape[-1] - 1))
        if not self._alike:
            self._write(self._laws, row, law)
        following = xp.take_along_axis(self._following, node - 1)
        token = xp.from_view(xp.take_along_axis(self._tokens, xp.minimum(following, self._tokens.shape[1]) - 1), q)
        offered, wanted = xp.host_view(xp.gather(law, token)), xp.host_view(xp.gather(mass, token))
        enters = xp.minimum(xp.divide(scale * wanted, offered, 0), 1)
        self._start = xp.where(self._nodes == following, enters, self._start)

    def _law(self, row: Array, place: Array) -> Array:
        """Distribution (B, n) of the child at this index of the parents in these rows."""
        tree, row = self.tree, xp.minimum(row, self._number - 1)
        q = self.survivors.at(tree.q, xp.minimum(row, tree.q.shape[1] - 1))
        siblings = self._siblings[self._rows, row[..., 0]]
        return self._child(q, xp.from_view(siblings, q), xp.from_view(place, q), self._fixed_count(row))

    def _child(self, q: Array, siblings: Array, place: Array, n_fixed: Any) -> Array:
        """`DraftLaw.conditional` of the tree, with the numbers of fixed children if they differ."""
        if n_fixed is None:
            return self.tree.law.conditional(q, siblings, place)
        return cast(FixedTokensLaw, self.tree.law).conditional(q, siblings, place, n_fixed)

    def _now(self, table: Array, row: Array, fresh: Array, first: Callable[[], Array]) -> Array:
        """Rows (B, 1) of a table, (B, n), or `first()` where nothing was written yet, bool (B, 1)."""
        if xp.holds_without_sync(fresh):
            return first()
        written = self.survivors.at(table, row)
        return written if xp.holds_without_sync(~fresh) else xp.where(xp.from_view(fresh, written), first(), written)

    def _entry(self, node: Array) -> Array:
        """Weight with which nodes (B, 1) enter: their own, or from the head of their chain of first children."""
        start = xp.take_along_axis(self._start, xp.take_along_axis(self._top, node))
        return xp.minimum(xp.take_along_axis(self._cut, node), xp.take_along_axis(self._product, node) * start)

    def _first_children(self, ones: Array) -> tuple[Array, Array, Array]:
        """Head of every node's chain of first children, and a and b: the node enters with min(a, b w) if the head enters with w."""
        token = xp.from_view(self._siblings[..., :1], self.tree.p)
        wanted, offered = xp.host_view(xp.gather(self.tree.p[:, : self._number], token))[..., 0], self._offered(token)
        ratio = xp.divide(wanted, offered, 0)
        missing = len(self._nodes) - ratio.shape[1]
        ratio = xp.take_along_axis(xp.concat((ratio, *[0 * ratio[:, :1]] * missing), axis=-1), self._parents)
        is_first = (self._places == 0) & (self._tokens >= 0)
        top, cut, product = self._nodes + 0 * self.accepted, ones, ones
        for _ in range(self.tree.bounds.length):
            higher, low, high = (xp.take_along_axis(x, self._parents) for x in (top, cut, product))
            top = xp.concat((top[:, :1], xp.where(is_first, higher, self._nodes[1:])), axis=-1)
            cut = xp.concat((ones[:, :1], xp.where(is_first, xp.minimum(ratio * low, 1), ones[:, 1:])), axis=-1)
            product = xp.concat(
                (ones[:, :1], xp.where(is_first, xp.minimum(ratio * high, LARGEST), ones[:, 1:])), axis=-1
            )
        return top, cut, product

    def _offered(self, token: Array) -> Array:
        """Mass (B, inner) of the first child of every node, (B, inner, 1), in its distribution."""
        q, tops = self.tree.q[:, : self._number], self._fixed_count(None)
        siblings = xp.from_view(self._siblings, self.tree.p)
        place = 0 * siblings[..., :1]
        if tops is None or not xp.on_host(tops):
            return xp.host_view(xp.gather(self._child(q, siblings, place, tops), token))[..., 0]
        # Without fixed tokens the first draw is from q: the other distributions are not computed.
        offered = xp.host_view(xp.gather(q, token))[..., 0]
        some = np.flatnonzero((xp.host_view(tops)[..., 0] > 0).any(0))
        if len(some):
            laws = self._child(*(x[:, some] for x in (q, siblings, place, tops)))
            offered[:, some] = xp.host_view(xp.gather(laws, token[:, some]))[..., 0]
        return offered

    def _children(self, tokens: Array) -> Array:
        """Tokens of the children of the nodes with children, -1 beyond: int (B, inner, C)."""
        place = xp.arange(self.tree.bounds.max_children, like=tokens)
        firsts, counts = (x[:, : self._number, None] for x in (self.tree.layout.firsts, self._counts))
        there = place < counts
        node = xp.where(there, firsts + place - 1, -1)
        found = xp.gather(tokens, node.reshape(len(node), self._number * len(place))).reshape(node.shape)
        return xp.where(there, found, -1)

    def _fixed_count(self, row: Array | None) -> Any:
        """Number of fixed children of all nodes with children, (B, inner, 1), or of those in these rows (B, 1)."""
        fixed = self._fixed
        return (
            fixed
            if fixed is None
            else fixed[..., None]
            if row is None
            else xp.take_along_axis(fixed, xp.from_view(row, fixed))
        )

    def _single(self, row: Array) -> bool:
        """Whether a row (1, 1) of a table is a view of it."""
        return len(row) == 1 and xp.on_host(row)

    def _write(self, table: Array, row: Array, values: Array) -> None:
        """Into rows (B, 1) of a table (B, m, n)."""
        if self._single(row):
            table[:, int(row[0, 0])] = values
        else:
            table[xp.from_view(self._rows, table), xp.from_view(row[..., 0], table)] = values


def _inner(tree: DraftTree, parents: Array) -> int:
    """Number of the first nodes that include all nodes with children: of these trees on the host, else the bound."""
    size = parents.shape[1]
    if not xp.on_host(parents):
        return min(tree.q.shape[1], size + 1)
    with_children = xp.where(parents < size, parents, -1)
    return 1 + max(int(with_children.max()) if with_children.size else -1, 0)


def _fixed_counts(tree: DraftTree, counts: Array, inner: int) -> Array | None:
    """Number of fixed children of the first nodes, int (B, inner), if it depends on q or on the number of children."""
    if tree.fixed_count is not None:
        return tree.fixed_count[:, :inner]
    if n_fixed_is_constant(tree.law):
        return None
    q, counts = tree.q[:, :inner], xp.from_view(counts[:, :inner] + 0, tree.q)
    fixed = 0 * counts
    for count in sorted(tree.bounds.branching):
        number = cast(FixedTokensLaw, tree.law).n_fixed(q, count)  # only these have numbers that differ
        fixed = xp.where(counts == count, number if isinstance(number, int) else number[..., 0], fixed)
    return fixed
