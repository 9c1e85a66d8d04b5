"""A verdict as one HTML page without links to anything outside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...page_style import page, table
from .verdict import Verdict, e_value

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
SHOWN = 8  # bets
HEADS = ("the token is", "tokens", "came", "reported", "e-value")


def html_page(verdict: Verdict, subject: str, notes: Sequence[tuple[str, str]] = ()) -> str:
    """The verdict on a subject (an address, a file), notes on how it was asked, the bets that won most."""
    kind, mark = MARKS[verdict.word]
    facts = [("tokens", f"{verdict.tokens:,}"), ("tokens whose law cannot be known", f"{verdict.skipped:,}"),
             ("tokens that cannot be read", f"{verdict.unreadable:,} {verdict.left_out}"), *notes]  # fmt: skip
    facts += [(f"tokens for a bound of {target}", f"about {float(f'{tokens:.2g}'):,.0f}")
              for target, tokens in verdict.for_bounds.items()]  # fmt: skip
    said = f'<p><span class="verdict {kind}">{mark} {verdict.word}</span></p>\n<p>{escape(str(verdict))}.</p>\n'
    if not verdict.undecided:
        said += f"<h2>The bets that won most</h2>\n<p>{WHAT} Shares are of the tokens that a bet applies to.</p>\n"
        said += table(HEADS, [list(map(escape, row)) for row in strongest(verdict)])
    asked = table((), [list(map(escape, row)) for row in facts], texts=2)
    return page(f"Audit of {subject}", f"{said}<h2>What was asked</h2>\n{asked}", OF_VERDICTS)


def strongest(verdict: Verdict) -> list[tuple[str, ...]]:
    """The bets that won most, in the columns of HEADS."""
    return [(each.event, f"{each.tokens:,}", f"{each.came:.2%}", f"{each.expected:.2%}", e_value(each.log_e_value))
            for each in verdict.findings[:SHOWN]]  # fmt: skip
