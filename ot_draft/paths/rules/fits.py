"""Which law the children of a tree must follow for a rule to be valid on it; the error that names both and the remedy."""

from __future__ import annotations

from ...errors import InvalidDrafts
from ...laws import DraftLaw
from ...selection import SelectionRule
from ..tree import Bounds


def same_law(one: DraftLaw, other: DraftLaw, bounds: Bounds) -> bool:
    """Whether two laws are one on a tree of this shape."""
    return all(one.plain(count) == other.plain(count) for count in bounds.branching)


def rule_fits(rule: SelectionRule, law: DraftLaw, bounds: Bounds) -> bool:
    """Whether a selection rule is valid at every node of a tree whose children were drawn by the law."""
    return all(rule.valid_under(law, count) for count in bounds.branching)


def refuse(name: str, valid_under: str, law: DraftLaw) -> InvalidDrafts:
    """The error for a path rule on a tree that was drawn by another law."""
    return InvalidDrafts(
        f"{name} is valid on trees whose children follow {valid_under}, and the children of this one were drawn by {law!r}:"
        f" {law.remedy}, or draw the tree by the law of the rule"
    )
