"""Ways of decoding by name, as data: what is drafted, by which law, and by which rule it is selected from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...errors import CannotDecode, InvalidArgument
from ...laws import law_called
from ...selection import approximate_for
from ...trees import BlockVerification, FixedTree, NaivePath, PathRule, TreeDrafter, TreeShape
from ...trees import drafting as tree_drafters
from ...trees import rules as path_rules
from ..cascade import CascadePath
from ..drafting import Drafting
from ..given import check_paths
from ..policy import PolicySettings
from ..prompt_lookup import PromptLookup
from ..tuning import Auto
from ..watermark import watermarked

__all__ = ["Method", "auto_method", "dynamic_method", "lookup_method", "method_called", "shape_of"]

AUTOREGRESSIVE, AUTO, RACE = "autoregressive", "auto", "race"
LAW_LABELS = {"iid": "i.i.d.", "without-replacement": "without replacement", "hybrid:auto": "hybrid, j from q"}


@dataclass(frozen=True)
class Method:
    """A way of decoding, and its names. rule, law: as on the command line; label, drafts: as in tables.

    drafting: of its steps; autoregressive decoding where the policy chooses among many. policy: what a run is decoded by. fixed_shape:
    whether all
    steps have one shape, so that their costs and the speed can be estimated beforehand.
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
        """The method whose every step is of this drafting, which looks up as many tokens as it finds, or drafts one shape."""
        return cls(rule, law, label, drafts, drafting, drafting, fixed_shape=not drafting.tree.counts.n_lookup_tokens)

    @property
    def K(self) -> int:
        """Number of drafted paths; of a tree, children of the root."""
        return self.drafting.tree.counts.n_paths

    @property
    def L(self) -> int:
        """Length of the paths."""
        return self.drafting.tree.bounds.length

    @property
    def slug(self) -> str:
        """Name of a folder of its own."""
        words = f"{self.rule} {self.law} {self.drafts.split(',')[0]}" if self.drafting.tree.bounds.size else self.rule
        return "-".join("".join(c if c.isalnum() else " " for c in words.lower().replace("×", "x")).split())


def auto_method(auto: Auto | None = None) -> Method:
    """The method by the name of auto: its every step has the shape that promises most."""
    return Method(AUTO, "", AUTO, "chosen in every step", Drafting.autoregressive(), auto or Auto(), fixed_shape=False)


def lookup_method(lookup: PromptLookup | None = None) -> Method:
    """Prompt lookup alone, by naive target sampling."""
    drafting = Drafting.looked_up(lookup)
    return Method.of("lookup", "", "prompt lookup", f"1 × up to {drafting.tree.bounds.length}, looked up", drafting)


def chain_method(length: int) -> Method:
    """One path of a draft model that has a draft of its own, by block verification on both levels."""
    tree = CascadePath.of(length)
    return Method.of("block", "iid", "chain of three models", tree.label, Drafting(tree, BlockVerification()))


def watermark_method(key: str, paths: int, length: int, rule: str = RACE) -> Method:
    """K paths drafted by the races of a key; rule: race, or a selection rule, token by token."""
    path_rule = None if rule.lower() == RACE else _rule_called(rule, RACE)
    drafting = watermarked(key, paths, length, path_rule)
    drafts = f"{drafting.tree.label}, by races"
    return Method.of(path_rules.command(drafting.rule), "iid", f"{rule}, with a watermark", drafts, drafting)


def shape_of(paths: int, length: int, tree: Sequence[int] | None) -> TreeShape:
    """A tree by the number of children on every level, or K paths of length L."""
    if tree is not None:
        return TreeShape.by_level(tuple(tree))
    check_paths(paths, length)
    return TreeShape.chains(paths, length)


def method_called(rule: str, law: str | None, shape: TreeShape) -> Method:
    """The method of these names; the law is the rule's own where none is given. CannotDecode or InvalidDrafts where they do not fit."""
    if rule.lower() == AUTOREGRESSIVE:
        return Method.of(AUTOREGRESSIVE, "", AUTOREGRESSIVE, "", Drafting.autoregressive())
    path_rule = _rule_called(rule, AUTOREGRESSIVE)
    if law == "top" or (law is None and isinstance(path_rule, NaivePath)):
        name, drawn = "top", law_called(f"hybrid:{max(shape.branching)}")
    else:
        drawn = path_rule.law if law is None else law_called(law)
        name = drawn.name
    tree = FixedTree(shape, drawn)
    drafts = f"{tree.label}, {LAW_LABELS.get(name, name)}"
    return Method.of(
        path_rules.command(path_rule),
        name,
        path_rules.label(path_rule),
        drafts,
        Drafting(tree, approximate_for(path_rule, drawn)),
    )


def methods_to_compare(paths: int, length: int, tree: Sequence[int] | None) -> list[Method]:
    """The default comparison: one draft, K paths of length L, and trees. tree: (K, 2, 1) down to depth L unless given."""
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
    """The path rule of a name, of those that decoding can do with; others: names that stand for something else."""
    known = [each for each in path_rules.every() if not path_rules.solves_program(each)]
    try:
        return path_rules.called(name, known)
    except InvalidArgument as error:
        also = f" Or {' or '.join(others)}." if others else ""
        raise CannotDecode(f"{error}{also}") from None


def dynamic_method(tree: TreeDrafter, rule: str | None = None, lookup: PromptLookup | None = None) -> Method:
    """The method that drafts trees that follow the draft and selects by the path rule of this name, the tree's own where none is given.

    lookup: for trees that take what is looked up. Raises CannotDecode where there is no such rule, InvalidDrafts for one that is not
    lossless on these trees.
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
    """One method for every way to draft trees that follow the draft, by its own rule."""
    return [dynamic_method(make(budget)) for make in tree_drafters.ALL.values()]
