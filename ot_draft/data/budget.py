"""Which rules of a study are computed by default: those that an estimate of the time allows, which reads no clock.

The same pairs have the same rules on every computer, whatever its load, its number of cores and --jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from ..arrays import is_exact
from ..laws import DraftLaw, is_defined
from ..lp.program import seconds as program_seconds
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
    exact_optimum: float = 1e-4  # of the optimum in Fractions, per pair and token
    exact_formula: float = 1e-6  # per probability that a formula reads in Fractions
    call: float = 3e-4  # per call of a formula or of the optimum
    enumeration: float = 1e-3  # per pair whose draft tuples are enumerated
    optimum_token: float = 1e-6  # of the optimum, per pair and token,
    optimum_pair: float = 3e-4  # up to this time per pair
    call_tokens: int = 1_000  # tokens that take as long as the call of a NumPy function
    tuple_tokens: int = 150  # the same per draft tuple and draft


@dataclass(frozen=True)
class Affordable:
    """The rules of a study within a time budget, in their order, and the estimated seconds of each rule that is left out.

    lp_limit: of the study; less than the default if the linear programs would take more than half of the budget.
    """

    rules: tuple[SelectionRule, ...]
    left_out: dict[SelectionRule, float]
    lp_limit: float


def affordable(pairs: PairsFound, study: Study, budget: float) -> Affordable:
    """The rules that take at most `budget` seconds of one core together, the quickest first; on floats QUICK_RULES in any case.

    The optimum and the linear program of a draft law count with its first rule.
    """
    first = pairs.choose([0]).load()
    total: dict[SelectionRule, float] = {}
    unit, settings = UnitSeconds(), EstimateSettings()
    laws = [(law, k) for law in dict.fromkeys(rule.law for rule in study.rules) for k in study.ks if is_defined(law, k)]
    programs = {(law, k): len(pairs) * program_seconds(law, first.q[0], k) for law, k in laws}
    solved = sum(seconds for seconds in programs.values() if seconds <= study.lp_limit)
    if solved > budget / 2 and study.lp_limit == Study.lp_limit:
        study = replace(study, lp_limit=round(budget / 2 / len(laws), 1))
    for rule in study.rules:
        total[rule] = sum(
            _seconds(rule, study.problem(first.p, first.q, k, rule.law), len(pairs), study, unit, settings)
            for k in study.ks
            if is_defined(rule.law, k)
        )
    of_law: dict[DraftLaw, float] = dict.fromkeys((law for law, _ in laws), 0.0)
    for (law, k), program in programs.items():
        of_law[law] += _optimum_seconds(study.problem(first.p, first.q, k, law), len(pairs), unit)
        of_law[law] += program if program <= study.lp_limit else 0.0
    quickest = sorted(total, key=total.__getitem__)
    spent = dict(zip(quickest, accumulate(total[rule] + of_law.pop(rule.law, 0.0) for rule in quickest), strict=True))
    kept = (quickest[0], *(() if is_exact(first.p) else QUICK_RULES))  # an enumeration in Fractions is not quick
    fitting = tuple(rule for rule in study.rules if spent[rule] <= budget or rule in kept)
    left_out = {rule: seconds for rule, seconds in total.items() if rule not in fitting}
    return Affordable(fitting, left_out, study.lp_limit)


def _optimum_seconds(problem: Problem, pairs: int, unit: UnitSeconds) -> float:
    """Estimated seconds of one core for the optimum of all pairs."""
    if is_exact(problem.p):
        return pairs * problem.n * unit.exact_optimum
    return -(-pairs // chunk_of(problem.n)) * unit.call + pairs * min(problem.n * unit.optimum_token, unit.optimum_pair)


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
        return pairs * (program + unit.enumeration + cells * unit.exact)
    if closed_form(rule, problem) is not None:
        calls = pairs if exact else -(-pairs // chunk_of(n))
        reads = rule.cost.passes * (pairs * n + calls * unit.call_tokens)
        return pairs * program + calls * unit.call + reads * (unit.exact_formula if exact else unit.probability)
    if cells <= settings.float_cells:
        return pairs * (unit.enumeration + cells * k * unit.probability)
    return pairs * study.samples * k * (n + unit.tuple_tokens) * unit.probability
