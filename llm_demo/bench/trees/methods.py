"""The methods of the table: how each drafts N nodes, and which lossless rule selects. A new method is one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import ot_draft as otd
from llm_demo.bench.trees.plans import DEEPEST, WITHOUT, DraftPlan
from llm_demo.bench.trees.shapes import best_by_level
from ot_draft.trees.drafting.baselines import ConfidentTree, SampledTree

CONFIDENT, SAMPLED = ConfidentTree, SampledTree
NAIVE, JOINT, TRAVERSAL = otd.trees.NaivePath(), otd.trees.Joint(), otd.trees.Traversal()
IN_TURN = otd.trees.TokenWise(WITHOUT)
OPTIMAL, K_SEQ = (otd.trees.TokenWise(rule) for rule in (otd.rules.Optimal(), otd.rules.KSeq()))
TOPS = otd.Hybrid(64)  # top tokens only, in the order of their probabilities

Drafts = Callable[
    [DraftPlan, int, bool], otd.trees.TreeDrafter
]  # arguments: plan of the draft, budget, whether the target is greedy


@dataclass(frozen=True)
class Way:
    """One method of the table. `summary.OURS` lists those of this project."""

    drafts: Drafts
    rule: otd.trees.PathRule


def _path(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return otd.trees.FixedTree(otd.trees.TreeShape.chains(1, min(budget, DEEPEST)), TOPS if greedy else otd.IID())


def _chains(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    # All paths of a greedy draft are equal.
    return _path(plan, budget, greedy) if greedy else otd.trees.FixedTree(plan.chains(budget), otd.IID())


@cache
def _even(by_child: tuple[float, ...], budget: int) -> otd.trees.TreeShape:
    return best_by_level(by_child, budget, DEEPEST)


@cache
def _sequoia(by_child: tuple[float, ...], budget: int) -> otd.trees.TreeShape:
    return otd.trees.sequoia(by_child, budget, DEEPEST)


def _k_ary(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return otd.trees.FixedTree(_even(plan.by_child, budget), TOPS if greedy else otd.WithoutReplacement())


def _uneven(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return otd.trees.FixedTree(_sequoia(plan.by_child, budget), TOPS if greedy else otd.WithoutReplacement())


def _hybrid(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return otd.trees.FixedTree(_even(plan.by_child, budget), TOPS if greedy else otd.Hybrid("auto"))


def _stopped(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return otd.trees.StoppedPath(min(budget, DEEPEST), accepted=plan.stopped)


def _adaptive(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return plan.adaptive_tree(budget)


def _counted(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return plan.counted_tree(budget)


def _looked_up(plan: DraftPlan, budget: int, greedy: bool) -> otd.trees.TreeDrafter:
    return plan.lookup_tree(budget)


WAYS: dict[str, Way] = {
    "one path, block": Way(_path, otd.trees.BlockVerification()),
    "SpecDec++": Way(_stopped, otd.trees.BlockVerification()),
    "chains, K-SEQ": Way(_chains, K_SEQ),
    "chains, Optimal": Way(_chains, OPTIMAL),
    "chains, Joint": Way(_chains, JOINT),
    "k-ary": Way(_k_ary, IN_TURN),
    "Sequoia": Way(_uneven, IN_TURN),
    "Sequoia, traversal": Way(_uneven, TRAVERSAL),
    "DySpec": Way(lambda plan, budget, greedy: SAMPLED(budget, DEEPEST), IN_TURN),
    "EAGLE-2": Way(lambda plan, budget, greedy: CONFIDENT(budget, DEEPEST), NAIVE),
    "OPT-Tree": Way(lambda plan, budget, greedy: CONFIDENT.opt_tree(budget, DEEPEST), NAIVE),
    "hybrid, Joint": Way(_hybrid, JOINT),
    "adaptive, Joint": Way(_adaptive, JOINT),
    "adaptive, traversal": Way(_adaptive, TRAVERSAL),
    "counted": Way(_counted, IN_TURN),
    "counted, traversal": Way(_counted, TRAVERSAL),
    "counted and lookup, traversal": Way(_looked_up, TRAVERSAL),
}
