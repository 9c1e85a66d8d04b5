"""HeadAndTail at the nodes of a tree: Traversal that selects among the youngest siblings at once, instead of testing them in turn.

Traversal tests the children of a node in turn. On leaves drawn without replacement this is recursive rejection, which accepts less than
HeadAndTail. HeadAndTail selects a token y with distribution m and accepts it with min(1, p(y) / m(y)). Given the drafts alone, each draft
is accepted with probability accept(y | drafts), whose mean over the drafts is min(p, m).

THEOREM. A node has weight w and target p after its elder children were tested in turn. Its younger children are drawn without replacement
from what the elder ones leave of q; their number is known before they are drawn, and at most the number of tokens with mass there. Let
f = w p, and let accept and m be those of HeadAndTail for the masses f. First, one of the drafts with m > f is offered, y with probability
accept(y | drafts) m(y) / f(y), and enters with weight f(y) / m(y). If it and everything below it were rejected, or none was offered, one of
the drafts with m <= f is offered, with probability accept(y | drafts) / (1 - the sum of accept over the drafts with m > f), and enters with
weight 1. Otherwise the node is accepted with the mass of (f - m)+ / (1 - the mass of min(f, m)), and its token follows norm((f - m)+). This
is lossless.

PROOF. As for Traversal, from the state (w, p): the node or something below it is accepted with probability w in total, and the emitted
tokens follow f / w and then the target. By the claim for the children, a child that enters with weight v, or something below it, is
accepted with probability v, averaged over everything below it. So the first offer is rejected or not made with probability 1 - the sum of
accept over the drafts with m > f, given the drafts, which is the probability that accept assumes. Hence the mass of texts through y is the
mean of accept(y | drafts), which is min(f(y), m(y)) for both kinds of drafts, and (f - m)+ remains after 1 - the mass of min(f, m): f in
total. QED

Any drafting below a sibling is allowed if the claim holds for it. But the rule uses the number of siblings, which must not depend on their
tokens: Traversal is lossless if a younger child is drawn only for some tokens of the elder one, and this rule is not (refuted below). So it
supports static shapes, but not trees that depend on the drafts (`CountedTree`, `LookupTree`). If q has fewer tokens than siblings, some are
certain to be drawn, and HeadAndTail's probabilities of these sum to 1, not to w: there siblings are tested in turn. For leaves the only
loss of the selection is the gap of HeadAndTail to the optimum. Elder siblings with larger subtrees should be tested in turn before.

`python -m proofs_checks.paths.selected_siblings` prints accepted tokens on strings of real contexts: Traversal, then selection among last
siblings of one shape, and among last siblings that are leaves, with 3,000 trees of each shape at temperature 1; and Joint on 4,000 trees
of the same shape, i.i.d. and hybrid.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import trees
from ot_draft.trees.evaluation.simulate import simulate_all
from ot_draft.trees.tree import PlainTree

from ..checking import check
from ..statement import Statement

__all__ = ["STATEMENTS", "accepted", "alike", "check", "leaves"]

LAW = otd.WithoutReplacement()
BY_TOKEN = "a younger sibling is drawn where the elder one is token 0"
UNSCALED = "selected for p, not for w p"
FORGOTTEN = "the second offer as if none had been made before"
USED_UP = "also where q has fewer tokens than siblings"
IN_TURN = "the same tree, all siblings in turn"
Forest = tuple[tuple[int, Any], ...]
Outcomes = tuple[
    list[tuple[tuple[int, ...], Any, Any]], Any
]  # (accepted, probability, distribution (n,) that follows), and P(nothing)


@dataclass(frozen=True)
class SelectedSiblings:
    """Reference implementation of a path rule. first: index of a node's child from which on children are selected at once.

    head: of the selection.
    """

    first: Any
    head: int = 8
    error: str = ""

    def __call__(self, model: Any, tree: PlainTree) -> dict[tuple[int, ...], Any]:
        law: dict[tuple[int, ...], Any] = {}
        for path, probability, following in self.outcomes(model, tree.forest):
            for token, mass in enumerate(following.tolist()):
                if probability * mass:
                    law[*path, token] = law.get((*path, token), 0) + probability * mass
        return law

    def outcomes(self, model: Any, forest: Forest) -> list[tuple[tuple[int, ...], Any, Any]]:
        return self._visit(model, (), forest, 1)[0]

    def _visit(self, model: Any, path: tuple[int, ...], children: Forest, weight: Any) -> Outcomes:
        """Return the possible decisions at a node that enters with the weight, or below it."""
        f, found, reached = weight * model.target(path), [], 1
        children = tuple(child for child in children if child[0] >= 0)
        tokens = np.array([token for token, _ in children], dtype=np.int64)
        first = self._in_turn(model, path, children, tokens)
        for place, (token, below) in enumerate(children[:first]):
            law = LAW.conditional(model.draft(path), tokens, np.array([place]))
            further, refused = self._visit(model, (*path, token), below, min(1, f[token] / law[token]))
            found += _after(reached, further)
            left = np.maximum(f - law, 0)
            f, reached = _divided(left, left.sum() + 1 - f.sum()), reached * refused
        if first == len(children):
            return [*found, (path, reached * f.sum(), _law(f, model.target(path)))], reached * (1 - f.sum())
        law = LAW.conditional(model.draft(path), tokens, np.array([first]))
        selected, refused = self._selected(model, path, f, law, children[first:])
        f, after = selected.pop()[2], refused[1]
        found += _after(reached, selected)
        return (
            [*found, (path, reached * refused[0] * after, _law(f, model.target(path)))],
            reached * refused[0] * (1 - after),
        )

    def _in_turn(self, model: Any, path: tuple[int, ...], children: Forest, tokens: np.ndarray) -> int:
        """Return the number of children that are tested in turn."""
        first = min(self.first(children), len(children))
        law = LAW.conditional(model.draft(path), tokens, np.array([first])) if first < len(children) else tokens
        return first if self.error == USED_UP or np.count_nonzero(law) >= len(children) - first else len(children)

    def _selected(self, model: Any, path: tuple[int, ...], f: Any, q: Any, children: Forest) -> Any:
        """Return the outcomes at and below the siblings, the probability that all are rejected, and the node's weight after that."""
        drafts, count = np.array([token for token, _ in children]), len(children)
        masses = _law(f, model.target(path)) if self.error == UNSCALED else f
        selection = otd.rules.HeadAndTail(head=self.head)
        accept, m = selection(masses, q, drafts).accept, selection.selected_law(masses, q, count)
        over = m[drafts] > masses[drafts]
        none, met = 1 - accept[over].sum(), 1 - np.minimum(f, m).sum()
        found, refused, left = [], 1, 1
        for token, chance, below in zip(drafts.tolist(), accept, (below for _, below in children), strict=True):
            if m[token] > masses[token] > 0:
                offered = chance * m[token] / masses[token]
                further, not_taken = self._visit(model, (*path, token), below, masses[token] / m[token])
                found += _after(offered, further)
                refused -= offered * (1 - not_taken)
        for token, chance, below in zip(drafts.tolist(), accept, (below for _, below in children), strict=True):
            if m[token] <= masses[token] and chance > 0:
                offered = refused * (chance if self.error == FORGOTTEN else chance / none)
                further, not_taken = self._visit(model, (*path, token), below, 1)
                found += _after(offered, further)
                left -= (1 - not_taken) * offered / refused if refused else 0
        rest = np.maximum(f - m, 0)
        return [*found, ((), 0, rest)], (refused * left, _divided(rest.sum(), met))


def _after(probability: Any, outcomes: Any) -> Any:
    return [(path, probability * chance, following) for path, chance, following in outcomes]


def _divided(mass: Any, by: Any) -> Any:
    """Return mass / by; if `by` is 0 this case has probability 0, and the result is arbitrary."""
    return mass / by if by > 0 else mass * 0


def _law(mass: Any, otherwise: Any) -> Any:
    return mass / mass.sum() if mass.sum() > 0 else otherwise


def alike(children: Forest) -> int:
    """Return the index from which on the children have one shape; if that is the last child only, it is tested in turn."""
    shapes = [_shape(below) for _, below in children]
    first = len(shapes)
    while first and shapes[first - 1] == shapes[-1]:
        first -= 1
    return first if first < len(shapes) - 1 else len(shapes)


def leaves(children: Forest) -> int:
    """Return the index from which on the children are leaves."""
    return alike(children) if children and not children[-1][1] else len(children)


def _shape(forest: Forest) -> tuple[Any, ...]:
    return tuple(_shape(below) for _, below in forest)


def accepted(rule: SelectedSiblings, model: Any, tree: PlainTree) -> Any:
    """Return the expected number of accepted tokens, given the drafts."""
    return sum(probability * len(path) for path, probability, _ in rule.outcomes(model, tree.forest))


def shapes(size: int, length: int = 3) -> list[tuple[Any, ...]]:
    """Return all ordered trees of `size` nodes below the root and at most `depth` levels; each node is the tuple of its children."""
    if not size:
        return [()]
    if not length:
        return []
    found = []
    for below in range(size):  # of the first child
        for first, others in product(shapes(below, length - 1), shapes(size - 1 - below, length)):
            found.append((first, *others))
    return found


ALL_SHAPES = [trees.TreeShape.ordered(shape) for size in range(1, 5) for shape in shapes(size)]
ALL_SHAPES.append(trees.TreeShape.by_level((2, 2)))


@dataclass(frozen=True)
class SiblingCase:
    """A shape, a model, the index from which on siblings of every node are selected at once, and the number of tokens in the head.

    With all tokens in the head no m is above f.
    """

    shape: trees.TreeShape
    model: trees.MarkovModel
    first: int
    head: int

    @property
    def size(self) -> tuple[int, int]:
        return len(self.model.target(())), self.shape.size

    def __str__(self) -> str:
        return f"n = {self.size[0]}, parents {self.shape.parents}, from child {self.first} on, head {self.head}: {self.model}"


def draw_siblings(seed: int) -> SiblingCase:
    """Return the case of this number: all shapes in turn, over 2 to 4 tokens (7 nodes over 2 or 3), and every first child."""
    number, place = divmod(seed, len(ALL_SHAPES))
    shape, generator = ALL_SHAPES[place], np.random.default_rng([79, seed])
    n = max(2 + number % (3 if shape.size < 5 else 2), shape.max_children)
    first, head = map(int, generator.integers(0, 3, 2))
    return SiblingCase(
        shape, trees.MarkovModel.random(generator, n, order=1), min(first, max(shape.max_children - 2, 0)), head
    )


def selected_at_once(case: SiblingCase, error: str) -> bool:
    """Return whether the rule is lossless."""
    rule = SelectedSiblings(lambda children: case.first, case.head, error)
    return trees.evaluate(rule, case.model, case.shape, LAW).lossless


def drawn_by_token(case: SiblingCase, repair: str) -> bool:
    """Return whether the rule is lossless if the root has a second child only if the first is token 0."""

    def rule(model: Any, tree: PlainTree) -> Any:
        tokens = tree.tokens if tree.tokens[0] == 0 else (tree.tokens[0], -1)
        return SelectedSiblings(lambda children: 2 if repair else 0)(model, PlainTree(tree.shape, tokens, LAW))

    return trees.evaluate(rule, case.model, case.shape, LAW).lossless


def _small(p: tuple[int, ...], q: tuple[int, ...]) -> SiblingCase:
    target, draft = (np.array([Fraction(mass, sum(masses)) for mass in masses]) for masses in (p, q))
    return SiblingCase(trees.TreeShape((0, 0)), trees.MarkovModel({(): target}, {(): draft}, 0), 0, 8)


BY_ITS_TOKEN = _small((1, 1, 1), (1, 1, 1))

STATEMENTS = (
    Statement(
        "siblings selected at once",
        "Traversal with the last siblings, without replacement, selected by HeadAndTail is lossless, whatever is below them.",
        "this project",
        "Fractions, all trees of up to 4 nodes and 3 levels and of 2 x 2, over 2 to 4 tokens, all drafts enumerated",
        selected_at_once,
        (UNSCALED, FORGOTTEN, USED_UP),
        first=tuple(map(draw_siblings, (5, 39, 72))),
        draw=draw_siblings,
        limit=3 * len(ALL_SHAPES),
    ),
    Statement(
        "siblings selected at once, drawn by a token",
        "The same if whether a later sibling is sampled depends on the token of an earlier one.",
        "this project; Traversal itself is lossless there (traversed_trees)",
        "Fractions; lossless with the siblings in turn",
        drawn_by_token,
        (IN_TURN,),
        expected="refuted",
        first=(BY_ITS_TOKEN, _small((3, 2, 1), (1, 2, 3))),
        limit=0,
    ),
)

MEASURED = {
    "4": trees.TreeShape.by_level((4,)),
    "4, 2": trees.TreeShape.by_level((4, 2)),
    "4, 4": trees.TreeShape.by_level((4, 4)),
    "4, 2, 1": trees.TreeShape.by_level((4, 2, 1)),
    "2, 2, 2": trees.TreeShape.by_level((2, 2, 2)),
    "3 below the first child, thrice": trees.TreeShape((0, 0, 0, 1, 1, 1, 4, 4, 4)),
    "as Sequoia's": trees.TreeShape.ordered(((((), ()), (), ()), ((), ()), ((),), ())),
}


@dataclass(frozen=True)
class After:
    """A model after a prefix."""

    model: Any
    prefix: tuple[int, ...]

    def target(self, prefix: tuple[int, ...]) -> Any:
        return self.model.target(self.prefix + prefix)

    def draft(self, prefix: tuple[int, ...]) -> Any:
        return self.model.draft(self.prefix + prefix)


def drafted(model: After, shape: trees.TreeShape, generator: np.random.Generator) -> PlainTree:
    """Return a tree of this shape, the children of every node without replacement."""
    prefixes: list[tuple[int, ...]] = [()]
    for node in range(shape.size + 1):
        if children := shape.children(node):
            tokens = otd.draw(LAW, model.draft(prefixes[node]), len(children), generator)
            prefixes += [(*prefixes[node], int(token)) for token in tokens]
    return PlainTree(shape, tuple(prefix[-1] for prefix in prefixes[1:]), LAW)


def main(number: int = 3000) -> None:
    """Print the table of the module docstring."""
    from figures.trees.context_chain import ContextChain
    from ot_draft.data import read_pairs

    pairs = read_pairs(Path(__file__).parents[2] / "figures/data/smollm2_pairs.npz").at_temperature(1.0)
    model = ContextChain(np.asarray(pairs.p), np.asarray(pairs.q))
    rules = [SelectedSiblings(first) for first in (len, leaves, alike)]
    print(f"{'children':32} {'Traversal':>16} {'leaves selected':>24} {'siblings selected':>24}  Joint")
    for name, shape in MEASURED.items():
        generator = np.random.default_rng(3)
        found = []
        for text in range(number):
            here = After(model, model.root(text))
            tree = drafted(here, shape, generator)
            found.append([accepted(rule, here, tree) for rule in rules])
        mean, more = np.mean(found, 0), np.subtract(found, np.array(found)[:, :1])
        error = more.std(0, ddof=1) / number**0.5
        gains = [f"{mean[i]:.3f}  {more.mean(0)[i]:+.4f} ± {error[i]:.4f}" for i in (1, 2)]
        joint = [f"{run.expected_length:.3f} ± {run.error:.3f}" for run in of_joint(model, shape)]
        print(f"{name:32} {mean[0]:16.3f} {gains[0]:>24} {gains[1]:>24}  {', '.join(joint)}", flush=True)


def of_joint(model: Any, shape: trees.TreeShape) -> list[Any]:
    """Return the accepted tokens of Joint with i.i.d. and with hybrid children, for shapes that it supports."""
    if not shape.is_even:
        return []
    draftings = [trees.FixedTree(shape, law) for law in (otd.IID(), otd.Hybrid("auto"))]
    return [simulate_all([trees.Joint()], model, drafting, 4000)[0] for drafting in draftings]


if __name__ == "__main__":
    main()
