"""The path rule of CONTRIBUTING.md, added by one line in `paths.rules.ALL`: lossless, and known to `plan` and `decode` by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from contributing import example

import ot_draft as ot
from ot_draft import paths
from ot_draft.cli import main
from ot_draft.paths.tree import PlainTree


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = example("A path rule", monkeypatch)
    monkeypatch.setattr(paths.rules, "ALL", (*paths.rules.ALL, module.FirstStep()))
    return module.FirstStep()


@pytest.mark.parametrize("law", ot.laws.ALL, ids=repr)
def test_it_is_lossless(rule: Any, law: ot.DraftLaw) -> None:
    for shape in (paths.TreeShape.by_level((2, 2)), paths.TreeShape()):
        for seed in range(4):
            model = paths.MarkovModel.random(np.random.default_rng(seed), 2)
            assert paths.evaluate(rule, model, shape, law).lossless


def test_both_forms_are_one_rule(rule: Any) -> None:
    model = paths.MarkovModel.random(np.random.default_rng(7), 3)
    shape, number = paths.TreeShape.by_level((2, 1)), 4000
    uniforms = np.random.default_rng(0).random((1, shape.size))
    tree = paths.drafting.draft_trees(paths.FixedTree(shape), model.in_floats(), [()], uniforms)
    copies = (np.repeat(x, number, 0) for x in (tree.tokens, tree.p, tree.q))
    chosen = rule.select(shape.tree(*copies), np.random.default_rng(1).random((number, 2))).tokens
    seen = Counter(tuple(token for token in row if token >= 0) for row in chosen.tolist())
    law = rule(model, PlainTree(shape, tuple(tree.tokens[0].tolist())))
    assert set(seen) <= {tokens for tokens, mass in law.items() if mass}
    for tokens, mass in law.items():
        assert abs(seen[tokens] / number - float(mass)) < 5 * np.sqrt(float(mass) / number)


def test_it_is_known_by_name(rule: Any, tmp_path: Path) -> None:
    assert paths.rules.called("first-step") == paths.rules.called("FirstStep") == rule
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"verify": {"1": 1, "5": 1.1}, "draft": {"1": 0.1, "2": 0.1}}))
    sizes = ("--paths", "2", "--length", "2", "--iterations", "20", "--vocabulary", "50")
    done = CliRunner().invoke(main, ["plan", "--costs", str(costs), *sizes, "--rules", "FirstStep,Joint", "--json"])
    assert done.exit_code == 0, done.output
    assert {row["rule"] for row in json.loads(done.stdout)["rows"]} == {"FirstStep", "Joint"}
    methods = pytest.importorskip("ot_draft.decoding.methods", reason="torch or transformers is not installed")
    method = methods.method_called("first_step", "hybrid:1", paths.TreeShape.chains(2, 3))
    assert (method.rule, method.law, method.drafting.rule) == ("firststep", "hybrid:1", rule)


def test_every_path_rule_has_names_of_its_own() -> None:
    every = paths.rules.every()
    one, two = paths.TreeShape.chains(1, 1), paths.TreeShape.chains(2, 1)
    for names in (
        [paths.rules.command(rule) for rule in every],
        [rule.name for rule in every],
        [paths.rules.label(rule) for rule in every],
    ):
        assert len(set(names)) == len(every)
    assert all(paths.rules.called(paths.rules.command(rule)) == rule for rule in every)
    assert [
        rule.name
        for rule in every
        if paths.rules.fits(rule, one, rule.law) and not paths.rules.fits(rule, two, rule.law)
    ] == ["BlockVerification"]
    with pytest.raises(ot.InvalidArgument, match="there is no rule 'Fastest': take Joint, Traversal"):
        paths.rules.called("Fastest")
