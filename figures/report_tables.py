"""Tables of the report as HTML: ours beside the published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from figures.about import Number


def numbers_table(numbers: Sequence[Number]) -> str:
    """Ours, the published number, the difference, and why; the last three only where there is a published number."""
    beside = any(number.published is not None for number in numbers)
    head = [
        ("", ""),
        ("number", "ours"),
        *((("number", "published"), ("number", "difference"), ("", "")) if beside else ()),
    ]
    lines = []
    for number in numbers:
        cells = [("", escape(number.what)), ("number", ours_of(number))]
        if beside:
            cells += [("number", published_of(number)), ("number", _difference(number)), ("note", escape(number.note))]
        lines.append(cells)
    return table(head, lines)


def table(head: Sequence[tuple[str, str]], lines: Iterable[Sequence[tuple[str, str]]]) -> str:
    """Cells with their classes as an HTML table that can be moved sideways."""

    def row(cells: Sequence[tuple[str, str]], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} class="{kind}">{cell}</{tag}>' for kind, cell in cells) + "</tr>\n"

    body = "".join(row(line, "td") for line in lines)
    return f'<div class="scroll"><table>\n<thead>{row(head, "th")}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def ours_of(number: Number) -> str:
    """Our number with its standard error, where there is one."""
    text = _shown(number.ours)
    return f"{text} ± {number.error:.2g}" if number.error is not None and number.error == number.error else text


def _shown(value: float) -> str:
    whole = float(value).is_integer() and abs(value) < 1e6
    return f"{value:.0f}" if whole else f"{value:.4f}" if 0.001 <= abs(value) < 10 else f"{value:.3g}"


def published_of(number: Number) -> str:
    """The published number, with its sign where it is a bound; empty without one."""
    if number.published is None:
        return ""
    sign = "" if number.relation == "=" else f"{number.relation} "
    return f"{sign}{_shown(number.published)}"


def difference_of(number: Number) -> str:
    """Ours over the published number in per cent, or whether a bound holds; empty without one."""
    if number.difference is None:
        return ""
    if number.relation in ("≥", "≤"):
        return "holds" if number.holds else "broken"
    percent = round(100 * number.difference, 1)
    return f"{percent:+.1f} %" if percent else "0.0 %"  # never -0.0


def _difference(number: Number) -> str:
    kind = "good" if number.relation in ("≥", "≤") and number.holds else "bad" if number.unexplained else ""
    text = difference_of(number)
    return f'<span class="{kind}">{text}</span>' if kind and text else text


def from_markdown(text: str) -> str:
    """A Markdown table, with what stands above it, as something to unfold; empty without a table."""
    above = " ".join(line for line in text.splitlines() if line.strip() and not line.startswith("|"))
    made = markdown_table(text)
    said = f"<p>{escape(above)}</p>\n" if above else ""
    return f"<details><summary>The whole table</summary>\n{said}{made}</details>\n" if made else ""


def markdown_table(text: str) -> str:
    """The table in a Markdown text as HTML; empty without one."""
    lines = (line.strip() for line in text.splitlines())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    if len(rows) < 3:
        return ""
    head, _, *body = ([("", escape(cell)) for cell in row] for row in rows)
    return table(head, body)
