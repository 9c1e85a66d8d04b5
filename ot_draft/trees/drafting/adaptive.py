"""An adaptive tree for joint selection: an estimate from q gives each node's numbers of top tokens and of i.i.d. draws.

The estimate is that of `Hybrid("auto")`, for every number of children and of top tokens among them, extended to the probability that a
node is reached. The numbers depend on levels above, never on a draw of the same level or below (`LevelTree`): `Joint` and `Optimal` are
lossless under this condition (proofs_checks/paths/adapted_trees.py). The first of equal siblings has the children of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from ... import arrays as xp
from ...arrays import Array
from ...laws import DraftLaw, PerNodeFixedTokens
from ...laws.hybrid import StandIn
from ..rules.joint import Joint
from ..rules.path_rule import PathRule
from .level_tree import LevelTree


@dataclass(frozen=True)
class AdaptiveTree(LevelTree):
    """Trees of at most `budget` nodes whose shape follows the draft distributions.

    Lossless with `Joint`, `TokenWise(Optimal(law=PerNodeFixedTokens()))`, `NaivePath`, and `Traversal`.

    Parameters
    ----------
    budget : int
        Maximum number of nodes.
    length : int, default=8
        Maximum depth.
    max_children : int, default=12
        Maximum number of children per node.
    estimator : StandIn, optional
        Stand-in for the target, of which q's top tokens carry the mass. It is closer to q than that of `Hybrid("auto")`, because it
        also has to estimate how probable each token is; `StandIn.fitted` makes one for a draft model.
    spread : float, default=0.5
        Weight of a target spread out like the stand-in; the rest is that of one token drawn from it.
    typical : tuple of float, optional
        Average gain of each child of a node. By default that of the level that is drafted.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.AdaptiveTree(8, length=4).bounds.size
    8
    """

    budget: int
    length: int = 8
    max_children: int = 12
    estimator: StandIn = field(default=StandIn(head=128, power=0.8, seen=0.9))
    spread: float = 0.5
    typical: tuple[float, ...] = ()

    law: ClassVar[DraftLaw] = PerNodeFixedTokens()
    rule: ClassVar[PathRule] = Joint()
    label: ClassVar[str] = "adaptive"

    def estimate(self, q: Array) -> AdaptiveEstimate:
        """Return estimates at nodes with draft distributions q (..., n), which depend on their largest masses only."""
        return AdaptiveEstimate(q, self.estimator, self.max_children, self.spread)

    def fitted(self, p: Array, q: Array) -> AdaptiveTree:
        """Return the drafter with stand-in, spread and typical gains fitted to pairs of target and draft distributions, numpy (rows, n).

        The stand-in has maximum likelihood. With the spread, the estimated acceptance of one draw is the mean acceptance of the pairs.
        """
        found = replace(self, estimator=StandIn.fitted(p, q, self.estimator.head))
        estimate = found.estimate(q)
        head, c = estimate.head, estimate.stand_in
        all_of_it, one_token = xp.minimum(c, head).sum(-1).mean(), (c * head).sum(-1).mean()
        accepted = xp.minimum(p, q).sum(-1).mean()
        spread = (accepted - one_token) / max(all_of_it - one_token, 1e-9)
        found = replace(found, spread=float(min(max(spread, 0.0), 1.0)), typical=())
        return replace(found, typical=tuple(found.estimate(q).gains[0].mean(0).tolist()))


class AdaptiveEstimate:
    """Estimates at nodes with draft distributions q (..., n) and up to `max_children` children. spread: see `AdaptiveTree`.

    head: (..., m) largest masses, decreasing. stand_in: (..., m) estimated target masses on the same tokens. float64, `host_view`s.
    """

    def __init__(self, q: Array, estimator: StandIn, max_children: int, spread: float) -> None:
        self.estimator, self.max_children, self.spread, self.n = estimator, max_children, spread, q.shape[-1]
        self.head = head = xp.host_view(xp.floats(xp.top_masses(q, min(max(estimator.head, max_children), self.n))))
        c = xp.where(head > 0, 1, 0) * head**estimator.power
        self.stand_in = estimator.seen * c / c.sum(-1, keepdims=True)

    @cached_property
    def gains(self) -> tuple[Array, Array]:
        """Gain in estimated acceptance by each further child (..., C), and the number of top tokens among 0 .. C children."""
        acceptance, fixed_count = self.acceptances
        return xp.maximum(xp.prefix_minimum(acceptance[..., 1:] - acceptance[..., :-1]), 0), fixed_count

    @cached_property
    def acceptances(self) -> tuple[Array, Array]:
        """Estimated acceptance of 0 .. C children with the best number of top tokens, and that number: (..., C + 1) each."""
        table = self._table()
        children = xp.arange(self.max_children + 1, like=table)[:, None]
        fixed_count = xp.arange(table.shape[-1], like=table)
        drawn_too = table[..., xp.maximum(children - fixed_count, 0), fixed_count]
        options = xp.where(fixed_count <= children, drawn_too, -1.0)
        which = options.argmax(-1)
        return xp.gather(options, which[..., None])[..., 0], which

    def below(self, masses: Array, tokens: Array, fixed_count: Array, count: Array) -> Array:
        """See `LevelTree.estimate`. A fixed token is reached with its target mass, a drawn one with a share of it."""
        masses = xp.host_view(xp.floats(masses))
        c = self._mass(masses)
        rest = 1 - xp.gather(self._drawn, xp.minimum(fixed_count, self.head.shape[-1]))
        drawn = xp.where(rest > 1e-12, masses / xp.where(rest > 1e-12, rest, 1), 0)
        caught = 1 - (1 - xp.minimum(drawn, 1)) ** xp.maximum(count - fixed_count, 0)
        spread = self.spread
        shared = spread * xp.minimum(c / xp.where(caught > 0, caught, 1), 1) + (1 - spread) * c
        fixed = xp.arange(tokens.shape[-1], like=tokens) < fixed_count
        return xp.where(tokens < 0, 0, xp.where(fixed, c, xp.where(caught > 0, shared, 0)))

    @cached_property
    def _drawn(self) -> Array:
        return xp.prefix_sums(self.head)

    def _table(self) -> Array:
        """Estimated acceptance of 0 .. C draws (rows) with 0 .. C top tokens (columns): (..., C + 1, j)."""
        head, c = self.head, self.stand_in
        most, spread = min(self.max_children, self.n - 1), self.spread
        covered, drawn = xp.prefix_sums(c), self._drawn
        rest = 1 - drawn[..., : most + 1]
        rest = xp.where(rest > 1e-12, rest, 1)[..., None]
        # Not 0: arithmetic on subnormal powers takes a hundred times as long.
        inside = xp.minimum(xp.maximum((drawn[..., None, :] - drawn[..., : most + 1, None]) / rest, 1e-20), 1)
        missed = 1 - xp.minimum(head[..., None, :] / rest, 1)
        beyond = xp.arange(drawn.shape[-1], like=head) >= xp.arange(most + 1, like=head)[:, None]
        above = xp.where(beyond, covered[..., None, :], 2.0)  # larger than any probability, hence never the minimum
        spread_out = 1 + xp.minimum(
            xp.min(above[..., None, :, :] - _powers(inside, self.max_children), axis=-1, keepdims=True)[..., 0], 0
        )
        seen = xp.where(beyond[:, :-1], c[..., None, :], 0.0)
        caught = seen.sum(-1)[..., None, :] - (seen[..., None, :, :] * _powers(missed, self.max_children)).sum(-1)
        fixed_count = covered[..., None, : most + 1]
        alone = spread * xp.minimum(fixed_count, 1) + (1 - spread) * fixed_count
        drawn_too = spread * spread_out + (1 - spread) * (fixed_count + caught)
        return xp.namespace(head).concatenate((alone, drawn_too), -2)

    def _mass(self, masses: Array) -> Array:
        power = self.estimator.power
        largest = self.head[..., :1] ** power
        return xp.minimum(xp.where(masses > 0, 1, 0) * masses**power * self.stand_in[..., :1] / largest, 1)


def _powers(x: Array, count: int) -> Array:
    """x to the powers 1 .. count: (..., j, m) -> (..., count, j, m)."""
    powers = [x]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return xp.namespace(x).stack(powers, -3)
