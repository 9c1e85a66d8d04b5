"""Check that the declared draft law samples the probabilities that it states. Other properties rely on these probabilities."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...arrays import Array
from ...exact import all_drafts
from ...laws import DraftLaw
from ...problem import Problem
from ...sampling import draw, sample
from ...selection import SelectionRule
from ..corners import CORNERS
from ..e_values import log_e_value
from ..sampler.views import MOST_TOKENS, pooled
from ..source import Counterexample
from .rule_property import as_floats, kept_problem, rule_property
from .strategies import ONLY, WIDE, numbers_of_drafts, wide_problems


@dataclass(frozen=True)
class Sampling:
    """Problems and sizes of the samples of one check.

    corners, frequency_corners: names in `CORNERS` of the small problems, and of those of `structure.sampled_frequencies`.
    draws: draft tuples per small problem. wide_draws, wide_rows: draft tuples per problem of a large vocabulary, and per call.
    false_alarm: probability that a correct rule fails a property, over the seed.
    """

    corners: tuple[str, ...] = ("plain", "zeros in p", "repeated drafts", "plain", "one-hot q", "q is used up")
    frequency_corners: tuple[str, ...] = ("plain", "zeros in p", "repeated drafts")
    draws: int = 10_000
    wide_draws: int = 4_096
    wide_rows: int = 1_024
    false_alarm: float = 1e-9

    @property
    def limit(self) -> float:
        """E-value at which the drafts of a small problem fail."""
        return len(self.corners) / self.false_alarm

    @property
    def frequency_limit(self) -> float:
        """E-value at which frequencies fail: two tests per problem."""
        return 2 * len(self.frequency_corners) / self.false_alarm

    @property
    def wide_limit(self) -> float:
        """E-value at which the tokens of a large vocabulary fail: two tests per problem."""
        return 2 * len(WIDE) / self.false_alarm


SAMPLING = Sampling()


def drafted_problems(law: DraftLaw) -> list[Problem]:
    """Corner cases in Fractions, with 1, 2 and 3 drafts if the draft law allows them."""
    allowed = numbers_of_drafts(law, (1, 2, 3, 4) if ONLY.get() else (1, 2, 3))
    tried = []
    for turn, name in enumerate(SAMPLING.corners if allowed else ()):
        p, q = ([Fraction(weight) / Fraction(sum(weights)) for weight in weights] for weights in CORNERS[name])
        tried.append(Problem(p, q, allowed[(turn + turn // 3) % len(allowed)], law))
    return tried


@rule_property(cases=drafted_problems, category="lossless", sampled=True)
def drawn_drafts(rule: SelectionRule, problem: Problem) -> None:
    """The rule's draft law samples drafts with the probabilities that it states: 10,000 samples per problem, in float64.

    A deviation refutes the rule only if its tokens for these drafts do not follow p either: some rules are lossless under every draft
    law. Over the seed of the generator, which is fixed, a correct draft law fails with probability at most 1e-9: an e-value of 6e9 for
    each of six tests. One draft of six tokens at total variation distance 0.064 from its stated distribution passes with probability
    1e-6, three of them at 0.096: `e_values.smallest_distance(10_000, 6 or 216, 1 / SAMPLING.limit)`.
    """
    case, generator = as_floats(problem), np.random.default_rng(0)
    tuples = np.concatenate(list(all_drafts(problem)))
    mass = problem.law.probability(problem.q[None, :], tuples)
    if mass.sum() != 1 or (mass < 0).any():
        seen = f"the draft law's probabilities sum to {mass.sum()}, and the smallest one is {mass.min()}"
        raise Counterexample(problem, seen, decides=False)
    drawn = np.reshape(
        draw(case.law, np.tile(case.q, (SAMPLING.draws, 1)), case.k, generator), (SAMPLING.draws, case.k)
    )
    if seen := _differs(drawn, tuples[mass > 0], mass[mass > 0].astype(np.float64)):
        token, _ = sample(rule, case.p, case.q, drawn, generator)
        p = kept_problem(rule, case).p
        wrong = not log_e_value(np.bincount(token, minlength=case.n), p) < np.log(SAMPLING.limit)
        raise Counterexample(problem, f"the draft law samples {seen}", decides=wrong)


@rule_property(cases=wide_problems, category="lossless", large=True, sampled=True)
def drawn_tokens(rule: SelectionRule, problem: Problem) -> None:
    """The output follows p if q has up to 1,000 tokens: 4,096 sampled draft tuples per problem, in float64.

    The classes that are counted are neighbours in p/q, and ids modulo 64. Over the seed of the generator, which is fixed, a correct rule
    fails with probability at most 1e-9. An output distribution at total variation distance 0.129 between such classes passes with
    probability 1e-6: `e_values.smallest_distance(4_096, 64, 1 / SAMPLING.wide_limit)`.
    """
    case, generator = as_floats(problem), np.random.default_rng(0)
    p, counts = kept_problem(rule, case).p, np.zeros(problem.n, dtype=np.int64)
    for _ in range(SAMPLING.wide_draws // SAMPLING.wide_rows):
        drafts = draw(case.law, np.broadcast_to(case.q, (SAMPLING.wide_rows, case.n)), case.k, generator)
        counts += np.bincount(sample(rule, case.p, case.q, drafts, generator)[0], minlength=case.n)
    by_ratio, laws = pooled(p[None], case.q[None], MOST_TOKENS)
    for name, classes in (("of neighbours in p/q", by_ratio[0]), ("of ids modulo 64", np.arange(case.n) % MOST_TOKENS)):
        law = np.bincount(classes, p, laws.shape[-1])
        seen = np.bincount(classes, counts, laws.shape[-1])
        if not log_e_value(seen, law / law.sum()) < np.log(SAMPLING.wide_limit):
            worst = int(np.argmax(abs(seen / SAMPLING.wide_draws - law)))
            tokens = np.flatnonzero(classes == worst)
            said = (
                f"{seen[worst] / SAMPLING.wide_draws:.4f} of {SAMPLING.wide_draws:,} draws instead of {law[worst]:.4f}"
            )
            raise Counterexample(problem, f"tokens {tokens[:8].tolist()}, a class {name}, in {said}")


def _differs(drawn: Array, tuples: Array, law: Array) -> str:
    """Description of draft tuples whose frequency in drawn (m, k) differs from the probabilities `law` (t,) of tuples (t, k), or empty."""
    cells = {drafts: cell for cell, drafts in enumerate(map(tuple, tuples.tolist()))}
    found = Counter(map(tuple, drawn.tolist()))
    if strange := found.keys() - cells.keys():
        return f"{list(min(strange))}, and states probability 0 for it"
    counts = np.array([found[drafts] for drafts in cells])
    if log_e_value(counts, law) < np.log(SAMPLING.limit):
        return ""
    worst = int(np.argmax(abs(counts / len(drawn) - law)))
    return f"{tuples[worst].tolist()} in {counts[worst]:,} of {len(drawn):,} calls, and states probability {law[worst]:.4f} for it"
