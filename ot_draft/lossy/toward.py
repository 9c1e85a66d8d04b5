"""Lossy rules: selection for another target distribution than p."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..arrays import Array
from ..errors import InvalidArgument
from ..laws import DraftLaw
from ..problem import Problem
from ..selection import ClosedForm, Selection, SelectionRule, toward, under


@dataclass(frozen=True)
class Toward(SelectionRule):
    """Lossy rule: select by a lossless rule as if the target distribution were r = target(p, q, k, law).

    The output distribution is r. `otd.check_rule` checks this, and the budget of the target; `otd.evaluate(...).bias` is the distance
    of r from p. With `Optimal` and a target of `otd.lossy`, no rule within the budget accepts more.

    Parameters
    ----------
    target : Target or callable
        Target of `otd.lossy`, or a function of (p, q, k, law) that returns r of shape (..., n). k is the number of draft tokens.
    rule : SelectionRule
        A lossless rule.

    Raises
    ------
    InvalidArgument
        If target is not a function, or rule is not a selection rule.

    References
    ----------
    .. [1] docs/lossy.md of this project.

    Examples
    --------
    >>> import ot_draft as otd
    >>> from fractions import Fraction as F
    >>> rule = Toward(otd.lossy.TotalVariation(F(1, 10)), otd.rules.SpeculativeSampling())
    >>> evaluation = otd.evaluate(rule, otd.Problem([F(1, 2), F(1, 2)], [F(3, 4), F(1, 4)], k=1))
    >>> evaluation.acceptance, evaluation.bias.total_variation
    (Fraction(17, 20), Fraction(1, 10))
    """

    target: Any
    rule: SelectionRule

    def __post_init__(self) -> None:
        if not callable(self.target) or isinstance(self.target, SelectionRule):  # arguments may be swapped
            raise InvalidArgument(
                f"target must be a function of (p, q, k, law), got {self.target!r}. Give otd.lossy.KL(0.02)."
            )
        if not isinstance(self.rule, SelectionRule):  # any value may be passed
            raise InvalidArgument(f"rule must be a selection rule, got {self.rule!r}. Give otd.rules.Optimal().")
        siblings = replace(self.rule.siblings, separate_fixed=False)
        for name, value in (("law", self.rule.law), ("cost", self.rule.cost), ("siblings", siblings)):
            object.__setattr__(self, name, value)

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.rule.claims, "own_target", *(("within_budget",) if self.budget else ()))

    @property
    def name(self) -> str:
        return f"Toward({getattr(self.target, 'name', repr(self.target))}, {self.rule.name})"

    @property
    def budget(self) -> tuple[str, Any] | None:
        """The divergence that the target bounds, and the bound; None without one."""
        return getattr(self.target, "guarantee", None)

    def target_kept(self, p: Array, q: Array, k: int) -> Array:
        return self.target(p, q, k, self.law)

    def under(self, law: DraftLaw) -> Toward | None:
        rule = under(self.rule, law)
        return None if rule is None else replace(self, rule=rule)

    def closed_form(self, problem: Problem, optimum: Array | None = None) -> ClosedForm | None:
        kept = self.target_kept(problem.p, problem.q, problem.k)
        return self.rule.closed_form(Problem(kept, problem.q, problem.k, problem.law))

    def __call__(self, p: Array, q: Array, drafts: Array) -> Selection:
        return toward(self.rule, self.target, p, q, drafts)
