"""Planted wrong rules, most of them from bug reports of the field: each is rejected, by the property that its entry names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from mutants.catalogue import Mutant, of
from mutants.rules import FIRST_LINES, LARGEST

import ot_draft as otd
from ot_draft.verify.rule.answers import RuleOutcome
from ot_draft.verify.rule.properties import choose
from ot_draft.verify.rule.report import check_property
from ot_draft.verify.source import magnitude

pytestmark = pytest.mark.usefixtures("loaded_once")
Array = Any


def outcome_of(rule: otd.SelectionRule, name: str, max_examples: int = 30) -> RuleOutcome:
    (claim,) = choose([name])
    return check_property(claim, rule, max_examples)


STOPS = (AssertionError, RuntimeError, IndexError)  # a counterexample, and what the planted rules raise


@pytest.mark.parametrize(
    "mutant", [each for each in of("rule") if each.found["rule"] != FIRST_LINES], ids=attrgetter("name")
)
def test_a_planted_bug_is_rejected_by_its_property(
    mutant: Mutant, record_property: Callable[[str, object], None]
) -> None:
    """By a small problem, and by code that runs; the time goes into the test report."""
    rule, (name,) = mutant.rule(), mutant.found["rule"]
    if "torch" in mutant.name or name == "no_host_sync":
        pytest.importorskip("torch")
    outcome = outcome_of(rule, name)
    record_property("seconds", outcome.seconds)
    assert outcome.status == "failed" and outcome.counterexample is not None
    assert len(outcome.counterexample["p"]) <= LARGEST[mutant.name] and outcome.counterexample["k"] <= 3
    # The planted rules cannot be imported by name: the lines that make them are left out, and the rest is executed.
    made = ("Planted", "rule = ", "sys.path")
    lines = [line for line in outcome.code.splitlines() if not any(words in line for words in made)]
    names: dict[str, Any] = {"rule": rule}
    with (
        nullcontext() if "otd.evaluate" in outcome.code else pytest.raises(STOPS) as raised,
        np.errstate(all="ignore"),
    ):
        exec("\n".join(lines), names)
    if raised is None:
        assert (names["result"].output != names["problem"].p).any()
    elif not outcome.evidence.reason.startswith("raised "):
        assert isinstance(raised.value, AssertionError) and str(raised.value) == outcome.evidence.reason
    else:
        assert isinstance(raised.value, RuntimeError | IndexError) and str(raised.value) in outcome.evidence.reason


class Forgetful(otd.SelectionRule):
    """As a user would write it: recursive rejection with the target in the place of the residual."""

    law = otd.IID()

    def __call__(self, p: Array, q: Array, drafts: Array) -> otd.Selection:
        return otd.Selection(otd.rules.RecursiveRejection()(p, q, drafts).accept, p)


def test_the_code_of_a_counterexample_shows_what_the_report_says(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = outcome_of(Forgetful(), "output_distribution")
    names: dict[str, Any] = {}
    exec(compile(outcome.code, "counterexample", "exec"), names)
    assert outcome.counterexample is not None
    problem, output = names["problem"], names["result"].output
    assert list(map(str, problem.p)) == outcome.counterexample["p"] and (output != problem.p).any()
    printed = capsys.readouterr().out.splitlines()
    masses = [" ".join(str(mass) for mass in law) for law in (output, problem.p)]
    distance = names["result"].error
    assert printed == [f"output: {masses[0]}", f"target: {masses[1]}", f"total variation distance: {distance}"]
    said = "output distribution ({}) instead of ({}); total variation distance {}"
    assert outcome.evidence.reason == said.format(*(text.replace(" ", ", ") for text in masses), magnitude(distance))
    assert outcome.counterexample["total_variation_exact"] == str(distance)
    assert problem.n == 2 and problem.k == 1
