"""An outcome as plain data: for files, for the terminal, and for the way from a pytest worker to its controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .report import Outcome

Record = dict[str, Any]  # of JSON's types only


def as_record(rule: str, outcome: Outcome) -> Record:
    """What came out of one property of the rule of that name, with one entry for each number of drafts; masses as text."""
    by_k = [
        {"k": each.k, "cases": each.cases, "seconds": each.seconds, "status": "failed" if each.failed else "passed"}
        for each in outcome.by_k
    ]
    return {
        "rule": rule,
        "property": outcome.name,
        "statement": outcome.statement,
        "status": outcome.status,
        "reason": outcome.reason,
        "seconds": outcome.seconds,
        "cases": outcome.cases,
        "by_k": by_k,
        "counterexample": _problem(outcome),
        "code": outcome.counterexample_code,
    }


def _problem(outcome: Outcome) -> Record | None:
    if outcome.counterexample is None:
        return None
    problem = outcome.counterexample.problem
    return {"p": _texts(problem.p.tolist()), "q": _texts(problem.q.tolist()), "k": problem.k, "law": repr(problem.law)}


def _texts(masses: Any) -> Any:
    return [_texts(mass) for mass in masses] if isinstance(masses, list) else str(masses)


def verdict(record: Record) -> str:
    """passed, failed, skipped; "expected" for a failure that was announced, and "unexpected" for a pass where one was."""
    status: str = record["status"]
    if record.get("expected_failure") is None:
        return status
    return {"failed": "expected", "passed": "unexpected"}.get(status, status)


def is_wrong(record: Record) -> bool:
    """Whether the verdict is one that should not be."""
    return verdict(record) in {"failed", "unexpected"}


def summary_lines(records: Iterable[Record]) -> Iterator[str]:
    """One line for each rule, property and number of drafts: cases tried, verdict, time."""
    records = list(records)
    wide = [max(len(record[name]) for record in records) for name in ("rule", "property")]
    for record in records:
        start = f"{record['rule']:<{wide[0]}}  {record['property']:<{wide[1]}}"
        for each in record["by_k"]:
            kind = (
                verdict({**record, "status": each["status"]}) if each["status"] == record["status"] else each["status"]
            )
            yield f"{start}  k={each['k']:<2} {each['cases']:>5} cases  {kind:<10} {each['seconds']:7.2f} s"
        if not record["by_k"]:
            yield f"{start}  {record['status']}: {record['reason']}"
