"""The bounds for K-SEQ with k = 2 and 3 drafts, for all p and q, by z3."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import z3

import ot_draft as otd

from ...by_z3 import Part, decide, is_law, power, reals, token_sets, total
from ...statement import Proof
from ..formulas import geometric

NINE_TENTHS, LITTLE_MORE, OWN_TIGHT = (
    "9/10 in its place",
    "shares larger by 1/1000",
    "K-SEQ comes within .001 of 8/9 and .865",
)
SIZES = ((2, 2), (3, 2), (2, 3))
SHARP = {2: Fraction(8, 9), 3: Fraction(865, 1000)}
SAID = "proved for n = 2, hence for any n, k = 2, 3; directly for n = 3, k = 2"


def bound(share: Fraction, n: int, k: int) -> Iterator[Part]:
    """Yield the claims p_acc >= share alpha at gamma* = 1/s, for every number of tokens held back, which are the first ones."""
    p, q, s = reals("p", n), reals("q", n), z3.Real("s")
    for held in range(1, n + 1):  # at least one, since gamma* >= 1
        b = [s * p[y] if y < held else q[y] for y in range(n)]
        split = [s * p[y] <= q[y] if y < held else s * p[y] >= q[y] for y in range(n)]
        beta = z3.Sum(b)
        h = geometric(beta, k)
        cuts = [1 + total(p, H) - power(total(q, H), k) for H in token_sets(n)]
        enough = z3.Or(*(beta * h * share.denominator >= share.numerator * cut for cut in cuts))
        premises = [*is_law(p), *is_law(q), s > 0, s <= 1, k * s >= 1, s * h == 1, *split]
        yield f"n = {n}, k = {k}, share {share}, {held} held back", premises, enough


def published(error: str) -> Proof:
    """Return SpecTr's factor."""
    sizes = ((otd.kseq_bound(k) if not error else Fraction(9, 10), n, k) for n, k in SIZES)
    return decide(SAID, (part for size in sizes for part in bound(*size)))


def sharp(error: str) -> Proof:
    """Return 8/9, and rho_3 rounded down."""
    more = Fraction(1, 1000) if error else 0
    return decide(SAID, (part for n, k in SIZES for part in bound(SHARP[k] + more, n, k)))


def tight(error: str) -> Proof:
    """Decide whether for k = 2 and 3 some pair comes near SpecTr's factor, or, as the repaired claim has it, near the sharp one."""
    for k in (2, 3):
        share = SHARP[k] + Fraction(1, 1000) if error else otd.kseq_bound(k) + Fraction(1, 100)
        proof = decide("", bound(share, 2, k))
        if proof.undecided:
            return proof
        if not proof.counterexample:
            return Proof("", 1, f"k = {k}: no p, q of any n give K-SEQ less than {float(share):.2f} of the optimum")
    return Proof("such pairs exist for k = 2, 3", 2)
