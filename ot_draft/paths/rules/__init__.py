"""Path rules: selection along whole drafted paths and trees, one file each; `ALL` lists one instance of every rule."""

from collections.abc import Iterable

from ... import rules as selection_rules
from ...errors import InvalidArgument
from .block_verification import BlockVerification
from .joint import Joint
from .path_rule import PathRule
from .token_wise import NaivePath, TokenWise
from .toward_path import TowardPath
from .traversal import Traversal

# Beside these, every selection rule makes a path rule, node by node: `every`.
ALL: tuple[PathRule, ...] = (Joint(), Traversal(), BlockVerification(), NaivePath())

__all__ = [
    "ALL",
    "BlockVerification",
    "Joint",
    "NaivePath",
    "PathRule",
    "TokenWise",
    "TowardPath",
    "Traversal",
    "called",
    "every",
]


def every() -> tuple[PathRule, ...]:
    """All path rules: those of `ALL`, then token-wise selection by every selection rule that has none of its own there."""
    known = {rule.selection for rule in ALL}
    return (*ALL, *(TokenWise(rule) for rule in selection_rules.ALL if rule not in known))


def called(name: str, among: Iterable[PathRule] | None = None) -> PathRule:
    """The path rule that goes by a name, of all or of some; capitals, - and _ do not matter. Raises InvalidArgument."""
    rules = tuple(every() if among is None else among)
    wanted = name.lower().replace("-", "").replace("_", "")
    for rule in rules:
        if wanted in (rule.command, rule.short_name.lower(), rule.name.lower()):
            return rule
    raise InvalidArgument(f"there is no rule {name!r}: take {', '.join(rule.short_name for rule in rules)}")
