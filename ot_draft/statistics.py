"""Tests of counts against a law: an e-value that may be looked at after every step, a chi-square p-value, and their power.

An e-value is a likelihood ratio: under the law its expectation is 1 at every sample size, and by Ville's inequality it ever
reaches 1/a with probability at most a, however often one looks and whenever one stops. No approximation is involved.
"""

from __future__ import annotations

from math import log

import numpy as np

from .arrays import Array

# How near the law the alternatives lie: the mixture finds gross errors after few samples, small ones after many.
CONCENTRATIONS = np.array([1.0, 10.0, 100.0, 1000.0, 10_000.0])
FEWEST_EXPECTED = 5  # in a cell of the chi-square test
MISS = 1e-6  # probability that a law which is said to be seen is not


def log_e_value(counts: Array, law: Array) -> Array:
    """Logarithm of the e-value of counts against a law: (..., n), (..., n) -> (...).

    The alternative is a mixture: cell probabilities from a Dirichlet law with parameters c law, c one of CONCENTRATIONS with
    equal weights. Infinite where a cell of probability 0 was hit.
    """
    return log_e_value_given(counts[..., None, :], np.asarray(law)[..., None, :])


def log_e_value_given(counts: Array, laws: Array) -> Array:
    """The same for cells whose law depends on a condition: counts (..., conditions, n), laws that broadcast to them -> (...).

    Under the alternative each condition has a law of its own, all drawn at one concentration.
    """
    from scipy.special import gammaln, logsumexp

    possible = np.broadcast_to(laws > 0, counts.shape)
    share = np.where(possible, laws, 1.0)
    ratios = []  # log of the likelihood ratio for every concentration
    for c in CONCENTRATIONS:
        cell = gammaln(c * share + counts) - gammaln(c * share) - counts * np.log(share)
        whole = gammaln(c) - gammaln(c + counts.sum(-1))
        ratios.append(np.where(possible, cell, 0.0).sum(-1) + whole)
    impossible = ((counts > 0) & ~possible).any(-1)
    found = np.where(impossible, np.inf, np.stack(ratios)).sum(-1)
    return np.asarray(logsumexp(found, axis=0) - np.log(len(CONCENTRATIONS)))


def chi_square(counts: Array, law: Array) -> float:
    """p-value of Pearson's test: (n,), (n,). The rarest cells are pooled until 5 or more are expected in each.

    Two cells are left: the exact binomial test. One: 1.0. The chi-square law is an approximation, poor for p-values under
    1e-4 or so; this is for reading, and the e-value decides.
    """
    from scipy import stats

    seen, expected = _pooled(counts, law)
    if len(seen) == 1:
        return 1.0
    total = counts.sum()
    if len(seen) == 2:
        chance = min(1.0, expected[0] / total)
        return float(stats.binomtest(int(seen[0]), int(total), chance).pvalue)
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def _pooled(counts: Array, law: Array) -> tuple[Array, Array]:
    """Seen and expected counts by cell, rare cells together."""
    expected = law * counts.sum()
    pools, mass = [[0.0, 0.0]], 0.0
    for cell in np.argsort(expected, kind="stable"):
        if mass >= FEWEST_EXPECTED:
            pools.append([0.0, 0.0])
        pools[-1][0] += counts[cell]
        pools[-1][1] += expected[cell]
        mass = pools[-1][1]
    if len(pools) > 1 and mass < FEWEST_EXPECTED:
        last = pools.pop()
        pools[-1] = [pools[-1][0] + last[0], pools[-1][1] + last[1]]
    seen, wanted = np.array(pools).T
    return seen, wanted


def power(
    distance: float, samples: int, cells: int, false_alarm: float, conditions: int = 1, beliefs: Array = CONCENTRATIONS
) -> float:
    """Probability, about, that so many samples show a law at this total variation distance, with the e-value at 1/false_alarm.

    In the Gaussian limit the e-value of concentration c is a function of Pearson's statistic S, log E = S m / (m + c + 1) / 2
    - (d / 2) log(1 + m / (c + 1)), and S is noncentral chi-square with d = cells - 1 and noncentrality m sum (r - p)^2 / p,
    which is at least 4 m distance^2 by Cauchy and Schwarz. The best c is taken. conditions: tables with so many samples each,
    of which one is off. beliefs: the concentrations of the mixture.
    """
    return 1 - missed(distance, samples, cells, false_alarm, conditions, beliefs)


def missed(
    distance: float, samples: int, cells: int, false_alarm: float, conditions: int = 1, beliefs: Array = CONCENTRATIONS
) -> float:
    """1 - `power`, exact where it is small."""
    from scipy.stats import ncx2

    d = (cells - 1) * conditions
    if d == 0 or samples == 0:
        return float(d != 0)  # one possible outcome: every other one is refused at once
    prior = beliefs + 1
    needed = np.log(len(beliefs) / false_alarm) + d / 2 * np.log1p(samples / prior)
    statistic = (2 * (1 + prior / samples) * needed).min()
    return float(ncx2.cdf(statistic, d, 4 * samples * distance**2))


def smallest_distance(
    samples: int, cells: int, false_alarm: float, conditions: int = 1, beliefs: Array = CONCENTRATIONS
) -> float:
    """The total variation distance that so many samples show but with probability MISS; 1.0 where they show none."""
    from scipy.optimize import brentq

    def short(distance: float) -> float:
        return log(max(missed(distance, samples, cells, false_alarm, conditions, beliefs), 1e-30) / MISS)

    if short(1e-9) <= 0:
        return 0.0
    return 1.0 if short(1.0) >= 0 else float(brentq(short, 1e-9, 1.0))
