"""The selection rule and the engine adapter of examples/contributing do what it says of them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from contributing import example
from random_problems import SMALL_SIZES, random_problems

import ot_draft as otd
from ot_draft import trees
from ot_draft.cli import main
from ot_draft.errors import NotLossless, UnsupportedHost


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = example("last_draft", monkeypatch)
    monkeypatch.setattr(otd.rules, "ALL", (*otd.rules.ALL, module.LastDraft()))
    return module.LastDraft()


def test_it_keeps_the_target_on_fractions(rule: Any) -> None:
    for n, k in SMALL_SIZES:
        for problem in random_problems(5, n, k, rule.law, 3):
            assert (otd.evaluate(rule, problem).output == problem.p).all()


def test_it_is_known_by_name(rule: Any) -> None:
    command = ["compare", "--p", "1/2,1/2", "--q", "1/4,3/4", "--k", "2", "--rules", "LastDraft", "--csv"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0 and "LastDraft,iid" in done.stdout, done.output
    assert trees.rules.called("last-draft") == trees.TokenWise(rule)


def test_an_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = example("my_engine", monkeypatch)
    engine = ModuleType("engine")
    engine.verify = lambda p, q, tokens, uniforms: None  # type: ignore[attr-defined]
    adapter.install(engine, "BlockVerification")
    p = np.broadcast_to([0.25, 0.75], (1, 3, 2))
    assert engine.verify(p, p[:, :2], np.array([[1, 0]]), np.array([[0.5, 0.5]])).tolist() == [[1, 0, 1]]
    with pytest.raises(NotLossless, match="must be a lossless rule"):
        adapter.install(engine, "Joint")
    engine.verify = lambda logits: None  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedHost, match="takes"):
        adapter.install(engine, "BlockVerification")


@pytest.mark.parametrize(
    "rule", [*otd.rules.ALL, otd.lossy.Toward(otd.lossy.KL(0.1), otd.rules.KSeq())], ids=lambda rule: rule.name
)
@pytest.mark.parametrize("of", ["p", "q"])
def test_every_rule_refuses_tensors_that_require_a_gradient(rule: Any, of: str) -> None:
    torch = pytest.importorskip("torch")
    given = {name: torch.full((4,), 0.25) for name in ("p", "q")}
    given[of].requires_grad_()
    with pytest.raises(otd.InvalidDistribution, match=rf"{of} must be dense and without gradient, .*Pass {of}.detach"):
        rule(**given, drafts=torch.tensor([1, 2]))
    tokens, p = torch.tensor([[1]]), {name: mass.expand(1, 2, 4) for name, mass in given.items()}
    with pytest.raises(otd.InvalidDistribution, match=rf"{of} must be dense and without gradient"):
        otd.trees.TreeShape((0,)).tree(tokens, **p)
