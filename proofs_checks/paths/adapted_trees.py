"""Trees whose numbers of children depend on earlier drafts: the dependences for which joint and optimal selection are lossless.

A tree is drafted prefix by prefix: siblings with the same token are one prefix. A step drafts after one prefix: some
fixed tokens T and r i.i.d. draws from q outside T, given to the first node that holds the prefix. Which prefix is next, T and r are
any functions of everything drafted before, and of p, q, the text and independent randomness.

THEOREM. If no prefix is drafted after twice, `Joint` and `TokenWise(Optimal)` keep the target distribution. So drafting level by level is
lossless if the numbers of a level depend on the levels above only; depth first and any order of confidence are lossless too; and budget
that a level does not use (for example because equal draws are one prefix) may be used below.

PROOF. Let c be a prefix, and H everything drafted up to the step of c, without that step (if nothing is drafted after c: everything).
The walk of selection from the root down to c looks at the children of the prefixes on the way only, and these were drafted before: a
prefix is drafted after only when a node holds it. So the choices of the walk are functions of H and of separate uniform random numbers.
Given H, the draws after c are r i.i.d. draws from q outside T, with T and r known: the token selected among them has the distribution m
that the rule computes from p, q, T and r. Let G be H with the choices of the walk, and w the weight of the walk, a function of G.
CLAIM: given G, the probability that the prefix c or one below it is accepted, and that what is emitted from there on begins with z,
is w p(z | c), for every z. By induction from the deepest prefix upward. Where nothing is drafted after c, that is the last test:
accepted with w, and the target follows. Else a token y is selected by m, its weight is min(1, w p(y) / m(y)), and what is emitted beyond it
follows the target by the claim for c y, whose G holds more and changes nothing about m(y): min(m(y), w p(y)) in all. With probability
1 - sum of min(m, w p) = 1 - w + R nothing longer is accepted; then the test of c passes with R / (R + 1 - w), and (w p - m)+ / R
follows: (w p(y) - m(y))+ in all. Both together are w p(y). At the root w = 1. For TokenWise(Optimal) the same with w = 1 at every prefix,
because the output of the rule at c, given G, follows p. QED

TRAVERSAL needs less: it is lossless however often a prefix is drafted after. Its claim for a node c, of weight w and target p, is that
given everything drafted so far the node or one below it is accepted with probability w, and that the target follows. This
says nothing about how many children there are. So when c was rejected with all below it, of probability 1 - w whatever hangs there, the
elder history is as likely as before, the next child follows its distribution given that, and whether there is one may depend on all of it.

For joint and optimal selection a prefix that is drafted after twice breaks the second sentence of the proof: r then depends on draws
after c, and they are no longer i.i.d. given r. Three plausible methods are refuted by counterexample below. Whether two
nodes are equal siblings matters: numbers after one token may depend on what was drawn after another token of the same level, and not
on what was drawn after an equal one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.tree import PlainTree

from ..checking import check
from ..statement import Statement
from .stepwise import Expansion, Stepwise, adaptive

__all__ = ["STATEMENTS", "check"]

ANEW, ONE_BY_ONE, LOOK = "a draw that repeats is drawn anew", "equal siblings one by one", "one more after a look below"
DROPPED = "token 0 is taken off the tree wherever it was drawn"
ERRORS = (ANEW, ONE_BY_ONE, LOOK)
RULES = (trees.Joint(), trees.TokenWise(otd.rules.Optimal(law=otd.laws.PerNodeFixedTokens())))
History = tuple[Expansion, ...]
Step = tuple[tuple[int, ...], tuple[int, ...], int]
Plan = Callable[[History], Step | None]


@dataclass(frozen=True)
class AdaptedCase:
    """A model of n tokens, and the bounds of the trees drafted from it; seed: of a random plan."""

    model: trees.MarkovModel
    budget: int
    length: int
    seed: int = 0

    def __str__(self) -> str:
        rows = []
        for prefix, p in self.model.targets.items():
            shown = [f"({', '.join(map(str, row))})" for row in (p, self.model.drafts[prefix])]
            rows.append(f"after {' '.join(map(str, prefix)) or 'nothing'} p = {shown[0]}, q = {shown[1]}")
        return f"{self.budget} nodes, L = {self.length}; {'; '.join(rows)}"

    @property
    def n(self) -> int:
        return len(self.model.target(()))

    @property
    def size(self) -> tuple[int, ...]:
        """Small ones are easy to read."""
        return self.budget, self.length, len(self.model.targets), self.n

    def lossless(self, plan: Plan) -> bool:
        """Return whether both rules keep the target's distribution on the trees of the plan."""
        return all(trees.evaluate(rule, self.model, Stepwise(plan, self.length)).lossless for rule in RULES)


def draw_adapted(seed: int) -> AdaptedCase:
    """Return the case of this number: 2 or 3 tokens, 3 to 6 nodes, 2 or 3 levels, models of order 0, 1 and 2."""
    n, budget, length = ((2, 4, 2), (2, 5, 3), (3, 4, 2), (2, 6, 2), (3, 3, 3))[seed % 5]
    model = trees.MarkovModel.random(np.random.default_rng([seed, 29]), n, seed % 3)
    return AdaptedCase(model, budget, length, seed)


def any_order(case: AdaptedCase) -> Plan:
    """Return a plan that hashes everything drafted so far for its next prefix, its fixed tokens and its number of draws."""

    def step(history: History) -> Step | None:
        used = sum(len(drafted.fixed) + len(drafted.drawn) for drafted in history)
        places = [place for place in _places(history, case.length) if all(place != done.prefix for done in history)]
        if not places or used >= case.budget:
            return None
        chosen = random.Random(f"{case.seed} {[tuple(drafted) for drafted in history]}")
        number = chosen.randint(1, min(case.budget - used, 3))
        fixed = chosen.sample(range(case.n), chosen.randint(0, min(number, case.n - 1)))
        return chosen.choice(places), tuple(fixed), number - len(fixed)

    return step


def _places(history: History, length: int) -> list[tuple[int, ...]]:
    """Return the prefixes that some node holds, which may have children."""
    places: list[tuple[int, ...]] = [()]
    for prefix, fixed, drawn in history:
        places += [(*prefix, token) for token in fixed + drawn if len(prefix) + 1 < length]
    return list(dict.fromkeys(places))


def with_error(plan: Plan, error: str) -> Plan:
    """Return the plan with one prefix that is drafted after twice: the second time depends on the draws of the first, or on those below."""

    def step(history: History) -> Step | None:
        again = {ANEW: _drawn_anew, ONE_BY_ONE: _one_by_one, LOOK: _after_a_look}[error](history)
        return (
            plan(tuple(drafted for number, drafted in enumerate(history) if number not in again.ignored))
            if (again.step is None)
            else again.step
        )

    return step if error else plan


@dataclass(frozen=True)
class _Again:
    """A repeated step, if it is due, and the repeated steps of the history."""

    step: Step | None
    ignored: tuple[int, ...]


def _second(history: History, due: Callable[[Expansion], bool], after: Callable[[Expansion], bool]) -> _Again:
    """Return one more draw, once, at the first prefix for which it is due, as soon as `after` accepts the history."""
    ignored = tuple(i for i, d in enumerate(history) if any(d.prefix == other.prefix for other in history[:i]))
    if not ignored:
        for drafted in history:
            if due(drafted) and after(drafted):
                return _Again((drafted.prefix, drafted.fixed, 1), ())
    return _Again(None, ignored)


def _drawn_anew(history: History) -> _Again:
    return _second(history, lambda drafted: len(set(drafted.drawn)) < len(drafted.drawn), lambda drafted: True)


def _one_by_one(history: History) -> _Again:
    def due(drafted: Expansion) -> bool:
        """Return whether two siblings hold the prefix, and the elder one drew token 0: then the younger draws as well."""
        above = [other for other in history if drafted.prefix and other.prefix == drafted.prefix[:-1]]
        held = sum((other.fixed + other.drawn).count(drafted.prefix[-1]) for other in above)
        return held > 1 and 0 in drafted.drawn

    return _second(history, due, lambda drafted: True)


def _after_a_look(history: History) -> _Again:
    def below(drafted: Expansion) -> bool:
        """Return whether a child of the prefix was drafted after, and drew token 0."""
        children = [other for other in history if len(other.prefix) == len(drafted.prefix) + 1]
        return any(other.prefix[:-1] == drafted.prefix and 0 in other.drawn for other in children)

    return _second(history, below, lambda drafted: True)


def any_order_is_lossless(case: AdaptedCase, error: str) -> bool:
    """Return whether both rules are lossless if no prefix is drafted after twice."""
    return case.lossless(with_error(any_order(case), error))


def ours_is_lossless(case: AdaptedCase, error: str) -> bool:
    """Return whether both rules are lossless on `AdaptiveTree`, whose numbers come from an estimate by q."""
    drafting = trees.AdaptiveTree(
        case.budget, case.length, max_children=3, spread=case.seed % 2
    )  # drawn more, or fixed more
    return case.lossless(with_error(adaptive(drafting, case.model).step, error))


def _always(p: str, q: str) -> trees.MarkovModel:
    """Return a model of independent tokens."""
    p_row, q_row = (np.array([Fraction(mass) for mass in masses.split()], dtype=object) for masses in (p, q))
    return trees.MarkovModel({(): p_row}, {(): q_row}, 0)


SMALL = AdaptedCase(_always("1/4 1/2 1/4", "1/4 1/4 1/2"), 3, 2)


CAUGHT = (AdaptedCase(SMALL.model, 4, 2),)  # detects every error, with the plan of this number
CAUGHT_IN_OURS = (AdaptedCase(_always("1/4 1/2 1/4", "2/5 2/5 1/5"), 3, 2, 1),)  # two draws at its root


def drawn_anew(history: History) -> Step | None:
    """Plan two draws at the root, and a third if they are equal."""
    if not history:
        return (), (), 2
    equal = len(set(history[0].drawn)) == 1
    return ((), (), 1) if equal and len(history) == 1 else None


def used_below(history: History) -> Step | None:
    """Plan two draws at the root, and one after them if they are equal."""
    if not history:
        return (), (), 2
    equal = len(set(history[0].drawn)) == 1
    return (history[0].drawn[:1], (), 1) if equal and len(history) == 1 else None


def one_by_one(history: History) -> Step | None:
    """Plan two draws at the root; if they are equal, one after the elder, and one after the younger if that was token 0."""
    if not history:
        return (), (), 2
    equal = len(set(history[0].drawn)) == 1
    due = len(history) == 1 or (len(history) == 2 and history[1].drawn == (0,))
    return (history[0].drawn[:1], (), 1) if equal and due else None


def after_another(history: History) -> Step | None:
    """Plan two draws at the root; if they differ, one after the first, and one after the second if that was token 0."""
    if not history:
        return (), (), 2
    differ = len(set(history[0].drawn)) == 2
    due = len(history) == 1 or (len(history) == 2 and history[1].drawn == (0,))
    return (history[0].drawn[len(history) - 1 :][:1], (), 1) if differ and due else None


def after_a_look(history: History) -> Step | None:
    """Plan one draw at the root, one after it, and one more at the root if that was token 0."""
    if len(history) == 2:
        return ((), (), 1) if history[1].drawn == (0,) else None
    return None if len(history) == 3 else (history[0].drawn if history else (), (), 1)


def deeper_after_a_look(history: History) -> Step | None:
    """Plan one draw at the root, one after it, and then one or two more after those, two if the last was token 0."""
    prefix = tuple(token for drafted in history for token in drafted.drawn)
    return (prefix, (), 1 + (history[1].drawn == (0,) if len(history) == 2 else 0)) if len(history) < 3 else None


def lossless(plan: Plan, repaired: Plan, length: int) -> Callable[[AdaptedCase, str], bool]:
    """Return the statement of the false claim that one of the two rules is lossless on the plan's trees.

    On those of the repaired plan both are.
    """

    def holds(case: AdaptedCase, error: str) -> bool:
        drafting = Stepwise(repaired if error else plan, length + bool(error))
        kept = [trees.evaluate(rule, case.model, drafting).lossless for rule in RULES]
        return all(kept) if error else any(kept)

    return holds


def _refuted(name: str, claim: str, plan: Plan, repaired: Plan, repair: str, length: int) -> Statement:
    return Statement(
        name,
        claim,
        "plausible",
        "Fractions, all trees and all decisions enumerated",
        lossless(plan, repaired, length),
        (repair,),
        expected="refuted",
        first=(SMALL,),
        limit=0,
    )


def by_traversal(case: AdaptedCase, error: str) -> bool:
    """Return whether Traversal is lossless on the plan, and with each of the three ways of drafting after a prefix again."""

    def rule(nodes: Any, tree: PlainTree) -> Any:
        if error:
            tree = replace(tree, tokens=tuple(-1 if token == 0 else token for token in tree.tokens))
        return trees.Traversal()(nodes, tree)

    plans = [any_order(case), *(with_error(any_order(case), again) for again in ERRORS)]
    return all(trees.evaluate(rule, case.model, Stepwise(plan, case.length)).lossless for plan in plans)


METHOD = "Fractions, all trees and all decisions enumerated"
STATEMENTS = (
    Statement(
        "trees drafted place by place",
        "Joint and Optimal are lossless if each step depends on all earlier draft tokens and no prefix is expanded twice.",
        "this project; proof in the module",
        METHOD,
        any_order_is_lossless,
        ERRORS,
        first=CAUGHT,
        draw=draw_adapted,
        limit=200,
    ),
    Statement(
        "the tree that follows the draft",
        "Joint and Optimal are lossless on the trees of AdaptiveTree.",
        "this project",
        METHOD,
        ours_is_lossless,
        (ANEW, LOOK),
        first=CAUGHT_IN_OURS,
        draw=draw_adapted,
        limit=200,
    ),
    Statement(
        "traversal does not ask how many there are",
        "Traversal is lossless on trees whose steps depend on all earlier draft tokens, also if a step expands a prefix again.",
        "this project; proof in the module",
        METHOD,
        by_traversal,
        (DROPPED,),
        first=CAUGHT,
        draw=draw_adapted,
        limit=200,
    ),
    _refuted(
        "a repeated draw may be drawn anew",
        "Joint or Optimal is lossless if a sample that repeats another is sampled again, to use the budget for distinct tokens.",
        drawn_anew,
        used_below,
        "the budget is used below",
        1,
    ),
    _refuted(
        "equal siblings may be drafted after one by one",
        "Joint or Optimal is lossless if the children of a node depend on those sampled after a sibling with the same token.",
        one_by_one,
        after_another,
        "after a sibling with another token",
        2,
    ),
    _refuted(
        "one more child after a look below",
        "Joint or Optimal is lossless if a node gets another child because of what was sampled after its first child.",
        after_a_look,
        deeper_after_a_look,
        "further down",
        2,
    ),
)
