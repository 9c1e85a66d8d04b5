"""Ways to draft trees, one class each; `ALL` makes one of every kind that follows the draft, by name and for a number of nodes."""

from collections.abc import Callable

from ...errors import InvalidArgument
from .adaptive import AdaptiveTree
from .baselines import ConfidentTree, SampledTree, StoppedPath
from .counted import CountedTree, LookupTree
from .drafter import DraftCounts, TreeDrafter, as_trees, begin, draft_trees

__all__ = [
    "ALL",
    "DraftCounts",
    "as_trees",
    "baselines",
    "begin",
    "called",
    "counted_acceptance",
    "draft_trees",
    "fixed",
    "growing",
]

FAMILY, USUAL = "dynamic", "lookup"
ALL: dict[str, Callable[[int], TreeDrafter]] = {
    "lookup": LookupTree,
    "counted": CountedTree,
    "adaptive": AdaptiveTree,
    "eagle2": ConfidentTree,
    "opt-tree": ConfidentTree.opt_tree,
    "dyspec": SampledTree,
    "specdec": StoppedPath,
}


def called(name: str) -> TreeDrafter:
    """The drafting of a name: dynamic:N, of N nodes at most, and after another colon the way to grow, `lookup` where none is given.

    Raises InvalidArgument.
    """
    family, _, rest = name.lower().partition(":")
    nodes, _, way = rest.partition(":")
    if family != FAMILY or not nodes.isdecimal() or not int(nodes) or (way or USUAL) not in ALL:
        raise InvalidArgument(
            f"there is no dynamic tree {name!r}: give {FAMILY}:32 or another number of nodes, alone or with one of"
            f" {', '.join(ALL)}, like {FAMILY}:32:eagle2"
        )
    return ALL[way or USUAL](int(nodes))
