"""Traversal verification on trees that depend on earlier drafts: the dependences allowed, with fixed tokens before and after the draws.

Children are tested in order, each with the distribution from which it was drawn given its elder siblings, against the rest of the target
after the rejections of these siblings.

THEOREM 1. A tree is drafted draw by draw: each step adds one child, the youngest of its node, from any distribution that is known then
(for example q outside the elder siblings, or a point mass: a fixed token). The next node, the distribution, and whether there is a next
step are any functions of everything drafted before: ancestors, siblings, descendants, other branches, values, the remaining budget.
Then Traversal is lossless.

PROOF. Let F(tree) be the distribution of the text (emitted tokens, completed by the target) given the tree. CLAIM: for a leaf x that is
added to a tree as the youngest child of u, the mean of F(tree with x) over the distribution Q of x is F(tree). Traversal reaches x when
all elder children of u and their descendants were rejected; no earlier decision depends on x. Let w and p be weight and target of u then.
Without x, u is accepted with probability w, and the text continues with p; with 1 - w it is rejected, and the parent of u continues from a
state that does not depend on the descendants of u. With x: x is accepted with min(1, w p(x) / Q(x)), and the text continues with the target
after x, so that the mass of texts through x is min(Q(x), w p(x)) on average. Otherwise, with probability 1 - w + R, where R is the mass of
(w p - Q)+, u is accepted with R / (R + 1 - w), and the text continues with (w p - Q)+ / R: this is (w p - Q)+ in total, and w p together
with the texts through x. It is rejected with 1 - w, as without x. This proves the claim. So F of the tree drafted so far is a martingale:
its mean at the end is F of the tree with the root only, which is the target. QED

Equal siblings, returning to a node, and values computed from draws below are all allowed. The only condition is that the child's own
token does not affect whether the child is added.

THEOREM 2. Fixed tokens T may be placed after the draws of their node, which are from q outside T, if the number of draws is known before
anything is drafted below a token of T.

PROOF. Given everything drafted before the first node below T, its draws and T are the children of u in order: add the draws one by one,
then the tokens of T, each a point mass, as the youngest. From then on only other nodes get children. This is a drafting of theorem 1. QED

The condition is necessary: a draw that is added before T after drafting below T is not the youngest. The weight with which a token of T
enters depends on it, and the tokens below T depend on the tokens of T: refuted below. With T before the draws the same drafting is
lossless. Drafting level by level satisfies the condition. `ot_draft.trees.CountedTree`, which has no fixed tokens, is an instance of
theorem 1.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.drafting.counted_acceptance import CountedAcceptance
from ot_draft.trees.tree import PlainTree

from ..checking import check
from ..statement import Statement
from .adapted_trees import METHOD, AdaptedCase, History, Plan, Step, draw_adapted
from .stepwise import LAST, Stepwise

__all__ = ["STATEMENTS", "check"]

TRAVERSAL = trees.Traversal()
OWN_TOKEN = "a draw that is token 0 is not kept"
LATE = "one more draw before the fixed tokens after a look below them"


def one_by_one(case: AdaptedCase) -> Plan:
    """Return a plan that hashes all that was drafted so far for the next node, which gets one more draw."""

    def step(history: History) -> Step | None:
        chosen = random.Random(f"{case.seed} {[tuple(drafted) for drafted in history]}")
        places: list[tuple[int, ...]] = [()]
        for prefix, _, drawn in history:
            places += [(*prefix, token) for token in drawn if len(prefix) + 1 < case.length]
        full = {place for place in places if sum(done.prefix == place for done in history) >= case.n}
        open_places = [place for place in dict.fromkeys(places) if place not in full]
        if len(history) >= min(case.budget, 4) or not open_places or (history and chosen.random() < 0.1):
            return None
        return chosen.choice(open_places), (), 1

    return step


def any_next_draw(case: AdaptedCase, error: str) -> bool:
    """Return whether traversal is lossless if the next draw depends on any earlier draws.

    With the error, a draw is removed because of its token.
    """

    def rule(nodes: Any, tree: PlainTree) -> Any:
        if error:
            tree = replace(tree, tokens=tuple(-1 if token == 0 else token for token in tree.tokens))
        return TRAVERSAL(nodes, tree)

    return trees.evaluate(rule, case.model, Stepwise(one_by_one(case), case.length, LAST)).lossless


def level_by_level(case: AdaptedCase) -> Plan:
    """Return a plan that hashes the levels above for how many draws, and which fixed tokens, every node of a level gets."""

    def step(history: History) -> Step | None:
        done = {drafted.prefix: drafted for drafted in history}
        level: list[tuple[int, ...]] = [()]
        used = 0
        for _ in range(case.length):
            above = f"{case.seed} {sorted(tuple(done[p]) for p in done if len(p) < len(level[0]))}" if level else ""
            below: list[tuple[int, ...]] = []
            for prefix in level:
                chosen = random.Random(f"{above} {prefix}")
                number = min(chosen.randint(0 if prefix else 1, 2), case.n, min(case.budget, 4) - used)
                fixed = tuple(chosen.sample(range(case.n), chosen.randint(0, max(number, 0))))
                if number < 1:
                    continue
                if prefix not in done:
                    return prefix, fixed, number - len(fixed)
                used += number
                below += [(*prefix, token) for token in done[prefix].fixed + done[prefix].drawn]
            level = below
        return None

    return step


def fixed_behind(case: AdaptedCase, error: str) -> bool:
    """Return whether traversal is lossless if levels depend on earlier levels.

    With the error, a draw depends on nodes below a fixed token.
    """
    plan = level_by_level(case)

    def late(history: History) -> Step | None:
        ignored = [i for i, d in enumerate(history) if any(d.prefix == other.prefix for other in history[:i])]
        step = plan(tuple(drafted for number, drafted in enumerate(history) if number not in ignored))
        if step is not None or ignored:
            return step
        for drafted in history:
            below = [other for token in drafted.fixed for other in history if other.prefix == (*drafted.prefix, token)]
            taken = len(drafted.fixed) + len(drafted.drawn)
            if taken < case.n and any(0 in other.drawn for other in below):
                return drafted.prefix, drafted.fixed, 1
        return None

    return trees.evaluate(TRAVERSAL, case.model, Stepwise(late if error else plan, case.length, LAST)).lossless


ACCEPTANCES = (
    CountedAcceptance(
        ((0.4, 0.35), (0.6, 0.2), (0.8, 0.05)), ((0.5, 1.0, 1.5), (0.8, 1.0, 1.2)), (0.6, 0.2), (0.5, 0.75)
    ),
    CountedAcceptance(((0.7, 0.1, 0.1), (0.5, 0.3, 0.2)), ((0.5, 1.5),), (0.6, 0.2, 0.1), (0.6,)),
)


def ours_is_lossless(case: AdaptedCase, error: str) -> bool:
    """Return whether traversal is lossless on `CountedTree`, enumerated in its batched form.

    With the error, the rule assumes i.i.d. draws.
    """
    drafting = trees.CountedTree(min(case.budget, 4), case.length, ACCEPTANCES[case.seed % 2])

    def rule(nodes: Any, tree: PlainTree) -> Any:
        return TRAVERSAL(nodes, replace(tree, law=otd.IID()) if error else tree)

    return trees.evaluate(rule, case.model, drafting).lossless


TAKEN = "the rule takes the draws for i.i.d. ones"


def look_below(history: History) -> Step | None:
    """Plan a fixed token at the root, one draw after it, and one more draw at the root if that was token 0."""
    if len(history) == 2:
        return ((), (0,), 1) if history[1].drawn == (0,) else None
    return None if len(history) == 3 else ((0,), (), 1) if history else ((), (0,), 0)


def _always(p: str, q: str) -> trees.MarkovModel:
    p_row, q_row = (np.array([Fraction(mass) for mass in masses.split()], dtype=object) for masses in (p, q))
    return trees.MarkovModel({(): p_row}, {(): q_row}, 0)


SMALL = AdaptedCase(_always("1/2 1/4 1/4", "1/4 1/2 1/4"), 3, 2)


def late_draw(case: AdaptedCase, error: str) -> bool:
    """Return whether the false claim holds; with the repair, the fixed token is before the draw."""
    law = otd.laws.PerNodeFixedTokens() if error else LAST
    return trees.evaluate(TRAVERSAL, case.model, Stepwise(look_below, 2, law)).lossless


STATEMENTS = (
    Statement(
        "traversal, draw by draw",
        "Traversal is lossless if each step adds the last child of a node, chosen as a function of all earlier draft tokens.",
        "this project; proof in the module",
        METHOD,
        any_next_draw,
        (OWN_TOKEN,),
        first=(SMALL,),
        draw=draw_adapted,
        limit=200,
    ),
    Statement(
        "traversal with fixed tokens after the draws",
        "Traversal is lossless if samples outside fixed tokens are tested before these, and the levels above "
        "determine how many of each.",
        "this project; proof in the module",
        METHOD,
        fixed_behind,
        (LATE,),
        first=(draw_adapted(7),),  # where the error shows
        draw=draw_adapted,
        limit=200,
    ),
    Statement(
        "the tree of counted acceptance",
        "Traversal is lossless on the trees of CountedTree.",
        "this project",
        METHOD,
        ours_is_lossless,
        (TAKEN,),
        first=(draw_adapted(10),),  # where the error shows
        draw=draw_adapted,
        limit=200,
    ),
    Statement(
        "one more draw before a fixed token after a look below it",
        "Traversal is lossless if a node with a fixed token gets a sample, tested before it, because of what was sampled below it.",
        "plausible",
        METHOD,
        late_draw,
        ("the fixed token is tested first",),
        expected="refuted",
        first=(SMALL,),
        limit=0,
    ),
)
