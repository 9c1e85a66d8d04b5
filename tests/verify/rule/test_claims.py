"""Claims: checked where they are made, true for the library's rules, and each refuted for a rule that claims it falsely."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from slow import slow

import ot_draft as otd
from ot_draft.verify.rule import check_rule, parametrize_with_rule_checks
from ot_draft.verify.rule.answers import RuleOutcome
from ot_draft.verify.rule.properties import ALL, CLAIMS, properties_of

pytestmark = pytest.mark.usefixtures("short_searches")

FALSE = [
    ("maximal", otd.rules.NaiveTarget()),
    ("maximal", otd.rules.KSeq(factor=4)),
    ("optimal", otd.rules.RecursiveRejection()),
    slow("optimal", otd.rules.Optimal(classes=2)),
    slow("optimal", otd.rules.RecursiveRejectionWithoutReplacement()),
    ("kseq_bound", otd.rules.SpeculativeSampling()),
    ("kseq_bound", otd.rules.NaiveTarget()),
    ("cover", otd.rules.SpeculativeSampling(law=otd.WithoutReplacement())),
    ("cover", otd.rules.ImportanceWeighted()),
]
TRUE = [
    # Two couplings claim nothing: a check of nothing is refused.
    *(rule for rule in otd.rules.ALL if rule.claims),
    otd.rules.Optimal(otd.Hybrid(1)),
    otd.rules.Optimal("auto"),  # type: ignore[arg-type]
    otd.rules.Optimal(classes=4),
    otd.rules.NaiveTarget(otd.WithoutReplacement()),
    otd.rules.FromCoupling(otd.WithoutReplacement()),
    otd.rules.FromCoupling(otd.SpecHubLaw()),
]


@dataclass(frozen=True)
class Boastful(otd.SelectionRule):
    """Another rule that claims what it is told to."""

    rule: otd.SelectionRule
    claims: tuple[str, ...]

    @property
    def law(self) -> otd.DraftLaw:  # type: ignore[override]
        return self.rule.law

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        return self.rule(p, q, drafts)


def outcome(rule: otd.SelectionRule, claim: str) -> RuleOutcome:
    return check_rule(rule, 40, properties=[claim])[claim]


@pytest.mark.parametrize(("claim", "rule"), FALSE, ids=lambda value: getattr(value, "name", value))
def test_a_false_claim_is_refuted_by_a_small_problem(claim: str, rule: otd.SelectionRule) -> None:
    boast = outcome(Boastful(rule, (claim,)), claim)
    assert boast.status == "failed" and boast.counterexample is not None
    assert len(boast.counterexample["p"]) <= 3 and boast.counterexample["k"] <= 3
    assert check_rule(
        rule, max_examples=10, properties=["output_distribution"]
    ).passed  # a right rule, with a false claim


def test_the_cover_property_in_its_own_case() -> None:
    """Target on one of two tokens, draft uniform on both, two drafts without replacement: one is taken for certain."""
    problem = otd.Problem([F(1), F(0)], [F(1, 2), F(1, 2)], k=2, law=otd.WithoutReplacement())
    assert otd.evaluate(otd.rules.RecursiveRejectionWithoutReplacement(), problem).accept.sum() == 1
    first_only = otd.rules.SpeculativeSampling(law=otd.WithoutReplacement())
    assert otd.evaluate(first_only, problem).accept.sum() == F(1, 2)


@pytest.mark.parametrize("examples", [12, slow(120)])
@pytest.mark.parametrize("rule", TRUE, ids=lambda rule: rule.name)
def test_the_claims_of_the_library_are_true(rule: otd.SelectionRule, examples: int) -> None:
    assert set(rule.claims) <= {each.name for each in CLAIMS}
    report = check_rule(rule, max_examples=examples, properties=rule.claims, seed=7)
    report.raise_if_failed()
    assert [each.status for each in report.outcomes] == ["passed"] * len(rule.claims)


def test_what_the_library_claims() -> None:
    claims = {rule.name: rule.claims for rule in otd.rules.ALL}
    assert {name for name, made in claims.items() if "optimal" in made} == {
        "Optimal",
        "Greedy",
        "SpecHub",
        "FromCoupling",
    }
    assert claims["KSeq"] == ("maximal", "kseq_bound") and otd.rules.KSeq(factor=2).claims == ()
    assert otd.rules.Optimal(classes=16).claims == ("maximal",)
    assert otd.rules.FromCoupling(solver="highs").claims == ()


def test_only_claims_that_are_made_are_checked() -> None:
    names = [each.name for each in properties_of(otd.rules.KSeq(), None)]
    assert names == [each.name for each in ALL if each not in CLAIMS or each.name in {"maximal", "kseq_bound"}]
    asked = outcome(otd.rules.KSeq(), "optimal")
    assert (asked.status, asked.evidence.reason) == ("skipped", "not claimed")
    marks = parametrize_with_rule_checks([otd.rules.KSeq(), otd.rules.NaiveTarget()]).args[1]
    ids = {case.id for case in marks}
    assert {"KSeq-kseq_bound", "NaiveTarget-cover"} <= ids and not {"KSeq-optimal", "NaiveTarget-maximal"} & ids


def test_a_law_without_one_draft_has_nothing_to_be_maximal_at() -> None:
    asked = outcome(Boastful(otd.rules.SpecHub(), ("maximal",)), "maximal")
    assert asked.status == "skipped" and "is not defined for one draft token" in asked.evidence.reason


def test_an_unknown_claim_is_an_error() -> None:
    rule = Boastful(otd.rules.KSeq(), ("fast",))
    with pytest.raises(
        otd.InvalidArgument, match=r"Boastful.claims must be among maximal, optimal, kseq_bound, cover, .*got fast"
    ):
        check_rule(rule)
    with pytest.raises(otd.InvalidArgument, match=r"Boastful\.claims must be among .*, got fast"):
        parametrize_with_rule_checks([rule])
    with pytest.raises(
        ValueError, match=r"claims must be a tuple of names, got 'optimal'. Write  claims = \('optimal',\)"
    ):
        check_rule(Boastful(otd.rules.KSeq(), "optimal"))  # type: ignore[arg-type]


def test_a_claim_in_a_class_of_ten_lines() -> None:
    class Mine(otd.SelectionRule):
        law = otd.IID()
        claims = ("maximal",)

        def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
            return otd.Selection(np.zeros(drafts.shape, dtype=int) * p[..., :1], p)

    assert outcome(Mine(), "output_distribution").status == "passed" and outcome(Mine(), "maximal").status == "failed"
