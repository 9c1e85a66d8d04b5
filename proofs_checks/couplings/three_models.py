"""Chains of models: a draft model q that is itself drafted for, by r. Properties kept by composition, and the gain of a coupling of three.

COMPOSITION. R ~ r; X is R with min(1, q/r), else drawn from norm((q - r)+); Y is X with min(1, p/q), else from
norm((p - q)+). Each stage has its distribution whatever the stage before did, so Y ~ p; both P(R = X) and P(X = Y) are the largest of any
coupling.

TWO DRAFTS. Where X differs from R, both were seen, and Y may be either. Let m = min(q, r), and t = TV(q, r) = P(R and X differ).

THEOREM. Among couplings of r, q and p that keep P(R = X) = 1 - t, the largest P(Y in {R, X}) is

    min( sum of min(p, m) + t,  sum of min(p, max(q, r)) ),

and among all couplings it is min(1, sum of min(p, q + r)). PROOF. Above: Y = y in {R, X} has at most the mass p(y), and at most
P(R = y or X = y) <= max(q, r)(y), for a maximal coupling has R = X = y with mass m(y) and one of them with the rest; where R = X the output
has at most min(p, m), and R and X differ with mass t. Reached: let
tokens take as much of p as they can, of m first, and of |q - r| up to t in all; let what is taken of r's rest go with what is not taken of
q's rest and the other way round, which is possible because both rests have mass t; fill Y up. Without the condition take m = 0, t = 1. QED

So a chain, which accepts sum of min(p, q), loses up to t; the coupling that q's own rejection makes (R's rest independent of
X's) is not always the best one either.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..checking import check
from ..random_cases import draw
from ..statement import Statement
from ..transport import transport

__all__ = ["STATEMENTS", "ThreeCase", "best_of_three", "chain", "check", "draw_three", "with_both"]

FROM_Q, ALONE, NO_T = (
    "q's correction drawn from q",
    "the chain's own acceptance in its place",
    "without t in the first sum",
)
Masses = tuple[Fraction, ...]
Pair = tuple[int, int]
ZERO = Fraction(0)


@dataclass(frozen=True)
class ThreeCase:
    """Distributions of the target, of the draft, and of the draft's draft."""

    p: Masses
    q: Masses
    r: Masses

    def __str__(self) -> str:
        shown = (f"({', '.join(map(str, masses))})" for masses in (self.p, self.q, self.r))
        return "p = {}, q = {}, r = {}".format(*shown)

    @property
    def size(self) -> tuple[int, ...]:
        """Small ones are easy to read."""
        return len(self.p), sum(mass.denominator for mass in (*self.p, *self.q, *self.r))


def draw_three(seed: int) -> ThreeCase:
    """Return the case of this number: r is a distribution of another case of as many tokens."""
    first = draw(seed)
    others = (draw(number) for number in range(seed + 1, seed + 200))
    return ThreeCase(first.p, first.q, next(other.q for other in others if len(other.q) == len(first.q)))


def rest(first: Masses, second: Masses) -> Masses:
    """Return (first - second)+."""
    return tuple(max(a - b, ZERO) for a, b in zip(first, second, strict=True))


def smaller(first: Masses, second: Masses) -> Masses:
    """Return min(first, second)."""
    return tuple(map(min, first, second))


def stage(target: Masses, drafts: Masses, correction: Masses) -> dict[Pair, Fraction]:
    """Return the joint distribution of a draft and the output of speculative sampling.

    correction: the distribution after a rejection, up to its mass.
    """
    whole, law = sum(correction, ZERO), dict[Pair, Fraction]()
    for x, mass in enumerate(drafts):
        taken = min(mass, target[x])
        law[x, x] = law.get((x, x), ZERO) + taken
        for y, more in enumerate(correction):
            if mass > taken and more:
                law[x, y] = law.get((x, y), ZERO) + (mass - taken) * more / whole
    return {pair: mass for pair, mass in law.items() if mass}


def chain(case: ThreeCase, error: str = "") -> dict[Pair, Fraction]:
    """Return the joint distribution of R and X."""
    return stage(case.q, case.r, case.q if error else rest(case.q, case.r))


def composed(case: ThreeCase, error: str) -> bool:
    """Return whether Y ~ p, and P(X = Y) and P(R = X) are those of maximal couplings."""
    first, second = chain(case, error), stage(case.p, case.q, rest(case.p, case.q))
    n = range(len(case.p))
    # Y depends on R through X alone.
    drawn = tuple(sum((first.get((i, j), ZERO) for i in n), ZERO) for j in n)
    given = {(j, y): mass / case.q[j] for (j, y), mass in second.items()}
    output = tuple(sum((drawn[j] * given.get((j, y), ZERO) for j in n), ZERO) for y in n)
    same = sum((first.get((i, i), ZERO) for i in n), ZERO), sum((second.get((i, i), ZERO) for i in n), ZERO)
    return output == case.p and same == (sum(smaller(case.q, case.r)), sum(smaller(case.p, case.q)))


def best_of_three(case: ThreeCase) -> Fraction:
    """Return the theorem's first value."""
    both = smaller(case.q, case.r)
    more = tuple(map(max, case.q, case.r))
    return min(sum(smaller(case.p, both), ZERO) + 1 - sum(both, ZERO), sum(smaller(case.p, more), ZERO))


def with_both(case: ThreeCase, pairs: dict[Pair, Fraction]) -> Fraction:
    """Return the largest P(Y in {R, X}) where (R, X) has this distribution."""
    value, _ = transport(pairs, dict(enumerate(case.p)), lambda pair, y: y in pair)
    return value


def best_pairs(case: ThreeCase) -> dict[Pair, Fraction]:
    """Return the coupling of r and q in the theorem's proof."""
    both = smaller(case.q, case.r)
    rests, room = (rest(case.r, case.q), rest(case.q, case.r)), 1 - sum(both, ZERO)
    wanted = rest(case.p, both)
    taken: list[list[Fraction]] = []
    for masses in rests:
        taken.append([])
        for mass, want in zip(masses, wanted, strict=True):
            taken[-1].append(min(mass, want, room))
            room -= taken[-1][-1]
    left = [list(rest(masses, tuple(used))) for masses, used in zip(rests, taken, strict=True)]
    pairs = {(i, i): mass for i, mass in enumerate(both) if mass}
    # The selected part of each rest is coupled with the other's unselected part, and the unselected parts with each other.
    for of_r, of_q in ((taken[0], left[1]), (left[0], taken[1]), (left[0], left[1])):
        for i in range(len(both)):
            for j in range(len(both)):
                mass = min(of_r[i], of_q[j])
                of_r[i], of_q[j] = of_r[i] - mass, of_q[j] - mass
                if mass:
                    pairs[i, j] = pairs.get((i, j), ZERO) + mass
    return pairs


def optimum(case: ThreeCase, error: str) -> bool:
    """Return whether the pairs of the proof have the distributions r and q, and reach the value; the chain's own pairs do not exceed it."""
    pairs, n = best_pairs(case), range(len(case.p))
    if tuple(sum((pairs.get((i, j), ZERO) for j in n), ZERO) for i in n) != case.r:
        return False
    if tuple(sum((pairs.get((i, j), ZERO) for i in n), ZERO) for j in n) != case.q:
        return False
    value = best_of_three(case)
    if error == ALONE:
        value = sum(smaller(case.p, case.q), ZERO)
    if error == NO_T:
        value = min(value, sum(smaller(case.p, smaller(case.q, case.r)), ZERO))
    kept = sum((pairs.get((i, i), ZERO) for i in n), ZERO) == sum(smaller(case.q, case.r), ZERO)
    return kept and with_both(case, pairs) == value and with_both(case, chain(case)) <= best_of_three(case)


def own_pairs(case: ThreeCase, error: str) -> bool:
    """Return whether q's own rejection gives optimal pairs, which is false; with two tokens it does."""
    if error and len(case.p) > 2:
        return True
    return with_both(case, chain(case)) == best_of_three(case)


STATEMENTS = (
    Statement(
        "a chain of three models",
        "A third model drafts for the draft model: the output distribution is p, and both acceptances are optimal.",
        "staged speculation (Spector and Re 2023), TriForce",
        "Fractions, all three enumerated",
        composed,
        (FROM_Q,),
        draw=draw_three,
    ),
    Statement(
        "the best coupling of three models",
        "With P(R = X) maximal, P(Y in {R, X}) is at most min(sum min(p, q, r) + TV(q, r), sum min(p, max(q, r))).",
        "this project; proof in the module",
        "Fractions: the coupling of the proof, and a transport proved by prices",
        optimum,
        (ALONE, NO_T),
        draw=draw_three,
        limit=300,
    ),
    Statement(
        "the pairs of a chain",
        "The rejected draft token and its correction in a chain are an optimal pair of draft tokens.",
        "plausible",
        "Fractions: a transport proved by prices",
        own_pairs,
        ("two tokens",),
        expected="refuted",
        draw=draw_three,
        limit=300,
    ),
)


def means(cases: int = 200) -> dict[str, float]:
    """Return the mean acceptance by what is kept and how it is coupled, over `count` cases."""
    totals = dict.fromkeys(
        ("the chain", "both, as a chain makes them", "both, coupled best", "both, coupled freely"), ZERO
    )
    for case in map(draw_three, range(cases)):
        freely = sum((min(a, b + c) for a, b, c in zip(case.p, case.q, case.r, strict=True)), ZERO)
        kept = (
            sum(smaller(case.p, case.q), ZERO),
            with_both(case, chain(case)),
            best_of_three(case),
            min(Fraction(1), freely),
        )
        for name, value in zip(totals, kept, strict=True):
            totals[name] += value / cases
    return {name: float(value) for name, value in totals.items()}


if __name__ == "__main__":
    for name, mean in means().items():
        print(f"{name}: {mean:.3f}")
