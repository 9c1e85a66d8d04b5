"""Reference implementation of tree drafting, one prefix after the other; each step depends on everything drafted before.

`adaptive` is `ot_draft.trees.AdaptiveTree` written so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft.laws import outside
from ot_draft.laws.fixed_last import PerNodeFixedTokensLast
from ot_draft.trees.model import Model, Nodes, Path
from ot_draft.trees.tree import Forest, PlainTree, TreeShape

Array = Any
Drafted = tuple[PlainTree, Any]


class Expansion(NamedTuple):
    """Children drafted after a prefix: the tokens that were fixed, and those that were drawn from q outside them."""

    prefix: Path
    fixed: Path
    drawn: Path


History = tuple[Expansion, ...]
# The next step given everything drafted so far: prefix, fixed tokens, number of draws. None ends the drafting.
NextStep = Callable[[History], tuple[Path, Path, int] | None]
FIRST, LAST = otd.laws.PerNodeFixedTokens(), PerNodeFixedTokensLast()


@dataclass(frozen=True)
class Stepwise:
    """Drafting step by step, by a function of everything drafted so far.

    length: L, the depth of the deepest node that it may draft. law: `PerNodeFixedTokens()`, fixed tokens and then i.i.d. draws, or
    `PerNodeFixedTokensLast()`, draws without replacement and then the fixed tokens. Of siblings with one token the first holds the
    children. A prefix that is drafted after twice has the draws of both times, in drawing order. `Joint` and
    `TokenWise(Optimal())` are lossless on its trees if it names no prefix twice (proofs_checks/paths/adapted_trees.py).
    """

    step: NextStep
    length: int
    law: Any = FIRST

    def every_tree(self, nodes: Nodes) -> Iterator[Drafted]:
        """Yield every possible tree of the drafting, and its probability."""
        for history, probability in histories(nodes, self.step, (), nodes.one, self.law):
            yield drafted_tree(history, self.law), probability


def drafted_tree(history: History, law: Any = FIRST) -> PlainTree:
    """Return the tree of a history, numbered breadth first."""
    fixed: dict[Path, Path] = {}
    drawn: dict[Path, Path] = {}
    for prefix, tokens, draws in history:
        fixed.setdefault(prefix, tokens)
        drawn[prefix] = drawn.get(prefix, ()) + draws

    def below(prefix: Path) -> Forest:
        children: list[tuple[int, Any]] = []
        told = fixed.get(prefix, ()), drawn.get(prefix, ())
        for token in told[1] + told[0] if law == LAST else told[0] + told[1]:
            elder = any(token == other for other, _ in children)
            children.append((token, () if elder else below((*prefix, token))))
        return tuple(children)

    forest = below(())
    numbered: list[int] = []
    level = [forest]
    while level:
        numbered += [token for children in level for token, _ in children]
        level = [further for children in level for _, further in children]
    told_law = replace(law, fixed=tuple(sorted((prefix, given) for prefix, given in fixed.items() if given)))
    return PlainTree(TreeShape.ordered(_unlabelled(forest)), tuple(numbered), told_law)


def _unlabelled(forest: Forest) -> tuple[Any, ...]:
    return tuple(_unlabelled(below) for _, below in forest)


def histories(
    nodes: Nodes, plan: NextStep, history: History, probability: Any, law: Any = FIRST
) -> Iterator[tuple[History, Any]]:
    """Yield every possible history of the drafting, and its probability."""
    step = plan(history)
    if step is None:
        yield history, probability
        return
    prefix, fixed, number = step
    before = tuple(token for other in history if other.prefix == prefix for token in other.drawn)
    ways = nodes.once(plan, (step, before), lambda: _draws(nodes.draft(prefix), law, fixed, before, number))
    for drawn, mass in ways:
        yield from histories(nodes, plan, (*history, Expansion(prefix, fixed, drawn)), probability * mass, law)


def _draws(q: Array, law: Any, fixed: Path, before: Path, number: int) -> list[tuple[Path, Any]]:
    """Return all outcomes of `count` further draws outside earlier tokens, with their probabilities; fewer draws if no token is left."""
    ways: list[tuple[Path, Any]] = [((), 1)]
    for _ in range(number):
        longer = []
        for drawn, mass in ways:
            gone = fixed + before + drawn if law == LAST else fixed
            masses = outside(q, np.array(gone, dtype=np.int64)).tolist()
            longer += [((*drawn, token), mass * share) for token, share in enumerate(masses) if share != 0]
        ways = longer or ways
    return ways


def adaptive(drafting: otd.trees.AdaptiveTree, model: Model) -> Stepwise:
    """Return the drafting of an adaptive tree, one prefix after the other."""
    nodes = Nodes.of(model)

    def step(history: History) -> tuple[Path, Path, int] | None:
        drafted = {expansion.prefix: expansion for expansion in history}
        level: dict[Path, float] = {(): 1.0}
        left, levels = drafting.bounds.size, drafting.bounds.length
        while level and left and levels:
            q = np.stack([nodes.draft(prefix) for prefix in level]).astype(np.float64)
            reached = np.array([list(level.values())])
            estimate = drafting.estimate(q[None])
            (counts,), (fixed_count,) = drafting.numbers_at(estimate, reached, np.array([[left]]), levels)
            below: dict[Path, float] = {}
            for (prefix, chance), law, count, number in zip(level.items(), q, counts, fixed_count, strict=True):
                fixed = tuple(xp.top_tokens(law, min(drafting.bounds.max_children, len(law)))[:number].tolist())
                if not count:
                    continue
                if prefix not in drafted:
                    return prefix, fixed, int(count - number)
                tokens = np.array(fixed + drafted[prefix].drawn)
                numbers = np.array([number]), np.array([count])
                chances = chance * drafting.estimate(law).below(law[tokens], tokens, *numbers)
                for token, further in zip(tokens.tolist(), chances.tolist(), strict=True):
                    below.setdefault((*prefix, token), further)
                left -= len(tokens)
            level, levels = below, levels - 1
        return None

    return Stepwise(step, drafting.bounds.length)
