"""Path rules: selection along whole drafted paths and trees, one file each; `ALL` lists one instance of every rule."""

from collections.abc import Iterable

from ... import rules as selection_rules
from ...names import lookup
from .block_verification import BlockVerification
from .joint import Joint
from .path_rule import PathRule, fits, lengths
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
    "command",
    "every",
    "fits",
    "joint",
    "label",
    "lengths",
    "short_name",
    "solves_program",
]

# Names on the command line by the rule's own, other than the short name in small letters.
COMMANDS = {"BlockVerification": "block", "NaivePath": "naive", "RacePath": "race"}
LABELS = {  # in the words of a text, by short names
    "BlockVerification": "block verification",
    "FromCoupling": "LP coupling",
    "Greedy": "greedy drafting",
    "GumbelCoupling": "one race",
    "HeadAndTail": "head and tail",
    "ImportanceWeighted": "importance weighted",
    "KSeq": "K-SEQ",
    "ListCoupling": "a race a draft",
    "NaiveTarget": "naive target sampling",
    "RacePath": "naive target sampling",
    "RandomOrder": "random order",
    "RecursiveRejection": "recursive rejection",
    "RecursiveRejectionWithoutReplacement": "recursive rejection, without replacement",
    "SpeculativeSampling": "speculative sampling",
}


def every() -> tuple[PathRule, ...]:
    """All path rules: those of `ALL`, then token-wise selection by every selection rule that has none of its own there."""
    known = {rule.rule for rule in ALL if isinstance(rule, TokenWise)}
    return (*ALL, *(TokenWise(rule) for rule in selection_rules.ALL if rule not in known))


def called(name: str, among: Iterable[PathRule] | None = None) -> PathRule:
    """Return the path rule of a name, of all or of some; case and punctuation are ignored. Raises InvalidArgument."""
    rules = tuple(every() if among is None else among)
    known = {short_name(rule): rule for rule in rules}
    others = {spelt: rule for rule in rules for spelt in (command(rule), rule.name)}
    others |= {paper: known[rule] for paper, rule in selection_rules.PAPERS.items() if rule in known}
    return lookup(name, known, "rule", others)


def short_name(rule: PathRule) -> str:
    """Name where it is clear that a path rule is meant: of token-wise selection that of its selection rule."""
    return rule.rule.name if isinstance(rule, TokenWise) else rule.name


def command(rule: PathRule) -> str:
    """Name on the command line."""
    return COMMANDS.get(rule.name, short_name(rule).lower())


def label(rule: PathRule) -> str:
    """Name in the words of a text."""
    return LABELS.get(short_name(rule), short_name(rule))


def solves_program(rule: PathRule) -> bool:
    """Whether a program is solved at every node: on the host, for small vocabularies."""
    if isinstance(rule, TowardPath):
        return solves_program(rule.rule)
    return isinstance(rule, TokenWise) and rule.rule.cost.solves_program
