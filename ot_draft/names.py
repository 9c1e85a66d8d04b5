"""Names as users type them: spelling variants are equal, and an unknown name gets the closest ones."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeVar

from .errors import InvalidArgument

T = TypeVar("T")


def normalised(name: str) -> str:
    """Return the letters and digits of a name in lower case: K-SEQ, k_seq and KSeq are equal."""
    return "".join(filter(str.isalnum, name.lower()))


def lookup(name: str, known: Mapping[str, T], what: str, aliases: Mapping[str, T] = MappingProxyType({})) -> T:
    """Return the entry of the name; raises InvalidArgument with the closest names, or all but the aliases if none is close."""
    wanted = normalised(name)
    for each, value in (*known.items(), *aliases.items()):
        if normalised(each) == wanted:
            return value
    separator = "; " if any("," in each for each in known) else ", "
    remedy = did_you_mean(name, (*known, *aliases)) or f"Use one of {separator.join(known)}."
    raise InvalidArgument(f"{what} must be a known name, got {name!r}. {remedy}")


def did_you_mean(name: str, known: Iterable[str], max_suggestions: int = 3) -> str:
    """Return a question with the closest names; empty if no name is close."""
    names: dict[str, str] = {}
    for each in known:
        names.setdefault(normalised(each), each)
    wanted = normalised(name)
    inside = [each for each in names if len(wanted) > 2 and wanted in each]
    close = inside or get_close_matches(wanted, names, max_suggestions)
    return f"Did you mean {' or '.join(names[each] for each in close[:max_suggestions])}?" if close else ""
