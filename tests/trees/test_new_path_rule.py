"""The path rule of examples/contributing, added by one line in `paths.rules.ALL`: lossless, and known to `plan` and `decode` by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from contributing import example

import ot_draft as otd
from ot_draft import trees
from ot_draft.cli import main
from ot_draft.trees.tree import PlainTree


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = example("first_step", monkeypatch)
    monkeypatch.setattr(trees.rules, "ALL", (*trees.rules.ALL, module.FirstStep()))
    return module.FirstStep()


@pytest.mark.parametrize("law", otd.laws.ALL, ids=repr)
def test_it_is_lossless(rule: Any, law: otd.DraftLaw) -> None:
    for shape in (trees.TreeShape.by_level((2, 2)), trees.TreeShape()):
        for seed in range(4):
            model = trees.MarkovModel.random(np.random.default_rng(seed), 2)
            assert trees.evaluate(rule, model, shape, law).lossless


def test_both_forms_are_one_rule(rule: Any) -> None:
    model = trees.MarkovModel.random(np.random.default_rng(7), 3)
    shape, number = trees.TreeShape.by_level((2, 1)), 4000
    uniforms = np.random.default_rng(0).random((1, shape.size))
    tree = trees.drafting.draft_trees(trees.FixedTree(shape), model.in_floats(), [()], uniforms)
    copies = (np.repeat(x, number, 0) for x in (tree.tokens, tree.p, tree.q))
    chosen = rule.select(shape.tree(*copies), np.random.default_rng(1).random((number, 2))).tokens
    seen = Counter(tuple(token for token in row if token >= 0) for row in chosen.tolist())
    law = rule(model, PlainTree(shape, tuple(tree.tokens[0].tolist())))
    assert set(seen) <= {tokens for tokens, mass in law.items() if mass}
    for tokens, mass in law.items():
        assert abs(seen[tokens] / number - float(mass)) < 5 * np.sqrt(float(mass) / number)


def test_it_is_known_by_name(rule: Any, tmp_path: Path) -> None:
    assert trees.rules.called("first-step") == trees.rules.called("FirstStep") == rule
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"verify": {"1": 1, "5": 1.1}, "draft": {"1": 0.1, "2": 0.1}}))
    sizes = ("--paths", "2", "--length", "2", "--iterations", "20", "--vocabulary", "50")
    done = CliRunner().invoke(main, ["plan", "--costs", str(costs), *sizes, "--rules", "FirstStep,Joint", "--json"])
    assert done.exit_code == 0, done.output
    assert {row["rule"] for row in json.loads(done.stdout)["rows"]} == {"FirstStep", "Joint"}
    methods = pytest.importorskip("ot_draft.decoding.methods", reason="torch or transformers is not installed")
    method = methods.method_called("first_step", "hybrid:1", trees.TreeShape.chains(2, 3))
    assert (method.rule, method.law, method.drafting.rule) == ("firststep", "hybrid:1", rule)


def test_every_path_rule_has_names_of_its_own() -> None:
    every = trees.rules.every()
    one, two = trees.TreeShape.chains(1, 1), trees.TreeShape.chains(2, 1)
    for names in (
        [trees.rules.command(rule) for rule in every],
        [rule.name for rule in every],
        [trees.rules.label(rule) for rule in every],
    ):
        assert len(set(names)) == len(every)
    assert all(trees.rules.called(trees.rules.command(rule)) == rule for rule in every)
    assert [
        rule.name
        for rule in every
        if trees.rules.fits(rule, one, rule.law) and not trees.rules.fits(rule, two, rule.law)
    ] == ["BlockVerification"]
    with pytest.raises(otd.InvalidArgument, match=r"got 'Fastest'\. Use one of Joint, Traversal"):
        trees.rules.called("Fastest")
