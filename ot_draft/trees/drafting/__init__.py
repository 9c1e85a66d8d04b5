"""Tree drafters, one class each; `ALL` makes an adaptive one by its name and number of nodes."""

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
    """Return the tree drafter of a name: dynamic:N with at most N nodes, or dynamic:N:KIND with a name of `ALL`, by default lookup.

    Raises InvalidArgument.
    """
    family, _, rest = name.lower().partition(":")
    nodes, _, way = rest.partition(":")
    if family != FAMILY or not nodes.isdecimal() or not int(nodes) or (way or USUAL) not in ALL:
        raise InvalidArgument(
            f"tree must be {FAMILY}:NODES or {FAMILY}:NODES:KIND with one of {', '.join(ALL)}, got {name!r}. Use {FAMILY}:32:eagle2."
        )
    return ALL[way or USUAL](int(nodes))
