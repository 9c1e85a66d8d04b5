"""What the draft says at nodes about children of theirs: the estimates that `AdaptiveTree` goes by, from the largest masses of q."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...arrays import (
    Array,
    floats,
    gather,
    maximum,
    minimum,
    namespace,
    positions,
    prefix_minimum,
    prefix_sums,
    small,
    smallest,
    top_masses,
    total,
    where,
)
from ...laws import StandIn


@dataclass(frozen=True, eq=False)
class AdaptiveEstimate:
    """Nodes with the laws q (..., n), which may have `most` children each. spread: see `AdaptiveTree`.

    head: (..., m) the largest masses, falling; stand_in: (..., m) the target's masses on the same tokens, as the estimator imagines it.
    float64, `small`.
    """

    estimator: StandIn
    most: int
    spread: float
    head: Array
    stand_in: Array
    n: int

    @classmethod
    def of(cls, q: Array, estimator: StandIn, most: int, spread: float) -> AdaptiveEstimate:
        n = q.shape[-1]
        head = top_masses(q, min(max(estimator.head, most), n))
        head = small(floats(head))
        c = where(head > 0, 1, 0) * head**estimator.power
        return cls(estimator, most, spread, head, estimator.seen * c / total(c), n)

    @cached_property
    def gains(self) -> tuple[Array, Array]:
        """What each further child adds to the estimated acceptance (..., most), and the number of top tokens among 0 .. most children."""
        acceptance, fixed_count = self.acceptances
        return maximum(prefix_minimum(acceptance[..., 1:] - acceptance[..., :-1]), 0), fixed_count

    @cached_property
    def acceptances(self) -> tuple[Array, Array]:
        """Estimated acceptance for 0 .. most children with the best number of top tokens, and that number: (..., most + 1) each."""
        table = self._table()
        children = positions(self.most + 1, table)[:, None]
        fixed_count = positions(table.shape[-1], table)
        options = where(fixed_count <= children, table[..., maximum(children - fixed_count, 0), fixed_count], -1.0)
        which = options.argmax(-1)
        return gather(options, which[..., None])[..., 0], which

    def below(self, masses: Array, tokens: Array, fixed_count: Array, count: Array) -> Array:
        """Chance that each child is reached, given its parent is, by its mass under q: see `AdaptiveTree.below`."""
        masses = small(floats(masses))
        c = self._mass(masses)
        rest = 1 - gather(self._drawn, minimum(fixed_count, self.head.shape[-1]))
        drawn = where(rest > 1e-12, masses / where(rest > 1e-12, rest, 1), 0)
        caught = 1 - (1 - minimum(drawn, 1)) ** maximum(count - fixed_count, 0)
        spread = self.spread
        shared = spread * minimum(c / where(caught > 0, caught, 1), 1) + (1 - spread) * c
        fixed = positions(tokens.shape[-1], tokens) < fixed_count
        return where(tokens < 0, 0, where(fixed, c, where(caught > 0, shared, 0)))

    @cached_property
    def _drawn(self) -> Array:
        """Mass of the first so many tokens under q: (..., m + 1)."""
        return prefix_sums(self.head)

    def _table(self) -> Array:
        """Estimated acceptance for 0 .. most draws (rows) besides 0 .. most top tokens (columns): (..., most + 1, j)."""
        head, c = self.head, self.stand_in
        most, spread = min(self.most, self.n - 1), self.spread
        covered, drawn = prefix_sums(c), self._drawn
        rest = 1 - drawn[..., : most + 1]
        rest = where(rest > 1e-12, rest, 1)[..., None]
        # Not 0: powers that are no normal numbers any more take a hundred times as long.
        inside = minimum(maximum((drawn[..., None, :] - drawn[..., : most + 1, None]) / rest, 1e-20), 1)
        missed = 1 - minimum(head[..., None, :] / rest, 1)
        beyond = positions(drawn.shape[-1], head) >= positions(most + 1, head)[:, None]
        above = where(beyond, covered[..., None, :], 2.0)  # over any probability: never the smallest
        spread_out = 1 + minimum(smallest(above[..., None, :, :] - _powers(inside, self.most))[..., 0], 0)
        seen = where(beyond[:, :-1], c[..., None, :], 0.0)
        caught = seen.sum(-1)[..., None, :] - (seen[..., None, :, :] * _powers(missed, self.most)).sum(-1)
        fixed_count = covered[..., None, : most + 1]
        drawn_too = spread * spread_out + (1 - spread) * (fixed_count + caught)
        return namespace(head).concatenate(
            (spread * minimum(fixed_count, 1) + (1 - spread) * fixed_count, drawn_too), -2
        )

    def _mass(self, masses: Array) -> Array:
        """The stand-in's mass of tokens by their masses under q."""
        power = self.estimator.power
        largest = self.head[..., :1] ** power
        return minimum(where(masses > 0, 1, 0) * masses**power * self.stand_in[..., :1] / largest, 1)


def _powers(x: Array, count: int) -> Array:
    """x to the powers 1 .. count: (..., j, m) -> (..., count, j, m)."""
    powers = [x]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return namespace(x).stack(powers, -3)
