"""Tables of the report as HTML: published numbers and ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from figures.about import Number, with_error


def numbers_table(numbers: Sequence[Number]) -> str:
    """Return ours, the published number, the difference and its reason; then other rules."""
    compared, others = any(number.published is not None for number in numbers), other_rules(numbers)
    head = [
        ("", ""),
        ("number", "ours"),
        *((("number", "published"), ("number", "difference"), ("", "")) if compared else ()),
        *(("number", escape(f"other rule: {label}")) for label in others),
    ]
    lines = []
    for number in numbers:
        cells = [("", escape(number.what)), ("number", ours_of(number))]
        if compared:
            cells += [("number", published_of(number)), ("number", _difference(number)), ("note", escape(number.note))]
        lines.append([*cells, *(("number", text) for text in others_of(number, others))])
    return table(head, lines)


def headline_table(numbers: Sequence[tuple[str, Number]]) -> str:
    """Return numbers and the published ones, with links to their sections."""
    head = [("", "paper"), ("number", "published"), ("number", "ours"), ("number", "difference")]
    return table(
        head,
        (
            [
                ("", f'<a href="#{section}">{escape(number.what)}</a>'),
                ("number", published_of(number)),
                ("number", ours_of(number)),
                ("number", _difference(number)),
            ]
            for section, number in numbers
        ),
    )


def other_rules(numbers: Iterable[Number]) -> tuple[str, ...]:
    """Return the labels of all rules other than the published ones."""
    return tuple(dict.fromkeys(label for number in numbers for label, _, _ in number.others))


def others_of(number: Number, labels: Sequence[str]) -> list[str]:
    """Return the values of other rules in the order of the labels; empty for missing values."""
    shown = {label: with_error(value, error) for label, value, error in number.others}
    return [shown.get(label, "") for label in labels]


def table(head: Sequence[tuple[str, str]], lines: Iterable[Sequence[tuple[str, str]]]) -> str:
    """Return cells with their classes as an HTML table that scrolls horizontally."""

    def row(cells: Sequence[tuple[str, str]], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} class="{kind}">{cell}</{tag}>' for kind, cell in cells) + "</tr>\n"

    body = "".join(row(line, "td") for line in lines)
    return f'<div class="scroll"><table>\n<thead>{row(head, "th")}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def ours_of(number: Number) -> str:
    """Return the number of this project with its standard error, if there is one."""
    return with_error(number.ours, number.error)


def published_of(number: Number) -> str:
    """Return the published number as printed, with its sign if it is a bound; empty without one."""
    if number.published is None:
        return ""
    sign = "" if number.relation == "=" else f"{number.relation} "
    return f"{sign}{round(number.published, 4)}"


def difference_of(number: Number) -> str:
    """Return the relative difference to the published number in per cent, or whether a bound holds; empty without one."""
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
    """Return a Markdown table, with the text above it, as a <details> element; empty without a table."""
    above = " ".join(line for line in text.splitlines() if line.strip() and not line.startswith("|"))
    made = markdown_table(text)
    said = f"<p>{escape(above)}</p>\n" if above else ""
    return f"<details><summary>The whole table</summary>\n{said}{made}</details>\n" if made else ""


def markdown_table(text: str) -> str:
    """Return the table in a Markdown text as HTML; empty without one."""
    lines = (line.strip() for line in text.splitlines())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    if len(rows) < 3:
        return ""
    head, _, *body = ([("", escape(cell)) for cell in row] for row in rows)
    return table(head, body)
