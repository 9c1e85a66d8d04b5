"""Compiling the formal proofs with coqc, cached by content; `make formal` needs nothing of Python but its standard library."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
BUILD = FOLDER / ".build"
APT = "apt-get install coq libcoq-mathcomp-algebra libcoq-mathcomp-field libcoq-mathcomp-zify libcoq-mathcomp-algebra-tactics"
CLOSED = "Closed under the global context"
SECONDS = 600


@dataclass(frozen=True)
class Compiled:
    """What coqc said about one file. ok: it compiled. output: what it printed, the assumptions among it."""

    ok: bool
    output: str

    @property
    def closed(self) -> bool:
        """Every theorem whose assumptions it printed has none."""
        said = self.output.count(CLOSED)
        return self.ok and said > 0 and "Axioms:" not in self.output and "Section Variables:" not in self.output


def found() -> bool:
    """Whether coqc is on this machine."""
    return shutil.which("coqc") is not None


@cache
def sources() -> dict[str, Path]:
    """The files by their names, which are unique, in whichever subfolder they lie."""
    return {file.stem: file for file in sorted(FOLDER.rglob("*.v")) if BUILD not in file.parents}


def source(name: str) -> Path:
    """The file of a name without the .v."""
    return sources()[name]


def place(name: str) -> str:
    """The file's place in the repository."""
    return source(name).relative_to(FOLDER.parents[1]).as_posix()


def imports(text: str) -> list[str]:
    """The files of this folder that a file's text requires."""
    return [
        name
        for line in re.findall(r"^From Draft Require (?:Import|Export) ([^.]*)\.", text, re.MULTILINE)
        for name in line.split()
    ]


def compile_file(name: str, text: str | None = None) -> Compiled:
    """Compile one file, and what it requires, unless that was done before with the same content.

    name: without the .v. text: compiled in the place of the file's own, under the same name; nothing then requires it.
    """
    own = text is None
    content = source(name).read_text(encoding="utf-8") if text is None else text
    needed = imports(content)
    for other in needed:
        before = compile_file(other)
        if not before.ok:
            return Compiled(False, f"{other}.v does not compile:\n{before.output}")
    key = _key(content, needed)
    room = BUILD if own else BUILD / key[:12]
    record = room / f"{name}.{key[:24]}"
    room.mkdir(parents=True, exist_ok=True)
    if record.exists():
        return Compiled(True, record.read_text(encoding="utf-8"))
    (room / f"{name}.v").write_text(content, encoding="utf-8")
    where = ["-R", str(BUILD), "Draft"] if own else ["-Q", str(BUILD), "Draft"]
    command = ["coqc", "-q", *where, "-w", "none", str(room / f"{name}.v")]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Compiled(False, f"coqc took more than {SECONDS} s")
    output = made.stdout + made.stderr
    if made.returncode == 0:
        for stale in room.glob(f"{name}.{'?' * 24}"):
            stale.unlink()
        record.write_text(output, encoding="utf-8")
    return Compiled(made.returncode == 0, output)


@cache
def _version() -> str:
    return subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=True).stdout


def _key(content: str, needed: list[str]) -> str:
    """Of the file, all that it requires, and the version of Coq."""
    parts = [_version(), content]
    for other in needed:
        text = source(other).read_text(encoding="utf-8")
        parts.append(_key(text, imports(text)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
