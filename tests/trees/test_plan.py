"""The wall-clock model: speed-ups by hand, interpolated costs, refusals."""

from __future__ import annotations

from itertools import pairwise
from math import isnan

import pytest

from ot_draft.errors import InvalidCosts
from ot_draft.trees import Costs, plan
from ot_draft.trees.evaluation.wall_clock import Efficiency

COSTS = Costs({1: 2.0, 5: 2.0, 9: 4.0}, {1: 0.2, 4: 0.4}, {"": 0.1, "Joint": 0.3})


def test_speed_up_by_hand() -> None:
    """K = 4, L = 2: 9 positions cost 4, two draft calls on 4 rows 0.8, the selection 0.3: 5.1, or 2.55 plain steps."""
    (row,) = plan([Efficiency("Joint", 4, 2, 2.55, 0.1)], COSTS)
    assert row.cost == pytest.approx(2.55) and row.speed_up == pytest.approx(1)
    assert row.error == pytest.approx(0.1 / 2.55)


def test_costs_between_two_measured_ones_lie_between() -> None:
    assert COSTS.of(2, 3, "Joint") == pytest.approx(2.0 + 2 * 2 / 4 + 3 * (0.2 + 0.2 / 3) + 0.3)  # 7 positions, 2 rows
    assert COSTS.of(1, 1) == pytest.approx(2.0 + 0.2 + 0.1)
    assert Costs({1: 1.0}, {1: 0.0}).of(1, 0) == 1.0
    assert COSTS.reach(4, 2) and not COSTS.reach(4, 3) and not COSTS.reach(5, 1)
    assert not Costs({1: 1.0, 9: 2.0}, {4: 0.1}).reach(1, 1)


def test_the_unit_does_not_matter() -> None:
    milliseconds = Costs(
        *({at: 7 * cost for at, cost in table.items()} for table in (COSTS.verify, COSTS.draft, COSTS.select))
    )
    found = [Efficiency("KSeq", K, L, 1.5) for K, L in [(1, 1), (2, 2), (4, 2)]]
    for one, other in zip(plan(found, COSTS), plan(found, milliseconds), strict=True):
        assert one.speed_up == pytest.approx(other.speed_up) and (one.K, one.L) == (other.K, other.L)


def test_the_best_comes_first() -> None:
    rows = plan([Efficiency("a", 1, 2, 2.0), Efficiency("a", 1, 4, 2.1), Efficiency("b", 4, 2, 2.4)], COSTS)
    assert [(row.rule, row.K, row.L) for row in rows] == [("a", 1, 2), ("a", 1, 4), ("b", 4, 2)]
    assert all(one.speed_up >= other.speed_up for one, other in pairwise(rows))
    free = Costs({1: 1.0, 9: 1.0}, {1: 0.0, 4: 0.0})
    assert plan([Efficiency("a", 1, 2, 2.0), Efficiency("b", 4, 2, 2.4)], free)[0].rule == "b"
    assert isnan(rows[0].error)


def test_refusals() -> None:
    for arguments, message in [
        (({1: 1.0}, {}), "costs of draft"),
        (({2: 1.0}, {1: 0.1}), "verify must hold a cost > 0 at 1"),
        (({1: 1.0}, {1: -0.1}), "cost of draft at 1 must be .* got -0.1"),
        (({1: 1.0}, {1: float("nan")}), "finite"),
        (({1: 1.0}, {1: 0.1}, {"": float("inf")}), "select at all rules"),
        (({0: 1.0, 1: 1.0}, {1: 0.1}), "a number >= 1"),
        (({1: 1.0}, {1: 0.1}, {}, -0.1), "cost of change must be .* got -0.1"),
    ]:
        with pytest.raises(InvalidCosts, match=message):
            Costs(*arguments)
    with pytest.raises(InvalidCosts, match="must reach 10"):
        plan([Efficiency("a", 3, 3, 1.5)], COSTS)
    for size in [(1, 2, 3.5), (1, 2, 0.9), (0, 2, 1.5), (1, -1, 1.0)]:
        with pytest.raises(InvalidCosts, match="block efficiency must be from 1"):
            Efficiency("a", *size)
    for error in (-0.1, float("inf")):
        with pytest.raises(InvalidCosts, match=f"K = 1, L = 2: standard error must be >= 0, got {error}"):
            Efficiency("a", 1, 2, 1.5, error)
