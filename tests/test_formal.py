"""The formal proofs: nothing is admitted, the list says what the files hold, the bridge's numbers are the library's, and Coq agrees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proofs_checks import formal, page
from proofs_checks.formal import bridge, compiling
from proofs_checks.formal.theorems import FILES, THEOREMS, Theorem

SOURCES = list(compiling.sources().values())
LEAST = 200  # problems of the bridge
WITHOUT_COQ = pytest.mark.skipif(not compiling.found(), reason="no coqc on this machine")


def code(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    while (shorter := re.sub(r"\(\*(?:(?!\(\*|\*\)).)*?\*\)", "", text, flags=re.DOTALL)) != text:
        text = shorter
    return text


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_nothing_is_taken_on_trust(file: Path) -> None:
    assert file.read_text(encoding="utf-8").startswith("(* "), "no head that says what is shown"
    words = re.findall(
        r"\b(Admitted|Axioms?|Parameters?|Conjecture|admit|Abort|Unset Guard Checking|bypass_check)\b", code(file)
    )
    assert not words


def test_the_guard_sees_an_admitted_proof(tmp_path: Path) -> None:
    (tmp_path / "false.v").write_text("(* a head *)\nLemma no : False.\nAdmitted.\n")
    with pytest.raises(AssertionError):
        test_nothing_is_taken_on_trust(tmp_path / "false.v")


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.title)
def test_the_list_names_theorems_that_the_files_prove(theorem: Theorem) -> None:
    text = code(compiling.source(theorem.file))
    for name in theorem.names:
        assert re.search(rf"^(Theorem|Lemma) {name}\b", text, re.MULTILINE), name


def test_every_file_that_prints_assumptions_is_listed() -> None:
    printing = {file.stem for file in SOURCES if "Print Assumptions" in code(file)}
    assert printing == set(FILES)


def test_the_committed_bridge_is_what_evaluate_gives() -> None:
    committed = bridge.FILE.read_text(encoding="utf-8")
    assert bridge.CASES >= LEAST and committed.count("%nat") == bridge.CASES
    for number in range(0, bridge.CASES, 7):
        assert bridge.case(number) in committed


def test_the_committed_bridge_of_paths_is_what_evaluate_gives() -> None:
    committed = bridge.PATH_FILE.read_text(encoding="utf-8")
    assert committed.count("\n  ([[") == bridge.PATH_CASES
    for number in (0, 2, 4):  # one path, two paths, three tokens
        assert bridge.path_case(number) in committed


def test_without_coqc_nothing_is_called_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "found", lambda: False)
    for statement in formal.STATEMENTS:
        outcome = formal.check(statement, 1)
        assert outcome.kind == "not checked here" and not outcome.passed and outcome.controls == ""
        assert page.record(outcome)["outcome"] == "not checked here"


@pytest.mark.thorough
@WITHOUT_COQ
def test_coq_proves_the_bound_and_sees_when_a_proof_is_left_out() -> None:
    outcome = formal.check(next(s for s in formal.STATEMENTS if s.name.startswith("the bound")), 1)
    assert outcome.passed, outcome.verdict
    assert outcome.kind == "proved (Coq)" and outcome.controls == "its proof left out: false: assumes bound"
