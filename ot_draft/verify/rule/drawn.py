"""Whether the draft law that a rule declares draws what it states: every other property takes the drafts' probabilities from it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

from ...arrays import Array
from ...exact import all_drafts
from ...laws import DraftLaw, is_defined
from ...problem import Problem
from ...sampling import draw, sample
from ...selection import SelectionRule
from ...statistics import log_e_value
from ..corners import CORNERS, USED_UP
from ..source import Counterexample
from .rule_property import as_floats, kept_problem, rule_property

DRAWS = 10_000
TRIED = ("plain", "zeros in p", "repeated drafts", "plain", "one-hot q", USED_UP)
LIMIT = len(TRIED) / 1e-9


def drafted_problems(law: DraftLaw) -> list[Problem]:
    """Corners in Fractions, with 1, 2 and 3 drafts where the law allows them."""
    allowed = [k for k in (1, 2, 3) if is_defined(law, k)]
    tried = []
    for turn, name in enumerate(TRIED if allowed else ()):
        p, q = ([Fraction(weight) / Fraction(sum(weights)) for weight in weights] for weights in CORNERS[name])
        tried.append(Problem(p, q, allowed[(turn + turn // 3) % len(allowed)], law))
    return tried


@rule_property(cases=drafted_problems, category="lossless")
def drawn_drafts(rule: SelectionRule, problem: Problem) -> None:
    """The drafts that the rule's law draws come as often as its probabilities say: 10,000 draws a problem, in float64.

    It refutes where the rule's tokens for these drafts have another law than p, too: some rules are right under every law. Over the
    seed of the generator, which is fixed, a right law fails with probability 1e-9 at most: an e-value at 6e9 for each of six tests.
    One draft of six tokens at total variation distance 0.064 from its stated law passes with probability 1e-6, three of them at
    0.096: `statistics.smallest_distance(10_000, 6 or 216, 1 / LIMIT)`.
    """
    case, generator = as_floats(problem), np.random.default_rng(0)
    tuples = np.concatenate(list(all_drafts(problem)))
    mass = problem.law.probability(problem.q[None, :], tuples)
    if mass.sum() != 1 or (mass < 0).any():
        seen = f"the law's probabilities of all drafts sum to {mass.sum()}, the least is {mass.min()}"
        raise Counterexample(problem, seen, decides=False)
    drawn = np.reshape(draw(case.law, np.tile(case.q, (DRAWS, 1)), case.k, generator), (DRAWS, case.k))
    if seen := _differs(drawn, tuples[mass > 0], mass[mass > 0].astype(np.float64)):
        token, _ = sample(rule, case.p, case.q, drawn, generator)
        p = kept_problem(rule, case).p
        wrong = not log_e_value(np.bincount(token, minlength=case.n), p) < np.log(LIMIT)
        raise Counterexample(problem, f"the law draws {seen}", decides=wrong)


def _differs(drawn: Array, tuples: Array, law: Array) -> str:
    """A sentence on drafts (m, k) that do not come as often as the law (t,) of the tuples (t, k) says; empty where they do."""
    cells = {drafts: cell for cell, drafts in enumerate(map(tuple, tuples.tolist()))}
    found = Counter(map(tuple, drawn.tolist()))
    if strange := found.keys() - cells.keys():
        return f"{list(min(strange))}, and says that this has probability 0"
    counts = np.array([found[drafts] for drafts in cells])
    if log_e_value(counts, law) < np.log(LIMIT):
        return ""
    worst = int(np.argmax(abs(counts / len(drawn) - law)))
    return f"{tuples[worst].tolist()} in {counts[worst]:,} of {len(drawn):,} calls, and says that this has probability {law[worst]:.4f}"
