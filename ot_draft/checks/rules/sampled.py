"""Property: what `ot.sample` draws has the frequencies that `ot.evaluate` computes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ...arrays import Array
from ...exact import evaluate
from ...problem import Problem
from ...sampling import draw, sample
from ...selection import SelectionRule
from ..samplers.corners import CORNERS
from ..samplers.statistics import log_e_value
from .counterexample import Counterexample
from .rule_property import as_floats, rule_property

DRAWS = 10_000  # K-SEQ takes 13 microseconds a draw
TRIED = ("plain", "zeros in p", "repeated drafts")
LIMIT = 2 * len(TRIED) / 1e-9  # two tests a problem
SHOW = (
    "p, q, k, law = problem.p.astype(np.float64), problem.q.astype(np.float64), problem.k, problem.law\n"
    "generator = np.random.default_rng(0)\n"
    f"drafts = ot.draw(law, np.tile(q, ({DRAWS}, 1)), k, generator)\n"
    "token, position = ot.sample(rule, p, q, drafts, generator)\n"
    "result = ot.evaluate(rule, ot.Problem(p, q, k, law))\n"
    'print("token:", np.bincount(token, minlength=len(p)) / len(token), "instead of", result.output)\n'
    'print("position:", np.bincount(position + 1, minlength=k + 1)[1:] / len(token), "instead of", result.accept)'
)


def sampled_problems(rule: SelectionRule) -> list[Problem]:
    """Three corners in Fractions, with 1, 2 and 3 drafts where the rule's law allows them."""
    allowed = [k for k in (1, 2, 3) if rule.law.is_defined(k)]
    found = []
    for turn, name in enumerate(TRIED):
        p, q = ([Fraction(weight) / Fraction(sum(weights)) for weight in weights] for weights in CORNERS[name])
        found.append(Problem(p, q, allowed[turn % len(allowed)], rule.law))
    return found


@rule_property(cases=sampled_problems, shows=SHOW)
def sampled_frequencies(rule: SelectionRule, problem: Problem) -> None:
    """Tokens and positions drawn by ot.sample, 10,000 a problem, have the law that ot.evaluate computes.

    Over the seed of the generator, which is fixed, a right rule fails with probability 1e-9 at most: an e-value at 6e9 for
    each of six tests. A token law at total variation distance 0.036 from the computed one, and a position law (four
    outcomes at most) at 0.035, fail with probability 0.99: `statistics.smallest_distance(10_000, 6, 1 / LIMIT)`.
    """
    case = as_floats(problem)
    generator = np.random.default_rng(0)
    drafts = draw(case.law, np.tile(case.q, (DRAWS, 1)), case.k, generator)
    token, position = sample(rule, case.p, case.q, drafts, generator)
    result = evaluate(rule, case)
    accept = np.maximum(result.accept, 0)
    _compare(problem, "tokens", token, result.output)
    _compare(problem, "positions, -1 first,", position + 1, np.append(max(0.0, 1 - accept.sum()), accept))


def _compare(problem: Problem, name: str, outcomes: Array, law: Array) -> None:
    law = np.maximum(law, 0) / np.maximum(law, 0).sum()
    counts = np.bincount(outcomes, minlength=len(law))
    if len(counts) > len(law) or not log_e_value(counts, law) < np.log(LIMIT):
        seen = (
            f"{name} {(counts / len(outcomes)).round(4).tolist()} of {DRAWS} draws instead of {law.round(4).tolist()}"
        )
        raise Counterexample(problem, seen)
