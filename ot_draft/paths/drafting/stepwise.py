"""Trees drafted in plain form, one prefix after the other, each step decided from all that was drafted before: for theory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...arrays import Array, one
from ...laws import ByNode, ToldByNode
from ..model import Path
from ..plain import Forest, PlainTree
from ..rules.path_rule import Nodes
from .enumeration import Drafted
from .shapes import as_shape


class Expansion(NamedTuple):
    """Children drafted after a prefix: the tokens that were fixed, and those that were drawn from q outside them."""

    prefix: Path
    fixed: Path
    drawn: Path


History = tuple[Expansion, ...]
# What is drafted next, given all that was drafted so far: prefix, fixed tokens, number of draws. None: nothing more.
NextStep = Callable[[History], tuple[Path, Path, int] | None]
BEFORE = ByNode()


@dataclass(frozen=True)
class Stepwise:
    """Drafting step by step, as a function of all that was drafted so far says.

    length: L, the depth of the deepest node that it may draft. law: `ByNode`, fixed tokens and then i.i.d. draws, or `ByNodeLast`,
    draws without replacement and then the fixed tokens. Of siblings with one token the first holds the children. A prefix that is drafted
    after twice has the draws of both times, in drawing order. `Joint` and `TokenWise(Optimal())` are lossless on its trees if it names no
    prefix twice (proofs_checks/paths/adapted_trees.py).
    """

    step: NextStep
    length: int
    law: ToldByNode = BEFORE

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        """Every way that the drafting can go, as a tree, and its probability."""
        for history, probability in _histories(nodes, self.step, (), one(nodes.target(())), self.law):
            yield drafted_tree(history, self.law), probability


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
    all_told = law.told(tuple(sorted((prefix, given) for prefix, given in fixed.items() if given)))
    return PlainTree(as_shape(_unlabelled(forest)), tuple(numbered), all_told)


def _unlabelled(forest: Forest) -> tuple[Any, ...]:
    return tuple(_unlabelled(below) for _, below in forest)


def _histories(
    nodes: Nodes, plan: NextStep, history: History, probability: Any, law: ToldByNode = BEFORE
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
