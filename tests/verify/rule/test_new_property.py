"""The property of examples/contributing holds for a rule that has it, and is refuted for one that has not."""

from __future__ import annotations

import pytest
from contributing import example

import ot_draft as otd
from ot_draft.verify.rule import check_rule


def test_it_tells_rules_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    equal_laws = example("equal_laws", monkeypatch).equal_laws
    always, seldom = (
        check_rule(rule, 20, [equal_laws]) for rule in (otd.rules.RecursiveRejection(), otd.rules.NaiveTarget())
    )
    assert always["equal_laws"].status == "passed" and always["equal_laws"].evidence.cases > 0
    found = seldom["equal_laws"]
    assert found.status == "failed" and found.claim == "Where p is q, a draft is always taken."
    assert "where p is q" in found.evidence.reason and [each.check for each in seldom.findings] == ["equal_laws"]
