"""The readers in C++, JavaScript and Rust: each passes a right verifier in its language, and fails one that reuses a uniform number."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ot_draft.verify.vectors.files import CORPUS, read
from ot_draft.verify.vectors.readers import read as reader

HERE, READERS = Path(__file__).parent, Path(reader.__file__).parent
RULES = ("flashinfer-chain", "greedy")
Words = Sequence[str]


def build(words: Words, folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def of_cpp(folder: Path) -> tuple[Words, Words]:
    """The commands of the right and of the wrong verifier."""
    for name, options in (("right", ("-O1",)), ("wrong", ("-DREUSED_UNIFORM",))):
        words = ("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *options, f"-I{READERS}", "-o", name)
        build((*words, str(HERE / "verifier.cpp")), folder)
    return (str(folder / "right"), str(CORPUS)), (str(folder / "wrong"), str(CORPUS))


def of_rust(folder: Path) -> tuple[Words, Words]:
    """The same; an environment variable injects the fault."""
    for file in (HERE / "verifier.rs", READERS / "read.rs"):
        shutil.copy(file, folder)
    build(("rustc", "--edition", "2021", "-A", "dead_code", "-o", "right", "verifier.rs"), folder)
    return (str(folder / "right"), str(CORPUS)), ("env", "REUSED_UNIFORM=1", str(folder / "right"), str(CORPUS))


def of_javascript(folder: Path) -> tuple[Words, Words]:
    """The same, of two exported functions."""
    words = ("node", str(READERS / "read.mjs"), str(CORPUS))
    return (*words, f"{HERE / 'verifier.mjs'}:right"), (*words, f"{HERE / 'verifier.mjs'}:reusedUniform")


@pytest.mark.parametrize(("tool", "commands"), [("g++", of_cpp), ("node", of_javascript), ("rustc", of_rust)])
def test_a_reader_passes_a_right_verifier_and_fails_a_wrong_one(
    tool: str, commands: Callable[[Path], tuple[Words, Words]], tmp_path: Path
) -> None:
    if shutil.which(tool, path=os.environ.get("PATH")) is None:
        pytest.skip(f"{tool} is not installed")
    right, wrong = commands(tmp_path)
    passed = subprocess.run((*right, *RULES), capture_output=True, text=True, check=False)
    everything = sum(len(read()[rule]) for rule in RULES)
    assert (passed.stdout, passed.returncode) == (f"{everything} vectors, 0 failed\n", 0), passed.stdout + passed.stderr
    failed = subprocess.run((*wrong, "flashinfer-chain"), capture_output=True, text=True, check=False)
    lines = [line.partition(":")[0].partition(" ") for line in failed.stdout.splitlines()[:-1]]
    seen = {name for name, _, _ in lines}
    about = {vector["id"]: f"({vector['level']}, {vector['category']})" for vector in read()["flashinfer-chain"]}
    assert all(said == about[name] for name, _, said in lines), failed.stdout
    unknown = subprocess.run((*wrong, "vllm"), capture_output=True, text=True, check=False)
    if tool == "g++":  # whose example runs the rules that it implements
        assert (unknown.stdout, unknown.returncode) == ("", 2)
    else:
        assert unknown.returncode and unknown.stdout == "" and "RULE must be one of " in unknown.stderr
        assert all(f" {rule}" in unknown.stderr for rule in read()) and ", got vllm. Correct" in unknown.stderr
    missing = subprocess.run(
        [word.replace(str(CORPUS), "nowhere") for word in right], capture_output=True, text=True, check=False
    )
    assert (missing.stdout, missing.returncode) == ("", 1)
    assert missing.stderr.endswith(
        "folder nowhere not found: pass the folder `files` that `ot-draft vectors show` prints\n"
    )
    if tool != "node":
        level = subprocess.run((*right, "--level", "x", *RULES), capture_output=True, text=True, check=False)
        assert (level.stdout, level.returncode) == ("", 1)
        assert level.stderr == "--level must be replay, distribution or joint, got x\n"
        few = subprocess.run((*right, "--level", "joint", *RULES), capture_output=True, text=True, check=False)
        joint = sum(vector["level"] == "joint" for rule in RULES for vector in read()[rule])
        assert (few.stdout, few.returncode) == (f"{joint} vectors, 0 failed\n", 0)
        none = subprocess.run(right[:1], capture_output=True, text=True, check=False)
        assert none.returncode == 2 and "FOLDER [--level" in none.stderr
    if tool == "g++":  # rules that the example does not implement
        whole = subprocess.run(right, capture_output=True, text=True, check=False)
        assert (whole.stdout, whole.returncode) == (passed.stdout, 0) and "other rules are skipped" in whole.stderr
        other = subprocess.run((*right, "k-seq"), capture_output=True, text=True, check=False)
        assert (other.stdout, other.returncode) == ("", 2) and "k-seq: skipped" in other.stderr
    vectors = read()["flashinfer-chain"]
    assert failed.returncode == 1
    assert seen >= {vector["id"] for vector in vectors if "flashinfer-424" in vector["detects"]}
    assert {name for name in seen if name in replays(vectors)} == {
        vector["id"] for vector in vectors if vector["level"] == "replay" and "flashinfer-424" in vector["detects"]
    }


def replays(vectors: list[dict[str, str]]) -> set[str]:
    return {vector["id"] for vector in vectors if vector["level"] == "replay"}


def test_a_vector_without_q_is_not_read_out_of_bounds(tmp_path: Path) -> None:
    if shutil.which("g++", path=os.environ.get("PATH")) is None:
        pytest.skip("g++ is not installed")
    source = """#include "read.hpp"
Tokens verify(const std::string&, const Case& problem, const Numbers&) { return {long(problem.q[0].size())}; }
int main(int argc, char** argv) { return run(argc, argv); }
"""
    (tmp_path / "reads_q.cpp").write_text(source)
    build(("g++", "-std=c++17", f"-I{READERS}", "-o", "reads_q", "reads_q.cpp"), tmp_path)
    words = (str(tmp_path / "reads_q"), str(CORPUS), "greedy")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout.count("crashed, ") == len(read()["greedy"])
    unknown = subprocess.run((*words[:2], "vllm"), capture_output=True, text=True, check=False)
    assert (unknown.stdout, unknown.returncode) == ("", 2)
    assert unknown.stderr == f"RULE must be one of {' '.join(sorted(read()))}, got vllm. Correct the name.\n"


def test_the_page_shows_the_example() -> None:
    page = (HERE.parents[2] / "docs" / "vectors.md").read_text()
    assert f"```cpp\n{(HERE / 'verifier.cpp').read_text()}```\n" in page


@pytest.mark.parametrize("name", ["read.py", "read.hpp", "read.mjs", "read.rs"])
def test_a_reader_is_short(name: str) -> None:
    assert len((READERS / name).read_text().splitlines()) <= 100
