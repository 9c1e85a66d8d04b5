"""The formal proofs: nothing is admitted, the list says what the files hold, and Coq agrees."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from proofs_checks import formal, page
from proofs_checks.formal import __main__ as command
from proofs_checks.formal import bridge, compiling
from proofs_checks.formal.listed import FILES, THEOREMS, Theorem

SOURCES = list(compiling.sources().values())
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
def test_the_list_names_theorems_that_the_files_prove_and_print(theorem: Theorem) -> None:
    text = code(compiling.source(theorem.file))
    for name in theorem.names:
        assert re.search(rf"^(Theorem|Lemma|Corollary) {name}\b", text, re.MULTILINE), name
        assert f"Print Assumptions {name}." in text, name


def test_every_file_that_prints_assumptions_is_listed() -> None:
    printing = {file.stem for file in SOURCES if "Print Assumptions" in code(file)}
    assert printing == {*FILES, *formal.UNLISTED}


def test_an_editor_finds_every_file() -> None:
    project = (compiling.FOLDER / "_CoqProject").read_text(encoding="utf-8").splitlines()
    assert project[0] == "-R . Draft"
    listed = [line for line in project if line.endswith(".v")]
    assert sorted(listed) == sorted(file.relative_to(compiling.FOLDER).as_posix() for file in SOURCES)


def test_each_theorem_is_named_beside_what_it_assumes() -> None:
    text = "Print Assumptions one.\nPrint Assumptions two.\nPrint Assumptions three.\n"
    said = f"{compiling.CLOSED}\nAxioms:\nwrong : False\n{compiling.CLOSED}\n"
    assert compiling.assumptions(text, compiling.CoqResult(True, said)) == {
        "one": "closed",
        "two": "Axioms:\nwrong : False",
        "three": "closed",
    }
    assert compiling.assumptions(text, compiling.CoqResult(False, f"{compiling.CLOSED}\n"))["two"] == "not reached"


def test_without_coqc_nothing_is_called_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "found", lambda: False)
    assert command.main() == 2
    for statement in formal.STATEMENTS:
        outcome = formal.check(statement, 1)
        assert outcome.kind == "not checked here" and not outcome.passed and outcome.controls == ""
        assert page.record(outcome)["outcome"] == "not checked here"


@pytest.mark.parametrize("compiles", [True, False])
def test_a_library_that_cannot_be_imported_is_no_success(
    compiles: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = compiling.CoqResult(compiles, compiling.CLOSED)
    monkeypatch.setattr(compiling, "found", lambda: True)
    monkeypatch.setattr(compiling, "version", lambda: "8.16.1")
    monkeypatch.setattr(compiling, "compile_all", lambda jobs: iter([("head", made, 0.0)]))
    monkeypatch.delattr(formal, "bridge", raising=False)
    monkeypatch.setitem(sys.modules, "proofs_checks.formal.bridge", None)  # importing it raises ImportError
    assert command.main() == (command.NOT_COMPARED if compiles else 1)
    assert command.NOT_COMPARED not in (0, 1, 2)
    assert "the library was not compared" in capsys.readouterr().out


@pytest.mark.parametrize(("difference", "status"), [("", 0), ("bridge_cases.v, from line 1", 1)])
def test_a_library_that_differs_fails(difference: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "found", lambda: True)
    monkeypatch.setattr(compiling, "version", lambda: "8.16.1")
    monkeypatch.setattr(compiling, "compile_all", lambda jobs: iter(()))
    monkeypatch.setattr(bridge, "difference", lambda: difference)
    assert command.main() == status


@pytest.mark.slow
@WITHOUT_COQ
def test_coq_proves_the_bound_and_sees_when_a_proof_is_left_out() -> None:
    outcome = formal.check(next(s for s in formal.STATEMENTS if s.name.startswith("the bound")), 1)
    assert outcome.passed, outcome.verdict
    assert outcome.kind == "proved (Coq)" and outcome.controls.startswith("its proof left out: false: assumes bound")
    assert compiling.version() in outcome.verdict


@pytest.mark.slow
@WITHOUT_COQ
def test_a_finite_computation_is_called_computed() -> None:
    outcome = formal.check(
        next(s for s in formal.STATEMENTS if s.name.startswith("counterexamples to claims on paths")), 1
    )
    assert outcome.passed, outcome.verdict
    assert outcome.kind == "computed (Coq)" and "all sizes" not in outcome.verdict
