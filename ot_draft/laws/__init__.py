"""Draft laws: the joint law of the k drafts given q. One file a law; `ALL` lists one instance of every law."""

import re
from collections.abc import Callable

from ..errors import InvalidArgument
from .base import (
    DraftLaw,
    Fact,
    canonical,
    check_defined,
    is_defined,
    marginals,
    outside,
    probability_inside,
    set_probabilities,
)
from .fixed import Fixed, PerNodeFixedTokens
from .fixed_tokens import FixedFirst, FixedTokensLaw
from .hybrid import Hybrid
from .iid import IID
from .several import Several
from .spec_hub import SpecHubLaw
from .without_replacement import WithoutReplacement

# One of every family that has a name of its own; the laws of PerNodeFixedTokens, FixedLast and Several are data. The command line, the
# checks and the tables know these laws.
ALL: tuple[DraftLaw, ...] = (IID(), WithoutReplacement(), Hybrid("auto"), Fixed((0,)), SpecHubLaw())

__all__ = [
    "ALL",
    "IID",
    "DraftLaw",
    "Fact",
    "Fixed",
    "FixedFirst",
    "FixedTokensLaw",
    "Hybrid",
    "PerNodeFixedTokens",
    "Several",
    "SpecHubLaw",
    "WithoutReplacement",
    "canonical",
    "check_defined",
    "fixed_last",
    "hybrid",
    "is_defined",
    "marginals",
    "outside",
    "probability_inside",
    "set_probabilities",
]

# Names on the command line that hold a number: as help shows them, pattern, and constructor of the draft law.
_WITH_NUMBERS: dict[str, tuple[str, Callable[..., DraftLaw]]] = {
    "greedy": ("greedy", lambda: Hybrid(-1)),
    "hybrid:J": (r"hybrid:(\d+)", lambda top: Hybrid(int(top))),
    "fixed:TOKEN+TOKEN": (r"fixed:(\d+(?:\+\d+)*)", lambda tokens: Fixed(tuple(map(int, tokens.split("+"))))),
}


def law_called(name: str, most: int | None = None) -> DraftLaw:
    """Return the draft law of a name on the command line, such as iid or hybrid:3.

    most: the largest number of draft tokens k, which the J of hybrid:J may not exceed. Raises InvalidArgument, also for an unknown name.
    """
    for law in ALL:
        if law.name == name:
            return law
    for pattern, make in _WITH_NUMBERS.values():
        if found := re.fullmatch(pattern, name):
            law = make(*found.groups())
            if most is not None and isinstance(law, Hybrid) and int(law.top) > most:
                raise InvalidArgument(
                    f"draft law must have at most k top tokens, hybrid:{most}, got {name!r}. Use a smaller number or a larger k."
                )
            return law
    raise InvalidArgument(f"draft law must be one of {', '.join(names())}, got {name!r}. Use one of them.")


def names() -> tuple[str, ...]:
    """The names of all laws on the command line."""
    patterns = [pattern for pattern, _ in _WITH_NUMBERS.values()]
    plain = (law.name for law in ALL)
    return (*(name for name in plain if not any(re.fullmatch(each, name) for each in patterns)), *_WITH_NUMBERS)
