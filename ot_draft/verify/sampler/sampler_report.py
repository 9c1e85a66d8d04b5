"""Report of the check of a sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from ...page_style import page
from ..outcome import Outcome, SamplerEvidence, Status
from ..report import Report
from ..source import value_source
from .views import MOST_TOKENS

SamplerOutcome = Outcome[SamplerEvidence]


@dataclass(frozen=True)
class SamplerReport(Report[SamplerEvidence]):
    """Outcomes of all checks of one sampler.

    A statistical check has one outcome per problem. `report[name]` is the outcome of that name with the strongest evidence.
    `str(report)`, `report.html()` and `report.json()` give the report as text, HTML and JSON.

    Attributes
    ----------
    subject : str
        Name of the function.
    outcomes : tuple of Outcome
        Outcomes of the checks.
    tried : mapping
        Facts about the calls, as plain data. `n` and `k`: vocabulary sizes and numbers of drafts. `sizes`: the pairs (n, k) that
        occurred. `batches`: batch sizes, empty without `batched`. `sizes_by_batch`: pairs (n, k) by batch size. `rows`: number of
        rows in the counted calls. `seconds`: wall-clock time of the run. `code`: Python code that repeats the calls.
    false_alarm : float, default=0.0
        Bound on the probability that a correct sampler fails, over all checks together.

    See Also
    --------
    check_sampler, check_draws, check_step : Make the report.

    Examples
    --------
    >>> import ot_draft as otd
    >>> def draft(q, k, generator):
    ...     return generator.choice(len(q), size=k, p=q)
    >>> problem = otd.Problem([0.5, 0.5], [0.75, 0.25], k=2)
    >>> report = otd.check_draws(draft, problems=[problem], samples=500)
    >>> report["declared_draft_law"].evidence.samples
    500
    >>> report.tried["sizes"]
    [(2, 2)]
    """

    def __getitem__(self, check: str) -> SamplerOutcome:
        """The outcome of that name with the strongest evidence: one that failed, else one that is not decided, else any."""
        of_name = [outcome for outcome in self.outcomes if outcome.check == check]
        if not of_name:
            raise KeyError(f"check must be one of {', '.join(self._names)}, got {check!r}. Correct the name.")
        order = [Status.PASSED, Status.UNDECIDED, Status.FAILED]
        return max(of_name, key=lambda each: (each.status in order and order.index(each.status), each.evidence.e_value))

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(outcome.check for outcome in self.outcomes))

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
        lines = [f"{self.subject}: {self.status} in {self.tried['seconds']:.1f} s"]
        lines += [f"  {self._line(name)}" for name in self._names]
        lines.append(f"  tried: {sizes}; {rows_said}, {self.tried['rows']:,} rows in all")
        if self.failures:
            lines += ["", "The same calls again:", "", self.tried["code"].rstrip()]
        return "\n".join(lines)

    def _line(self, name: str) -> str:
        worst = self[name]
        evidence = worst.evidence
        if worst.status != Status.PASSED or not evidence.samples:
            return line(worst)
        number = len({outcome.evidence.label for outcome in self.outcomes if outcome.check == name})
        text = f"{number} cases, {evidence.samples:,} calls each; largest e-value {evidence.e_value:.2g} of {evidence.limit:.2g}"
        if (distance := self.detectable_bias.get(name, 1)) < 1:
            wide = max(self.tried["n"], default=0) > MOST_TOKENS
            pooled = " (above 64 tokens: between the classes counted)" * wide
            alarms = f"false alarms: {self.false_alarm:.0e}"
            text += f"; a bias of {distance:.3f}{pooled} is missed with probability 1e-6 ({alarms})"
        return f"{name:<20} {worst.status:<8} {text}"

    def html(self) -> str:
        """The text as one page without links."""
        return page(self.subject, f"<pre>{escape(str(self))}</pre>\n")


def line(outcome: SamplerOutcome) -> str:
    """An outcome on one line."""
    label, failed = outcome.evidence.label, outcome.status == Status.FAILED
    where = f"[{label}] " if label and failed else ""
    return f"{outcome.check:<20} {outcome.status:<8} {where}{outcome.evidence.reason}".rstrip()


def name_of(function: Callable[..., Any]) -> str:
    """The function's name in the report."""
    return str(getattr(function, "__qualname__", type(function).__name__))


def call_source(called: str, function: Callable[..., Any], options: dict[str, Any]) -> str:
    """Python code that repeats the call of a check."""
    imports = ["import ot_draft as otd"]
    arguments = [value_source(function, imports, "checked")]
    for name, value in options.items():
        if name == "seconds" or (value is not None and value is not False):
            arguments.append(f"{name}={value_source(value, imports, name)}")
    return "\n".join([*dict.fromkeys(imports), "", f"print(otd.{called}({', '.join(arguments)}))"]) + "\n"
