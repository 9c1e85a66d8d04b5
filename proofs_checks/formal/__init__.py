"""Theorems that Coq has checked, for every finite set of tokens, every real field and every k.

Every file of proofs_checks/formal says at its head what it proves, in the notation of docs/theory.md; `make formal` compiles all
and prints the assumptions of every theorem. A row is "proved (Coq)" only where coqc compiled the file, with the content
that it has now, on this machine; elsewhere it was not checked here. What lies between these proofs and the
Python code is said in docs/formal.md.
"""

from __future__ import annotations

import re
from time import perf_counter

from ..statement import Outcome, Statement
from . import compiling
from .theorems import THEOREMS

__all__ = ["STATEMENTS", "check"]
AXIOM = "its proof left out"
STATEMENTS = tuple(
    Statement(theorem.title, theorem.claim, compiling.place(theorem.file), "Coq 8.16", planted=(AXIOM,))
    for theorem in THEOREMS
)


def check(statement: Statement, cases: int, jobs: int = 1) -> Outcome:
    """Compile the statement's file and look at its assumptions; where there is no coqc, say so.

    The control: the same file with the theorem's proof left out must be found to rest on an axiom.
    """
    start = perf_counter()
    theorem = next(theorem for theorem in THEOREMS if theorem.title == statement.name)
    names = ", ".join(theorem.names)
    if not compiling.found():
        return Outcome(statement, 0, 0.0, said=f"not checked here: no coqc ({names})", how="not checked here")
    made = compiling.compile_file(theorem.file)
    wrong = () if made.closed else (f"{theorem.file}.v:\n{made.output[-500:]}",)
    without = compiling.compile_file(theorem.file, admitted(_text(theorem.file), theorem.names[0]))
    caught = (f"assumes {theorem.names[0]}",) if without.ok and not without.closed else ()
    said = f"proved for all sizes, no axioms: {names}"
    return Outcome(statement, len(theorem.names), perf_counter() - start, wrong, {AXIOM: caught}, said, "proved (Coq)")


def admitted(text: str, name: str) -> str:
    """The text of a file in which the proof of one theorem is left out, and its assumptions are printed last."""
    pattern = re.compile(rf"^((?:Theorem|Lemma) {name}\b.*?\n)Proof\..*?Qed\.$", re.MULTILINE | re.DOTALL)
    cut, count = pattern.subn(r"\1Admitted.", text, count=1)
    if not count:
        raise ValueError(f"no theorem {name!r} with a proof in this file")
    return f"{cut}\nPrint Assumptions {name}.\n"


def _text(file: str) -> str:
    return compiling.source(file).read_text(encoding="utf-8")
