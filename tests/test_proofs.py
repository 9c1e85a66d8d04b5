"""Every statement of proofs_checks holds on its first cases, each planted error is found out, and the table says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from ot_draft.rules.levels import levels, slopes_of
from proofs_checks import __main__ as command
from proofs_checks import optimal_selection, random_orders
from proofs_checks.random_cases import SIZES, draw
from proofs_checks.selection_by_levels import curves as written_out
from proofs_checks.statement import Outcome, Statement

CASES = 4 * len(SIZES)  # every size four times
ALL = (*optimal_selection.STATEMENTS, *random_orders.STATEMENTS)
BY_NAME = pytest.mark.parametrize("statement", ALL, ids=lambda statement: statement.name)


def checked(statement: Statement, cases: int = 10) -> Outcome:
    return optimal_selection.check(statement, cases)


@BY_NAME
def test_the_statement_holds_and_its_planted_errors_do_not(statement: Statement) -> None:
    outcome = checked(statement, CASES)
    assert outcome.counterexamples == () and outcome.verdict == f"verified on {CASES} exact cases"
    assert statement.planted and {error: bool(cases) for error, cases in outcome.caught.items()} == dict.fromkeys(
        statement.planted, True
    )
    assert outcome.passed


def test_a_false_claim_is_refuted_by_its_first_counterexample() -> None:
    statement = replace(optimal_selection.STATEMENTS[0], holds=lambda case, error: case.k < 2 and not error)
    outcome = checked(statement)
    assert not outcome.passed and outcome.counterexamples[0] == draw(0)
    assert (
        outcome.verdict.startswith("refuted in") and "p = (1/2, 1/2, 0), q = (1/3, 1/3, 1/3), k = 2" in outcome.verdict
    )


def test_a_check_that_cannot_fail_does_not_pass() -> None:
    outcome = checked(replace(optimal_selection.STATEMENTS[0], holds=lambda case, error: True))
    assert not outcome.counterexamples and not outcome.passed and "NOT FOUND OUT" in outcome.controls
    assert not checked(optimal_selection.STATEMENTS[0], 0).passed


def test_the_cases_reach_the_corners() -> None:
    cases = [draw(seed) for seed in range(400)]
    assert [draw(seed) for seed in range(400)] == cases  # the same in every run
    assert all(sum(case.p) == sum(case.q) == 1 for case in cases)
    assert {len(case.p) for case in cases} == set(range(1, 9)) and {case.k for case in cases} == set(range(1, 7))
    corners: dict[str, Any] = {
        "p == q": lambda c: len(c.p) > 1 and c.p == c.q,
        "one-hot q": lambda c: len(c.q) > 1 and max(c.q) == 1,
        "zero in q only": lambda c: any(a > 0 == b for a, b in zip(c.p, c.q, strict=True)),
        "ties": lambda c: 1 < len({a / b for a, b in zip(c.p, c.q, strict=True) if b}) < sum(b > 0 for b in c.q),
        "level inside (0, 1)": lambda c: any(0 < level < 1 for level in own_levels(c)[1]),
    }
    counts = {name: sum(map(holds, cases)) for name, holds in corners.items()}
    assert min(counts.values()) >= 10, counts


def own_levels(case: Any) -> tuple[written_out.Curves, list[Any]]:
    curve = written_out.curves(case.p, case.q, case.k)
    return curve, written_out.levels_by_chords(curve.t, curve.g, curve.envelope)


def test_the_librarys_sweep_finds_the_levels_of_the_proof() -> None:
    generator = np.random.default_rng(51)
    for case in map(draw, range(300)):
        curve, level = own_levels(case)
        t, g, big = (np.array(x, dtype=object) for x in (curve.t, curve.g, curve.envelope))
        kinks = np.array([0 * t[0], *written_out.kinks(curve.t, curve.envelope).values(), 0 * t[0]], dtype=object)
        found, slope = levels(t, g, kinks)
        assert found[1:-1].tolist() == level[1:-1]
        assert slope.tolist() == slopes_of(t, g, found).tolist() == written_out.slopes(t, big)
        other = generator.integers(0, 5, len(t)) * (t[-1] / 4)
        assert slopes_of(t, g, other).tolist() == written_out.slopes(t, written_out.mixture(t, g, other.tolist()))


def test_the_command_prints_a_row_a_statement() -> None:
    done = CliRunner().invoke(command.main, ["--cases", "12", "--jobs", "1"])
    words = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == 0, words
    assert done.output.count("✓") == len(ALL) and "✗" not in done.output
    assert words.count("12 exact cases") == len(ALL)


def test_the_command_fails_when_a_statement_does(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(optimal_selection.STATEMENTS[0], holds=lambda case, error: False)
    monkeypatch.setattr(optimal_selection, "STATEMENTS", (wrong,))
    done = CliRunner().invoke(command.main, ["--cases", "2", "--jobs", "1"])
    assert done.exit_code == 1 and "✗" in done.output
