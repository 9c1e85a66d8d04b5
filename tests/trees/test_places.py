"""The token at any place of a step follows the target, given that the step got so far: what the audit's bets on places rely on."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from ot_draft import trees


def law_by_place(
    rule: trees.PathRule, model: trees.MarkovModel, K: int, L: int
) -> dict[tuple[int, ...], list[Fraction]]:
    """P(the step emits these tokens, and then y), for all tokens that a step can begin with: by enumeration of all drafts."""
    masses: dict[tuple[int, ...], list[Fraction]] = defaultdict(lambda: [Fraction(0)] * len(model.target(())))
    for drafts in product(product(range(len(model.target(()))), repeat=L), repeat=K):
        chance = prod(model.draft(path[:depth])[path[depth]] for path in drafts for depth in range(L))
        for emitted, mass in rule(model, drafts).items() if chance else ():
            for place in range(len(emitted)):
                masses[emitted[:place]][emitted[place]] += chance * mass
    return masses


@pytest.mark.parametrize(
    ("rule", "K"), [(trees.Joint(), 2), (trees.BlockVerification(), 1), (trees.Traversal(), 2)], ids=str
)
def test_a_token_at_a_given_place_follows_the_target(rule: trees.PathRule, K: int) -> None:
    """A step's tokens follow the target, and so does what comes after it: hence also what is left, the tokens inside the step."""
    for seed in range(6):
        model = trees.MarkovModel.random(np.random.default_rng(seed), 2, 1)
        for before, masses in law_by_place(rule, model, K, L=3).items():
            assert [mass / sum(masses) for mass in masses] == list(model.target(before)) or not sum(masses)
