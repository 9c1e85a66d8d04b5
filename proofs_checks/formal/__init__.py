"""Theorems that Coq has checked, for every finite set of tokens, every real field and every k; and finite computations in Coq.

Every file of proofs_checks/formal says at its head what it proves, in the notation of docs/theory.md; `make formal` compiles all
and prints the assumptions of every theorem. A row is "proved (Coq)" only where coqc compiled the file, with the content that it
has now, on this machine, and "computed (Coq)" where it is about the cases that it names and no others; elsewhere it was not checked
here. docs/formal.md describes the gap between these proofs and the Python code.
"""

from __future__ import annotations

import re
from time import perf_counter

from ..statement import Statement, StatementOutcome
from . import compiling
from .listed import THEOREMS, Planted, Theorem

__all__ = ["STATEMENTS", "check"]
UNLISTED = ("main_theorems",)  # repeats statements of other files
AXIOM = "its proof left out"
FALSE = 'The term "erefl true" has type "true = true"'  # message of coqc if the value of `computes` is not true
SHOWN = 80  # max. number of characters of coqc's message
STATEMENTS = tuple(
    Statement(
        theorem.title,
        theorem.claim,
        theorem.source,
        f"Coq, {compiling.place(theorem.file)}",
        planted=(AXIOM, *(planted.error for planted in theorem.planted)),
    )
    for theorem in THEOREMS
)
PROOF = re.compile(r"\bProof\..*?\bQed\.", re.DOTALL)


def check(statement: Statement, cases: int, jobs: int = 1) -> StatementOutcome:
    """Compile the statement's file and check its assumptions; without coqc the outcome states that.

    A bridge also compares its numbers with the library as it is now. The controls: the same file without the theorem's proof must be
    found to rest on an axiom, and with an error in what the theorem says Coq must reject its proof.
    """
    start = perf_counter()
    theorem = next(theorem for theorem in THEOREMS if theorem.title == statement.name)
    names = ", ".join(theorem.names)
    if not compiling.found():
        return StatementOutcome(statement, 0, 0.0, said=f"not checked here: no coqc ({names})", how="not checked here")
    made = compiling.compile_file(theorem.file)
    wrong = [] if made.closed else [f"{theorem.file}.v:\n{made.output[-500:]}"]
    wrong += filter(None, [difference(theorem)])
    caught = {AXIOM: _left_out(theorem)} | {planted.error: refused(theorem, planted) for planted in theorem.planted}
    by = f"no axioms, Coq {compiling.version()}: {names}"
    said = f"computed for these cases, {by}" if theorem.computed else f"proved for all sizes, {by}"
    return StatementOutcome(
        statement,
        len(theorem.names),
        perf_counter() - start,
        tuple(wrong),
        caught,
        said,
        "computed (Coq)" if theorem.computed else "proved (Coq)",
    )


def difference(theorem: Theorem) -> str:
    """Return the first difference between the library and the numbers of a bridge."""
    from . import bridge

    names = [name for name in compiling.imports(_text(theorem.file)) if name in bridge.NAMES]
    return bridge.difference(*names) if names else ""


def _left_out(theorem: Theorem) -> tuple[str, ...]:
    """Return the result of the control in which the proof of the first theorem is omitted."""
    name = theorem.names[0]
    made = compiling.compile_changed(theorem.file, {theorem.file: admitted(_text(theorem.file), name)})
    return (f"assumes {name}",) if made.ok and not made.closed else ()


def refused(theorem: Theorem, planted: Planted) -> tuple[str, ...]:
    """Return the result of the control with an error, for which coqc must reject the proof; a computation must be false.

    A run that was terminated counts as no rejection.
    """
    made = compiling.compile_changed(theorem.file, with_error(theorem, planted))
    said = re.sub(r"\s+", " ", made.output.partition("Error:")[2]).strip()
    holds = (
        made.ok or not made.ended or (theorem.computed and FALSE not in said)
    )  # only where the error is in the statement
    return () if holds else (said[:SHOWN] or "no words",)


def with_error(theorem: Theorem, planted: Planted) -> dict[str, str]:
    """Return the changed file and its text.

    For an error in a statement, earlier proofs are omitted, so that only its own proof is checked.
    """
    own, name = _text(theorem.file), theorem.names[0]
    if planted.file:
        changed = _text(planted.file)
        if planted.old not in changed:
            raise ValueError(f"{planted.file}.v does not hold {planted.old!r}: {planted.error} cannot be planted")
        return {planted.file: changed.replace(planted.old, planted.new)}
    start, end = _statement(own, name)
    if planted.old not in own[start:end]:
        raise ValueError(f"{name} does not say {planted.old!r}: {planted.error} cannot be planted")
    return {theorem.file: _alone(own[:start] + own[start:end].replace(planted.old, planted.new) + own[end:], name)}


def _alone(text: str, name: str) -> str:
    """Return the text of a file up to a theorem and its proof, without earlier proofs; open sections are closed."""
    start, end = _statement(text, name)
    proof = PROOF.match(text, end)
    if not proof:
        raise ValueError(f"no theorem {name!r} with a proof in this file")
    sections: list[str] = []
    for begins, ends in re.findall(r"^(?:Section (\w+)|End (\w+))\.", text[:start], re.MULTILINE):
        if ends:
            sections.remove(ends)
        else:
            sections.append(begins)
    closed = "".join(f"End {section}.\n" for section in reversed(sections))
    return f"{PROOF.sub('Admitted.', text[:start])}{text[start:end]}{proof[0]}\n{closed}"


def _statement(text: str, name: str) -> tuple[int, int]:
    """Return the positions at which the statement of a theorem and its proof begin."""
    found = re.search(rf"^(?:Theorem|Lemma) {name}\b.*?(?=Proof\.)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"no theorem {name!r} with a proof in this file")
    return found.span()


def admitted(text: str, name: str) -> str:
    """Return the text of a file in which the proof of one theorem is omitted, and whose last command prints its assumptions."""
    _, end = _statement(text, name)
    proof = PROOF.match(text, end)
    if not proof:
        raise ValueError(f"no theorem {name!r} with a proof in this file")
    return f"{text[:end]}Admitted.{text[proof.end() :]}\nPrint Assumptions {name}.\n"


def _text(file: str) -> str:
    return compiling.source(file).read_text(encoding="utf-8")
