"""Compiling the formal proofs with coqc, cached by content; `make formal` needs nothing of Python but its standard library."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

FOLDER = Path(__file__).parent
BUILD = FOLDER / ".build"
APT = "apt-get install coq libcoq-mathcomp-algebra libcoq-mathcomp-field libcoq-mathcomp-zify libcoq-mathcomp-algebra-tactics"
CLOSED = "Closed under the global context"
SECONDS = 1800  # timeout per file, for a machine under load
Changed = Mapping[str, str]


@dataclass(frozen=True)
class CoqResult:
    """Result of coqc for one file. ok: it compiled. output: printed text, including assumptions. ended: it was not terminated."""

    ok: bool
    output: str
    ended: bool = True

    @property
    def closed(self) -> bool:
        """Whether no theorem whose assumptions were printed has any."""
        said = self.output.count(CLOSED)
        return self.ok and said > 0 and "Axioms:" not in self.output and "Section Variables:" not in self.output


def assumptions(text: str, made: CoqResult) -> dict[str, str]:
    """Return the assumptions of each theorem of a file, in the order of output: "closed", or the output of coqc."""
    names = re.findall(r"^Print Assumptions (\w+)\.", text, re.MULTILINE)
    said = re.split(rf"^(?={CLOSED}|Axioms:|Section Variables:)", made.output, flags=re.MULTILINE)[1:]
    said += ["not reached"] * (len(names) - len(said))
    return {name: "closed" if CLOSED in words else words.strip() for name, words in zip(names, said, strict=False)}


def found() -> bool:
    """Return whether coqc is installed."""
    return shutil.which("coqc") is not None


@cache
def sources() -> dict[str, Path]:
    """Return the files of all subfolders by their names, which are unique."""
    return {file.stem: file for file in sorted(FOLDER.rglob("*.v")) if BUILD not in file.parents}


def source(name: str) -> Path:
    """Return the file of a name without the .v."""
    return sources()[name]


def place(name: str) -> str:
    """Return the file's path in the repository."""
    return source(name).relative_to(FOLDER.parents[1]).as_posix()


def imports(text: str) -> list[str]:
    """Return the files of this folder that a file's text requires."""
    return [
        name
        for line in re.findall(r"^From Draft Require (?:Import|Export) ([^.]*)\.", text, re.MULTILINE)
        for name in line.split()
    ]


def compile_file(name: str) -> CoqResult:
    """Compile one file, and what it requires, unless that was done before with the same content. name: without the .v."""
    with _alone():
        return _compile(name)


def compile_all(jobs: int) -> Iterator[tuple[str, CoqResult, float]]:
    """Compile several files at a time, each after those that it requires, and yield name, result and seconds as they finish."""
    order = TopologicalSorter({name: imports(_text(name, {})) for name in sources()})
    order.prepare()
    running: dict[Future[tuple[CoqResult, float]], str] = {}
    with _alone(), ThreadPoolExecutor(jobs) as pool:
        while order.is_active():
            running |= {pool.submit(_timed, name): name for name in order.get_ready()}
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(done)
                yield name, *done.result()
                order.done(name)


def _timed(name: str) -> tuple[CoqResult, float]:
    start = perf_counter()
    return _compile(name), perf_counter() - start


@contextmanager
def _alone() -> Iterator[None]:
    """Allow one Python process at a time, because all write to one folder."""
    import fcntl  # not available on every system that imports this module, but on those with coqc

    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(name: str) -> CoqResult:
    content = _text(name, {})
    for other in imports(content):
        before = _compile(other)
        if not before.ok:
            return CoqResult(False, f"{other}.v does not compile:\n{before.output}", before.ended)
    record = BUILD / f"{name}.{_key(name, {})[:24]}"
    if record.exists():
        return CoqResult(True, record.read_text(encoding="utf-8"))
    made = _coqc(BUILD, name, content)
    if made.ok:
        for stale in BUILD.glob(f"{name}.{'?' * 24}"):
            stale.unlink()
        record.write_text(made.output, encoding="utf-8")
    return made


def compile_changed(name: str, changed: Changed) -> CoqResult:
    """Compile one file where some files, itself perhaps, have another content: {name: text}. Nothing else is touched."""
    record = BUILD / f"changed.{_key(name, changed)[:24]}.json"
    if record.exists():
        return CoqResult(**json.loads(record.read_text(encoding="utf-8")))
    with TemporaryDirectory() as room:
        made = _compile_in(Path(room), name, changed)
    if made.ended:
        BUILD.mkdir(exist_ok=True)
        record.write_text(json.dumps(asdict(made)), encoding="utf-8")
    return made


def _compile_in(room: Path, name: str, changed: Changed) -> CoqResult:
    """Compile a file and all that it requires in a separate folder; unaffected files are copied from the compiled ones."""
    content = _text(name, changed)
    for other in imports(content):
        if not (room / f"{other}.vo").exists():
            made = _compile_in(room, other, changed)
            if not made.ok:
                return made
    if _key(name, changed) != _key(name, {}):
        return _coqc(room, name, content)
    made = compile_file(name)
    if made.ok:
        shutil.copyfile(BUILD / f"{name}.vo", room / f"{name}.vo")
    return made


def _coqc(room: Path, name: str, content: str) -> CoqResult:
    file = room / f"{name}.v"
    file.write_text(content, encoding="utf-8")
    command = ["coqc", "-q", "-R", str(room), "Draft", "-w", "none", str(file)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return CoqResult(False, f"coqc took more than {SECONDS} s on {name}.v", ended=False)
    return CoqResult(made.returncode == 0, made.stdout + made.stderr)


@cache
def version() -> str:
    """Return the version of coqc, for example 8.16.1."""
    said = subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("version", 1)[-1].split()[0]


def _text(name: str, changed: Changed) -> str:
    return changed[name] if name in changed else source(name).read_text(encoding="utf-8")


def _key(name: str, changed: Changed) -> str:
    """Return a hash of the file, of all files that it requires, and of the version of Coq."""
    content = _text(name, changed)
    parts = [version(), content, *(_key(other, changed) for other in imports(content))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
