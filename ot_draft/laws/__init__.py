"""Draft laws: the joint law of the k drafts given q. One file a law; `ALL` lists one instance of every law."""

from ..errors import InvalidArgument
from .base import DraftLaw, outside
from .by_node import ByNode, ByNodeLast, ToldByNode
from .fixed import Fixed, FixedFirst
from .fixed_last import FixedLast
from .hub import Hub
from .hybrid import Hybrid
from .iid import IID
from .several import Several
from .top_number import StandIn
from .without_replacement import WithoutReplacement

# One of every family that has a name of its own (ByNode's, FixedLast's and Several's laws are data); what the command line, the checks
# and the tables know of laws, they ask of these.
ALL: tuple[DraftLaw, ...] = (IID(), WithoutReplacement(), Hybrid("auto"), Fixed((0,)), Hub())

__all__ = [
    "ALL",
    "IID",
    "ByNode",
    "ByNodeLast",
    "DraftLaw",
    "Fixed",
    "FixedFirst",
    "FixedLast",
    "Hub",
    "Hybrid",
    "Several",
    "StandIn",
    "ToldByNode",
    "WithoutReplacement",
    "law_called",
    "outside",
    "spellings",
]


def law_called(name: str) -> DraftLaw:
    """The law that goes by a name on the command line: iid, hybrid:3. Raises InvalidArgument for a name that is no law's."""
    for family in ALL:
        if (law := family.spelled(name)) is not None:
            return law
    raise InvalidArgument(f"there is no law {name!r}: take {', '.join(spellings())}")


def spellings() -> tuple[str, ...]:
    """The names of all laws on the command line."""
    return tuple(name for family in ALL for name in family.spellings)
