"""A verdict as one HTML page without links to anything outside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..page_style import STYLE
from .verdict import Verdict

OF_VERDICTS = """
.good { background: #00735a; } .bad { background: #b34700; }
"""
NATS = 2.302585092994046  # in a power of ten


def html_page(verdict: Verdict, subject: str, notes: Sequence[tuple[str, str]] = ()) -> str:
    """The verdict on a subject (an address, a file), notes on how it was asked, the families of bets and all bets."""
    kind = "bad" if verdict.biased or verdict.undecided else "good"
    facts = [*notes, ("tokens", f"{verdict.tokens:,}"), ("left out", f"{verdict.skipped:,}"),
             ("cannot be read", f"{verdict.unreadable:,} {verdict.left_out}"),
             ("bound of what the events tested came too often or too rarely, on average over all tokens",
              f"{verdict.bound:.3g} at {verdict.confidence:.4g} confidence; seen: {verdict.seen:.3g}")]  # fmt: skip
    facts += [(f"tokens for a bound of {target}", f"about {tokens:,}") for target, tokens in verdict.for_bounds.items()]
    families = [[name, _ten(value)] for name, value in sorted(verdict.families.items(), key=lambda item: -item[1])]
    bets = [
        [
            each.event,
            each.family,
            f"{each.tokens:,}",
            f"{each.came:.4%}",
            f"{each.expected:.4%}",
            _ten(each.log_e_value),
        ]
        for each in verdict.findings
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Audit of {escape(subject)}</title>\n<style>{STYLE}{OF_VERDICTS}</style>\n</head>\n<body>\n"
        f'<h1>Audit of {escape(subject)}</h1>\n<p><span class="verdict {kind}">{verdict.word}</span></p>\n'
        f"<p>{escape(str(verdict))}.</p>\n{_table(('', ''), [list(fact) for fact in facts])}"
        f"<h2>By family</h2>\n{_table(('family of bets', 'power of ten of its e-value'), families)}"
        "<h2>Every bet</h2>\n<p>What came and what the laws had said, in shares of the tokens that the bet applies to.</p>\n"
        f"{_table(('event', 'family', 'tokens', 'came', 'reported', 'power of ten'), bets)}</body>\n</html>\n"
    )


def _ten(logarithm: float) -> str:
    return f"{logarithm / NATS:.1f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    marks = ["" if head in ("", "event", "family", "family of bets") else ' class="number"' for head in heads]
    top = "".join(f"<th{mark}>{escape(head)}</th>" for mark, head in zip(marks, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{escape(cell)}</td>" for mark, cell in zip(marks, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    head = f"<thead><tr>{top}</tr></thead>\n" if any(heads) else ""
    return f'<div class="wide"><table>\n{head}<tbody>\n{body}</tbody></table></div>\n'
