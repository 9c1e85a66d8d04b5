"""The cases on the edge: proper problems that rules stumble over, and what is hardly a problem and must be no error."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction as F
from itertools import product

import numpy as np

from ...laws import DraftLaw
from ...problem import Problem
from ...selection import SelectionRule

Pair = tuple[tuple[F, ...], tuple[F, ...]]
TINY = F(5e-324)  # the smallest subnormal
LOW, HIGH = F(1, 2) - F(1, 2**54), F(1, 2) + F(1, 2**54)  # one ulp around 1/2
PAIRS = (
    ((F(1),), (F(1),)),  # one token
    ((F(1, 2), F(1, 3), F(1, 6)), (F(1, 2), F(1, 3), F(1, 6))),  # p == q
    ((F(0), F(1)), (F(0), F(1))),  # both one-hot, the same
    ((F(1), F(0)), (F(0), F(1))),  # both one-hot, different
    ((F(0), F(1), F(0)), (F(1, 2), F(1, 4), F(1, 4))),  # p one-hot
    ((F(1, 2), F(1, 4), F(1, 4)), (F(0), F(1), F(0))),  # q one-hot
    ((F(1, 2), F(1, 2), F(0), F(0)), (F(0), F(0), F(1, 3), F(2, 3))),  # disjoint supports
    ((F(0), F(2, 5), F(0), F(3, 5)), (F(1, 4),) * 4),  # zeros in p
    ((F(1, 4),) * 4, (F(0), F(2, 5), F(0), F(3, 5))),  # zeros in q
    ((LOW, HIGH), (HIGH, LOW)),  # one ulp apart
    ((F(1, 2), F(1, 4), F(1, 8), F(1, 8)), (F(1, 4), F(1, 8), F(5, 16), F(5, 16))),  # ties in p/q
)
SUBNORMAL = (
    ((TINY, 1 - TINY), (1 - TINY, TINY)),
    ((TINY, F(1, 2), F(1, 2) - TINY), (F(1, 3),) * 3),
    ((F(1, 3),) * 3, (TINY, F(1, 2), F(1, 2) - TINY)),
)
MOST_DRAFTS, MOST_TUPLES = 4, 64


def boundary_list(law: DraftLaw) -> list[Problem]:
    """Proper problems on the edge: every pair with every number of drafts from 1 on that the law allows, more than n included."""
    return _problems(PAIRS, law, 1)


def extreme_list(law: DraftLaw) -> list[Problem]:
    """What is no proper problem, and no error either: no drafts, masses of 5e-324, and a batch of no rows."""
    no_rows = np.zeros((0, 3), dtype=object)
    most = max(k for k in range(3) if law.is_defined(k))
    none = _problems(PAIRS, law, 0, 0)
    return [*_problems(SUBNORMAL, law, 1), *none, Problem(no_rows, no_rows, most, law)]


def _problems(pairs: Sequence[Pair], law: DraftLaw, least: int, most: int = MOST_DRAFTS) -> list[Problem]:
    """Every pair with `least` to `most` drafts, small ones first."""
    allowed = [k for k in range(least, most + 1) if law.is_defined(k)]
    tried = [Problem(list(p), list(q), k, law) for (p, q), k in product(pairs, allowed) if len(p) ** k <= MOST_TUPLES]
    return sorted(tried, key=lambda problem: (problem.n, problem.k))


def boundary_problems(rule: SelectionRule) -> list[Problem]:
    """The boundary cases under the rule's law."""
    return boundary_list(rule.law)


def extreme_problems(rule: SelectionRule) -> list[Problem]:
    """The extreme cases under the rule's law."""
    return extreme_list(rule.law)
