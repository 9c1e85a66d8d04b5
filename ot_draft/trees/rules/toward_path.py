"""Lossy path rules: a path rule that selects for another target at every node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ... import arrays as xp
from ...arrays import Array
from ...errors import InvalidDrafts
from ...laws import DraftLaw
from ...selection import approximate_for
from ..model import Model, Nodes, Path
from ..tree import Bounds, DraftTree, PathSelection, PlainTree
from .path_rule import Outcome, PathRule, looks_ahead, output_distribution, solves_program
from .survivors import Draws


@dataclass(frozen=True)
class Retargeted:
    """A model whose target is r = target(p, q, k, law) after every prefix that has drafts, and p after longer ones.

    drafts: number k of drafts by depth.
    """

    model: Model
    rule_target: Any
    drafts: tuple[int, ...]
    law: DraftLaw

    def target(self, prefix: Path) -> Array:
        p = self.model.target(prefix)
        if len(prefix) >= len(self.drafts):
            return p
        return self.rule_target(p, self.model.draft(prefix), self.drafts[len(prefix)], self.law)

    def draft(self, prefix: Path) -> Array:
        return self.model.draft(prefix)


@dataclass(frozen=True)
class TowardPath(PathRule):
    """Select along the tree by a path rule for the target r instead of p after every prefix: emitted tokens follow r.

    k is the number of children of the nodes of a depth, K at the root of K paths and 1 below, so that r depends on the prefix alone. The
    token after the last draft token follows p. The KL of a sequence is the sum over its tokens (chain rule). Evaluated against
    `toward.retargeted(...)`, the rule is lossless. Shapes with unequal nodes in a level raise InvalidDrafts. Source: docs/lossy.md.

    Parameters
    ----------
    target : callable
        One of `otd.lossy`, or any function of (p, q, k, law).
    rule : PathRule
        Any path rule, for instance `Joint()`.

    Raises
    ------
    InvalidDrafts
        If target is not a function, or rule is not a path rule.

    Examples
    --------
    >>> import ot_draft as otd
    >>> otd.trees.TowardPath(otd.lossy.KL(0.02), otd.trees.Joint()).rule
    Joint(classes=None)
    """

    target: Any
    rule: PathRule

    def __post_init__(self) -> None:
        if not callable(self.target) or not isinstance(self.rule, PathRule):
            raise InvalidDrafts(
                f"target must be a function and rule a path rule, got {self.target!r} and {self.rule!r}. Use TowardPath(KL(0.02), Joint())."
            )

    @property
    def name(self) -> str:
        return f"TowardPath({getattr(self.target, 'name', repr(self.target))}, {self.rule.name})"

    @property
    def law(self) -> DraftLaw:
        return self.rule.law

    def approximate_for(self, law: DraftLaw) -> TowardPath:
        return replace(self, rule=approximate_for(self.rule, law))

    def check(self, bounds: Bounds, law: DraftLaw) -> None:
        if bounds.children_by_level is None:
            raise InvalidDrafts(
                f"{self.name}: all nodes of a level must have equally many children, so that the target depends on the tokens alone. Draw K"
                " paths, or use TreeShape.by_level."
            )
        self.rule.check(bounds, law)

    def n_uniforms(self, bounds: Bounds) -> int:
        return self.rule.n_uniforms(bounds)

    @property
    def looks_ahead(self) -> bool:
        return looks_ahead(self.rule)

    @property
    def solves_program(self) -> bool:
        return solves_program(self.rule)

    @property
    def takes_noise(self) -> bool:  # type: ignore[override]  # a property here, a class variable there
        return self.rule.takes_noise

    def output_distribution(self, tree: DraftTree, chosen: Array) -> Array | None:
        return output_distribution(self.rule, self.retargeted_tree(tree), chosen)

    def retargeted(self, model: Model, bounds: Bounds, law: DraftLaw) -> Retargeted:
        """Return the model with r instead of the target, for trees of this shape and draft law."""
        return Retargeted(model, self.target, _drafts(bounds), law)

    def outcomes(self, nodes: Nodes, tree: PlainTree) -> Iterable[Outcome]:
        key = ("retargeted", tree.shape, tree.law)
        retargeted = nodes.once(self, key, lambda: Nodes(self.retargeted(nodes, tree.shape, tree.law)))
        return self.rule.outcomes(retargeted, tree)

    def _select(self, tree: DraftTree, draws: Draws) -> PathSelection:
        return self.rule._select(self.retargeted_tree(tree), draws)

    def retargeted_tree(self, tree: DraftTree) -> DraftTree:
        """Return the tree with r instead of p."""
        parts, start, width = [], 0, 1
        for k in _drafts(tree.bounds):
            rows = slice(start, start + width)
            parts.append(self.target(tree.p[:, rows], tree.q[:, rows], k, tree.law))
            start, width = start + width, width * k
        return replace(tree, p=xp.namespace(tree.p).concatenate((*parts, tree.p[:, start:]), -2))


def _drafts(bounds: Bounds) -> tuple[int, ...]:
    """Number of children of every node, by depth, without the last level."""
    assert bounds.children_by_level is not None  # checked by `check`
    return bounds.children_by_level
