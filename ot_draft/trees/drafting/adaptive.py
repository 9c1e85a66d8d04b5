"""Our dynamic tree for joint selection: top tokens and i.i.d. draws, as many where as an estimate from q alone says.

The estimate is that of `Hybrid("auto")`, for every number of children and of top tokens among them, extended to the chance that a node is
reached. The numbers depend on levels above, never on a draw of the same level or below (`LevelTree`): that
is what `Joint` and `Optimal` need to be lossless (proofs_checks/paths/adapted_trees.py). Equal siblings are one place: the first
holds the children of all.
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
        What each child of a node adds on average, if it is known. By default as on the level that is drafted.

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
    spread: float = 0.5  # weight of a target spread out like the stand-in; the rest, of one token drawn from it
    # What each child of a node adds on average, where it is known; else as on the level that is drafted.
    typical: tuple[float, ...] = ()

    law: ClassVar[DraftLaw] = PerNodeFixedTokens()
    rule: ClassVar[PathRule] = Joint()
    label: ClassVar[str] = "adaptive"

    def estimate(self, q: Array) -> AdaptiveEstimate:
        """Estimates at nodes with the laws q (..., n), whose largest masses are all that counts."""
        return AdaptiveEstimate(q, self.estimator, self.max_children, self.spread)

    def fitted(self, p: Array, q: Array) -> AdaptiveTree:
        """The same with the stand-in and the spread that fit pairs of a target and its draft, numpy (rows, n).

        The stand-in is the most probable one; with the spread, one draw is estimated to be accepted as often as it is; the forest below
        is imagined as the pairs are on average.
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
    """Nodes with the laws q (..., n), which may have `max_children` children each. spread: see `AdaptiveTree`.

    head: (..., m) the largest masses, falling; stand_in: (..., m) the target's masses on the same tokens, as the estimator imagines it.
    float64, `host_view`s.
    """

    def __init__(self, q: Array, estimator: StandIn, max_children: int, spread: float) -> None:
        self.estimator, self.max_children, self.spread, self.n = estimator, max_children, spread, q.shape[-1]
        self.head = head = xp.host_view(xp.floats(xp.top_masses(q, min(max(estimator.head, max_children), self.n))))
        c = xp.where(head > 0, 1, 0) * head**estimator.power
        self.stand_in = estimator.seen * c / c.sum(-1, keepdims=True)

    @cached_property
    def gains(self) -> tuple[Array, Array]:
        """Gain in estimated acceptance by each further child (..., most), and the number of top tokens among 0 .. most children."""
        acceptance, fixed_count = self.acceptances
        return xp.maximum(xp.prefix_minimum(acceptance[..., 1:] - acceptance[..., :-1]), 0), fixed_count

    @cached_property
    def acceptances(self) -> tuple[Array, Array]:
        """Estimated acceptance for 0 .. most children with the best number of top tokens, and that number: (..., most + 1) each."""
        table = self._table()
        children = xp.arange(self.max_children + 1, like=table)[:, None]
        fixed_count = xp.arange(table.shape[-1], like=table)
        drawn_too = table[..., xp.maximum(children - fixed_count, 0), fixed_count]
        options = xp.where(fixed_count <= children, drawn_too, -1.0)
        which = options.argmax(-1)
        return xp.gather(options, which[..., None])[..., 0], which

    def below(self, masses: Array, tokens: Array, fixed_count: Array, count: Array) -> Array:
        """As `LevelTree.estimate` says: a fixed token is reached where the target draws it; of a drawn one, its mass is shared by the
        chance that it was drawn."""
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
        """Mass of the first so many tokens under q: (..., m + 1)."""
        return xp.prefix_sums(self.head)

    def _table(self) -> Array:
        """Estimated acceptance for 0 .. most draws (rows) besides 0 .. most top tokens (columns): (..., most + 1, j)."""
        head, c = self.head, self.stand_in
        most, spread = min(self.max_children, self.n - 1), self.spread
        covered, drawn = xp.prefix_sums(c), self._drawn
        rest = 1 - drawn[..., : most + 1]
        rest = xp.where(rest > 1e-12, rest, 1)[..., None]
        # Not 0: powers that are no normal numbers any more take a hundred times as long.
        inside = xp.minimum(xp.maximum((drawn[..., None, :] - drawn[..., : most + 1, None]) / rest, 1e-20), 1)
        missed = 1 - xp.minimum(head[..., None, :] / rest, 1)
        beyond = xp.arange(drawn.shape[-1], like=head) >= xp.arange(most + 1, like=head)[:, None]
        above = xp.where(beyond, covered[..., None, :], 2.0)  # over any probability: never the smallest
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
        """The stand-in's mass of tokens by their masses under q."""
        power = self.estimator.power
        largest = self.head[..., :1] ** power
        return xp.minimum(xp.where(masses > 0, 1, 0) * masses**power * self.stand_in[..., :1] / largest, 1)


def _powers(x: Array, count: int) -> Array:
    """x to the powers 1 .. count: (..., j, m) -> (..., count, j, m)."""
    powers = [x]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return xp.namespace(x).stack(powers, -3)
