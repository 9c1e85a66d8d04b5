"""A verdict as one HTML page without links to anything outside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..page_style import STYLE
from .verdict import Verdict

OF_VERDICTS = """
.good { background: #00735a; } .bad { background: #b34700; } .open { background: #5f5f5f; }
body { overflow-wrap: anywhere; } p { max-width: 45rem; } .verdict { font-weight: bold; white-space: nowrap; }
@media (max-width: 30rem) { th, td { padding: .25rem .3rem; font-size: .85rem; }
  thead ~ tbody td:nth-child(2), thead th:nth-child(2) { display: none; } }
"""
MARKS = {"no bias found": ("good", "\u2713"), "biased": ("bad", "\u2717"), "cannot be decided": ("open", "?")}
WHAT = (
    "A bet stakes money, at the odds of the reported laws, on what the next token is. Its e-value is what 1 has become: while the "
    "laws are true, an e-value ever reaches 100 with probability at most 1 in 100, and 1,000,000 with 1 in a million."
)
NATS = 2.302585092994046  # in a power of ten
SHOWN = 8  # bets
SMALL = 4.0  # powers of ten up to which a number is written out


def html_page(verdict: Verdict, subject: str, notes: Sequence[tuple[str, str]] = ()) -> str:
    """The verdict on a subject (an address, a file), notes on how it was asked, the bets that won most."""
    kind, mark = MARKS[verdict.word]
    facts = [("tokens", f"{verdict.tokens:,}"), ("tokens whose law cannot be known", f"{verdict.skipped:,}"),
             ("tokens that cannot be read", f"{verdict.unreadable:,} {verdict.left_out}"), *notes]  # fmt: skip
    facts += [(f"tokens for a bound of {target}", f"about {float(f'{tokens:.2g}'):,.0f}")
              for target, tokens in verdict.for_bounds.items()]  # fmt: skip
    bets = [(each.event, f"{each.tokens:,}", f"{each.came:.2%}", f"{each.expected:.2%}", e_value(each.log_e_value))
            for each in verdict.findings[:SHOWN]]  # fmt: skip
    heads = ("the token is", "tokens", "came", "reported", "e-value")
    table = f"<h2>The bets that won most</h2>\n<p>{WHAT} Shares are of the tokens that a bet applies to.</p>\n{_table(heads, bets)}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Audit of {escape(subject)}</title>\n<style>{STYLE}{OF_VERDICTS}</style>\n</head>\n<body>\n"
        f'<h1>Audit of {escape(subject)}</h1>\n<p><span class="verdict {kind}">{mark} {verdict.word}</span></p>\n'
        f"<p>{escape(str(verdict))}.</p>\n{'' if verdict.undecided else table}"
        f"<h2>What was asked</h2>\n{_table((), facts)}</body>\n</html>\n"
    )


def e_value(logarithm: float) -> str:
    """e to this power in two digits."""
    powers = logarithm / NATS
    return f"{10**powers:.2g}" if abs(powers) < SMALL else f"10^{powers:.0f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is text, the others numbers where there are heads."""
    mark = ' class="number"' if heads else ""
    top = "".join(f"<th{mark if i else ''}>{escape(head)}</th>" for i, head in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{mark if i else ''}>{escape(cell)}</td>" for i, cell in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    head = f"<thead><tr>{top}</tr></thead>\n" if heads else ""
    return f'<div class="wide"><table>\n{head}<tbody>\n{body}</tbody></table></div>\n'
