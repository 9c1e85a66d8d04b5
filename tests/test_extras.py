"""Whoever misses a package is told a command that works: nothing on an index is called ot_draft."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import ot_draft as ot
from ot_draft import extras

ROOT = Path(__file__).parents[1]
METADATA = [
    "numpy>=2.0",
    'torch<3,>=2.6; extra == "llm"',
    'transformers<6,>=5.20; python_version >= "3.11" and extra == "llm"',
    "vllm==0.33.0; extra == 'vllm'",
    'hypothesis>=6.110; extra == "check"',
    'ot-draft[check]; extra == "test"',
    'pytest>=8.0; extra == "test"',
    'ot-draft[llm,test]; extra == "all"',
]


@pytest.fixture(autouse=True)
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution of a few extras, installed, where none of their packages is; not in a clone."""
    monkeypatch.setattr(extras, "_lines", lambda: METADATA)
    monkeypatch.setattr(extras, "_is_installed", lambda name: name == "torch")
    monkeypatch.setattr(extras, "CLONE", Path("nowhere"))
    extras.requirements.cache_clear()
    yield
    extras.requirements.cache_clear()


def test_an_extra_is_its_packages_with_their_bounds_those_of_other_extras_included() -> None:
    assert extras.requirements("") == ("numpy>=2.0",)
    assert extras.requirements("llm") == ("torch<3,>=2.6", "transformers<6,>=5.20")
    assert extras.requirements("test") == ("hypothesis>=6.110", "pytest>=8.0")
    assert set(extras.requirements("all")) == {*extras.requirements("llm"), *extras.requirements("test")}


def test_what_is_there_is_not_installed_again() -> None:
    assert str(ot.MissingPackage("transformers", "llm")) == (
        "transformers is not installed: run  pip install 'transformers<6,>=5.20'"
    )


def test_a_package_that_the_library_itself_needs_comes_alone() -> None:
    assert extras.how_to_install("numpy", "llm") == "pip install 'numpy>=2.0'"


def test_without_metadata_the_package_is_named() -> None:
    assert extras.how_to_install("somebodys_module", "none") == "pip install somebodys_module"


def test_in_a_clone_make_does_it_too_where_it_brings_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "CLONE", ROOT)
    assert (
        extras.how_to_install("hypothesis", "check") == f"pip install 'hypothesis>=6.110'  or, in {ROOT},  make .venv"
    )
    assert extras.how_to_install("vllm", "vllm") == "pip install vllm==0.33.0"


def test_the_command_is_one_that_a_shell_and_pip_understand() -> None:
    words = shlex.split(extras.how_to_install("transformers", "all"))
    assert words[:2] == ["pip", "install"]
    assert {Requirement(word).name for word in words[2:]} == {"transformers", "hypothesis", "pytest"}


def test_the_metadata_that_are_installed_are_read() -> None:
    code = "from ot_draft.extras import requirements; print(*requirements('lp'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {Requirement(word).name for word in done.stdout.split()} == {"cvxpy", "pulp"}
