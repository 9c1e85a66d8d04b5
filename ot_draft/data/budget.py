"""Which rules of a study are computed by default: those that an estimate of the time allows, which reads no clock.

The same pairs have the same rules on every computer, whatever its load, its number of cores and --jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ..arrays import is_exact
from ..laws import is_defined
from ..problem import Problem
from ..selection import SelectionRule
from .estimate import EstimateSettings, closed_form
from .pairs import PairsFound
from .study import QUICK_RULES, Study, chunk_of


@dataclass(frozen=True)
class UnitSeconds:
    """Seconds of one core, for n = 2 to 32,000, from `timeit` on an AMD EPYC: right within a factor of about 2."""

    probability: float = 1e-8  # per probability that a formula or a rule reads
    exact: float = 5e-5  # per probability of an enumeration in Fractions
    exact_formula: float = 1e-6  # per probability that a formula reads in Fractions
    call_tokens: int = 1_000  # tokens that take as long as the call of a NumPy function
    tuple_tokens: int = 150  # the same per draft tuple and draft


@dataclass(frozen=True)
class Affordable:
    """The rules of a study within a time budget, in their order, and the estimated seconds of each rule that is left out."""

    rules: tuple[SelectionRule, ...]
    left_out: dict[SelectionRule, float]


def affordable(pairs: PairsFound, study: Study, budget: float) -> Affordable:
    """The rules that take at most `budget` seconds of one core together, the quickest first; on floats QUICK_RULES in any case."""
    first = pairs.choose([0]).load()
    total: dict[SelectionRule, float] = {}
    unit, settings = UnitSeconds(), EstimateSettings()
    for rule in study.rules:
        total[rule] = sum(
            _seconds(rule, study.problem(first.p, first.q, k, rule.law), len(pairs), study, unit, settings)
            for k in study.ks
            if is_defined(rule.law, k)
        )
    quickest = sorted(total, key=total.__getitem__)
    spent = dict(zip(quickest, accumulate(total[rule] for rule in quickest), strict=True))
    kept = (quickest[0], *(() if is_exact(first.p) else QUICK_RULES))  # an enumeration in Fractions is not quick
    fitting = tuple(rule for rule in study.rules if spent[rule] <= budget or rule in kept)
    return Affordable(fitting, {rule: seconds for rule, seconds in total.items() if rule not in fitting})


def _seconds(
    rule: SelectionRule, problem: Problem, pairs: int, study: Study, unit: UnitSeconds, settings: EstimateSettings
) -> float:
    """Estimated seconds of one core for all pairs of the sizes of one problem, by the methods of `evaluate_pairs`."""
    n, k = problem.n, problem.k
    program = rule.cost.seconds(problem.q[0], k)
    if program > study.lp_limit / pairs:  # then it is not solved
        return 0.0
    cells = n ** (1 + problem.law.count(n, k))
    exact = is_exact(problem.p)
    if exact and cells <= settings.exact_cells:
        return pairs * (program + cells * unit.exact)
    if closed_form(rule, problem) is not None:
        calls = pairs if exact else -(-pairs // chunk_of(n))
        reads = rule.cost.passes * (pairs * n + calls * unit.call_tokens)
        return pairs * program + reads * (unit.exact_formula if exact else unit.probability)
    if cells <= settings.float_cells:
        return pairs * cells * k * unit.probability
    return pairs * study.samples * k * (n + unit.tuple_tokens) * unit.probability
