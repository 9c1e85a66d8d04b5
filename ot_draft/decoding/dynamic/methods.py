"""Ways of decoding with trees that follow the draft model, by name."""

from __future__ import annotations

import ot_draft as ot

from ...errors import CannotDecode
from ..compared.methods import Method
from ..draft_plan import Drafting
from ..plans.lookup import Lookup


def dynamic_method(grower: ot.paths.DynamicTree, rule: str | None = None, lookup: Lookup | None = None) -> Method:
    """The method that drafts so and selects by the path rule of this name, the drafting's own where none is given.

    lookup: for trees that take what is looked up. Raises CannotDecode where there is no such rule, InvalidDrafts for one that is not
    lossless on these trees.
    """
    path_rule = grower.rule if rule is None else _rule_called(rule)
    path_rule = path_rule.quick(grower.law)
    drafts = f"{grower.label}, up to {grower.budget} nodes"
    return Method(path_rule.command, grower.label, path_rule.label, drafts, Drafting.dynamic(grower, path_rule, lookup))


def dynamic_methods(budget: int) -> list[Method]:
    """One method for every way to grow, by its own rule."""
    return [dynamic_method(make(budget)) for make in ot.paths.DYNAMIC_TREES.values()]


def _rule_called(name: str) -> ot.paths.PathRule:
    known = [each for each in ot.paths.rules.every() if not each.solves]
    try:
        return ot.paths.rules.called(name, known)
    except ot.InvalidArgument:
        names = ", ".join(each.short_name for each in known)
        raise CannotDecode(f"there is no rule {name!r} for drafted trees: take {names}") from None
