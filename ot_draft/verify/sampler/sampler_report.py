"""What came out of the check of a black-box sampler."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np

from ...page_style import page
from ...problem import Problem
from ..source import value_source
from .views import MOST_TOKENS

Status = Literal["passed", "failed", "skipped", "not decided"]


@dataclass(frozen=True)
class SamplerOutcome:
    """One check, on one problem or on all of them.

    label, problem: the problem that a statistical check was made on, or on which another one failed. samples: calls made.
    e_value: of the sequential test, which fails at `limit`. p_value: chi-square, for reading. distance: a law at this total
    variation distance from the right one is missed by so many samples with probability 1e-6 at most (1.0: none is sure to be
    found); None where it is no check of a law.
    """

    name: str
    status: Status
    reason: str = ""
    label: str = ""
    problem: Problem | None = field(default=None, repr=False, compare=False)  # arrays have no ==
    samples: int = 0
    e_value: float = 0.0
    limit: float = np.inf
    p_value: float = 1.0
    distance: float | None = None

    def __str__(self) -> str:
        where = f"[{self.label}] " if self.label and self.status == "failed" else ""
        return f"{self.name:<20} {self.status:<8} {where}{self.reason}".rstrip()


@dataclass(frozen=True)
class SamplerReport:
    """Outcomes of all checks of one sampler: one for every problem where a check is statistical.

    false_alarm: bound on the probability that a right sampler fails any check. code: Python that makes the same calls again.
    tried: sizes (n, k) that stood together, and of all n, k; batches: rows of a batch (none where calls had one row), and for each the
    sizes that it had; rows in all. `str`, `html()` and `json()` say the same.
    """

    name: str
    outcomes: tuple[SamplerOutcome, ...]
    false_alarm: float
    seconds: float
    code: str
    tried: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether no check failed, and all calls were made."""
        return self.verdict == "passed"

    @property
    def verdict(self) -> Status:
        """Passed, failed, or not decided, where the time limit ended before all calls were made."""
        found = {outcome.status for outcome in self.outcomes}
        return "failed" if "failed" in found else "not decided" if "not decided" in found else "passed"

    @property
    def failures(self) -> tuple[SamplerOutcome, ...]:
        """Outcomes of the checks that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    def __getitem__(self, name: str) -> SamplerOutcome:
        """The outcome of that name with the strongest evidence."""
        of_name = [outcome for outcome in self.outcomes if outcome.name == name]
        if not of_name:
            raise KeyError(f"no check is called {name!r}: choose among {', '.join(self._names)}")
        return max(of_name, key=lambda outcome: (outcome.status == "failed", outcome.e_value))

    def raise_if_failed(self) -> None:
        """Raise AssertionError with the report as its text unless it passed."""
        if not self.passed:
            raise AssertionError(str(self))

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(outcome.name for outcome in self.outcomes))

    @property
    def bias_seen(self) -> dict[str, float]:
        """For every check of a law, a total variation distance that was missed on each of its problems with probability 1e-6 at most.

        1.0 where even the greatest might have been missed. Of the events that were counted: what the check's docstring names, for
        the n, k and batches that were tried.
        """
        seen: dict[str, float] = {}
        for each in self.outcomes:
            if each.status == "passed" and each.distance is not None:
                seen[each.name] = max(each.distance, seen.get(each.name, 0.0))
        return seen

    def __str__(self) -> str:
        by_k = {k: ", ".join(str(n) for n, each in self.tried["sizes"] if each == k) for k in self.tried["k"]}
        sizes = "; ".join(f"k = {k} with n = {n}" for k, n in by_k.items())
        every = [tuple(each) for each in self.tried["sizes"]]
        alike: dict[str, list[int]] = {}
        for rows, of_batch in self.tried["sizes_by_batch"].items():
            small = [] if [tuple(each) for each in of_batch] == every else [f"n = {n}, k = {k}" for n, k in of_batch]
            alike.setdefault(f" (with {' or '.join(small)})" * bool(small), []).append(int(rows))
        batches = ", ".join(f"{', '.join(map(str, rows))}{said}" for said, rows in alike.items())
        rows_said = f"in batches of {batches}" if batches else "one row at a time"
        lines = [f"{self.name}: {self.verdict} in {self.seconds:.1f} s"]
        lines += [f"  {self._line(name)}" for name in self._names]
        lines.append(f"  tried: {sizes}; {rows_said}, {self.tried['rows']:,} rows in all")
        if self.failures:
            lines += ["", "The same calls again:", "", self.code.rstrip()]
        return "\n".join(lines)

    def _line(self, name: str) -> str:
        worst = self[name]
        if worst.status != "passed" or not worst.samples:
            return str(worst)
        number = len({outcome.label for outcome in self.outcomes if outcome.name == name})
        text = f"{number} cases, {worst.samples:,} calls each; largest e-value {worst.e_value:.2g} of {worst.limit:.2g}"
        if self.bias_seen.get(name, 1) < 1:
            pooled = (
                ""
                if max(self.tried["n"], default=0) <= MOST_TOKENS
                else " (above 64 tokens: between the classes counted)"
            )
            text += f"; a law {self.bias_seen[name]:.3f} off{pooled} is missed with probability 1e-6 (false alarms: {self.false_alarm:.0e})"
        return f"{name:<20} {worst.status:<8} {text}"

    def json(self) -> str:
        """The report as JSON: what was tried, the bias seen, every outcome."""
        kept = ("name", "status", "reason", "label", "samples", "e_value", "p_value", "distance")
        outcomes = [{name: getattr(each, name) for name in kept} for each in self.outcomes]
        whole = {
            "name": self.name,
            "passed": self.passed,
            "verdict": self.verdict,
            "false_alarm": self.false_alarm,
            "seconds": self.seconds,
        }
        whole |= {"tried": self.tried, "bias_seen": self.bias_seen, "outcomes": outcomes, "code": self.code}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    def html(self) -> str:
        """The text as one page without links."""
        return page(self.name, f"<pre>{escape(str(self))}</pre>\n")


def name_of(function: Callable[..., Any]) -> str:
    """The function's name in the report."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def call_source(called: str, function: Callable[..., Any], options: dict[str, Any]) -> str:
    """Python that makes the same call of a check again."""
    imports = ["import ot_draft as otd"]
    arguments = [value_source(function, imports, "checked")]
    for name, value in options.items():
        if name == "seconds" or (value is not None and value is not False):
            arguments.append(f"{name}={value_source(value, imports, name)}")
    return "\n".join([*dict.fromkeys(imports), "", f"print(otd.{called}({', '.join(arguments)}))"]) + "\n"
