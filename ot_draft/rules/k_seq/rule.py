"""K-SEQ: k tests in a row against a scaled-down target."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ...arrays import (
    Array,
    any_of,
    as_number,
    batch_shape,
    divide,
    empty,
    excess,
    full,
    gather,
    maximum,
    minimum,
    normalise,
    one,
    overlap,
    small,
    total,
    unsmall,
    zero,
)
from ...errors import InvalidDrafts
from ...kernels import wanted
from ...laws import IID, DraftLaw
from ...problem import Problem
from ...selection import Selection, SelectionRule, in_turn
from .division_factor import division_factor


@dataclass(frozen=True)
class KSeq(SelectionRule):
    """Take the drafts in order with probability min(1, p(x) / (factor q(x))), else draw from the residual.

    factor: the division factor gamma, valid from gamma* on, which lies in [1, k] and depends on p, q and k. None
    (default) finds gamma*, rounded up, so that rounding can cost acceptance (below 1e-12 in float64, 2e-4 in float32) and
    never validity. A fixed factor below gamma* may make an invalid rule, as `evaluate` then shows.
    With beta = sum min(q, p/gamma): acceptance of a draft 1 - (1 - beta)^k, residual proportional to
    p - min(q, p/gamma) (1 - (1 - beta)^k) / beta. Acceptance >= (1 - (1 - 1/k)^k) of the optimum, which is not sharp: see
    proofs_checks/k_seq/k_seq_share.py.
    Source: Sun et al., SpecTr, NeurIPS 2023, Algorithm 2 and Theorem 1.
    """

    factor: float | Fraction | None = None
    law: DraftLaw = IID()

    def __post_init__(self) -> None:
        if self.factor is not None and not self.factor >= 1:
            raise InvalidDrafts(
                f"KSeq(factor={self.factor!r}): the division factor lies in [1, k]; None finds the best one"
            )

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]  # fixed by the fields
        return ("maximal", "kseq_bound") if self.factor is None else ()

    def closed_form(self, problem: Problem, optimum: Array | None = None) -> tuple[Array, Array] | None:
        """Taken: 1 - (1 - beta)^k. With the smallest valid factor the residual lies where no draft is refused, so that is all.

        With any other factor, P(all refused, y among them) = (1 - beta)^k - (1 - beta - P(the draft is y and refused))^k.
        """
        if not problem.law.all_independent:
            return None
        p, q, k = problem.p, problem.q, problem.k
        factor = division_factor(p, q, full((1,), k, p)) if self.factor is None else self.factor + 0 * p[..., :1]
        covered = overlap(p, q, factor)
        take = covered / factor  # min(q, p / factor)
        refused = maximum(1 - total(take), zero(p))
        taken = any_of(total(take), k)
        share = minimum(divide(taken, total(covered), zero(p)), one(p))
        residual = normalise(excess(p, covered, share), p)
        missed = refused**k - maximum(refused - q + take, zero(p)) ** k
        return taken[..., 0] + (residual * missed).sum(-1), taken[..., 0]

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        if self.factor is None and wanted(p, drafts):
            from ...kernels.excess import k_seq

            return Selection(*k_seq(p, q, drafts))
        count = total(as_number(drafts >= 0, p))
        # One piece of memory for all passes over the vocabulary.
        batch = batch_shape(p, q, count)
        memory = empty((*batch, p.shape[-1]), p)
        factor = division_factor(p, q, count, memory) if self.factor is None else full((*batch, 1), self.factor, p)
        taken = overlap(p, q, factor, memory)  # factor * min(q, p / factor)
        p_x, q_x, g, mass, k = (small(x) for x in (gather(p, drafts), gather(q, drafts), factor, total(taken), count))
        take = minimum(divide(p_x, g * q_x, zero(p_x)), one(p_x))
        share = minimum(divide(any_of(mass / g, k), mass, zero(mass)), one(mass))
        residual = normalise(excess(p, taken, unsmall(share, p), taken), p, taken)
        return Selection(unsmall(in_turn(take), p), residual)
