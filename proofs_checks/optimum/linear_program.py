"""The optimum of draft selection: linear program, flow and token set have the same value, and n + 1 token sets are enough.

Q is the joint distribution of the drafts x = (x_1, .., x_k); 'drafted' is the set of its tokens.

LINEAR PROGRAM (SpecTr). Couplings pi(x, y) of Q and p; maximise the mass of the pairs with y drafted.
FLOW. Of pi keep the pairs with y drafted: rows <= Q(x), columns <= p(y). Any such flow is part of a coupling, since what is left
of the rows and of the columns has the same mass, and can be matched in any way. So the values agree.
TOKEN SET. For each H: a flow into H is at most p(H), a flow out of H at most Q(some draft outside H); so the value is at most
p(H) + 1 - Q(all drafts in H). The flow is bipartite, hence the least of these bounds is attained (minimum cut).
PREFIXES (Hu et al. 2025). For i.i.d. drafts, drafts without replacement and hybrid drafts the least bound is that of a prefix of
the tokens in the order of p/q: n + 1 sets instead of 2^n.

CHECK. A coupling and a token set of equal value in Fractions, which is a proof for each case; and for all p, and *all* draft
laws Q, on up to 4 tokens by z3, which eliminates the quantifier 'there is a flow'.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import z3

import ot_draft as otd
from ot_draft.laws import is_defined

from ..by_z3 import Part, decide, is_law, power, reals, token_sets, total
from ..checking import check
from ..random_cases import Case
from ..statement import Proof, Statement

__all__ = ["STATEMENTS", "Flow", "check", "problems"]

LAWS = (otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1), otd.SpecHubLaw())
FLOW_ALONE, WRONG_LAW = "the flow alone is a coupling", "the token set of i.i.d. drafts"
BY_DRAFT, BY_TARGET = "prefixes in the order of q", "prefixes in the order of p"
LEFT_OUT, ONE_TOKEN = "the token set of the first token left out", "token sets of one token only"
SIZES = ((2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2))


def problems(case: Case) -> list[otd.Problem]:
    """Return the case under every draft law that is defined for its number of drafts."""
    return [case.problem(law) for law in LAWS if is_defined(law, case.k)]


def agree(case: Case, error: str) -> bool:
    """Return whether coupling and token set are feasible, and both values are the optimum; under each of LAWS."""
    for problem in problems(case):
        solution = otd.solve(problem, "flow")
        proved = solution.certificate()
        law = otd.IID() if error == WRONG_LAW else problem.law
        alpha, chosen = otd.optimal_cut(problem.p, problem.q, problem.k, law)
        if not proved.lower == proved.upper == solution.acceptance == alpha == otd.cut_value(problem, chosen):
            return False
        if not is_coupling(problem, solution, alone=error == FLOW_ALONE):
            return False
    return True


def is_coupling(problem: otd.Problem, solution: otd.Solution, alone: bool) -> bool:
    """Return whether pi(x, y) has rows Q(x), columns p(y), and the solution's value on the pairs with y drafted."""
    drafts, mass = solution.plan.full()
    drafted = np.array([[y in row for y in range(problem.n)] for row in drafts.tolist()]).reshape(mass.shape)
    on_drafts = np.where(drafted, mass, 0)
    pi = on_drafts if alone else mass
    rows = problem.law.probability(problem.q[None, :], drafts)
    marginals = (pi.sum(1) == rows).all() and (pi.sum(0) == problem.p).all()
    return bool(marginals and (pi >= 0).all() and on_drafts.sum() == solution.acceptance)


def prefixes(case: Case, error: str) -> bool:
    """Return whether the least cut over all token sets is that of a prefix.

    It is under the four draft laws of LAWS, but not under all (docs/theory.md).
    """
    for problem in problems(case):
        p, q, n = problem.p, problem.q, problem.n
        alpha = otd.optimal_acceptance(p, q, problem.k, problem.law)
        if error:
            rank = np.argsort(np.argsort(q if error == BY_DRAFT else p, kind="stable"))
            alpha = otd.cut_value(problem, rank < np.arange(n + 1)[:, None]).min()
        every_set = np.array([[y in H for y in range(n)] for H in token_sets(n)])
        if alpha != otd.cut_value(problem, every_set).min():
            return False
    return True


class Flow:
    """The flow from draft sets to tokens as polynomials: p any distribution on n tokens, s any distribution on the draft sets of 1 to k
    tokens."""

    def __init__(self, n: int, k: int) -> None:
        self.sets = [drafted for drafted in token_sets(n) if 1 <= len(drafted) <= k]
        self.p, self.s = reals("p", n), [z3.Real("s" + "".join(map(str, drafted))) for drafted in self.sets]
        self.masses = {(i, y): z3.Real(f"f{i}_{y}") for i, drafted in enumerate(self.sets) for y in drafted}
        self.value = sum(self.masses.values())
        self.laws = [*is_law(self.p), *is_law(self.s)]
        rows = [sum(self.masses[i, y] for y in drafted) <= self.s[i] for i, drafted in enumerate(self.sets)]
        columns = [
            sum(self.masses[i, y] for i, drafted in enumerate(self.sets) if y in drafted) <= self.p[y] for y in range(n)
        ]
        self.feasible = z3.And(*(mass >= 0 for mass in self.masses.values()), *rows, *columns)

    def cuts(self) -> list[Any]:
        """Return 1 + p(H) - Q(all drafts in H) for every H."""
        inside = [[i for i, drafted in enumerate(self.sets) if set(drafted) <= set(H)] for H in token_sets(len(self.p))]
        return [
            1 + total(self.p, H) - total(self.s, held) for H, held in zip(token_sets(len(self.p)), inside, strict=True)
        ]

    def never_reaches(self, value: Any) -> Any:
        """Return the condition that no feasible flow has this value."""
        return z3.ForAll(list(self.masses.values()), z3.Not(z3.And(self.feasible, self.value >= value)))


def any_law(error: str) -> Proof:
    """Decide whether no flow exceeds a cut, and every value up to the least cut is reached by a flow."""

    def parts() -> Iterator[Part]:
        for n, k in SIZES:
            flow, value = Flow(n, k), z3.Real("value")
            cuts = flow.cuts()
            kept = {LEFT_OUT: [cuts[0], *cuts[2:]], ONE_TOKEN: [*cuts[: n + 1], cuts[-1]]}.get(error, cuts)
            bounded = z3.And(*(flow.value <= cut for cut in cuts))
            yield f"n = {n}, k = {k}, at most", [*flow.laws, flow.feasible], bounded
            premises = [*flow.laws, *(value <= cut for cut in kept)]
            yield f"n = {n}, k = {k}, reached", premises, z3.Not(flow.never_reaches(value))

    return decide("proved for all p and all draft laws, (n, k) = " + ", ".join(map(str, SIZES)), parts())


def three_tokens(error: str) -> Proof:
    """Decide whether, for every H, one of the four prefixes has a cut of at most the cut of H."""
    p, q = reals("p", 3), reals("q", 3)
    if error == BY_TARGET:
        order = [p[0] <= p[1], p[1] <= p[2]]
    elif error == BY_DRAFT:
        order = [q[0] <= q[1], q[1] <= q[2]]
    else:
        order = [p[i] * q[j] <= p[j] * q[i] for i, j in combinations(range(3), 2)]

    def parts() -> Iterator[Part]:
        for k in range(1, 5):
            cut = {H: 1 + total(p, H) - power(total(q, H), k) for H in token_sets(3)}
            for H in token_sets(3):
                some_prefix = z3.Or(*(cut[tuple(range(size))] <= cut[H] for size in range(4)))
                yield f"k = {k}, H = {H}", [*is_law(p), *is_law(q), *order], some_prefix

    return decide("proved for all p, q with n = 3, k = 1 to 4", parts())


STATEMENTS = (
    Statement(
        "linear program = flow = token set",
        "A coupling and a token set have the same value, the optimum: i.i.d., without replacement, hybrid and SpecHub drafts.",
        "Sun et al. 2023 (program); Hu et al. 2025 (token sets)",
        "Fractions: a coupling of all draft tuples and a token set, both checked",
        agree,
        (FLOW_ALONE, WRONG_LAW),
        limit=200,
    ),
    Statement(
        "linear program = token set, any draft law",
        "A flow reaches 1 + min over H of p(H) - Q(all drafts in H), and none exceeds it.",
        "Hu et al. 2025",
        "z3, linear real arithmetic, quantifier over flows eliminated",
        planted=(LEFT_OUT, ONE_TOKEN),
        prove=any_law,
    ),
    Statement(
        "n + 1 prefixes are enough",
        "The minimum of 2^n cuts is that of a prefix in the draft law's order: i.i.d., without replacement, hybrid, SpecHub.",
        "Hu et al. 2025",
        "Fractions, all token sets",
        prefixes,
        (BY_DRAFT, BY_TARGET),
        limit=300,
    ),
    Statement(
        "n + 1 prefixes are enough, three tokens",
        "For every H, a prefix in the order of p/q has 1 + p - q^k no greater than that of H.",
        "Hu et al. 2025",
        "z3, polynomials",
        planted=(BY_DRAFT, BY_TARGET),
        prove=three_tokens,
    ),
)
