"""-1 marks an absent draft: k may differ from row to row, and a row decides as if it had only the drafts that are there."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from random_problems import all_tuples, fits, random_masses, random_pair

import ot_draft as ot

RULES = pytest.mark.parametrize("rule", ot.rules.ALL, ids=lambda rule: rule.name)
SAME_LAW = [rule for rule in ot.rules.ALL if isinstance(rule.law, ot.IID | ot.WithoutReplacement)]


@pytest.mark.parametrize("rule", SAME_LAW, ids=lambda rule: rule.name)
def test_absent_drafts_anywhere_change_nothing(rule: ot.SelectionRule) -> None:
    generator = np.random.default_rng(41)
    for n, present, k in ((3, 0, 2), (3, 1, 3), (3, 2, 4), (4, 2, 3), (2, 3, 4)):
        p, q = random_pair(generator, n)
        drafts = np.array(list(product(range(n), repeat=present)), dtype=np.int64).reshape(n**present, present)
        fewer = rule(p, q, drafts)
        for places in combinations(range(k), present):
            padded = np.full((len(drafts), k), -1)
            padded[:, places] = drafts
            selection = rule(p, q, padded)
            assert (selection.output(padded) == fewer.output(drafts)).all()
            assert (selection.accept[:, places] == fewer.accept).all()


@RULES
def test_a_row_without_drafts_outputs_the_target(rule: ot.SelectionRule, kind: Any) -> None:
    if kind.meta and rule.solves:
        pytest.skip("a program needs values")
    k = 3 if fits(rule.law, 3) else 2
    generator = np.random.default_rng(42)
    p, q = random_masses(generator, 4, 64, (2,)), random_masses(generator, 4, 64, (2,))
    drafts = kind.tokens([[-1] * k, [0, 1, 2][:k]])
    selection = rule(kind.make(p), kind.make(q), drafts)
    assert kind.agrees(selection.accept[0], np.zeros(k, dtype=int))
    residual = selection.residual if selection.residual.ndim > 1 else selection.residual[None]
    assert kind.agrees(residual[0], p[0])
    nothing = rule(kind.make(p), kind.make(q), kind.tokens(np.zeros((2, 0))))
    assert tuple(nothing.accept.shape) == (2, 0) and kind.agrees(nothing.residual, p)


@pytest.mark.parametrize("rule", SAME_LAW, ids=lambda rule: rule.name)
def test_rows_with_different_numbers_of_drafts_are_each_lossless(rule: ot.SelectionRule) -> None:
    """For every pattern of absence alone, the average over the drafts that are there is the target."""
    generator = np.random.default_rng(43)
    for n, k in ((2, 3), (3, 2), (3, 3)):
        p, q = random_pair(generator, n)
        drafts = all_tuples(n, k)
        rows = rule(p, q, drafts).output(drafts)  # one call, all patterns side by side
        for absent in product((False, True), repeat=k):
            here = ((drafts < 0) == absent).all(-1)
            weight = rule.law.probability(q, drafts[here][:, ~np.array(absent)])
            assert weight.sum() == 1 or absent.count(False) > rule.law.count(n, k)
            if weight.sum() == 1:
                assert (weight @ rows[here] == p).all()


@pytest.mark.parametrize("name", ["Greedy", "SpecHub"])
def test_greedy_rules_draw_from_the_target_when_the_drawn_token_is_absent(name: str) -> None:
    """The top tokens alone say nothing: what is output is p, and what falls on them counts as drafted."""
    rule = getattr(ot.rules, name)()
    p, q = random_masses(np.random.default_rng(44), 4, 60), np.array(random_masses(np.random.default_rng(45), 4, 7))
    top = int(np.argmax(q == q.max()))
    drafts = np.array([top, -1])
    selection = rule(p, q, drafts)
    assert (selection.output(drafts) == p).all() and selection.accept.tolist() == [p[top], 0]


@RULES
def test_drafts_exhaust_the_vocabulary(rule: ot.SelectionRule) -> None:
    """k > n: laws without replacement leave the rest absent, and the rule stays exact."""
    for n, k in ((1, 2), (1, 4), (2, 3), (2, 5)):
        if fits(rule.law, k):
            p, q = random_pair(np.random.default_rng([46, n, k]), n)
            problem = ot.Problem(p, q, k, rule.law)
            assert ot.evaluate(rule, problem).lossless
            if n == 1:
                assert ot.evaluate(rule, problem).acceptance == 1 == ot.optimal_acceptance(p, q, k, rule.law)
