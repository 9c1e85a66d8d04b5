"""Block verification: one path, tested as a whole from its end upward; `Joint` shares its weights and tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...dispatch import accelerated
from ...errors import InvalidDrafts
from ...laws import IID, DraftLaw, canonical
from ..model import Nodes, Path
from ..tree import Bounds, DraftTree, PathSelection, PlainTree
from .path_rule import Outcome, PathRule, refuse
from .survivors import Draws, Survivors


@dataclass(frozen=True)
class BlockVerification(PathRule):
    """Give each prefix of the path a weight, and accept the longest one that passes its test; one path only.

    w_0 = 1, w_i = min(1, w_{i-1} p(x_i) / q(x_i)); the tests are those of `verify` with m = q.
    Expected accepted length: the sum of E[w_i], at least that of token-wise speculative sampling.
    Source: Sun et al., Block verification accelerates speculative decoding, 2024.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel({(): np.array([F(1, 2), F(1, 2)])}, {(): np.array([F(3, 4), F(1, 4)])}, 0)
    >>> otd.trees.evaluate(otd.trees.BlockVerification(), model, (1, 2)).expected_length
    Fraction(11, 8)
    """

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        if bounds.branching - {1}:
            number = max(bounds.branching)
            raise InvalidDrafts(f"BlockVerification requires one draft path, got {number}. Use Joint() for several.")
        if bounds.branching and canonical(law, 1) != IID():
            raise refuse("BlockVerification()", "IID()", law)

    def n_uniforms(self, bounds: Bounds) -> int:
        return 2

    def outcomes(self, nodes: Nodes, tree: PlainTree) -> Iterator[Outcome]:
        path = tree.tokens[: tree.tokens.index(-1)] if -1 in tree.tokens else tree.tokens
        return verify(Walk.along(nodes, path))

    @accelerated("block_verification")
    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        survivors = Survivors(tree)
        verifier = PathVerifier(survivors)
        for depth in range(min(tree.bounds.length, tree.bounds.size)):
            p, q = survivors.laws()
            token = survivors.tokens[:, depth : depth + 1]
            drafted = q if xp.holds_without_sync(token >= 0) else xp.where(xp.from_view(token, q) >= 0, q, 0)
            verifier.add(verifier.scaled(p), drafted, token)
            survivors.go_on(token)
        return verifier.accepted_path(draws)


class PathVerifier:
    """Weights and tests of a batch of walks, one per node. weight: (B, 1), of the walk so far."""

    def __init__(self, survivors: Survivors) -> None:
        self.survivors = survivors
        p = survivors.tree.p
        self.weight = xp.host_view(1 + 0 * p[:, 0, :1])
        self._left = xp.empty((len(p), survivors.tree.bounds.length, p.shape[-1]), like=p)  # (w_i p_i - m_i)+
        self._passes: list[Array] = []
        self._rests: list[Array] = []  # mass left by the tests, (B, 1) each
        self._nodes: list[Array] = []

    def scaled(self, p: Array) -> Array:
        """The target w p: (B, n)."""
        whole = not self._passes or xp.holds_without_sync(self.weight == 1)
        return p if whole else xp.from_view(self.weight, p) * p

    def add(self, target: Array, selected: Array, token: Array) -> None:
        """Add a node: the scaled target w p (B, n), the distribution m (B, n) of the selected token, the token (B, 1), -1 if none.

        Without a token m is 0: then the test is w, p is left, and all longer weights are 0, as at the end of a path.
        """
        self._test(target, selected)
        wanted, offered = (xp.host_view(xp.gather(x, xp.from_view(token, x))) for x in (target, selected))
        self.weight = xp.minimum(xp.divide(wanted, offered, 0), 1)

    def accepted_path(self, draws: Draws) -> PathSelection:
        """Accept the longest prefix of the path that passes its test, and draw one token more from the mass left there.

        The last node of the longest path passes by its weight, with p left, as at all nodes without mass left.
        """
        self._note(self.weight, 0 * self.weight)
        refused, lengths = 1 + 0 * self.weight, []
        for passes in reversed(self._passes):
            lengths.append(refused * passes)
            refused = refused * (1 - passes)
        length = draws.index(xp.concat(lengths[::-1], axis=-1), 0)
        node = xp.gather(xp.concat(self._nodes, axis=-1), length)
        there = xp.gather(xp.concat(self._rests, axis=-1), length) > 0
        return self.survivors.selection(node, draws.index(self._mass(there, length, node), 1))

    def _mass(self, there: Array, length: Array, node: Array) -> Array:
        """Mass (B, n) left after the accepted tokens, p at the node if there is none."""
        at, p = self.survivors.at, self.survivors.tree.p
        if not self._left.shape[1] or xp.holds_without_sync(~there):
            return at(p, node)
        left = at(self._left, xp.minimum(length, self._left.shape[1] - 1))
        return left if xp.holds_without_sync(there) else xp.where(xp.from_view(there, left), left, at(p, node))

    def _test(self, target: Array, selected: Array) -> None:
        left = xp.excess(target, selected, out=self._left[:, len(self._passes)])
        rest = xp.host_view(left.sum(-1, keepdims=True))
        self._note(xp.divide(rest, rest + 1 - self.weight, 1), rest)

    def _note(self, passes: Array, rest: Array) -> None:
        self._passes.append(passes)
        self._rests.append(rest)
        self._nodes.append(self.survivors.here)


@dataclass(frozen=True)
class Walk:
    """A walk from the root along selected tokens.

    path: the i tokens selected so far. weights: w_0 .. w_i. targets: p_0 .. p_i, the target (n,) at the root and after each
    token. selected: m_0 .. m_{i-1}, the distribution (n,) of each selected token, which is q if there is one draft.
    """

    targets: tuple[Array, ...]
    weights: tuple[Any, ...]
    path: Path = ()
    selected: tuple[Array, ...] = ()

    @classmethod
    def at_root(cls, p: Array) -> Walk:
        """Return the walk before its first step."""
        return cls((p,), (xp.number(1, p),))

    @classmethod
    def along(cls, nodes: Nodes, path: Path) -> Walk:
        """Return the walk down one drafted path."""
        walk = cls.at_root(nodes.target(()))
        for depth, token in enumerate(path):
            walk = walk.to(nodes, token, nodes.draft(path[:depth]))
        return walk

    def to(self, nodes: Nodes, token: int, selected: Array) -> Walk:
        """Return the walk one token further, selected from m: its weight is min(1, w p(token) / m(token))."""
        p, path = self.targets[-1], (*self.path, token)
        (ratio,) = xp.divide(self.weights[-1] * p[[token]], selected[[token]], 0).tolist()
        weight = min(xp.number(1, p), ratio)
        return Walk((*self.targets, nodes.target(path)), (*self.weights, weight), path, (*self.selected, selected))


def verify(walk: Walk) -> Iterator[Outcome]:
    """Return for every accepted length tau, the longest first: its tokens, its probability, and the distribution (n,) of the next token.

    The walk is at the end of its path, of length L. The prefix of length i passes its own test with probability h_L = w_L, and for i < L
    h_i = R_i / (R_i + 1 - w_i), where R_i is the mass of (w_i p_i - m_i)+; h_0 = 1. The longest one that passes, of length tau, is
    accepted. The next token is from norm((w_tau p_tau - m_tau)+), or from the target if tau = L. If R_i = 0 and w_i = 1, then p_i = m_i:
    every longer weight is 1, and a longer prefix passes for certain.
    """
    refused = xp.number(1, walk.targets[0])  # probability that no longer prefix passes
    for length in range(len(walk.path), -1, -1):
        p, weight = walk.targets[length], walk.weights[length]
        if length == len(walk.path):
            passes, following = weight, p
        else:
            left = xp.excess(weight * p, walk.selected[length])
            rest = left.sum(-1, keepdims=True)
            (passes,) = xp.divide(rest, rest + 1 - weight, 1).tolist()
            following = xp.normalise(left, p)
        yield walk.path[:length], refused * passes, following
        refused *= 1 - passes
