"""`rule_from_function`: a function of one context is the rule that it describes, in a batch and on all kinds of arrays."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ot_draft as otd
from ot_draft.cli.beside_library import in_softmaxes, print_beside_library


def first_draft(p: Any, q: Any, drafts: Any) -> tuple[Any, Any]:
    """Speculative sampling with the first draft token."""
    x, over = drafts[0], np.maximum(p - q, 0)
    accept = [min(1, p[x] / q[x]) if q[x] > 0 else 0] + [0] * (len(drafts) - 1)
    return accept, over / over.sum() if over.sum() > 0 else p


RULE = otd.rule_from_function(first_draft, otd.IID())


def test_it_is_the_rule_that_the_function_describes() -> None:
    p, q = ([Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)])
    for k in (0, 1, 2):
        problem = otd.Problem(p, q, k)
        found, wanted = otd.evaluate(RULE, problem), otd.evaluate(otd.rules.SpeculativeSampling(), problem)
        assert found.acceptance == wanted.acceptance and (found.output == problem.p).all()
    assert RULE.name == "first_draft" and RULE.law == otd.IID()


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_batch_is_a_loop_over_its_contexts(kind: str) -> None:
    generator = np.random.default_rng(0)
    p, q = generator.dirichlet(np.ones(5), (2, 2, 1)).astype(np.float32)
    drafts = generator.integers(-1, 5, (2, 3, 2))
    if kind == "torch":
        torch = pytest.importorskip("torch")
        p, q, drafts = map(torch.as_tensor, (p, q, drafts))
    found, wanted = (rule(p, q, drafts) for rule in (RULE, otd.rules.SpeculativeSampling()))
    assert found.accept.dtype == found.residual.dtype == p.dtype and found.residual.shape == (2, 3, 5)
    np.testing.assert_allclose(found.output(drafts), wanted.output(drafts), atol=1e-6)


def test_a_function_without_absent_drafts_is_lossless_with_them() -> None:
    report = otd.check_rule(RULE, 10, ["output_distribution", "padded_drafts"])
    assert report.passed, str(report)


def test_too_few_acceptance_probabilities_are_an_error() -> None:
    rule = otd.rule_from_function(lambda p, q, drafts: ([0], p), otd.IID())
    with pytest.raises(ValueError, match="one acceptance probability per draft token, got 1 for 2 draft tokens"):
        rule(np.full(2, 0.5), np.full(2, 0.5), np.array([0, 1]))


def test_a_rule_is_compared_with_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    print_beside_library(RULE, refuted=False, ks=(1, 2), count=2, n=20, timed_n=50)
    shown = capsys.readouterr().out
    assert "first_draft" in shown and "Optimal" in shown and "in softmaxes of one row" in " ".join(shown.split())
    ticks = iter([0, 6, 6, 8] * 3)  # a call of 6, a softmax of 2
    assert in_softmaxes(RULE, 2, 50, lambda: next(ticks)) == 3
    assert in_softmaxes(otd.rules.SpecHub(), 3, 50) == np.inf
