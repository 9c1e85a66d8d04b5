"""The lock: constraints.txt, every version that the tests use. How it is written, and how an environment differs from it.

python tests/helpers/lock.py write PYTHON    writes it from the environment of that interpreter
python tests/helpers/lock.py moved PYTHON    prints where that environment differs from it
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

FILE = Path(__file__).parents[2] / "constraints.txt"
OWN = "ot-draft"
HEAD = """\
# Every version that `make test`, `make reproduce` and CI use (Python 3.11). Made anew by `make lock`, after `make newest` has passed.
# Packages that only another platform needs (CUDA's, for torch on Linux) are not listed: pip takes those that torch names.
"""


def locked(text: str | None = None) -> dict[str, str]:
    """The versions in the lock, by canonical name."""
    lines = (FILE.read_text() if text is None else text).splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(each.name): next(iter(each.specifier)).version for each in requirements}


def installed(python: str) -> dict[str, str]:
    """The versions in the environment of an interpreter, by canonical name, without a build's suffix."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze", "--exclude-editable"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    versions = {
        canonicalize_name(name): Version(number).public for name, _, number in (line.partition("==") for line in lines)
    }
    return {name: number for name, number in versions.items() if name not in {OWN, "pip", "wheel"}}


def moved(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """A line for every package that differs: name, version before, version now."""
    return [
        f"{name:30} {before.get(name, '-'):20} {now.get(name, '-')}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def main(task: str, python: str) -> None:
    """Write the lock, or print what moved."""
    now = installed(python)
    if task == "write":
        FILE.write_text(HEAD + "".join(f"{name}=={number}\n" for name, number in sorted(now.items())))
        return
    lines = moved(locked(), now)
    print(f"{'package':30} {'lock':20} newest" if lines else "no package differs from the lock", *lines, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
