"""evaluate_plan: a path rule on trees that were drafted place by place, each step as a plan decides from what was drawn before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from ...arrays import integers, one
from ...laws import ByNode, Fixed
from ..drafting.plans import Expansion, History, Plan
from ..drafting.shapes import as_shape
from ..model import Model, Path
from ..plain import Forest, PlainTree
from ..rules.path_rule import Nodes, PathLaw
from .evaluate import Accepted, PathEvaluation, _held, _judge


def evaluate_plan(path_rule: Callable[[Any, Any], PathLaw], model: Model, plan: Plan, length: int) -> PathEvaluation:
    """Law of the first L + 1 tokens and expected accepted length of `path_rule(model, PlainTree)` on trees drafted by the plan.

    length: L, the depth of the deepest node that the plan may draft. Of siblings with one token the first holds the children. A prefix
    that is drafted after twice has the draws of both times, in drawing order. Exact if the model's distributions are Fractions.
    """
    nodes = Nodes.of(model)

    def drafted() -> Iterator[tuple[Any, Any, Accepted]]:
        for history, probability in _histories(nodes, plan, (), one(nodes.target(()))):
            tree = drafted_tree(history)
            yield tree, probability, partial(_held, tree.forest)

    return _judge(path_rule, nodes, length, drafted())


def drafted_tree(history: History) -> PlainTree:
    """The tree of a history, numbered breadth first."""
    fixed: dict[Path, Path] = {}
    drawn: dict[Path, Path] = {}
    for prefix, tokens, draws in history:
        fixed.setdefault(prefix, tokens)
        drawn[prefix] = drawn.get(prefix, ()) + draws

    def below(prefix: Path) -> Forest:
        children: list[tuple[int, Any]] = []
        for token in fixed.get(prefix, ()) + drawn.get(prefix, ()):
            elder = any(token == other for other, _ in children)
            children.append((token, () if elder else below((*prefix, token))))
        return tuple(children)

    forest = below(())
    numbered: list[int] = []
    level = [forest]
    while level:
        numbered += [token for children in level for token, _ in children]
        level = [further for children in level for _, further in children]
    law = ByNode(tuple(sorted((prefix, given) for prefix, given in fixed.items() if given)))
    return PlainTree(as_shape(_unlabelled(forest)), tuple(numbered), law)


def _unlabelled(forest: Forest) -> tuple[Any, ...]:
    return tuple(_unlabelled(below) for _, below in forest)


def _histories(nodes: Nodes, plan: Plan, history: History, probability: Any) -> Iterator[tuple[History, Any]]:
    """Every way that the drafting can go, and its probability."""
    step = plan(history)
    if step is None:
        yield history, probability
        return
    prefix, fixed, _ = step
    for drawn, mass in nodes.once(plan, step, lambda: _draws(nodes, *step)):
        yield from _histories(nodes, plan, (*history, Expansion(prefix, fixed, drawn)), probability * mass)


def _draws(nodes: Nodes, prefix: Path, fixed: Path, draws: int) -> list[tuple[Path, Any]]:
    """The possible draws after a prefix, each with its probability; none where every token is fixed."""
    q, law = nodes.draft(prefix), Fixed(fixed)
    number = law.draws(q, len(fixed) + draws)
    tuples = [(*fixed, *drawn) for drawn in product(range(nodes.n), repeat=number)]
    masses = law.probability(q, integers(tuples, q).reshape(len(tuples), len(fixed) + number)).tolist()
    return [(drafts[len(fixed) :], mass) for drafts, mass in zip(tuples, masses, strict=True) if mass != 0]
