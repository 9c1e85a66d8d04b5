"""How far path rules are from the best on trees of every kind: the path program of the trees, and the closed form above it.

PROGRAM. a_w(v) >= 0 for every drafted tree w and every prefix v in it, 1 at the root; a_w(u) >= sum of a_w(u c); E a(u c) <= p(c|u) E a(u).
Its largest sum of E a(v) is what the best lossless rule accepts that knows both models everywhere. CAPS. cap(root) = 1,
cap(u c) = min(P(u c is drafted), p(c|u) cap(u)): their sum is never below it. Both are read by Coq for all models and all draftings
(formal/along_paths/program_optimum.v, tree_bound.v); here the library's numbers meet its rules.

`python -m proofs_checks.paths.yardstick` prints, for trees of four nodes and depth two over three tokens, means over 20 random models: what
the best of the rules accepts, the program, the caps. What lies between the first two a better rule may win; what lies between the
program and 2, only a better draft or another tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import ot_draft as ot
from ot_draft import paths
from ot_draft.paths.tree import PlainTree

from ..checking import check
from ..statement import Statement

__all__ = ["STATEMENTS", "check"]

BOAST, CAPS_REACHED = "a rule that accepts the deepest drafts", "the caps are reached"
FORK, CHAINS = paths.TreeShape((0, 0, 1, 1)), paths.TreeShape.chains(2, 2)
YOUNGER = paths.TreeShape((0, 0, 2, 2))
WITHOUT, HYBRID = ot.WithoutReplacement(), ot.Hybrid(top=1)
OPTIMAL = paths.TokenWise(ot.rules.Optimal())
SLACK = Fraction(1, 10**9)  # what the certified bounds may leave between them
Ways = list[tuple[Any, Fraction]]


@dataclass(frozen=True)
class Drafting:
    """A kind of trees, and the rules that are lossless on them. shape: the tree's, by the tokens of the root's children."""

    name: str
    law: ot.DraftLaw
    shape: Callable[[tuple[int, ...]], paths.TreeShape]
    rules: tuple[paths.PathRule, ...]

    def ways(self, model: paths.MarkovModel) -> Ways:
        """All trees that can be drafted, and their probabilities: two children of the root, then two more nodes."""
        found: Ways = []
        for tokens in product(range(len(model.target(()))), repeat=4):
            shape = self.shape(tokens[:2])
            probability = self._chance(model, (), tokens[:2])
            for node in (1, 2):
                below = tuple(tokens[child - 1] for child in shape.children(node))
                probability *= self._chance(model, (tokens[node - 1],), below) if below else 1
            if probability:
                found.append((PlainTree(shape, tokens, self.law), probability))
        return found

    def _chance(self, model: paths.MarkovModel, prefix: tuple[int, ...], children: tuple[int, ...]) -> Fraction:
        return Fraction(np.ravel(self.law.probability(model.draft(prefix), np.array(children)))[0])


DRAFTINGS = (
    Drafting("two paths", ot.IID(), lambda top: CHAINS, (paths.Joint(), paths.Traversal(), OPTIMAL)),
    Drafting("i.i.d. children", ot.IID(), lambda top: FORK, (paths.Joint(), paths.Traversal(), OPTIMAL)),
    Drafting(
        "without replacement",
        WITHOUT,
        lambda top: FORK,
        (paths.Traversal(), paths.TokenWise(ot.rules.RecursiveRejectionWithoutReplacement())),
    ),
    Drafting("the likeliest token and a draw", HYBRID, lambda top: FORK, (paths.Joint(), paths.Traversal())),
    Drafting(
        "the children of token 0, if it was drawn",
        WITHOUT,
        lambda top: YOUNGER if top[1] == 0 else FORK,
        (paths.Traversal(), paths.TokenWise(ot.rules.RecursiveRejectionWithoutReplacement())),
    ),
)


def accepted(rule: paths.PathRule, model: paths.MarkovModel, ways: Ways) -> Fraction:
    """Expected number of accepted tokens; the law of the first token must be the target's."""
    first, found = [Fraction(0)] * len(model.target(())), Fraction(0)
    for tree, probability in ways:
        for tokens, mass in rule(model, tree).items():
            first[tokens[0]] += probability * mass
            found += probability * mass * (len(tokens) - 1)
    if first != model.target(()).tolist():
        raise AssertionError(f"{rule.name} is not lossless")
    return found


@dataclass(frozen=True)
class TreeCase:
    """A drafting and a model of three tokens."""

    drafting: Drafting
    model: paths.MarkovModel
    seed: int

    def __str__(self) -> str:
        return f"{self.drafting.name}, model {self.seed}"


def draw_case(seed: int) -> TreeCase:
    """The draftings in turn, each with models of its own."""
    model = paths.MarkovModel.random(np.random.default_rng([77, seed // len(DRAFTINGS)]), 3, order=1)
    return TreeCase(DRAFTINGS[seed % len(DRAFTINGS)], model, seed // len(DRAFTINGS))


def bounded(case: TreeCase, error: str) -> bool:
    """Each rule accepts at most the program, which is at most the caps."""
    ways = case.drafting.ways(case.model)
    certificate, caps = (
        paths.tree_program_bound(case.model, ways).certificate,
        paths.cap_bound(case.model, ways),
    )
    lengths = [accepted(rule, case.model, ways) for rule in case.drafting.rules]
    if error == BOAST:
        lengths.append(sum((probability * 2 for _, probability in ways), Fraction(0)))
    if error == CAPS_REACHED:
        return caps <= certificate.upper
    return max(lengths) <= certificate.upper and certificate.lower <= caps


STATEMENTS = (
    Statement(
        "the path program of any trees",
        "No lossless rule is above the program, nor it above the caps: paths, i.i.d., without replacement, a fixed token, adaptive.",
        "this project; for all models and draftings in Coq",
        "Fractions, all trees enumerated; both bounds of the program certified",
        bounded,
        (BOAST, CAPS_REACHED),
        draw=draw_case,
        limit=25,
        show=str,
    ),
)


def main() -> None:
    """The table of the text above."""
    print(f"{'trees':42} {'best rule':>26}  accepts  program  caps")
    for place, drafting in enumerate(DRAFTINGS):
        cases = [draw_case(len(DRAFTINGS) * number + place) for number in range(20)]
        all_ways = [drafting.ways(case.model) for case in cases]
        pairs = list(zip(cases, all_ways, strict=True))
        means = {
            rule.name: float(sum(accepted(rule, case.model, ways) for case, ways in pairs)) / len(cases)
            for rule in drafting.rules
        }
        best = max(means, key=means.__getitem__)
        program = sum(float(paths.tree_program_bound(case.model, ways).value) for case, ways in pairs) / len(cases)
        caps = sum(float(paths.cap_bound(case.model, ways)) for case, ways in pairs) / len(cases)
        print(f"{drafting.name:42} {best:>26}  {means[best]:.3f}    {program:.3f}    {caps:.3f}")


if __name__ == "__main__":
    main()
