"""Number of runs of a vector, so that a false alarm and a missed fault have probability at most 1e-6 each."""

from __future__ import annotations

from math import ceil, floor, inf, log, log1p, log10

from ot_draft.verify.vectors.readers.read import ALARM, kl

from .chance import Law

STEPS = 60  # of the bisection


def runs_for(right: Law, wrong: Law) -> float:
    """Runs after which `readers.read.counted` fails the right distribution, and passes the wrong one, with probability <= 1e-6 each.

    Chernoff's bound for the most informative outcome; inf for equal distributions. Rounded up to two digits, so that the number is the
    same on every machine.
    """
    alarm, miss = log(2 * len(right) / ALARM), log(1 / ALARM)
    outside = float(sum(mass for outcome, mass in wrong.items() if outcome not in right))
    runs = miss / -log1p(-outside) if 0 < outside < 1 else (1.0 if outside else inf)
    for outcome, mass in right.items():
        other = wrong.get(outcome, 0)
        if other != mass:
            runs = min(runs, _of_outcome(float(mass), float(other), alarm, miss))
    return two_digits(runs) if runs < inf else inf


def _of_outcome(right: float, wrong: float, alarm: float, miss: float) -> float:
    """The least n with n kl(t, right) > alarm and n kl(t, wrong) >= miss for a bound t between the two."""
    if wrong in (0, 1):  # its frequency is deterministic
        return alarm / kl(wrong, right) + 1
    near, far = right, wrong  # t moves from the right mass, where the alarm needs most runs, to the wrong one
    for _ in range(STEPS):
        t = (near + far) / 2
        enough = alarm / max(kl(t, right), 1e-300) <= miss / max(kl(t, wrong), 1e-300)
        near, far = (near, t) if enough else (t, far)
    return max(alarm / max(kl(far, right), 1e-300), miss / max(kl(far, wrong), 1e-300)) + 1


def two_digits(number: float) -> int:
    """Rounded up to two significant digits."""
    size = 10 ** max(0, floor(log10(max(number, 1)) + 1e-9) - 1)
    return ceil(number / size * (1 - 1e-9)) * size
