"""Names of laws, and which rules are compared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from .. import rules
from ..errors import InvalidArgument
from ..laws import DraftLaw, Hybrid, law_called
from ..selection import SelectionRule

# What is compared unless rules are named; without those that take up to seconds a pair.
DEFAULT_RULES: tuple[SelectionRule, ...] = (
    *(rule for rule in rules.ALL if not rule.slow),
    rules.Optimal(Hybrid("auto")),
)


def law_name(law: DraftLaw) -> str:
    """Deprecated: `law.spelling`."""
    warnings.warn("compare.law_name(law) is now law.spelling", DeprecationWarning, stacklevel=2)
    return law.spelling


def choose_rules(names: Sequence[str] = (), laws: Sequence[str] = ()) -> tuple[SelectionRule, ...]:
    """Rules of these names (DEFAULT_RULES without any) under these laws (each its own without any).

    A law that is asked for also gets the rules that are valid under it though it is not their own (`SelectionRule.under`): naive
    target sampling and the rule read off the linear program under every law, the optimal rule under hybrid drafting.
    """
    known = {rule.name.lower(): rule for rule in rules.ALL}
    wanted = [name.lower().replace("-", "").replace("_", "") for name in names]
    for given, name in zip(names, wanted, strict=True):
        if name not in known:
            raise InvalidArgument(f"there is no rule {given!r}: take {', '.join(rule.name for rule in rules.ALL)}")
    chosen = tuple(known[name] for name in wanted) or DEFAULT_RULES
    if not laws:
        return chosen
    under = [at for law in map(law_called, laws) for rule in chosen if (at := rule.under(law)) is not None]
    if not under:
        raise InvalidArgument(f"none of the rules {', '.join(r.name for r in chosen)} is valid under {', '.join(laws)}")
    return tuple(dict.fromkeys(under))  # Optimal stands twice among the default rules
