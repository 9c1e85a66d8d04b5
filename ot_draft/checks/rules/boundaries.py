"""The cases on the edge, as problems: what every rule must take without an error."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product

import numpy as np

from ...laws import DraftLaw
from ...problem import Problem
from ...selection import SelectionRule

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
    ((TINY, 1 - TINY), (1 - TINY, TINY)),  # subnormal masses
    ((TINY, F(1, 2), F(1, 2) - TINY), (F(1, 3),) * 3),
    ((F(1, 3),) * 3, (TINY, F(1, 2), F(1, 2) - TINY)),
    ((F(1, 2), F(1, 4), F(1, 8), F(1, 8)), (F(1, 4), F(1, 8), F(5, 16), F(5, 16))),  # ties in p/q
)


def boundary_list(law: DraftLaw) -> list[Problem]:
    """Every pair with every number of drafts that the law allows, 0 and more than n included; and an empty batch."""
    allowed = [k for k in range(5) if law.is_defined(k)]
    found = [Problem(list(p), list(q), k, law) for (p, q), k in product(PAIRS, allowed) if len(p) ** k <= 64]
    nothing = np.zeros((0, 3), dtype=object)
    found.sort(key=lambda problem: (problem.k == 0, problem.n, problem.k))
    return [*found, Problem(nothing, nothing, max(allowed[:3]), law)]


def boundary_problems(rule: SelectionRule) -> list[Problem]:
    """The boundary cases under the rule's law."""
    return boundary_list(rule.law)
