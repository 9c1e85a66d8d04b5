"""Nobody waits without knowing for what: commands begin at once, and where there is no terminal progress is a line now and then."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from time import sleep

import click
import pytest
from click.testing import CliRunner

from ot_draft.cli import console, main, progress_bar

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
@click.argument("said", nargs=-1)
def works(said: tuple[str, ...]) -> None:
    """Works on until each line was said; one step of the work says nothing by itself."""
    with progress_bar(4, "proving") as advance:
        for line in said[:1]:
            until(line)
        for name in ("first", "second"):
            advance(name)
        for line in said[1:]:
            until(line)
        advance(by=2)
    click.echo("done")


@pytest.mark.usefixtures("impatient")
def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    lines = CliRunner().invoke(works, ["proving: 0 of 4\n", "second: 2 of 4, about"]).stderr.splitlines()
    assert lines[0] == "proving: 0 of 4"
    assert re.fullmatch(r"second: 2 of 4, about \d+ s left", lines[-1])


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
    assert result.stderr.startswith("Coq's proofs: about four minutes of one processor")
