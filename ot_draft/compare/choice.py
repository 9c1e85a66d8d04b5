"""Names of laws, and which rules are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from .. import rules
from ..errors import InvalidDrafts
from ..laws import IID, DraftLaw, Hub, Hybrid, WithoutReplacement
from ..selection import SelectionRule

# What is compared unless rules are named. RandomOrder is left out: it takes up to seconds a pair.
DEFAULT_RULES: tuple[SelectionRule, ...] = (
    *(rule for rule in rules.ALL if not isinstance(rule, rules.RandomOrder)),
    rules.Optimal(Hybrid("auto")),
)


def law_name(law: DraftLaw) -> str:
    """Name of a law on the command line and in tables."""
    if isinstance(law, Hybrid):
        return "greedy" if law.top == -1 else f"hybrid:{law.top}"
    return {IID: "iid", WithoutReplacement: "without-replacement", Hub: "hub"}.get(type(law), law.name)


def law_called(name: str) -> DraftLaw:
    """The law of that name."""
    laws: dict[str, DraftLaw] = {
        "iid": IID(),
        "without-replacement": WithoutReplacement(),
        "greedy": Hybrid(-1),
        "hub": Hub(),
    }
    kind, _, top = name.partition(":")
    if kind == "hybrid" and (top.isdecimal() or top == "auto"):
        return Hybrid(int(top) if top.isdecimal() else top)
    if name not in laws:
        raise InvalidDrafts(f"there is no law {name!r}: take {', '.join(laws)}, hybrid:J, hybrid:auto")
    return laws[name]


def choose_rules(names: Sequence[str] = (), laws: Sequence[str] = ()) -> tuple[SelectionRule, ...]:
    """Rules of these names (DEFAULT_RULES without any) under these laws (each its own without any).

    A law that is asked for also gets the rules that are valid under it though it is not their own: naive target sampling and
    the rule read off the linear program under every law, the optimal rule under hybrid drafting.
    """
    known = {rule.name.lower(): rule for rule in rules.ALL}
    wanted = [name.lower().replace("-", "").replace("_", "") for name in names]
    for given, name in zip(names, wanted, strict=True):
        if name not in known:
            raise InvalidDrafts(f"there is no rule {given!r}: take {', '.join(rule.name for rule in rules.ALL)}")
    chosen = tuple(known[name] for name in wanted) or DEFAULT_RULES
    if not laws:
        return chosen
    under = [at for law in map(law_called, laws) for rule in chosen if (at := _under(rule, law)) is not None]
    if not under:
        raise InvalidDrafts(f"none of the rules {', '.join(r.name for r in chosen)} is valid under {', '.join(laws)}")
    return tuple(dict.fromkeys(under))  # Optimal stands twice among the default rules


def _under(rule: SelectionRule, law: DraftLaw) -> SelectionRule | None:
    if rule.law == law:
        return rule
    anywhere = isinstance(rule, rules.NaiveTarget | rules.FromCoupling)
    if anywhere or (isinstance(rule, rules.Optimal) and isinstance(law, Hybrid)):
        return cast(SelectionRule, replace(cast(Any, rule), law=law))
    return None
