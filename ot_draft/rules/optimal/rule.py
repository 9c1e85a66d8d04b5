"""Optimal selection for i.i.d. and hybrid drafts, in O(n log n + k log k), without a linear program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...boundary import int_from
from ...dispatch import accelerated
from ...errors import InvalidArgument
from ...laws import IID, DraftLaw, Fact, Hybrid, outside
from ...laws.fixed_tokens import fixed_part
from ...problem import Problem
from ...selection import ClosedForm, Selection, SelectionRule, Siblings, with_closed_form
from ..coupling import attained_optimum, couple
from . import device, host
from .classes import CLASSES


@dataclass(frozen=True)
class Optimal(SelectionRule):
    """Select one draft by levels between the tokens, then couple its token with the target; attains the optimum alpha* [1]_.

    Parameters
    ----------
    law : IID, Hybrid or Fixed, default=IID()
        Draft law; "auto" is short for Hybrid(top="auto").
    classes : int, optional
        By default the rule solves exactly. An integer groups tokens of nearly equal ratio p/q into about that many classes. This costs
        acceptance (compare with `optimal_acceptance`) and never losslessness, because the distribution m of the selected token is that of
        the levels really used.

    Raises
    ------
    InvalidArgument
        If the draft law is of another kind, or classes is not an integer >= 1.

    Notes
    -----
    On the CPU the levels come from a sweep, row by row; on an accelerator all at once, always by classes. Proof and exact check:
    proofs_checks/optimum/optimal_selection.py.

    References
    ----------
    .. [1] Hu et al., "Towards Optimal Multi-draft Speculative Decoding", 2025.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> import ot_draft as otd
    >>> found = otd.evaluate(otd.rules.Optimal(), otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=2))
    >>> found.lossless, found.acceptance
    (True, Fraction(15, 16))
    """

    siblings = Siblings(separate_fixed=True)
    law: DraftLaw = IID()
    classes: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.law, str) and self.law == "auto":
            object.__setattr__(self, "law", Hybrid(top="auto"))
        if not (isinstance(self.law, DraftLaw) and Fact.INDEPENDENT_OUTSIDE_FIXED in self.law.facts):
            raise InvalidArgument(
                f"law of Optimal must be IID(), Hybrid(top=j) or 'auto', got {self.law!r}. Use RandomOrder for other draft laws."
            )
        if self.classes is not None:
            int_from("classes", self.classes, 1, remedy="Pass a number of classes, or None for all tokens.")

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]  # fixed by the fields
        return ("optimal",) if self.classes is None else ("maximal",)

    def under(self, law: DraftLaw) -> Optimal | None:
        return replace(self, law=law) if Fact.INDEPENDENT_OUTSIDE_FIXED in law.facts else None

    def approximate_for(self, law: DraftLaw) -> Optimal:
        # Without classes it sorts the vocabulary, which takes a tenth of a step.
        return replace(self, law=law, classes=CLASSES) if Fact.INDEPENDENT_OUTSIDE_FIXED in law.facts else self

    def _closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        """Acceptance that the rule attains: the optimum under the draft law, or with classes what they leave of it."""
        if problem.law != self.law:
            return None
        if self.classes is None:
            return attained_optimum(problem, optimum)
        attained = self.attained(problem)
        return attained, attained

    @with_closed_form(_closed_form)
    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        if Fact.INDEPENDENT in self.law.facts:
            return selection(p, q, drafts, self.classes)
        fixed = fixed_part(self.law, q, drafts.shape[-1])
        fixed = xp.where(drafts == fixed, drafts, -1)
        draws = xp.where(fixed >= 0, -1, drafts)
        choice, selected = selection_probabilities(xp.with_zeros_at(p, fixed), outside(q, fixed), draws, self.classes)
        return couple(p, selected, choice, drafts, fixed)

    def toward(self, target: Any, p: Array, q: Array, drafts: Array) -> Selection:
        """Select for target(p, q, k, law) instead of p, in classes of tokens if the target supports them."""
        by_groups = Fact.INDEPENDENT in self.law.facts and hasattr(target, "ratios") and drafts.shape[-1]
        if self.classes is None or not by_groups or not xp.on_host(p):
            return self(target(p, q, drafts.shape[-1], self.law), q, drafts)
        return host.selection_by_classes(p, q, drafts, self.classes, target)

    def select_siblings(self, p: Array, q: Array, fixed: Array, draws: Array) -> tuple[Array, Selection]:
        choice, selected = selection_probabilities(xp.with_zeros_at(p, fixed), outside(q, fixed), draws, self.classes)
        drafts, of_fixed = xp.concat((fixed, draws), axis=-1), xp.concat((fixed, 0 * draws - 1), axis=-1)
        choice = xp.concat((xp.astype(fixed < -1, p.dtype), choice), axis=-1)
        return drafts, couple(p, selected, choice, drafts, of_fixed)

    def attained(self, problem: Problem) -> Array:
        """Acceptance (...) as the rule really selects, with its classes and its rounding: p(T) + sum outside T of min(p, m).

        m is the distribution of the selected token, T the top tokens that hybrid drafting fixes (none otherwise), which are drafted
        always. Exact on Fractions.
        """
        p, q = problem.p, problem.q
        fixed = fixed_part(self.law, q, problem.k)
        left = xp.with_zeros_at(p, fixed)
        _, selected = selection_probabilities(left, outside(q, fixed), xp.where(fixed < 0, 0, -1), self.classes)
        on_fixed = xp.where(fixed >= 0, xp.gather(p, fixed), 0).sum(-1)
        return on_fixed + xp.minimum(left, selected).sum(-1)


@accelerated("optimal")
def selection(p: Array, q: Array, drafts: Array, classes: int | None) -> Selection:
    """`selection_probabilities`, coupled with the target."""
    if classes is not None and xp.on_host(p):
        return host.selection_by_classes(p, q, drafts, classes)
    choice, selected = selection_probabilities(p, q, drafts, classes)
    return couple(p, selected, choice, drafts)


@accelerated("optimal")
def selection_probabilities(p: Array, q: Array, drafts: Array, classes: int | None = None) -> tuple[Array, Array]:
    """Probabilities that each draft is selected, and the distribution m of the selected token: (..., k), (..., n).

    p: (..., n) target masses with sum at most 1 (a scaled target w p is allowed); drafts: i.i.d. from q, absent
    ones -1. choice_i is the probability, given the drafts, that position i is selected; it sums to 1 (0 without a draft).
    sum_y min(p, m) is the largest that the distribution m of any selection can reach.
    """
    return (host if xp.on_host(p) else device).selection_probabilities(p, q, drafts, classes)
