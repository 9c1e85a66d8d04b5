"""K-SEQ's share of the optimum on single problems: the sharp bound, and the search for worst cases."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

import ot_draft as otd

from ...polynomials import single_root
from ...random_cases import Case
from ...statement import Proof
from ..formulas import around_the_smallest, passed
from .lemmas import DIGITS, root_equation, share_between

THOUSANDTH, MERGED_LOWER, ABOVE = "rho_k + 1/1000", "merging never raises alpha", "shares of at least rho_k + 1/1000"
UNIT = Fraction(1, 1 << 40)
KS = range(2, 9)


def worst_pair(k: int) -> Case:
    """Return the pairs p = (c^k, 1 - c^k), q = (c, 1 - c) for c near k x_k/(k-1)."""
    low, _ = single_root(root_equation(k), Fraction(0), Fraction(1), DIGITS)
    c = (k * low / (k - 1)).limit_denominator(1000)
    return Case((c**k, 1 - c**k), (c, 1 - c), k, 0)


WORST = tuple(worst_pair(k) for k in range(2, 7))


def bound(case: Case, error: str) -> bool:
    """Return whether the library's K-SEQ accepts rho_k alpha, and the merged problem's p_acc is the same and its alpha no less."""
    alpha = otd.optimal_acceptance(list(case.p), list(case.q), case.k)
    below, above = around_the_smallest(case, UNIT)
    merged = merge(case, above)
    best = otd.optimal_acceptance(list(merged.p), list(merged.q), case.k)
    if error == MERGED_LOWER:
        return bool(best <= alpha)
    share = share_between(case.k)[0] if case.k > 1 else Fraction(1)
    share += Fraction(1, 1000) if error == THOUSANDTH and case.k > 1 else 0
    # gamma* is irrational: the factor above it loses up to 1e-12, hence p_acc just below it instead of its value.
    reached = otd.evaluate(otd.rules.KSeq(above), case.problem()).acceptance
    same = passed(merged, above) == passed(case, above)
    return bool(same and best >= alpha >= reached and passed(case, below) >= share * alpha)


def merge(case: Case, factor: Fraction) -> Case:
    """Return the tokens held back as one token, the others as another."""
    held = [a <= factor * b for a, b in zip(case.p, case.q, strict=True)]
    a, c = (sum((x for x, own in zip(masses, held, strict=True) if own), Fraction(0)) for masses in (case.p, case.q))
    return Case((a, 1 - a), (c, 1 - c), case.k, case.seed)


def share_of(case: Case) -> tuple[Fraction, Fraction]:
    """Return bounds of K-SEQ's acceptance divided by the optimum: p_acc at rational factors on both sides of gamma*."""
    alpha = otd.optimal_acceptance(list(case.p), list(case.q), case.k)
    below, above = around_the_smallest(case, UNIT)
    return passed(case, above) / alpha, passed(case, below) / alpha


def worst(error: str) -> Proof:
    """Return, for every k, the pair of the theorem and the worst one of a search over two and three tokens, both in Fractions."""
    lines: list[str] = []
    for k in KS:
        least, most = share_between(k)
        if error:
            least += Fraction(1, 1000)
        pairs = [worst_pair(k), *(worst_by_search(n, k) for n in (2, 3))]
        shares = [share_of(pair) for pair in pairs]
        low = min(range(len(pairs)), key=lambda i: shares[i][1])
        if shares[low][1] < least:
            return Proof("", len(lines), f"{pairs[low]}: share {float(shares[low][1]):.6f}")
        if shares[0][1] > most + Fraction(1, 10**5) or min(share[1] for share in shares[1:]) > most + Fraction(1, 1000):
            return Proof("", len(lines), f"k = {k}: nothing as low as rho_k = {float(most):.6f} found")
        searched = min(float(share[1]) for share in shares[1:])
        lines.append(
            f"k = {k}: {float(shares[0][1]):.4f}, by search {searched:.4f} (SpecTr's factor: {float(otd.kseq_bound(k)):.4f})"
        )
    return Proof("\n".join(["least share, certified:", *lines]), len(lines), kind="verified")


def worst_by_search(n: int, k: int) -> Case:
    """Return the worst pair that scipy's simplex search finds from four random starts, rounded."""
    from scipy.optimize import minimize

    generator = np.random.default_rng([n, k])
    best: tuple[float, Any] = (inf, None)
    for _ in range(4):
        start = generator.normal(size=2 * n - 2)
        result = minimize(
            lambda x: share_in_floats(*laws(x, n), k), start, method="Nelder-Mead", options={"maxfev": 300}
        )
        best = min(best, (float(result.fun), result.x), key=lambda pair: pair[0])
    p, q = (tuple(Fraction(mass).limit_denominator(10**6) for mass in law[:-1]) for law in laws(best[1], n))
    return Case((*p, 1 - sum(p, Fraction(0))), (*q, 1 - sum(q, Fraction(0))), k, 0)


def laws(x: Any, n: int) -> tuple[Any, Any]:
    """Return two distributions of n tokens from any 2 n - 2 numbers."""
    masses = np.exp(np.concatenate([np.reshape(x, (2, n - 1)), np.zeros((2, 1))], 1).clip(-12, 12))
    masses = masses / masses.sum(1, keepdims=True)
    return masses[0], masses[1]


def share_in_floats(p: Any, q: Any, k: int) -> float:
    """Return K-SEQ's p_acc at gamma* over the optimum."""
    from scipy.optimize import brentq

    def over(factor: float) -> float:
        beta = np.minimum(q, p / factor).sum()
        return float(1 - (1 - beta) ** k - factor * beta)

    factor = 1.0 if over(1.0) <= 0 else brentq(over, 1.0, k + 1e-9)
    return float(1 - (1 - np.minimum(q, p / factor).sum()) ** k) / float(otd.optimal_acceptance(p, q, k))
