"""HTML page of a report on a server or a log, without links to other files."""

from __future__ import annotations

from html import escape

from ...page_style import page, table
from ..e_values import e_value_text
from ..outcome import Status
from .report import ServerReport

HEADS = ("event", "tokens", "observed", "reported", "e-value")  # columns of `strongest`


def html_page(report: ServerReport) -> str:
    """Return the page of a report: the result, the bets with the largest e-values, and what was tried."""
    test, evidence = report.outcomes[0], report.evidence
    marks = {
        Status.PASSED: ("good", "\u2713"),
        Status.FAILED: ("bad", "\u2717"),
        Status.UNDECIDED: ("open", "?"),
    }
    kind, mark = marks[test.status]
    facts = [("tokens", f"{evidence.tokens:,}"), ("tokens whose distribution cannot be known", f"{evidence.skipped:,}"),
             ("tokens that cannot be read", f"{evidence.unreadable:,}"), *report.facts()]  # fmt: skip
    facts += [(each.check, each.evidence.reason) for each in report.outcomes[1:]]
    facts += [(f"tokens for a bound of {target}", f"about {float(f'{tokens:.2g}'):,.0f}")
              for target, tokens in evidence.for_bounds.items()]  # fmt: skip
    content = f'<p><span class="verdict {kind}">{mark} {report.word}</span></p>\n<p>{escape(str(report))}.</p>\n'
    if test.status != Status.UNDECIDED:
        content += (
            "<h2>Bets with the largest e-values</h2>\n<p>A bet stakes money, at the odds of the reported distributions, on the next "
            "token. Its e-value is the value of an initial stake of 1: if the distributions are true, an e-value ever reaches 100 with "
            "probability at most 1 in 100, and 1,000,000 with 1 in a million. Frequencies are among the tokens that a bet applies to.</p>\n"
        )
        content += table(HEADS, [list(map(escape, row)) for row in strongest(report)])
    style = """
.good { background: #00735a; } .bad { background: #b34700; } .open { background: #5f5f5f; }
body { overflow-wrap: anywhere; } p { max-width: 45rem; } .verdict { font-weight: bold; white-space: nowrap; }
@media (max-width: 30rem) { th, td { padding: .25rem .3rem; font-size: .85rem; }
  thead ~ tbody td:nth-child(2), thead th:nth-child(2) { display: none; } }
"""
    rows = table((), [list(map(escape, row)) for row in facts], texts=2)
    return page(f"Audit of {report.subject}", f"{content}<h2>Requests and answers</h2>\n{rows}", style)


def strongest(report: ServerReport, count: int = 8) -> list[tuple[str, ...]]:
    """Return the bets with the largest e-values that applied to a token, at most `count`, in the columns of HEADS."""
    return [(each.event, f"{each.tokens:,}", f"{each.observed:.2%}", f"{each.reported:.2%}", e_value_text(each.log_e_value))
            for each in [bet for bet in report.evidence.bets if bet.tokens][:count]]  # fmt: skip
