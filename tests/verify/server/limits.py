"""How much any bettor can earn from the emitted tokens and the target's laws alone, without the draft model's law.

    PYTHONPATH=tests python -m audit.limits --bias .01 --tokens 100000 'odds / 0.7' 'residual is p'

The bettor is told which error it is, its share, and how drafts differ from targets at random (`chains.random_pair`), but not this
draft model. No bettor has a larger expected logarithm than the one who bets by the mean of the likelihoods over draft models. For
small biases the likelihood ratio of a draft model is that of a normal shift X, in units of the noise, X = sqrt(n w / p) d over the places
and contexts (visited n w times) and tokens, d the bias there. With the mean m and the covariance C of X over draft models,
the expected logarithm is |m|^2 / 2, what p alone tells, plus the sum over eigenvalues c of C of (c - log(1 + c)) / 2, what can be
learned in contexts that come again. Not part of the tests: a minute a name.
"""

from __future__ import annotations

from math import log

import click
import numpy as np
from mutants.catalogue import TABLES
from scipy.optimize import brentq

from ot_draft.arrays import Array

from .chains import LENGTH, Pair, Tables, random_pair, right, share_for, softmax, stationary_law


def biases(pair: Pair, wrong: Tables, share: float) -> tuple[Array, Array]:
    """Emitted law less the target's, at a drafted place and at the last: (2, S, n); how often each is visited: (2, S)."""
    good = right(pair)
    accepted, corrected = (
        share * getattr(wrong, part)() + (1 - share) * getattr(good, part)() for part in ("accepted", "corrected")
    )
    bonus = share * wrong.bonus + (1 - share) * good.bonus
    visits = stationary_law(pair, accepted, corrected, bonus)
    p = pair.rows(pair.p)
    return np.stack([accepted + corrected - p, bonus - p]), np.stack([visits[:LENGTH].sum(0), visits[LENGTH]])


def shifts(pair: Pair, name: str, share: float, draws: int, weights: Array) -> Array:
    """X for random draft models of one target: (draws, 2, S, n); only one state a last token where nothing depends on the one before."""
    generator, n = np.random.default_rng(5), pair.n
    states = slice(None) if weights.shape[1] > n else slice(0, n)
    found = []
    for _ in range(draws):
        other = Pair(pair.p, softmax(0.5 * np.log(pair.p) + generator.normal(size=(n, n))))
        wrong, good, p = TABLES[name](other), right(other), other.rows(other.p)
        drafted = wrong.accepted() + wrong.corrected() - good.accepted() - good.corrected()
        found.append(share * np.stack([drafted, wrong.bonus - p])[:, states])
    return np.stack(found) * np.sqrt(weights[..., None] / pair.rows(pair.p)[states])


def expected(shift: Array, apart: bool) -> tuple[float, float]:
    """Expected logarithm, from the mean and from learning; apart: states are independent of each other."""
    mean = shift.mean(0)
    left = shift - mean
    noise = (left**2).sum() / len(shift) ** 2  # of the mean's square
    parts = (
        [left[:, :, s].reshape(len(left), -1) for s in range(left.shape[2])] if apart else [left.reshape(len(left), -1)]
    )
    values = [np.linalg.svd(part, compute_uv=False) ** 2 / (len(left) - 1) for part in parts]
    spectrum = np.concatenate(values)
    return max(0.0, float((mean**2).sum() - noise)) / 2, float((spectrum - np.log1p(spectrum)).sum() / 2)


def largest_power(nats: float, level: float) -> float:
    """Of any test at this level: the relative entropy of (power, level) is at most that of the texts (data processing)."""

    def missing(power: float) -> float:
        return power * log(power / level) + (1 - power) * log((1 - power) / (1 - level)) - nats

    return float(brentq(missing, level, 1 - 1e-12)) if missing(1 - 1e-12) > 0 else 1.0


@click.command()
@click.option("--bias", default=0.01)
@click.option("--tokens", default=100_000)
@click.option("--level", default=0.01)
@click.option("--draws", default=200)
@click.argument("names", nargs=-1)
def main(bias: float, tokens: int, level: float, draws: int, names: tuple[str, ...]) -> None:
    """Expected logarithm of the e-value, at most: with the draft model's law, and without it; largest power of any test."""
    pair = random_pair(0)
    for name in names or TABLES:
        wrong = TABLES[name](pair)
        try:
            share = share_for(pair, wrong, bias)
        except ValueError:
            continue
        bias_there, visits = biases(pair, wrong, share)
        with_q = tokens * float((visits[..., None] * bias_there**2 / pair.rows(pair.p)).sum() / 2)
        before = "stale" in name or "before" in name  # the place before matters
        weights = tokens * (visits if before else visits.reshape(2, pair.n, pair.n).sum(1))
        shift = shifts(pair, name, share, draws, weights)
        shift *= np.sqrt(2 * with_q / (shift**2).sum((1, 2, 3)).mean())  # the same bias for the mean draft model
        known, learned = expected(shift, not before)
        power = largest_power(known + learned, level)
        click.echo(
            f"{name:38s} with q {with_q:6.1f}; without: {known:5.1f} from p + {learned:5.1f} learned; power {power:.2f}"
        )


if __name__ == "__main__":
    main()
