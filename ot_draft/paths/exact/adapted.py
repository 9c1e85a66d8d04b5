"""evaluate_plan: a path rule on trees that were drafted place by place, each step as a plan decides from what was drawn before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...arrays import Array, one
from ...laws import ByNode, ToldByNode
from ..drafting.plans import Expansion, History, Plan
from ..drafting.shapes import as_shape
from ..model import Model, Path
from ..plain import Forest, PlainTree
from ..rules.path_rule import Nodes, PathLaw
from .evaluate import Accepted, PathEvaluation, _held, _judge

BEFORE = ByNode()


def evaluate_plan(
    path_rule: Callable[[Any, Any], PathLaw], model: Model, plan: Plan, length: int, law: ToldByNode = BEFORE
) -> PathEvaluation:
    """Law of the first L + 1 tokens and expected accepted length of `path_rule(model, PlainTree)` on trees drafted by the plan.

    length: L, the depth of the deepest node that the plan may draft. law: `ByNode`, fixed tokens and then i.i.d. draws, or `ByNodeLast`,
    draws without replacement and then the fixed tokens. Of siblings with one token the first holds the children. A prefix that is drafted
    after twice has the draws of both times, in drawing order. Exact if the model's distributions are Fractions.
    """
    nodes = Nodes.of(model)

    def drafted() -> Iterator[tuple[Any, Any, Accepted]]:
        for history, probability in _histories(nodes, plan, (), one(nodes.target(())), law):
            tree = drafted_tree(history, law)
            yield tree, probability, partial(_held, tree.forest)

    return _judge(path_rule, nodes, length, drafted())


def drafted_tree(history: History, law: ToldByNode = BEFORE) -> PlainTree:
    """The tree of a history, numbered breadth first."""
    fixed: dict[Path, Path] = {}
    drawn: dict[Path, Path] = {}
    for prefix, tokens, draws in history:
        fixed.setdefault(prefix, tokens)
        drawn[prefix] = drawn.get(prefix, ()) + draws

    def below(prefix: Path) -> Forest:
        children: list[tuple[int, Any]] = []
        for token in law.in_order(fixed.get(prefix, ()), drawn.get(prefix, ())):
            elder = any(token == other for other, _ in children)
            children.append((token, () if elder else below((*prefix, token))))
        return tuple(children)

    forest = below(())
    numbered: list[int] = []
    level = [forest]
    while level:
        numbered += [token for children in level for token, _ in children]
        level = [further for children in level for _, further in children]
    told = law.told(tuple(sorted((prefix, given) for prefix, given in fixed.items() if given)))
    return PlainTree(as_shape(_unlabelled(forest)), tuple(numbered), told)


def _unlabelled(forest: Forest) -> tuple[Any, ...]:
    return tuple(_unlabelled(below) for _, below in forest)


def _histories(
    nodes: Nodes, plan: Plan, history: History, probability: Any, law: ToldByNode = BEFORE
) -> Iterator[tuple[History, Any]]:
    """Every way that the drafting can go, and its probability."""
    step = plan(history)
    if step is None:
        yield history, probability
        return
    prefix, fixed, number = step
    before = tuple(token for other in history if other.prefix == prefix for token in other.drawn)
    ways = nodes.once(plan, (step, before), lambda: _draws(nodes.draft(prefix), law, fixed, before, number))
    for drawn, mass in ways:
        yield from _histories(nodes, plan, (*history, Expansion(prefix, fixed, drawn)), probability * mass, law)


def _draws(q: Array, law: ToldByNode, fixed: Path, before: Path, number: int) -> list[tuple[Path, Any]]:
    """So many further draws beside the fixed tokens and those drawn before, each way with its probability; fewer where no token is left."""
    ways: list[tuple[Path, Any]] = [((), one(q))]
    for _ in range(number):
        longer = []
        for drawn, mass in ways:
            masses = law.next_draw(q, fixed, before + drawn).tolist()
            longer += [((*drawn, token), mass * share) for token, share in enumerate(masses) if share != 0]
        ways = longer or ways
    return ways
