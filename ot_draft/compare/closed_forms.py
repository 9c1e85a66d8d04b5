"""What a rule accepts on average, by a formula instead of n^k draft tuples.

Two notions, which the papers mix up:

* *accepted*: the output is one of the drafted tokens, whichever way it got there. This is what the optimum bounds.
* *taken*: the rule takes a draft, E[sum_i accept_i]. What the residual puts on drafted tokens does not count. K-SEQ's bound
  is about this one. The two are equal where the residual has no mass on refused tokens, as for most rules here.

Every formula here is held against `evaluate` in tests/test_expected_acceptance.py, and against random drafts on real pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import (
    Array,
    any_of,
    divide,
    excess,
    full,
    is_exact,
    maximum,
    minimum,
    normalise,
    one,
    overlap,
    total,
    where,
    zero,
)
from ..laws import IID, WithoutReplacement
from ..lp import solve
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..rules import (
    FromCoupling,
    Greedy,
    ImportanceWeighted,
    KSeq,
    NaiveTarget,
    Optimal,
    RecursiveRejection,
    SpecHub,
    SpeculativeSampling,
)
from ..rules.importance_weighted import HIGH, LOW, STEP, bounded, selected_law
from ..rules.k_seq.division_factor import division_factor
from ..selection import SelectionRule

Form = Callable[[Any, Problem], tuple[Array, Array] | None]


def closed_form(rule: SelectionRule, problem: Problem) -> tuple[Array, Array] | None:
    """(accepted, taken), (...) each, or None where no formula is known. Exact on Fractions. k = 0 included."""
    if problem.k == 0:
        nothing = 0 * problem.p.sum(-1)
        return nothing, nothing
    form = FOR_INDEPENDENT.get(type(rule)) if type(problem.law) is IID else None
    form = form or (FOR_OWN_LAW.get(type(rule)) if problem.law == rule.law else None)
    return form(rule, problem) if form else None


def _speculative_sampling(rule: SpeculativeSampling, problem: Problem) -> tuple[Array, Array]:
    """Taken: sum min(p, q). The residual (p - q)+ hits a token among the k - 1 drafts that were never looked at."""
    p, q, k = problem.p, problem.q, problem.k
    taken = minimum(p, q).sum(-1)
    seen = any_of(q, k - 1)
    return taken + (maximum(p - q, zero(p)) * seen).sum(-1), taken


def _k_seq(rule: KSeq, problem: Problem) -> tuple[Array, Array]:
    """Taken: 1 - (1 - beta)^k. With the smallest valid factor the residual lies where no draft is refused, so that is all.

    With any other factor, P(all refused, y among them) = (1 - beta)^k - (1 - beta - P(the draft is y and refused))^k.
    """
    p, q, k = problem.p, problem.q, problem.k
    factor = division_factor(p, q, full((1,), k, p)) if rule.factor is None else rule.factor + 0 * p[..., :1]
    covered = overlap(p, q, factor)
    take = covered / factor  # min(q, p / factor)
    refused = maximum(1 - total(take), zero(p))
    taken = any_of(total(take), k)
    share = minimum(divide(taken, total(covered), zero(p)), one(p))
    residual = normalise(excess(p, covered, share), p)
    missed = refused**k - maximum(refused - q + take, zero(p)) ** k
    return taken[..., 0] + (residual * missed).sum(-1), taken[..., 0]


def _recursive_rejection(rule: RecursiveRejection, problem: Problem) -> tuple[Array, Array]:
    """1 - prod_i (1 - beta_i) with beta_i = sum min(p_i, q); a refused token has p_i < q, hence mass 0 from then on."""
    target, q = problem.p, problem.q
    refused = one(target)
    for _ in range(problem.k):
        refused = refused * (1 - minimum(target, q).sum(-1))
        target = normalise(maximum(target - q, zero(target)), target)
    return 1 - refused, 1 - refused


def _importance_weighted(rule: ImportanceWeighted, problem: Problem) -> tuple[Array, Array] | None:
    """Taken: sum min(p, m). The residual hits a draft y other than the refused one, z, with probability

    k integral_0^inf A(t) [G(t)^(k-1) - (G(t) - q(y) e^(-t w(y)))^(k-1)] dt,   G = sum_z q(z) e^(-t w(z)),
    A = sum_z (1 - min(1, p/m)(z)) q(z) w(z) e^(-t w(z)): the quadrature of the rule's own m, split by whether y is drafted.
    """
    p, q, k = problem.p, problem.q, problem.k
    if is_exact(p):
        return None
    weights = bounded(where(q > 0, rule.weights(p, q), zero(p)), q)
    law = selected_law(q, weights, full((1,), k, p), k)
    refused = 1 - minimum(divide(p, law, one(p)), one(p))
    taken = minimum(p, law).sum(-1)
    hit = 0 * p
    for t in np.exp(np.arange(LOW, HIGH, STEP)).tolist():
        decayed = q * np.exp(-t * weights)
        others = total(decayed)
        chosen = total(refused * weights * decayed)
        hit = hit + k * STEP * t * chosen * (others ** (k - 1) - maximum(others - decayed, 0) ** (k - 1))
    residual = normalise(maximum(p - law, zero(p)), p)
    return taken + (residual * hit).sum(-1), taken


def _naive_target(rule: NaiveTarget, problem: Problem) -> tuple[Array, Array] | None:
    """sum_y p(y) P(y is drafted), from the probability that all drafts lie outside y."""
    p, q, k = problem.p, problem.q, problem.k
    if isinstance(problem.law, WithoutReplacement):
        return None  # n integrals of O(n)
    if type(problem.law) is IID:
        accepted = (p * any_of(q, k)).sum(-1)
        return accepted, accepted
    missed = problem.law.inside(q[..., None, :], ~np.eye(problem.n, dtype=bool), k)
    accepted = (p * (1 - missed)).sum(-1)
    return accepted, accepted


def _optimum(rule: SelectionRule, problem: Problem) -> tuple[Array, Array] | None:
    """Rules that attain the optimum of their law, and put no residual on drafted tokens."""
    if isinstance(rule, Optimal) and rule.classes is not None:
        return None
    best = optimal_acceptance(problem.p, problem.q, problem.k, problem.law)
    return best, best


def _from_coupling(rule: FromCoupling, problem: Problem) -> tuple[Array, Array] | None:
    """The value of the linear program, by the rule's own solver; one pair."""
    if problem.batch:
        return None
    value = solve(problem, rule.solver).value
    return value, value


FOR_INDEPENDENT: dict[type, Form] = {
    SpeculativeSampling: _speculative_sampling,
    KSeq: _k_seq,
    RecursiveRejection: _recursive_rejection,
    ImportanceWeighted: _importance_weighted,
}
FOR_OWN_LAW: dict[type, Form] = {
    NaiveTarget: _naive_target,
    Optimal: _optimum,
    Greedy: _optimum,
    SpecHub: _optimum,
    FromCoupling: _from_coupling,
}
