"""measure(pairs, study): how long every rule and optimum takes on some of the pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median_low
from time import perf_counter

import numpy as np

from ..laws import sets
from ..lp import solve
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..sampling import draw
from .pairs import Pairs
from .rows import DUAL, LINEAR_PROGRAM
from .study import Study

Key = tuple[str, str, int]  # rule, law, k
Times = dict[Key, float]
PAIRS, REPEATS = 16, 3
LONG = 1.0  # seconds after which nothing is repeated


def measure(pairs: Pairs, study: Study) -> Times:
    """Microseconds a pair of every rule and optimum: the median of three calls on one batch of at most 16 pairs.

    Linear programs (the faster of two calls), and the rule read off them, get one pair. Drawing the drafts is not counted.
    """
    some = pairs.choose(list(range(min(PAIRS, len(pairs)))))
    return {key: _time(call, repeats) / count * 1e6 for key, call, count, repeats in _calls(some, study)}


def _calls(some: Pairs, study: Study) -> Iterator[tuple[Key, Callable[[], object], int, int]]:
    """What is timed: its key, the call, the pairs in it, how often it is repeated."""
    generator = np.random.default_rng(study.seed)
    for k in study.ks:
        usable = [rule for rule in study.rules if rule.law.is_defined(k)]
        for law in dict.fromkeys(rule.law for rule in usable):
            name = law.spelling
            yield (DUAL, name, k), partial(optimal_acceptance, some.p, some.q, k, law), len(some), REPEATS
            if sets.most(law, some.q[0], k) <= study.lp_limit:
                yield (LINEAR_PROGRAM, name, k), partial(solve, Problem(some.p[0], some.q[0], k, law)), 1, 2
        for rule in usable:
            slow = rule.solves
            if rule.program_sets(some.q[0], k) > study.lp_limit:
                continue
            p, q = (masses[: 1 if slow else PAIRS] for masses in (some.p, some.q))
            call = partial(rule, p, q, draw(rule.law, q, k, generator))
            yield (rule.name, rule.law.spelling, k), call, len(p), 1 if slow else REPEATS


def _time(call: Callable[[], object], repeats: int) -> float:
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < LONG:
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return median_low(seconds)
