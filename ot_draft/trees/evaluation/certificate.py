"""Both bounds of the path program, proved in rationals: a rule that meets every constraint, and prices that no rule beats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...lp.flow_plan import scaled_down
from ..model import Path

Sets = Mapping[tuple[Path, ...], Fraction]  # the prefixes that a drafted tree holds, parents first, and its probability


@dataclass(frozen=True)
class PathCertificate:
    """lower <= the largest expected accepted length of a lossless rule <= upper, both proved in rationals.

    lower: value of masses x_v(T) that meet every constraint, so that a lossless rule attains it. upper: value of the
    prices, one for every node that can be drafted (`price_bound`).
    """

    lower: Fraction
    upper: Fraction
    prices: Mapping[Path, Fraction]

    @property
    def width(self) -> Fraction:
        """upper - lower, in tokens."""
        return self.upper - self.lower

    def __str__(self) -> str:
        lower, upper, width = float(self.lower), float(self.upper), float(self.width)
        return (
            f"The largest expected accepted length of any lossless path rule lies between {lower:.12g} and {upper:.12g}, an"
            f" interval of width {width:.1e}."
        )


def price_bound(prices: Mapping[Path, Fraction], targets: Mapping[Path, Fraction], sets: Sets) -> Fraction:
    """An upper bound of every lossless rule's expected accepted length, for any prices mu_v >= 0 (Lagrange duality).

    sum_y p(y) mu_y + E[max over the tree's nodes v of the sum of 1 - mu_u + sum_z p(z|u) mu_{uz} along the way to v, or 0]: what a rule
    gains at u, when taking u from its siblings' share costs mu_u and opens shares below it.
    For L = 1 and prices 0 and 1 it is the cut 1 + p(H) - Q(all drafts in H) of one token.
    Coq has read the proof: `certificate_bound` of proofs_checks/formal/along_paths/prices.v.
    """
    opened: dict[Path, Fraction] = {}
    for v, mass in targets.items():
        opened[v[:-1]] = opened.get(v[:-1], Fraction(0)) + mass * prices[v]
    score: dict[Path, Fraction] = {(): Fraction(0)}
    for v in sorted(targets, key=len):
        score[v] = score[v[:-1]] + 1 - prices[v] + opened.get(v, Fraction(0))
    gained = (mass * max(score[v] for v in ((), *prefixes)) for prefixes, mass in sets.items())
    return opened.get((), Fraction(0)) + sum(gained, Fraction(0))


def feasible(
    variables: Sequence[tuple[int, Path]],
    set_mass: Sequence[Fraction],
    targets: Mapping[Path, Fraction],
    mass: Sequence[Fraction],
    denominator: int = 1 << 64,
) -> Fraction:
    """Value of the masses once they were scaled down, level by level, until every constraint holds exactly.

    variables: pairs (set T, node v), mass: one each. In integers over `denominator`, rounded down.
    """
    units: dict[tuple[int, Path], int] = {(row, ()): int(share * denominator) for row, share in enumerate(set_mass)}
    at_node: dict[Path, int] = {(): denominator}  # sum over T of x_v(T); at the root 1
    value = 0
    wanted = {key: max(0, int(x * denominator)) for key, x in zip(variables, mass, strict=True)}
    for depth in range(1, max((len(v) for _, v in variables), default=0) + 1):
        level = {key: units_of for key, units_of in wanted.items() if len(key[1]) == depth}
        masses = scaled_down(level.values(), [(row, v[:-1]) for row, v in level], units)
        limits = {v: at_node[v[:-1]] * p.numerator // p.denominator for v, p in targets.items() if len(v) == depth}
        masses = scaled_down(masses, [v for _, v in level], limits)
        for (row, v), x in zip(level, masses, strict=True):
            units[row, v] = x
            at_node[v] = at_node.get(v, 0) + x
            value += x
        at_node |= {v: 0 for v in limits if v not in at_node}
    return Fraction(value, denominator)
