"""The path program of any drafted trees: no lossless rule exceeds it, its closed form lies above it, on K paths it is `path_bound`."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction as F
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from random_problems import Everywhere

import ot_draft as otd
from ot_draft import trees
from ot_draft.errors import InvalidArgument
from proofs_checks.paths.yardstick import DRAFTINGS, TreeKind, accepted

pytest.importorskip("scipy")


def random_model(n: int, *seed: int) -> trees.MarkovModel:
    return trees.MarkovModel.random(np.random.default_rng([n, *seed]), n, order=1)


def all_paths(model: trees.MarkovModel, K: int, L: int) -> Iterator[tuple[Any, Any]]:
    n = len(model.target(()))
    for drafts in product(product(range(n), repeat=L), repeat=K):
        yield drafts, prod((model.draft(path[:d])[y] for path in drafts for d, y in enumerate(path)), start=F(1))


@pytest.mark.parametrize(("n", "K", "L"), [(2, 1, 3), (2, 2, 2), (3, 2, 1)])
def test_on_paths_it_is_the_path_bound(n: int, K: int, L: int) -> None:
    model = random_model(n, K, L)
    drafted = list(all_paths(model, K, L))
    bound, other = trees.tree_program_bound(model, drafted), trees.path_bound(model, K, L)
    assert abs(bound.value - other.value) <= 1e-9 and bound.certificate.width <= 1e-9
    if K == 1:
        block = accepted(trees.BlockVerification(), model, drafted)
        assert bound.certificate.lower <= block <= bound.certificate.upper


@pytest.mark.parametrize("drafting", DRAFTINGS, ids=lambda drafting: drafting.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_lossless_rule_exceeds_it_and_the_caps_lie_above(drafting: TreeKind, seed: int) -> None:
    model = random_model(3, seed)
    drafted = drafting.ways(model)
    certificate = trees.tree_program_bound(model, drafted).certificate
    assert certificate.lower <= certificate.upper <= trees.cap_bound(model, drafted) + F(1, 10**9)
    for rule in drafting.rules:
        assert 0 < accepted(rule, model, drafted) <= certificate.upper


def test_floats_are_bounded_as_fractions_are() -> None:
    model = random_model(3, 4)
    drafted = DRAFTINGS[2].ways(model)
    exact, rounded = (
        [bound(m, drafted) for bound in (trees.cap_bound, trees.tree_program_bound)] for m in (model, model.in_floats())
    )
    assert isinstance(rounded[0], float) and abs(rounded[0] - exact[0]) < 1e-12
    assert isinstance(rounded[1].value, float) and abs(rounded[1].value - exact[1].value) < 1e-9


def test_on_one_token_both_are_the_optimum_and_its_bound() -> None:
    p, q = [F(1, 2), F(1, 4), F(1, 4)], [F(1, 5), F(2, 5), F(2, 5)]
    model = Everywhere(np.array(p), np.array(q))
    drafted = list(all_paths(model, 2, 1))
    chances = [1 - (1 - b) ** 2 for b in q]
    assert abs(trees.tree_program_bound(model, drafted).value - otd.optimal_acceptance(p, q, 2)) <= 1e-9
    assert trees.cap_bound(model, drafted) == sum(min(a, c) for a, c in zip(p, chances, strict=True))


def test_a_boaster_exceeds_it() -> None:
    """The bound can fail: to accept the first leaf always is not lossless, and accepts more."""
    model = random_model(3, 1)
    drafted = DRAFTINGS[2].ways(model)
    boast = sum(probability * 2 for _, probability in drafted)
    assert boast > trees.cap_bound(model, drafted) >= trees.tree_program_bound(model, drafted).certificate.lower


def test_drafts_that_are_not_all_and_programs_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(2, 3)
    drafted = list(all_paths(model, 1, 2))
    for bound in (trees.tree_program_bound, trees.cap_bound):
        with pytest.raises(InvalidArgument, match="Pass all possible drafts"):
            bound(model, drafted[1:])
    with pytest.raises(otd.SolverFailed, match=r"solver must be one of highs.*, got 'simplex'"):
        trees.tree_program_bound(model, drafted, "simplex")
    monkeypatch.setattr("ot_draft.trees.evaluation.program.MAX_VARIABLES", 3)
    with pytest.raises(InvalidArgument, match="must have at most 3 variables"):
        trees.tree_program_bound(model, drafted)
