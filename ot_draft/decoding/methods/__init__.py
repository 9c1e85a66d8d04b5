"""Decoding methods by name: drafting, draft law and path rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...boundary import int_from
from ...errors import CannotDecode, InvalidArgument
from ...laws import law_called
from ...selection import approximate_for
from ...trees import BlockVerification, FixedTree, NaivePath, PathRule, TreeDrafter, TreeShape
from ...trees import drafting as tree_drafters
from ...trees import rules as path_rules
from ..cascade import CascadePath
from ..drafting import Drafting
from ..policy import PolicySettings
from ..prompt_lookup import PromptLookup
from ..tuning import Auto
from ..watermark import watermarked

__all__ = ["Method", "auto_method", "dynamic_method", "lookup_method", "method_called", "shape_of"]

AUTOREGRESSIVE, AUTO = "autoregressive", "auto"


@dataclass(frozen=True)
class Method:
    """A decoding method and its names. rule, law: on the command line. label, drafts: in tables.

    drafting: of its steps; autoregressive decoding if the policy chooses among many. policy: of a run. fixed_shape: whether all steps have
    one shape, so that costs and speed can be estimated beforehand.
    """

    rule: str
    law: str
    label: str
    drafts: str
    drafting: Drafting
    policy: PolicySettings = field(compare=False)
    fixed_shape: bool

    @classmethod
    def of(cls, rule: str, law: str, label: str, drafts: str, drafting: Drafting) -> Method:
        """Return the method whose steps all have this drafting."""
        return cls(rule, law, label, drafts, drafting, drafting, fixed_shape=not drafting.tree.counts.n_lookup_tokens)

    @property
    def K(self) -> int:
        """Number of draft paths: children of the root."""
        return self.drafting.tree.counts.n_paths

    @property
    def L(self) -> int:
        """Length of the paths."""
        return self.drafting.tree.bounds.length

    @property
    def slug(self) -> str:
        """Name for a folder."""
        words = f"{self.rule} {self.law} {self.drafts.split(',')[0]}" if self.drafting.tree.bounds.size else self.rule
        return "-".join("".join(c if c.isalnum() else " " for c in words.lower().replace("×", "x")).split())


def auto_method(auto: Auto | None = None) -> Method:
    """Return the method `auto`, which chooses the drafting of every step."""
    return Method(AUTO, "", AUTO, "chosen in every step", Drafting.autoregressive(), auto or Auto(), fixed_shape=False)


def lookup_method(lookup: PromptLookup | None = None) -> Method:
    """Return prompt lookup alone, with naive target sampling."""
    drafting = Drafting.looked_up(lookup)
    return Method.of("lookup", "", "prompt lookup", f"1 × up to {drafting.tree.bounds.length}, looked up", drafting)


def chain_method(length: int) -> Method:
    """Return one path of a draft model with a cascade, with block verification on both levels."""
    tree = CascadePath.of(length)
    return Method.of("block", "iid", "chain of three models", tree.label, Drafting(tree, BlockVerification()))


def watermark_method(key: str, paths: int, length: int, rule: str = "race") -> Method:
    """Return K paths drafted by the races of a key; rule: race, or a selection rule."""
    path_rule = None if rule.lower() == "race" else _rule_called(rule, "race")
    drafting = watermarked(key, paths, length, path_rule)
    drafts = f"{drafting.tree.label}, by races"
    return Method.of(path_rules.command(drafting.rule), "iid", f"{rule}, with a watermark", drafts, drafting)


def shape_of(paths: int, length: int, tree: Sequence[int] | None) -> TreeShape:
    """Return a tree by the number of children on every level, or K paths of length L."""
    if tree is not None:
        return TreeShape.by_level(tuple(tree))
    for name, number in (("paths", paths), ("length", length)):
        int_from(name, number, 1, error=CannotDecode)
    return TreeShape.chains(paths, length)


def method_called(rule: str, law: str | None, shape: TreeShape) -> Method:
    """Return the method of these names; law: by default that of the rule. Raises CannotDecode or InvalidDrafts if they do not fit."""
    if rule.lower() == AUTOREGRESSIVE:
        return Method.of(AUTOREGRESSIVE, "", AUTOREGRESSIVE, "", Drafting.autoregressive())
    path_rule = _rule_called(rule, AUTOREGRESSIVE)
    if law == "top" or (law is None and path_rule == NaivePath()):
        name, drawn = "top", law_called(f"hybrid:{max(shape.branching)}")
    else:
        drawn = path_rule.law if law is None else law_called(law, max(shape.branching))
        name = drawn.name
    tree = FixedTree(shape, drawn)
    labels = {"iid": "i.i.d.", "without-replacement": "without replacement", "hybrid:auto": "hybrid, j from q"}
    drafts = f"{tree.label}, {labels.get(name, name)}"
    return Method.of(
        path_rules.command(path_rule),
        name,
        path_rules.label(path_rule),
        drafts,
        Drafting(tree, approximate_for(path_rule, drawn)),
    )


def methods_to_compare(paths: int, length: int, tree: Sequence[int] | None) -> list[Method]:
    """Return the default comparison: one path, K paths of length L, and trees. tree: by default (K, 2, 1) down to depth L."""
    one, many = shape_of(1, length, None), shape_of(paths, length, None)
    grown = shape_of(paths, length, tuple(tree) if tree else (paths, 2, 1)[:length])
    wanted: list[tuple[str, str | None, TreeShape]] = [
        (AUTOREGRESSIVE, None, many),
        ("speculativesampling", None, one),
        ("block", None, one),
        ("recursiverejection", None, many),
        ("kseq", None, many),
        ("optimal", None, many),
        ("optimal", "hybrid:auto", many),
        ("traversal", None, many),
        ("joint", None, many),
        ("joint", "hybrid:auto", many),
        ("recursiverejectionwithoutreplacement", None, grown),
        ("naive", "top", grown),
    ]
    return list(dict.fromkeys(method_called(*each) for each in wanted))


def _rule_called(name: str, *others: str) -> PathRule:
    """The path rule of a name, among those without a program. others: further names, for the message."""
    known = [each for each in path_rules.every() if not path_rules.solves_program(each)]
    try:
        return path_rules.called(name, known)
    except InvalidArgument as error:
        also = f" Or {' or '.join(others)}." if others else ""
        raise CannotDecode(f"{error}{also}") from None


def dynamic_method(tree: TreeDrafter, rule: str | None = None, lookup: PromptLookup | None = None) -> Method:
    """Return the method of an adaptive tree and the path rule of this name, by default the tree's own.

    lookup: for trees that take looked-up tokens. Raises CannotDecode for an unknown rule, InvalidDrafts for one that is not lossless on
    these trees.
    """
    path_rule = approximate_for(tree.rule if rule is None else _rule_called(rule), tree.law)
    drafting = Drafting.of(tree, path_rule, lookup)
    return Method.of(
        path_rules.command(path_rule),
        tree.label,
        path_rules.label(path_rule),
        f"{tree.label}, up to {tree.bounds.size} nodes",
        drafting,
    )


def dynamic_methods(budget: int) -> list[Method]:
    """Return one method for every adaptive tree drafter, with its own rule."""
    return [dynamic_method(make(budget)) for make in tree_drafters.ALL.values()]
