"""Nobody waits without knowing for what: commands begin at once, and where there is no terminal progress is a line now and then."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from time import sleep
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ot_draft.cli import console, main, progress_bar
from ot_draft.rules import KSeq

ROOT = Path(__file__).parents[2]
COMMANDS = ["", *main.list_commands(click.Context(main))]
HEAVY = (
    "scipy",
    "torch",
    "transformers",
    "matplotlib",
    "hypothesis",
    "sympy",
    "z3",
    "cvxpy",
    "pulp",
    "ortools",
    "joblib",
    "numba",
    "pyarrow",
)


CODE = """
import contextlib, io, json, sys
import ot_draft.cli as cli
heavy, commands = json.loads(sys.argv[1])
told = {}
for command in commands:
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        cli.main([*command.split(), "--help"])
    told[command] = said.getvalue(), sorted({*heavy} & {*sys.modules})
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def helps() -> dict[str, tuple[str, list[str]]]:
    """What each command says to --help, and what heavy is loaded by then: in one process, from the first command on."""
    given = json.dumps([HEAVY, COMMANDS])
    done = subprocess.run([sys.executable, "-c", CODE, given], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_begins_at_once(command: str, helps: dict[str, tuple[str, list[str]]]) -> None:
    """Nothing heavy is loaded on the way to its help."""
    said, loaded = helps[command]
    assert "Usage:" in said and loaded == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "FIRST", 0.05)
    monkeypatch.setattr(console, "EVERY", 0.05)


def until(line: str) -> None:
    """Return once this was said to whoever runs the command."""
    while line not in sys.stderr.buffer.getvalue().decode():  # type: ignore[attr-defined]
        sleep(0.01)


@click.command()
@click.option("--unlike", is_flag=True)
@click.argument("said", nargs=-1)
def works(unlike: bool, said: tuple[str, ...]) -> None:
    """Works on, one item further after each line that was said; one item says nothing by itself."""
    with progress_bar(5, "proving", alike=not unlike) as advance:
        for number, line in enumerate(said, 1):
            until(line)
            advance(f"item {number}")
        advance(by=5 - len(said))
    click.echo("done")


@pytest.mark.usefixtures("impatient")
def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    """The remaining time is shown from the third finished item on."""
    words = ["proving: 0 of 5\n", "item 1: 1 of 5\n", "item 2: 2 of 5\n", "item 3: 3 of 5, about"]
    lines = CliRunner().invoke(works, words).stderr.splitlines()
    assert lines[0] == "proving: 0 of 5" and not any("left" in line for line in lines if "item 3" not in line)
    assert re.fullmatch(r"item 3: 3 of 5, about \d+ s left", lines[-1])


@pytest.mark.usefixtures("impatient")
def test_the_time_of_unlike_items_is_not_extrapolated() -> None:
    words = ["proving: 0 of 5\n", "item 1: 1 of 5\n", "item 2: 2 of 5\n", "item 3: 3 of 5\n"]
    result = CliRunner().invoke(works, ["--unlike", *words])
    assert result.exit_code == 0 and "left" not in result.stderr


@pytest.mark.usefixtures("impatient")
def test_a_line_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    written = ""
    with progress_bar(5, "proving", alike=False):
        while not written:
            sleep(console.EVERY)
            written = capsys.readouterr().err
        sleep(6 * console.EVERY)
    assert written + capsys.readouterr().err == "proving: 0 of 5\n"


@pytest.mark.parametrize(("pauses", "left"), [((10, 10, 10), 20), ((30, 0, 0), 20), ((1, 1, 40), 28)])
def test_the_remaining_time_is_that_of_all_finished_items(
    pauses: tuple[float, ...], left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of five items in the sum of the pauses: two thirds of it are left, whichever item took long."""
    now, tasks = 0.0, []
    monkeypatch.setattr("rich.console.monotonic", lambda: now)
    monkeypatch.setattr(console, "_lines", lambda task, alike: tasks.append(task) or nullcontext())
    with progress_bar(5, "work") as advance:
        for pause in pauses:
            now += pause
            advance()
    assert tasks[0].time_remaining == left


@pytest.mark.usefixtures("impatient")
def test_a_comparison_of_one_pair_tells_of_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    closed_form = KSeq.closed_form

    def late(self: KSeq, *given: Any) -> Any:
        until("rule evaluations: 1 of 2\n")
        return closed_form(self, *given)

    monkeypatch.setattr(KSeq, "closed_form", late)
    words = ["--p", "0.5,0.5", "--q", "0.75,0.25", "--k", "16", "--rules", "NaiveTarget,KSeq"]
    assert CliRunner().invoke(main, ["compare", *words]).exit_code == 0


def test_a_quick_command_writes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "FIRST", 60.0)
    result = CliRunner().invoke(works)
    assert result.stderr == "" and result.stdout == "done\n"


def test_an_error_ends_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "FIRST", 60.0)
    with pytest.raises(RuntimeError, match="wrong"), progress_bar(1, "work"):
        raise RuntimeError("wrong")


@pytest.mark.usefixtures("impatient")
def test_a_proof_that_takes_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`prove formal` was silent for as long as Coq took."""
    checks = __import__("proofs_checks.rules.boundary_uniforms", fromlist=["check"])
    right = checks.check

    def slow(*given: object) -> object:
        until(f"{checks.STATEMENTS[0].name}: 0 of")
        return right(*given)

    monkeypatch.setattr(checks, "check", slow)
    result = CliRunner().invoke(main, ["prove", "boundary_uniforms", "--cases", "2", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    count = len(checks.STATEMENTS)
    assert f"{checks.STATEMENTS[0].name}: 0 of {count}\n" in result.stderr


def test_how_long_coq_takes_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling = __import__("proofs_checks.formal.compiling", fromlist=["found"])
    monkeypatch.setattr(compiling, "found", lambda: False)
    result = CliRunner().invoke(main, ["prove", "formal"])
    assert result.stderr.startswith("Coq proofs that were not compiled before take about four minutes")
