"""Whoever misses a package is told a command that works: it names the extra, which pip finds in what is installed."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ot_draft as otd
from ot_draft import extras

ROOT = Path(__file__).parents[1]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution of two extras, installed; not in a clone."""
    monkeypatch.setattr(extras, "installed_extras", lambda: {"llm", "vllm"})
    monkeypatch.setattr(extras, "CLONE", Path("nowhere"))


@pytest.mark.usefixtures("installed")
def test_the_advice_names_the_extra() -> None:
    assert str(otd.MissingPackage("transformers", "llm")) == (
        "transformers is not installed. Run  pip install 'ot_draft[llm]'"
    )


@pytest.mark.usefixtures("installed")
def test_the_command_is_one_that_a_shell_and_pip_understand() -> None:
    assert shlex.split(extras.how_to_install("transformers", "llm")) == ["pip", "install", "ot_draft[llm]"]


@pytest.mark.usefixtures("installed")
def test_without_metadata_the_package_is_named() -> None:
    assert extras.how_to_install("somebodys_module", "none") == "pip install somebodys_module"


def test_in_a_clone_make_does_it_too_where_it_brings_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "CLONE", ROOT)
    monkeypatch.setattr(extras, "installed_extras", lambda: {"check", "vllm"})
    assert extras.how_to_install("hypothesis", "check") == f"pip install 'ot_draft[check]'  or, in {ROOT},  make .venv"
    assert extras.how_to_install("vllm", "vllm") == "pip install 'ot_draft[vllm]'"
    monkeypatch.setattr(extras, "installed_extras", set)
    assert extras.how_to_install("hypothesis", "check") == f"pip install '{ROOT}[check]'  or, in {ROOT},  make .venv"


def test_what_make_does_not_bring_is_what_the_extra_all_leaves_out() -> None:
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = optional["all"]
    brought = set(everything.removeprefix("ot_draft[").removesuffix("]").split(","))
    assert set(optional) - brought - {"all", "reproduce", "ortools"} == set(
        extras.APART
    )  # the Makefile brings ortools alone


def test_the_metadata_that_are_installed_are_read() -> None:
    code = "from ot_draft.extras import installed_extras; print(*installed_extras())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"lp", "llm", "check"} <= set(done.stdout.split())
