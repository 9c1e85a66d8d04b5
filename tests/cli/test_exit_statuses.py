"""How every command ends where there is no verdict: an error of ours, Ctrl-C, a closed pipe."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from slow import slow

from ot_draft.cli import CLONE, COMMANDS, main

HERE = Path(__file__).parents[2]
BY_THEMSELVES = ("figures.__main__", "proofs_checks.__main__")


def failing(error: BaseException) -> Any:
    def fail(**given: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("name", sorted(COMMANDS | CLONE))
def test_a_crash_of_a_command_is_no_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("z3")
    command = main.get_command(click.Context(main), name)
    assert command is not None
    monkeypatch.setattr(command, "callback", failing(TypeError("a \ud800 of ours")))
    for parameter in command.params:
        monkeypatch.setattr(parameter, "required", False)
    done = CliRunner().invoke(main, [name])
    assert done.exit_code == 70, done.output
    assert "Traceback" in done.output and "internal error" in done.output and "report it" in done.output


@pytest.mark.parametrize("module", BY_THEMSELVES)
def test_a_crash_of_a_command_run_by_itself(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("z3")
    command = importlib.import_module(module).main
    monkeypatch.setattr(command, "callback", failing(RecursionError("too deep")))
    for parameter in command.params:
        monkeypatch.setattr(parameter, "required", False)
    assert CliRunner().invoke(command, []).exit_code == 70


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), 130), (BrokenPipeError(32, "Broken pipe"), 141), (MemoryError(), 70), (SystemExit(1), 1)],
    ids=["interrupt", "pipe", "memory", "a verdict"],
)
def test_how_a_command_ends(error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    command = main.get_command(click.Context(main), "audit")
    assert command is not None
    monkeypatch.setattr(command, "callback", failing(error))
    assert CliRunner().invoke(main, ["audit", "log.jsonl"]).exit_code == status


def test_no_code_ends_a_command_with_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    command, real = main.get_command(click.Context(main), "audit"), os._exit
    assert command is not None
    monkeypatch.setattr(command, "callback", lambda **given: os._exit(0))
    done = CliRunner().invoke(main, ["audit", "log.jsonl"])
    assert done.exit_code == 70 and "os._exit(0), without a result" in done.output
    assert os._exit is real


@pytest.mark.skipif(os.name != "posix", reason="pipes and signals of POSIX")
@pytest.mark.parametrize(
    "words", [("compare", "--help"), slow(("audit", "log.jsonl")), ("audit", "log.jsonl", "--json", "-")]
)
def test_a_reader_that_goes_away(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"token": 0, "target_probs": [0.5, 0.5]}\n' * 20)
    read, write = os.pipe()
    os.close(read)
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "ot_draft", *words]
    done = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment, check=False
    )
    os.close(write)
    assert done.returncode == 141, done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


# A shell starts what runs in the background with the signal ignored, and tests may run there.
HEARD = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_control_c(tmp_path: Path) -> None:
    p, q = np.random.default_rng(3).dirichlet(np.full(200, 0.5), (2, 2000))
    np.savez(tmp_path / "pairs.npz", p=p, q=q)
    command = [sys.executable, "-c", HEARD, "-m", "ot_draft", "compare", str(tmp_path / "pairs.npz"), "--jobs", "1"]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stderr is not None
        first = running.stderr.readline()  # said before the work, of minutes
        running.send_signal(signal.SIGINT)
        said = first + running.stderr.read()
    assert running.returncode == 130, said
    assert "Traceback" not in said
