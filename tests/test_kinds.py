"""One source, every kind of array: the same numbers, the type that came in, inputs left alone, no hidden host sync."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_problems import all_tuples, fits, random_masses

import ot_draft as ot

RULES = pytest.mark.parametrize("rule", ot.rules.ALL, ids=lambda rule: rule.name)
# K-SEQ's factor is rounded up, by up to about a thousand roundings: its acceptance differs that much between kinds.
LOOSE = {"KSeq": 20}


def count(rule: ot.SelectionRule) -> int:
    return 3 if fits(rule.law, 3) else 2


def pairs(seed: int, shape: tuple[int, ...] = (), n: int = 4) -> tuple[Any, Any]:
    """Random p, q with dyadic masses, which float32 holds exactly; no ties in q, which torch ranks in its own way."""
    generator = np.random.default_rng(seed)
    p, q = random_masses(generator, n, 256, shape), random_masses(generator, n, 64, shape)
    while (np.diff(np.sort(q)) == 0).any():
        q = random_masses(generator, n, 64, shape)
    return p, q


def skip_where_values_are_needed(rule: ot.SelectionRule, kind: Any) -> None:
    if kind.meta and rule.solves:
        pytest.skip("a program needs values; that it says so is tested in test_from_coupling.py")


@RULES
def test_evaluate_agrees_with_fractions(rule: ot.SelectionRule, kind: Any) -> None:
    skip_where_values_are_needed(rule, kind)
    k, loose = count(rule), LOOSE.get(rule.name, 1)
    p, q = pairs(31, (5,))
    exact = ot.evaluate(rule, ot.Problem(p, q, k, rule.law))
    result = ot.evaluate(rule, ot.Problem(kind.make(p), kind.make(q), k, rule.law))
    assert kind.agrees(result.output, p)
    assert kind.agrees(result.acceptance, exact.acceptance, loose)
    assert kind.agrees(result.accept, exact.accept, loose)
    if not kind.meta:
        assert result.lossless


@RULES
def test_the_type_that_came_in_goes_out(rule: ot.SelectionRule, kind: Any) -> None:
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
def test_float32_numpy_stays_float32(rule: ot.SelectionRule) -> None:
    p, q = (x.astype(np.float32) for x in pairs(33, (3,)))
    selection = rule(p, q, np.arange(3 * count(rule)).reshape(3, -1) % 4)
    assert selection.accept.dtype == selection.residual.dtype == np.float32
    assert ot.evaluate(rule, ot.Problem(p, q, count(rule), rule.law)).lossless


@RULES
def test_inputs_are_left_alone(rule: ot.SelectionRule, kind: Any) -> None:
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


@RULES
def test_a_batch_is_a_loop_over_its_rows(rule: ot.SelectionRule, kind: Any) -> None:
    skip_where_values_are_needed(rule, kind)
    k, generator = count(rule), np.random.default_rng(35)
    p, q = pairs(35, (3, 2))
    drafts = generator.integers(0, 4, (3, 2, k))
    law = rule(kind.make(p), kind.make(q), kind.tokens(drafts)).output(kind.tokens(drafts))
    assert tuple(law.shape) == (3, 2, 4)
    for row in np.ndindex(3, 2):
        tokens = kind.tokens(drafts[row])
        alone = rule(kind.make(p[row]), kind.make(q[row]), tokens)
        assert tuple(alone.accept.shape) == (k,) and tuple(alone.residual.shape) == (4,)
        if not kind.meta:
            exact = kind.back(alone.output(tokens))
            assert kind.agrees(law[row], exact, 1000) and kind.agrees(law[row].sum(-1), 1, 10)


@RULES
def test_one_pair_of_laws_for_many_drafts(rule: ot.SelectionRule, kind: Any) -> None:
    """p and q broadcast against the drafts: what makes enumeration a batch."""
    skip_where_values_are_needed(rule, kind)
    p, q = pairs(36)
    drafts = all_tuples(4, count(rule))
    if not isinstance(rule.law, ot.IID | ot.WithoutReplacement):
        drafts = drafts[rule.law.probability(q, drafts) > 0]
    exact = rule(p, q, drafts).output(drafts)
    assert exact.shape == (len(drafts), 4) and (exact.sum(-1) == 1).all() and (exact >= 0).all()
    law = rule(kind.make(p), kind.make(q), kind.tokens(drafts)).output(kind.tokens(drafts))
    assert kind.agrees(law, exact, 100 * LOOSE.get(rule.name, 1))
    drafts = np.resize(drafts, (3, 2, drafts.shape[-1]))
    many = rule(kind.make(p[None, None]), kind.make(q[None, None]), kind.tokens(drafts))
    assert tuple(many.accept.shape) == (3, 2, drafts.shape[-1])


@RULES
def test_accept_and_residual_are_laws(rule: ot.SelectionRule) -> None:
    """On every tuple that the law may draw; for rules without top tokens on every tuple, absent drafts included."""
    generator = np.random.default_rng(37)
    for n in (1, 2, 3):
        for _ in range(6):
            p, q = random_masses(generator, n), random_masses(generator, n)
            drafts = all_tuples(n, count(rule))
            if not isinstance(rule.law, ot.IID | ot.WithoutReplacement):
                drafts = drafts[rule.law.probability(q, drafts) > 0]
            selection = rule(p, q, drafts)
            assert (selection.accept >= 0).all() and (selection.accept.sum(-1) <= 1).all()
            assert (selection.accept[drafts == -1] == 0).all()
            assert (selection.residual >= 0).all() and (selection.residual.sum(-1) == 1).all()


@pytest.mark.parametrize("law", [ot.IID(), ot.WithoutReplacement(), ot.Hybrid(top=1), ot.Hub()], ids=repr)
def test_laws_on_every_kind(law: ot.DraftLaw, kind: Any) -> None:
    _, q = pairs(38, (3,))
    drafts = all_tuples(4, 2)
    chance = law.probability(kind.make(q)[:, None], kind.tokens(drafts))
    assert kind.agrees(chance, law.probability(q[:, None], drafts))
    uniforms = random_masses(np.random.default_rng(39), 2, 16, (3,)) * 15 / 16
    drawn = law.draw(kind.make(q), kind.make(uniforms))
    assert tuple(drawn.shape) == (3, 2) and str(drawn.dtype).removeprefix("torch.") == "int64"
    sets = np.array([[True, True, False, True], [False, False, True, True], [True] * 4])
    if not (kind.meta and law == ot.WithoutReplacement()):
        mask = kind.tokens(sets) > 0
        assert kind.agrees(law.inside(kind.make(q), mask, 2), law.inside(q, sets, 2))
