"""One source, every kind of array: the type that came in goes out, and what was given out stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_problems import all_tuples, fits, random_masses

import ot_draft as otd
from ot_draft.laws import probability_inside

RULES = pytest.mark.parametrize("rule", otd.rules.ALL, ids=lambda rule: rule.name)


def count(rule: otd.SelectionRule) -> int:
    return 3 if fits(rule.law, 3) else 2


def pairs(seed: int, shape: tuple[int, ...] = (), n: int = 4) -> tuple[Any, Any]:
    """Random p, q with dyadic masses, which float32 holds exactly; no ties in q, which torch ranks in its own way."""
    generator = np.random.default_rng(seed)
    p, q = random_masses(generator, n, 256, shape), random_masses(generator, n, 64, shape)
    while (np.diff(np.sort(q)) == 0).any():
        q = random_masses(generator, n, 64, shape)
    return p, q


def skip_where_values_are_needed(rule: otd.SelectionRule, kind: Any) -> None:
    if kind.meta and rule.cost.on_host:
        pytest.skip(
            "what computes on the host needs values; that it says so is tested in test_from_coupling.py and test_head_and_tail.py"
        )


@RULES
def test_the_type_that_came_in_goes_out(rule: otd.SelectionRule, kind: Any) -> None:
    skip_where_values_are_needed(rule, kind)
    k = count(rule)
    p, q = (kind.make(x) for x in pairs(32, (3,)))
    drafts = kind.tokens(np.arange(3 * k).reshape(3, k) % 4)
    selection = rule(p, q, drafts)
    for x in (selection.accept, selection.residual, selection.output(drafts)):
        assert type(x) is type(p) and x.dtype == p.dtype
        if kind.is_torch:
            assert x.device == p.device
    assert tuple(selection.accept.shape) == (3, k) and tuple(selection.output(drafts).shape) == (3, 4)
    assert tuple(selection.residual.shape) in {(3, 4), (4,)}
    if kind.exact:
        assert all(type(v).__name__ == "Fraction" for x in (selection.accept, selection.residual) for v in x.ravel())


@RULES
def test_float32_numpy_stays_float32(rule: otd.SelectionRule) -> None:
    p, q = (x.astype(np.float32) for x in pairs(33, (3,)))
    selection = rule(p, q, np.arange(3 * count(rule)).reshape(3, -1) % 4)
    assert selection.accept.dtype == selection.residual.dtype == np.float32
    assert otd.evaluate(rule, otd.Problem(p, q, count(rule), rule.law)).lossless


@RULES
def test_inputs_are_left_alone(rule: otd.SelectionRule, kind: Any) -> None:
    """Also through a second call with the results of the first in use: results share no memory with inputs or each other."""
    skip_where_values_are_needed(rule, kind)
    p, q = (kind.make(x) for x in pairs(34, (6,)))
    drafts = kind.tokens(np.random.default_rng(34).integers(-1, 4, (6, count(rule))))
    before = [] if kind.meta else [np.array(kind.back(x)) for x in (p, q)]
    first = rule(p, q, drafts)
    kept = [] if kind.meta else [np.array(kind.back(x)) for x in (first.accept, first.residual)]
    rule(q, p, drafts)
    if not kind.meta:
        assert all((kind.back(x) == y).all() for x, y in zip((p, q), before, strict=True))
        assert all((kind.back(x) == y).all() for x, y in zip((first.accept, first.residual), kept, strict=True))


@pytest.mark.parametrize("law", [otd.IID(), otd.WithoutReplacement(), otd.Hybrid(top=1), otd.SpecHubLaw()], ids=repr)
def test_laws_on_every_kind(law: otd.DraftLaw, kind: Any) -> None:
    _, q = pairs(38, (3,))
    drafts = all_tuples(4, 2)
    chance = law.probability(kind.make(q)[:, None], kind.tokens(drafts))
    assert kind.agrees(chance, law.probability(q[:, None], drafts))
    uniforms = random_masses(np.random.default_rng(39), 2, 16, (3,)) * 15 / 16
    drawn = law.draw(kind.make(q), kind.make(uniforms))
    assert tuple(drawn.shape) == (3, 2) and str(drawn.dtype).removeprefix("torch.") == "int64"
    sets = np.array([[True, True, False, True], [False, False, True, True], [True] * 4])
    if not (kind.meta and law == otd.WithoutReplacement()):
        mask = kind.tokens(sets) > 0
        assert kind.agrees(probability_inside(law, kind.make(q), mask, 2), probability_inside(law, q, sets, 2))
