"""What is studied on pairs of laws: which rules, with how many drafts, toward which target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import rules
from ..errors import InvalidArgument
from ..laws import DraftLaw, Hybrid, law_called
from ..problem import Problem
from ..selection import SelectionRule
from ..targets.base import Target

# Without those that take up to seconds a pair.
DEFAULT_RULES: tuple[SelectionRule, ...] = (
    *(rule for rule in rules.ALL if not rule.slow),
    rules.Optimal(Hybrid("auto")),
)
# Those whose acceptance has a formula that is quick on many pairs at a time.
QUICK_RULES: tuple[SelectionRule, ...] = (
    rules.SpeculativeSampling(),
    rules.NaiveTarget(),
    rules.RecursiveRejection(),
    rules.KSeq(),
    rules.Optimal(),
)
MOST_DRAFTS = 32_767  # what a column of 16 bits holds


@dataclass(frozen=True)
class Study:
    """Every rule under its own law, with every number of drafts k that the law is defined for.

    samples, seed: of the random drafts where no exact value is in reach; every pair, rule and k has its own stream of random
    numbers. lp_limit: seconds that the linear programs of one law and k may take on all pairs, judged by their size. target: for
    the place of p, in everything that is computed; the optimum is then the frontier at its budget (docs/lossy.md).
    """

    ks: tuple[int, ...] = (1, 2, 4, 8)
    rules: tuple[SelectionRule, ...] = DEFAULT_RULES
    samples: int = 256
    seed: int = 0
    lp_limit: float = 5.0
    target: Target | None = None

    def __post_init__(self) -> None:
        if not self.ks or not self.rules:
            raise InvalidArgument("a study needs at least one rule and one k")
        for name, value in (("samples", self.samples), *(("k", k) for k in self.ks)):
            if value < 1:
                raise InvalidArgument(f"{name} is {value}: give a whole number from 1 on")
        if max(self.ks) > MOST_DRAFTS:
            raise InvalidArgument(f"k is {max(self.ks)}: give numbers up to {MOST_DRAFTS}")

    def problem(self, p: Any, q: Any, k: int, law: DraftLaw) -> Problem:
        """The pairs (..., n) with k drafts by the law, their target replaced where another is wanted."""
        return Problem(p if self.target is None else self.target(p, q, k, law), q, k, law)

    @property
    def target_name(self) -> str:
        """Of what stands in the place of p; "" for p itself."""
        return "" if self.target is None else self.target.name


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
