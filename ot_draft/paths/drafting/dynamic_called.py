"""Dynamic trees by name: `dynamic:32`, `dynamic:32:eagle2`."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import InvalidArgument
from .adaptive import AdaptiveTree
from .confident import ConfidentTree
from .counted_tree import CountedTree
from .dynamic_tree import DynamicTree
from .lookup_tree import LookupTree
from .sampled import SampledTree
from .stopped import StoppedPath

DYNAMIC, USUAL = "dynamic", "lookup"
DYNAMIC_TREES: dict[str, Callable[[int], DynamicTree]] = {
    "lookup": LookupTree,
    "counted": CountedTree,
    "adaptive": AdaptiveTree,
    "eagle2": ConfidentTree,
    "opt-tree": ConfidentTree.opt_tree,
    "dyspec": SampledTree,
    "specdec": StoppedPath,
}


def dynamic_tree(name: str) -> DynamicTree:
    """The drafting of a name: dynamic:N, of N nodes at most, and after another colon the way to grow, `lookup` where none is given.

    Raises InvalidArgument.
    """
    family, _, rest = name.lower().partition(":")
    nodes, _, way = rest.partition(":")
    if family != DYNAMIC or not nodes.isdecimal() or not int(nodes) or (way or USUAL) not in DYNAMIC_TREES:
        raise InvalidArgument(
            f"there is no dynamic tree {name!r}: give dynamic:32 or another number of nodes, alone or with one of"
            f" {', '.join(DYNAMIC_TREES)}, like dynamic:32:eagle2"
        )
    return DYNAMIC_TREES[way or USUAL](int(nodes))
