"""Path rules: selection along whole drafted paths and trees, one file each; `ALL` lists one instance of every rule."""

from collections.abc import Iterable

from ... import rules as selection_rules
from ...names import lookup
from .block_verification import BlockVerification
from .joint import Joint
from .path_rule import PathRule, fits, lengths, short_name, solves_program
from .token_wise import NaivePath, TokenWise
from .toward_path import TowardPath
from .traversal import Traversal

# Every other selection rule makes a path rule, too: `every`.
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

# Names on the command line that are not the lower-case short name.
COMMANDS = {"BlockVerification": "block", "NaivePath": "naive", "RacePath": "race"}
LABELS = {  # names in text, by short name
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
    """Return all path rules: those of `ALL`, then token-wise selection by every other selection rule."""
    known = {short_name(rule) for rule in ALL}
    return (*ALL, *(TokenWise(rule) for rule in selection_rules.ALL if rule.name not in known))


def called(name: str, among: Iterable[PathRule] | None = None) -> PathRule:
    """Return the path rule of a name, of all or of some; case and punctuation are ignored. Raises InvalidArgument."""
    rules = tuple(every() if among is None else among)
    known = {short_name(rule): rule for rule in rules}
    others = {spelt: rule for rule in rules for spelt in (command(rule), rule.name)}
    others |= {paper: known[rule] for paper, rule in selection_rules.PAPERS.items() if rule in known}
    return lookup(name, known, "rule", others)


def command(rule: PathRule) -> str:
    """Return the name on the command line."""
    return COMMANDS.get(rule.name, short_name(rule).lower())


def label(rule: PathRule) -> str:
    """Return the name in text."""
    return LABELS.get(short_name(rule), short_name(rule))
