"""Lossy on purpose: a rule that selects for another target than p."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..arrays import Array
from ..errors import InvalidArgument
from ..laws import DraftLaw
from ..problem import Problem
from ..selection import ClosedForm, Retargetable, Selection, SelectionRule, under


@dataclass(frozen=True)
class Toward(SelectionRule):
    """Select by a rule, and for its draft law, as if the target were r = target(p, q, k, law). Its output law is r, not p.

    target: one of `otd.lossy`, or any function of (p, q, k, law). rule: any lossless rule; with `Optimal` and a target of the frontier, no
    rule within the target's budget accepts more. k is the number of draft positions. `otd.check_rule` holds it against r and its
    budget; `otd.evaluate(...).bias` says how far r is from p. Never lossless, but where r is p.
    Source: this project (docs/lossy.md).
    """

    target: Any
    rule: SelectionRule

    def __post_init__(self) -> None:
        if not callable(self.target) or isinstance(self.target, SelectionRule):  # the two may have been given in turn
            raise InvalidArgument(f"Toward({self.target!r}, ...): give a target first, for example otd.lossy.KL(0.02)")
        if not isinstance(self.rule, SelectionRule):  # anything may have been given
            raise InvalidArgument(f"Toward(..., {self.rule!r}): give a selection rule, for example otd.rules.Optimal()")
        for name in ("law", "cost", "siblings"):  # what the rule says of itself holds here
            object.__setattr__(self, name, getattr(self.rule, name))

    @property
    def claims(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.rule.claims, "own_target", *(("within_budget",) if self.budget else ()))

    @property
    def name(self) -> str:
        return f"Toward({getattr(self.target, 'name', repr(self.target))}, {self.rule.name})"

    @property
    def budget(self) -> tuple[str, Any] | None:
        """The divergence that the target bounds, and the bound; None where it bounds none."""
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
        if isinstance(self.rule, Retargetable):
            return self.rule.toward(self.target, p, q, drafts)
        return self.rule(self.target_kept(p, q, drafts.shape[-1]), q, drafts)
