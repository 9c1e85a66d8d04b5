"""Expected accepted lengths at one context, for every draft, budget and method; each distribution is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ot_draft as otd
from llm_demo.bench.trees.draws import NoDraws, SharedDraws
from llm_demo.bench.trees.growth import Drafted, Prefix, draft_together
from llm_demo.bench.trees.lengths import covered, expected_length, merged_laws, target_masses
from llm_demo.bench.trees.lookup_rates import IN_TREE
from llm_demo.bench.trees.methods import NAIVE, WAYS, Way
from llm_demo.bench.trees.plans import DEEPEST, DraftPlan
from llm_demo.bench.trees.prefixes import PrefixLogits
from llm_demo.bench.trees.summary import LOOKUP
from llm_demo.bench.trees.texts import SEED, Context
from llm_demo.rows import Row
from ot_draft.decoding import PromptLookup

DIGITS = 4


@dataclass(frozen=True)
class Models:
    """The target, the draft models by name, and their common vocabulary size n."""

    target: Any
    drafts: Mapping[str, Any]
    n: int


class DraftLaws:
    """Distributions of a draft model after one context, at the temperature of the context, or at 1 for a greedy target."""

    def __init__(self, logits: PrefixLogits, temperature: float) -> None:
        self.logits, self._temperature = logits, temperature or 1.0
        self.known: dict[Prefix, np.ndarray] = {}

    def __call__(self, prefixes: list[Prefix]) -> list[np.ndarray]:
        """Return the distributions after these prefixes, each float32 (n,)."""
        missing = [prefix for prefix in prefixes if prefix not in self.known]
        for prefix, logits in zip(missing, self.logits.at(missing), strict=True):
            self.known[prefix] = (logits.float() / self._temperature).softmax(-1).cpu().numpy()
        return [self.known[prefix] for prefix in prefixes]


class Behind:
    """Logits and distributions of the models after one context; a draft model is evaluated when it is first needed."""

    def __init__(self, context: Context, models: Models) -> None:
        self.context, self._models = context, models
        self.target = PrefixLogits(models.target, context.tokens, models.n)
        self._drafts: dict[str, DraftLaws] = {}

    def draft(self, name: str) -> DraftLaws:
        """Return the distributions of the draft model of this name."""
        if name not in self._drafts:
            models, tokens = self._models, self.context.tokens
            logits = PrefixLogits(models.drafts[name], tokens, models.n, models.target)
            self._drafts[name] = DraftLaws(logits, self.context.temperature)
        return self._drafts[name]

    def drop(self, name: str) -> None:
        """Free the memory of a draft model's distributions."""
        self._drafts.pop(name, None)

    @property
    def about(self) -> Row:
        """Values of the first columns of a row."""
        context = self.context
        return {"text": context.text, "kind": context.kind, "temperature": context.temperature}


def measure(
    behind: Behind, name: str, plans: Mapping[str, DraftPlan], budgets: Sequence[int], ways: Mapping[str, Way] = WAYS
) -> list[Row]:
    """Return a row for every budget of one draft model: the expected accepted length of every method, given its tree."""
    if name == LOOKUP:
        found = _looked_up(behind.context, behind.target, budgets)
    else:
        found = _lengths(behind.context, behind.target, behind.draft(name), plans[name], budgets, ways)
    return [
        behind.about
        | {"draft": name, "nodes": budget}
        | {way: round(length, DIGITS) for way, length in lengths.items()}
        for budget, lengths in zip(budgets, found, strict=True)
    ]


def _looked_up(context: Context, target: PrefixLogits, budgets: Sequence[int]) -> list[dict[str, float]]:
    tokens = looked_up(context)
    prefixes = [tokens[: depth + 1] for depth in range(len(tokens))]
    target.at(prefixes)
    mass = target_masses(target, context.temperature)
    return [{LOOKUP: covered(prefixes[:budget], mass)} for budget in budgets]


def _lengths(
    context: Context,
    target: PrefixLogits,
    draft: DraftLaws,
    plan: DraftPlan,
    budgets: Sequence[int],
    ways: Mapping[str, Way],
) -> list[dict[str, float]]:
    """Return the lengths by method for every budget; methods with the same drafter and rule share one computation."""
    greedy = not context.temperature
    chosen = {(name, n): (way.drafts(plan, n, greedy), way.rule) for name, way in ways.items() for n in budgets}
    trees = drafted(dict.fromkeys(drafting for drafting, _ in chosen.values()), draft, context)
    target.at({prefix for tree in trees.values() for prefix in tree.ways})
    of_rule = _by_rule(context, target, draft, trees, chosen.values())
    lengths = {key: of_rule(*how) for key, how in chosen.items()}
    return [{name: lengths[name, n] for name in ways} for n in budgets]


def drafted(
    draftings: Mapping[otd.trees.TreeDrafter, None], draft: DraftLaws, context: Context
) -> dict[otd.trees.TreeDrafter, Drafted]:
    """Return one tree per drafter, sampled with the random numbers of the context."""
    seed = 1000 * context.text + SEED
    kind = SharedDraws if context.temperature else NoDraws
    given = IN_TREE.find(context.tokens).tokens
    return dict(zip(draftings, draft_together(draftings, draft, lambda: kind(seed, given)), strict=True))


def looked_up(context: Context) -> tuple[int, ...]:
    """Return the tokens that prompt lookup proposes after the context."""
    return PromptLookup(DEEPEST).find(context.tokens).tokens


def _by_rule(
    context: Context,
    target: PrefixLogits,
    draft: DraftLaws,
    trees: Mapping[otd.trees.TreeDrafter, Drafted],
    chosen: Any,
) -> Callable[[otd.trees.TreeDrafter, otd.trees.PathRule], float]:
    """Return the function that computes the expected length of a tree under a rule.

    With a greedy target every rule accepts what naive target sampling accepts.
    """
    mass = target_masses(target, context.temperature)
    selected = {drafting: trees[drafting] for drafting, rule in chosen if context.temperature and rule != NAIVE}
    known: dict[Any, float] = {}
    if selected:
        laws = merged_laws(target, draft.logits, set(draft.known), list(selected.values()), context.temperature)

    def length(drafting: otd.trees.TreeDrafter, rule: otd.trees.PathRule) -> float:
        if (drafting, rule) not in known:
            tree = trees[drafting]
            naive = drafting not in selected or rule == NAIVE
            known[drafting, rule] = covered(tree.ways, mass) if naive else expected_length(rule, tree, laws)
        return known[drafting, rule]

    return length
