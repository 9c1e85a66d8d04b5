"""The check of statements: it finds planted errors, it passes nothing that cannot fail, and table, page and data say what came out."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from slopes import slopes_of
from slow import slow

from ot_draft.rules.optimal.levels import levels
from proofs_checks import __main__ as command
from proofs_checks import checking, formal, page
from proofs_checks.optimum import optimal_selection, random_orders
from proofs_checks.optimum.selection_by_levels import curves as written_out
from proofs_checks.random_cases import SIZES, draw
from proofs_checks.statement import Proof, Statement, StatementOutcome

ALL = (*optimal_selection.STATEMENTS, *random_orders.STATEMENTS)
BY_NAME = pytest.mark.parametrize("statement", ALL, ids=lambda statement: statement.name)


def checked(statement: Statement, cases: int = 10) -> StatementOutcome:
    return optimal_selection.check(statement, cases)


@pytest.mark.parametrize("cases", [len(SIZES), slow(4 * len(SIZES))])  # every size once, or four times
@BY_NAME
def test_the_statement_holds_and_its_planted_errors_do_not(statement: Statement, cases: int) -> None:
    outcome = checked(statement, cases)
    assert outcome.counterexamples == () and outcome.verdict == f"verified on {cases} exact cases"
    assert statement.planted and {error: bool(found) for error, found in outcome.caught.items()} == dict.fromkeys(
        statement.planted, True
    )
    assert outcome.passed


def test_a_false_claim_is_refuted_by_its_simplest_counterexample() -> None:
    statement = replace(optimal_selection.STATEMENTS[0], holds=lambda case, error: case.k < 2 and not error)
    outcome = checked(statement)
    assert not outcome.passed and outcome.counterexamples[0] == draw(0)
    assert outcome.verdict == "refuted in 9 of 10 cases: p = (9/10, 1/10), q = (1/250, 249/250), k = 3"  # the simplest


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
        swept, slope = levels(t, g, kinks)
        assert swept[1:-1].tolist() == level[1:-1]
        assert slope.tolist() == slopes_of(t, g, swept).tolist() == written_out.slopes(t, big)
        any_levels = generator.integers(0, 5, len(t)) * (t[-1] / 4)
        assert slopes_of(t, g, any_levels).tolist() == written_out.slopes(
            t, written_out.mixture(t, g, any_levels.tolist())
        )


def test_a_control_that_nobody_gave_does_not_pass() -> None:
    assert not checked(replace(optimal_selection.STATEMENTS[0], planted=())).passed


def few_tokens(case: Any, error: str) -> bool:
    """False for many cases; true of all with the repair in it."""
    return len(case.p) < 4 or error == "few tokens"


FALSE = Statement("n < 4", "False: a claim.", "", "", few_tokens, ("few tokens",), expected="refuted")


def test_a_claim_known_to_be_false_passes_when_its_counterexample_is_found_and_its_repair_holds() -> None:
    outcome = checking.check(FALSE, 60)
    assert outcome.passed and outcome.kind == "refuted" and outcome.controls == "few tokens: holds"
    assert len(outcome.counterexamples[0].p) >= 4
    simplest = min((case for case in outcome.counterexamples), key=lambda case: case.size)
    assert outcome.verdict == f"refuted in {len(outcome.counterexamples)} of 60 cases: {simplest}"


def test_a_claim_known_to_be_false_does_not_pass_without_a_counterexample_or_with_a_false_repair() -> None:
    nowhere = checking.check(replace(FALSE, holds=lambda case, error: True), 20)
    assert not nowhere.passed and nowhere.kind == "failed" and nowhere.verdict.startswith("no counterexample")
    everywhere = checking.check(replace(FALSE, holds=lambda case, error: False), 20)
    assert not everywhere.passed and "FALSE in 20" in everywhere.controls


def proof_of(error: str) -> Proof:
    return Proof("proved for n = 2", 3, counterexample="n = 2: p0 = 1/2" if error else "")


def undecided(error: str) -> Proof:
    return Proof("", 3, undecided="timeout")


PROVED = Statement("a lemma", "x > 0", "", "z3", planted=("an error",), prove=proof_of)


def test_a_proof_passes_with_a_counterexample_to_its_planted_error() -> None:
    outcome = checking.check(PROVED, 5)
    assert outcome.passed and outcome.kind == "proved" and outcome.verdict == "proved for n = 2"
    assert outcome.controls == "an error: false: n = 2: p0 = 1/2" and outcome.cases == 3


def test_what_a_prover_gives_up_on_is_neither_proved_nor_found_out() -> None:
    outcome = checking.check(replace(PROVED, prove=undecided), 5)
    assert not outcome.passed and "timeout" in outcome.verdict and "NOT FOUND OUT" in outcome.controls
    assert not checking.check(
        replace(PROVED, prove=lambda error: replace(proof_of(""), count=int(not error))), 5
    ).passed


def test_own_cases_come_first_and_the_number_drawn_is_limited() -> None:
    own = (draw(5), draw(6))
    seen: list[Any] = []
    statement = replace(FALSE, holds=lambda case, error: not seen.append(case), first=own, limit=3, planted=())
    assert checking.check(statement, 50).cases == 5
    assert seen == [*own, draw(0), draw(1), draw(2)]
    squares = replace(FALSE, holds=lambda case, error: case != 16, draw=lambda number: number**2)
    assert checking.check(squares, 50).counterexamples == (16,)


class Page(HTMLParser):
    """Its text, the rows of its tables, and what it would load from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.rows, self.words, self.loads = 0, "", []  # type: ignore[var-annotated]
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.rows += tag == "tr" and "tbody" in self.open
        self.loads += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


NAMES = ("optimal_selection", "order_of_rules")  # verified, proved, refuted


def test_the_command_prints_a_row_a_statement_and_writes_a_page_and_data(tmp_path: Path) -> None:
    files = [tmp_path / "made" / name for name in ("page.html", "rows.json")]
    done = CliRunner().invoke(
        command.main, [*NAMES, "--cases", "12", "--jobs", "1", "--html", str(files[0]), "--json", str(files[1])]
    )
    words = " ".join(done.output.replace("│", " ").split())
    statements = [
        said for name in NAMES for said in importlib.import_module(f"proofs_checks.{command.MODULES[name]}").STATEMENTS
    ]
    assert done.exit_code == 0, words
    assert done.output.count("✓") == len(statements) and "✗" not in done.output
    shown, data = Page(files[0].read_text()), json.loads(files[1].read_text())
    assert shown.rows == len(statements) == len(data["statements"]) and not shown.open and not shown.loads
    for said, row in zip(statements, data["statements"], strict=True):
        plain = Page(page.formula(said.name) + page.formula(said.text)).words
        assert plain in shown.words
        assert row["name"] == said.name and row["passed"] and list(row["controls"]) == list(said.planted)
    assert {row["outcome"] for row in data["statements"]} == {"verified", "proved", "refuted"}
    assert data["cases"] == 12 and "z3-solver" in data["versions"]


def test_the_command_fails_when_a_statement_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = replace(optimal_selection.STATEMENTS[0], holds=lambda case, error: False)
    monkeypatch.setattr(optimal_selection, "STATEMENTS", (optimal_selection.STATEMENTS[1], wrong))
    file = tmp_path / "page.html"
    done = CliRunner().invoke(command.main, ["optimal_selection", "--cases", "12", "--jobs", "1", "--html", str(file)])
    assert done.exit_code == 1 and done.output.count("✗") == done.output.count("✓") == 1
    assert "1 failed" in Page(file.read_text()).words


def test_the_command_refuses_a_name_that_is_not_there() -> None:
    done = CliRunner().invoke(command.main, ["no_such_module"])
    assert done.exit_code == 2 and "order_of_rules" in done.output


def test_every_module_with_statements_is_in_the_table_and_every_row_can_fail() -> None:
    folder = Path(command.__file__).parent
    written = {
        ".".join(file.relative_to(folder).with_suffix("").parts)
        for file in folder.glob("*/*.py")
        if "\nSTATEMENTS = (" in file.read_text()
    }
    assert set(command.MODULES.values()) == written | {"formal"}  # whose statements are made of the theorems it lists
    rows = [
        said
        for name in command.MODULES
        for said in importlib.import_module(f"proofs_checks.{command.MODULES[name]}").STATEMENTS
    ]
    assert len({said.name for said in rows}) == len(rows)
    for said in rows:
        assert said.planted and said.claim and said.source and said.method, said.name
        if said not in formal.STATEMENTS:  # which Coq reads, no function of ours
            assert (said.holds is None) != (said.prove is None), said.name
        assert not said.claim.startswith("False") and said.text.startswith("False: ") == (said.expected == "refuted")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("alpha_{k+1} >= alpha_k", "α<sub>k+1</sub> ≥ α<sub>k</sub>"),
        ("1 - (1 - 1/k)^k <= gamma* q_i", "1 − (1 − 1/k)<sup>k</sup> ≤ γ<sup>∗</sup> q<sub>i</sub>"),
        ("p < q & k_seq_valid.py", "p &lt; q &amp; k_seq_valid.py"),
        ("(1 - beta)^{i-1}", "(1 − β)<sup>i−1</sup>"),
    ],
)
def test_formulas_are_set_in_signs(text: str, made: str) -> None:
    assert page.formula(text) == made


def test_a_check_that_raises_decides_nothing_and_fails_the_row() -> None:
    def raises(case: Any, error: str) -> bool:
        raise ZeroDivisionError("a lossy library")

    for expected in ("holds", "refuted"):
        outcome = checked(replace(optimal_selection.STATEMENTS[0], holds=raises, expected=expected))
        assert not outcome.passed and outcome.kind == "failed"
        assert outcome.verdict.startswith("not decided: ZeroDivisionError") and "a lossy library" in outcome.verdict

    def prover(error: str) -> Proof:
        if error:
            raise AssertionError("not the algorithm")
        return Proof("", 1, "a case")

    statement = Statement("a claim", "", "", "", planted=("an error",), prove=prover)
    for expected in ("holds", "refuted"):
        outcome = checking.check(replace(statement, expected=expected), 1)
        assert not outcome.passed and outcome.verdict == "not decided: AssertionError: not the algorithm"


def test_a_lossy_library_makes_rows_fail_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from proofs_checks.paths import path_rules

    statement = next(row for row in path_rules.STATEMENTS if row.name == "Joint >= Traversal")
    wrong = path_rules.told(path_rules.trees.Joint(), path_rules.BELOW_TRAVERSAL, path_rules.BONUS)
    monkeypatch.setattr(path_rules.trees, "Joint", lambda: wrong)
    outcome = path_rules.check(statement, 1)
    assert outcome.kind == "failed" and "a path rule is not lossless" in outcome.verdict


def test_what_cannot_be_written_and_what_leaves_nothing_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for option in ("--html", "--json"):
        done = CliRunner().invoke(command.main, ["optimal_selection", option, str(tmp_path / "file" / "x")])
        assert done.exit_code == 2 and f"{option} must be a writable folder, got '{tmp_path / 'file'}'" in done.output
    done = CliRunner().invoke(command.main, ["optimal_selection", "--without", "optimal_selection"])
    assert done.exit_code == 2 and "--without must keep at least one module" in done.output
