"""Which rule is valid on a tree whose children were drawn by which law; the error that names both and the remedy."""

from __future__ import annotations

from ...errors import InvalidDrafts
from ...laws import IID, DraftLaw, Hub, Hybrid, WithoutReplacement
from ...rules.naive_target import NaiveTarget
from ...rules.speculative_sampling import SpeculativeSampling
from ...selection import SelectionRule
from ..tree import TreeShape

FIRST_FOLLOWS_Q = (IID, WithoutReplacement, Hub)  # laws whose first draft follows q


def same_law(one: DraftLaw, other: DraftLaw, shape: TreeShape) -> bool:
    """Whether two laws are one on a tree of this shape."""
    return one == other or all(_plain(one, count) == _plain(other, count) for count in shape.branching)


def _plain(law: DraftLaw, count: int) -> DraftLaw:
    """The law of `count` drafts under its plainest name."""
    if law == Hybrid(top=-1):
        law = Hybrid(top=max(count - 1, 0))
    if law == Hybrid(top=0) or (count <= 1 and isinstance(law, WithoutReplacement)):
        return IID()
    return law


def rule_fits(rule: SelectionRule, law: DraftLaw, shape: TreeShape) -> bool:
    """Whether a selection rule is valid at every node of a tree whose children were drawn by the law."""
    if isinstance(rule, NaiveTarget):
        return True
    if isinstance(rule, SpeculativeSampling) and isinstance(law, FIRST_FOLLOWS_Q):
        return True
    return same_law(rule.law, law, shape)


def even(shape: TreeShape) -> bool:
    """Whether all nodes of a level that have children have equally many."""
    return all(len({len(shape.children(v)) for v in level} - {0}) <= 1 for level in shape.levels)


def refuse(name: str, valid_under: str, law: DraftLaw) -> InvalidDrafts:
    """The error for a path rule on a tree that was drawn by another law."""
    return InvalidDrafts(
        f"{name} is valid on trees whose children follow {valid_under}, and the children of this one were drawn by {law!r}:"
        f" {_remedy(law)}, or draw the tree by the law of the rule"
    )


def _remedy(law: DraftLaw) -> str:
    if isinstance(law, WithoutReplacement):
        return "take TokenWise(RecursiveRejectionWithoutReplacement()) or Traversal()"
    if isinstance(law, Hybrid):
        return f"take TokenWise(Optimal(law={law!r})), Joint(), or NaiveTarget() where nothing was drawn"
    if isinstance(law, Hub):
        return "take TokenWise(SpecHub()) or Traversal()"
    if isinstance(law, IID):
        return "take Joint() or TokenWise(KSeq())"
    return "take NaiveTarget(), which is valid under every law"
