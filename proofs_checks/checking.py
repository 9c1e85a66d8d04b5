"""The check of any statement: on cases in exact arithmetic, or by a prover."""

from __future__ import annotations

from time import perf_counter

import joblib

from .random_cases import check_on_random_cases
from .statement import Outcome, Proof, Statement


def check(statement: Statement, cases: int, jobs: int = 1) -> Outcome:
    """The statement by its prover if it has one, else on so many cases."""
    if statement.prove is None:
        return check_on_random_cases(statement, cases, jobs)
    start = perf_counter()
    errors = ("", *statement.planted)
    proofs = dict(zip(errors, joblib.Parallel(n_jobs=jobs)(map(joblib.delayed(statement.prove), errors)), strict=True))
    truth = proofs.pop("")
    caught = {error: _false(proof.counterexample) for error, proof in proofs.items()}
    return Outcome(
        statement, truth.count, perf_counter() - start, _false(_doubt(truth)), caught, truth.said, truth.kind
    )


def _doubt(proof: Proof) -> str:
    return proof.counterexample or (proof.undecided and f"(not decided: {proof.undecided})")


def _false(text: str) -> tuple[str, ...]:
    return (text,) if text else ()
