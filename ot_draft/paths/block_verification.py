"""Block verification: one path, tested as a whole from its end upward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..arrays import Array, divide, excess, normalise, one, total
from ..errors import InvalidDrafts
from .model import Model, Path
from .path_rule import Nodes, PathLaw, PathRule, add, read


@dataclass(frozen=True)
class BlockVerification(PathRule):
    """Give every beginning of the path a weight, and accept the longest one that passes its own test; one path only.

    w_0 = 1, w_i = min(1, w_{i-1} p(x_i) / q(x_i)); the tests are those of `verify` with m = q.
    Expected accepted length: the sum of E[w_i], at least that of token-wise speculative sampling.
    Source: Sun et al., Block verification accelerates speculative decoding, 2024.
    """

    def __call__(self, model: Model, drafts: Any) -> PathLaw:
        nodes, paths = read(model, drafts)
        if len(paths) > 1:
            raise InvalidDrafts(f"BlockVerification takes one drafted path, not {len(paths)}: take Joint() for several")
        (path,) = paths
        law: PathLaw = {}
        for length, probability, following in verify(Walk.along(nodes, path)):
            add(law, probability, path[:length], following)
        return law


@dataclass(frozen=True)
class Walk:
    """The way down from the root along selected tokens.

    path: the i tokens selected so far. weights: w_0 .. w_i. targets: p_0 .. p_i, the target (n,) at the root and after each
    token. selected: m_0 .. m_{i-1}, the law (n,) by which each token was selected: the draft's q where there is one draft,
    the law of the selected token where there were several.
    """

    targets: tuple[Array, ...]
    weights: tuple[Any, ...]
    path: Path = ()
    selected: tuple[Array, ...] = ()

    @classmethod
    def at_root(cls, p: Array) -> Walk:
        """The walk before its first step."""
        return cls((p,), (one(p),))

    @classmethod
    def along(cls, nodes: Nodes, path: Path, root: Array | None = None) -> Walk:
        """The walk down one drafted path; `root`, where given, is the target at the root."""
        walk = cls.at_root(nodes.target(()) if root is None else root)
        for depth, token in enumerate(path):
            walk = walk.to(nodes, token, nodes.draft(path[:depth]))
        return walk

    def to(self, nodes: Nodes, token: int, selected: Array) -> Walk:
        """One step further, to a token that was selected by the law m: the weight becomes min(1, w p(token) / m(token))."""
        p, path = self.targets[-1], (*self.path, token)
        (ratio,) = divide(self.weights[-1] * p[[token]], selected[[token]], 0 * one(p)).tolist()
        weight = min(one(p), ratio)
        return Walk((*self.targets, nodes.target(path)), (*self.weights, weight), path, (*self.selected, selected))


def verify(walk: Walk) -> Iterator[tuple[int, Any, Array]]:
    """For every accepted length tau, the longest first: its probability, and the law (n,) of the token that follows.

    The walk has reached the end of its path, of length L. The beginning of length i passes its own test with probability
    h_L = w_L, and for i < L h_i = R_i / (R_i + 1 - w_i), where R_i is the mass of (w_i p_i - m_i)+; h_0 = 1. The longest
    that passes, of length tau, is accepted; then comes a token from norm((w_tau p_tau - m_tau)+), or from the target when
    tau = L. Where R_i = 0 and w_i = 1, p_i = m_i: every longer weight is 1, so that a longer beginning passes for certain.
    """
    refused = one(walk.targets[0])  # probability that no longer beginning has passed
    for length in range(len(walk.path), -1, -1):
        p, weight = walk.targets[length], walk.weights[length]
        if length == len(walk.path):
            passes, following = weight, p
        else:
            left = excess(weight * p, walk.selected[length], one(p))
            rest = total(left)
            (passes,) = divide(rest, rest + 1 - weight, one(p)).tolist()
            following = normalise(left, p)
        yield length, refused * passes, following
        refused *= 1 - passes
