"""E-values that the verifiers use, each once: counts against a distribution, bets on events, and their power.

An e-value is a nonnegative statistic whose expectation is at most 1 under the null hypothesis. By Ville's inequality a product
of e-values, each given the past, ever reaches 1/a with probability at most a, however often one looks and whenever one stops.
No approximation is involved, and 1 / e-value is a p-value.

Counts. `log_dirichlet_mixture` is a likelihood ratio: its alternative draws the cell probabilities from a Dirichlet distribution
around the tested one (Good 1967).

Bets. Lemma: let y in [0, 1] have mean m given the past, and let c > -1 be chosen from the past. Then (1 + c y) / (1 + c m) is
nonnegative and has mean 1 given the past. (The mean of 1 + c y is 1 + c m, which is positive.) If m is known only up to a factor,
true mean in [(1 - t) m, (1 + t) m], then (1 + c y) / (1 + c m (1 + t)) for c > 0, and (1 + c y) / (1 + c m (1 - t)) for c < 0,
has mean at most 1. If m is known up to d in addition, the mean of y being at most d off, then m + d for c > 0 and m - d for c < 0
have the same property. `log_bet` is the logarithm of such a factor, and `log_bets` that of products of many factors.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log

import numpy as np

from ..arrays import Array

# Dirichlet concentrations in counts: a small one detects large deviations after few samples, a large one small deviations.
CONCENTRATIONS = np.array([1.0, 10.0, 100.0, 1000.0, 10_000.0])
MISS = 1e-6  # probability that a deviation that is stated as detectable is missed


def log_dirichlet_mixture(counts: Array, laws: Array, concentrations: Array = CONCENTRATIONS) -> Array:
    """Return the logarithm of the e-value of counts against a distribution that may depend on a condition.

    Under the alternative, each condition has a distribution of its own. All are drawn from Dirichlet distributions with
    parameters c times `laws`, for one c of `concentrations`; all c have equal weights.

    Parameters
    ----------
    counts : array of shape (..., conditions, n)
        Number of draws by condition and cell.
    laws : array that broadcasts to (..., conditions, n)
        Tested distributions.
    concentrations : array of shape (m,)
        Concentrations of the mixture, in counts.

    Returns
    -------
    log_e_value : float64 array of shape (...)
        Infinite where a cell of probability 0 was drawn.

    References
    ----------
    .. [1] I. J. Good, "A Bayesian significance test for multinomial distributions", 1967.

    Examples
    --------
    >>> round(float(log_dirichlet_mixture(np.array([[90, 10]]), np.array([0.5, 0.5]))), 1)
    32.7
    """
    from scipy.special import gammaln, logsumexp

    possible = np.broadcast_to(laws > 0, counts.shape)
    share = np.where(possible, laws, 1.0)
    ratios = []  # log of the likelihood ratio for every concentration
    for c in concentrations:
        cell = gammaln(c * share + counts) - gammaln(c * share) - counts * np.log(share)
        whole = gammaln(c) - gammaln(c + counts.sum(-1))
        ratios.append(np.where(possible, cell, 0.0).sum(-1) + whole)
    impossible = ((counts > 0) & ~possible).any(-1)
    found = np.where(impossible, np.inf, np.stack(ratios)).sum(-1)
    return np.asarray(logsumexp(found, axis=0) - np.log(len(concentrations)))


def log_e_value(counts: Array, law: Array) -> Array:
    """Return `log_dirichlet_mixture` of counts (..., n) that have one distribution (..., n)."""
    return log_dirichlet_mixture(counts[..., None, :], np.asarray(law)[..., None, :])


def log_bet(y: Array | float, mean: Array | float, c: Array | float) -> Array:
    """Return log((1 + c y) / (1 + c mean)): the logarithm of an e-value for each bet of the lemma.

    Parameters
    ----------
    y, mean : array_like that broadcast with c
        Outcomes in [0, 1] and their means under the tested distribution.
    c : array_like
        Stakes above -1.

    Returns
    -------
    log_factor : float64 array
        Sums over tokens and means over stakes of the exponential are e-values again.
    """
    return np.log1p(np.multiply(c, y)) - np.log1p(np.multiply(c, mean))


def log_bets(y: Array, mean_above: Array, mean_below: Array, c: Array, c_of_mean: Array, group: int = 32) -> Array:
    """Return the sums of `log_bet` over tokens, for every stake and bet: (stakes, bets). A fast path for many tokens.

    Parameters
    ----------
    y : array of shape (tokens, bets)
        Outcomes in [0, 1].
    mean_above, mean_below : array of shape (tokens, bets)
        Upper and lower bounds of the means, for positive and negative stakes.
    c, c_of_mean : array of shape (stakes,)
        Stakes for the outcomes and for their means: the first half positive, the second half negative.
    group : int, default=32
        Factors that are multiplied before a logarithm is taken; 32 factors of e^5 do not overflow.

    Returns
    -------
    log_factors : float64 array of shape (stakes, bets)
        Sums over tokens.
    """
    groups, half = -(-len(y) // group), len(c) // 2
    # Stakes are the first axis: NumPy multiplies few long rows several times as fast as many short ones.
    won = _products(y, c, groups)
    bounds = ((mean_above, c_of_mean[:half]), (mean_below, c_of_mean[half:]))
    asked = np.concatenate([_products(mean, bound, groups) for mean, bound in bounds])
    return (np.log(won) - np.log(asked)).reshape(len(c), groups, y.shape[1]).sum(1)


def _products(x: Array, steps: Array, groups: int) -> Array:
    """Products of 1 + step x over every `groups`-th token: x (T, K), steps (C,) -> (C, groups K)."""
    product = np.ones((len(steps), groups * x.shape[1]))
    for start in range(0, len(x), groups):
        part = x[start : start + groups].ravel()
        factor = steps[:, None] * part
        factor += 1
        product[:, : len(part)] *= factor
    return product


def p_value(log_e: float) -> float:
    """Return the p-value min(1, 1 / e-value)."""
    return min(1.0, exp(-log_e))


def e_value_text(logarithm: float) -> str:
    """Return the e-value of this logarithm with two digits, or as a power of ten if it is above 10,000 or below 1 / 10,000."""
    powers = logarithm / log(10)
    return f"{10**powers:.2g}" if abs(powers) < 4 else f"10^{powers:.0f}"


def chi_square(counts: Array, law: Array) -> float:
    """Return the p-value of Pearson's test, for display; verdicts use the e-value.

    The rarest cells are pooled until 5 or more counts are expected in each. Two cells are left: exact binomial test; one: 1.0.
    Limitation: the chi-square approximation is poor for p-values below about 1e-4.

    Parameters
    ----------
    counts, law : array of shape (n,)
        Number of draws and probability of each cell.
    """
    from scipy import stats

    seen, expected = _pooled(counts, law)
    if len(seen) == 1:
        return 1.0
    total = counts.sum()
    if len(seen) == 2:
        p = min(1.0, expected[0] / total)
        return float(stats.binomtest(int(seen[0]), int(total), p).pvalue)
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def _pooled(counts: Array, law: Array, min_expected: float = 5) -> tuple[Array, Array]:
    """Return observed and expected counts, rare cells pooled until min_expected counts are expected in each."""
    expected = law * counts.sum()
    pools, mass = [[0.0, 0.0]], 0.0
    for cell in np.argsort(expected, kind="stable"):
        if mass >= min_expected:
            pools.append([0.0, 0.0])
        pools[-1][0] += counts[cell]
        pools[-1][1] += expected[cell]
        mass = pools[-1][1]
    if len(pools) > 1 and mass < min_expected:
        last = pools.pop()
        pools[-1] = [pools[-1][0] + last[0], pools[-1][1] + last[1]]
    seen, wanted = np.array(pools).T
    return seen, wanted


def missed(
    distance: float,
    samples: int,
    cells: int,
    false_alarm: float,
    conditions: int = 1,
    concentrations: Array = CONCENTRATIONS,
) -> float:
    """Return the approximate probability that `log_dirichlet_mixture` misses a deviation with this number of samples.

    In the Gaussian limit the e-value of concentration c is a function of Pearson's statistic S, log E = S m / (m + c + 1) / 2
    - (d / 2) log(1 + m / (c + 1)), and S is noncentral chi-square with d = cells - 1 and noncentrality m sum (r - p)^2 / p,
    which is at least 4 m distance^2 by Cauchy and Schwarz. The best c is taken.

    Parameters
    ----------
    distance : float
        Total variation distance of the true distribution from the tested one.
    samples, cells : int
        Samples per condition, and cells of positive probability.
    false_alarm : float
        The test rejects at the e-value 1 / false_alarm.
    conditions : int, default=1
        Number of conditions with these samples each; one of them deviates.
    concentrations : array
        Concentrations of the mixture, in counts.
    """
    from scipy.stats import ncx2

    d = (cells - 1) * conditions
    if d == 0 or samples == 0:
        return float(d != 0)  # one possible outcome: every other one is rejected at once
    prior = concentrations + 1
    needed = np.log(len(concentrations) / false_alarm) + d / 2 * np.log1p(samples / prior)
    statistic = (2 * (1 + prior / samples) * needed).min()
    return float(ncx2.cdf(statistic, d, 4 * samples * distance**2))


def smallest_distance(
    samples: int, cells: int, false_alarm: float, conditions: int = 1, concentrations: Array = CONCENTRATIONS
) -> float:
    """Return the total variation distance that is `missed` with probability MISS; 1.0 if none is detected so surely."""
    return _smallest_distance(samples, cells, false_alarm, conditions, tuple(concentrations.tolist()))


@lru_cache(maxsize=1024)  # the problems of a check have few different sizes
def _smallest_distance(
    samples: int, cells: int, false_alarm: float, conditions: int, concentrations: tuple[float, ...]
) -> float:
    from scipy.optimize import brentq

    def short(distance: float) -> float:
        miss = missed(distance, samples, cells, false_alarm, conditions, np.array(concentrations))
        return log(max(miss, 1e-30) / MISS)

    if short(1e-9) <= 0:
        return 0.0
    return 1.0 if short(1.0) >= 0 else float(brentq(short, 1e-9, 1.0))
