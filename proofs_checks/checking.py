"""The check of any statement: on cases in exact arithmetic, or by a prover."""

from __future__ import annotations

from time import perf_counter

from .random_cases import check_on_random_cases
from .statement import Proof, Statement, StatementOutcome


def check(statement: Statement, cases: int, jobs: int = 1) -> StatementOutcome:
    """Check a statement by its prover if it has one, otherwise on `cases` cases."""
    if statement.prove is None:
        return check_on_random_cases(statement, cases, jobs)
    from joblib import Parallel, delayed  # a local import, because loading takes 0.15 s, too long for --help

    start = perf_counter()
    errors = ("", *statement.planted)
    prove = delayed(_proved)
    proofs = dict(zip(errors, Parallel(n_jobs=jobs)(prove(statement, error) for error in errors), strict=True))
    raised = next(filter(None, (proof.raised for proof in proofs.values())), "")
    truth = proofs.pop("")
    caught = {error: _false(proof.counterexample) for error, proof in proofs.items()}
    return StatementOutcome(
        statement, truth.count, perf_counter() - start, _false(_doubt(truth)), caught, truth.said, truth.kind, raised
    )


def _proved(statement: Statement, error: str) -> Proof:
    """Return the result of the prover; an error that it raises decides nothing."""
    assert statement.prove is not None
    try:
        return statement.prove(error)
    except Exception as raised:
        return Proof("", 1, raised=f"{type(raised).__name__}: {raised}")


def _doubt(proof: Proof) -> str:
    return proof.counterexample or (proof.undecided and f"(not decided: {proof.undecided})")


def _false(text: str) -> tuple[str, ...]:
    return (text,) if text else ()
