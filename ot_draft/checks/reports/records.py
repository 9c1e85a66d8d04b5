"""Outcomes as plain data: for files, for the terminal, and for the way from a pytest worker to its controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from ..rules.watched import Range
from .answers import Answers, Result, answers
from .report import PropertyOutcome

Record = dict[str, Any]  # of JSON's types only


def as_record(rule: str, outcome: PropertyOutcome) -> Record:
    """One property of the rule of that name, with one entry for each number of drafts; masses as text, exact."""
    by_k = [
        {"k": each.k, "cases": each.cases, "seconds": each.seconds, "status": "failed" if each.failed else "passed"}
        for each in outcome.by_k
    ]
    return {
        "rule": rule,
        "property": outcome.name,
        "category": outcome.category,
        "statement": outcome.statement,
        "status": outcome.status,
        "decides": outcome.decides,
        "reason": outcome.reason,
        "seconds": outcome.seconds,
        "cases": outcome.cases,
        "by_k": by_k,
        "counterexample": _problem(outcome),
        "code": outcome.counterexample_code,
        "crash": outcome.crash,
        "refused": outcome.refused,
        "refusal": outcome.refusal,
        "ranges": {kind: asdict(each) for kind, each in outcome.ranges.items()},
    }


def _problem(outcome: PropertyOutcome) -> Record | None:
    if outcome.counterexample is None:
        return None
    problem = outcome.counterexample.problem
    return {"p": _texts(problem.p.tolist()), "q": _texts(problem.q.tolist()), "k": problem.k, "law": repr(problem.law)}


def _texts(masses: Any) -> Any:
    return [_texts(mass) for mass in masses] if isinstance(masses, list) else str(masses)


def by_rule(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of every rule, by its name, in the order in which they came."""
    rules: dict[str, list[Record]] = {}
    for record in records:
        rules.setdefault(record["rule"], []).append(record)
    return rules


def answers_of(records: Iterable[Record]) -> Answers:
    """What the records of one rule answer."""
    return answers(map(result_of, records))


def result_of(record: Record) -> Result:
    """What the answers need of a record."""
    ranges = {kind: Range(**each) for kind, each in record.get("ranges", {}).items()}
    for each in ranges.values():
        each.n_by_k = {int(k): n for k, n in each.n_by_k.items()}  # JSON has texts for keys
    refused = (record.get("refused", 0), record["cases"])
    about = (record["property"], record["category"], record["status"], record["decides"], record.get("crash", ""))
    return Result(*about, refused, record.get("refusal", ""), ranges)


def verdict(record: Record) -> str:
    """passed, failed, skipped; "expected" for a failure that was announced, and "unexpected" for a pass where one was."""
    status: str = record["status"]
    if record.get("expected_failure") is None:
        return status
    return {"failed": "expected", "passed": "unexpected"}.get(status, status)


def is_wrong(record: Record) -> bool:
    """Whether the verdict is one that should not be."""
    return verdict(record) in {"failed", "unexpected"}


def summary_lines(records: Iterable[Record], wrong_only: bool = False) -> Iterator[str]:
    """The answers for each rule; then one line for each rule, property and number of drafts: cases tried, verdict, time.

    wrong_only: lines of what is not as it should be, and answers for the rules that have some.
    """
    records = list(records)
    shown = [record for record in records if is_wrong(record) or not wrong_only]
    for rule in by_rule(shown):
        yield f"{rule}: {'; '.join(answers_of(by_rule(records)[rule]).lines())}"
    wide = [max((len(record[name]) for record in shown), default=0) for name in ("rule", "property")]
    for record in shown:
        start = f"{record['rule']:<{wide[0]}}  {record['property']:<{wide[1]}}"
        for each in record["by_k"]:
            word = verdict(record) if each["status"] == record["status"] else each["status"]
            yield f"{start}  k={each['k']:<2} {each['cases']:>5} cases  {word:<10} {each['seconds']:7.2f} s"
        if not record["by_k"]:
            yield f"{start}  {record['status']}: {record['reason']}"
