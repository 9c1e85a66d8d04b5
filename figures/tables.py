"""Tables of the figures for a paper: LaTeX (booktabs), CSV, Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence

from figures import style
from figures.about import Number
from figures.report_tables import difference_of, other_rules, others_of, ours_of, published_of

Cells = Sequence[Sequence[str]]
SPECIAL = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    "²": r"$^2$",
    "α": r"$\alpha$",
    "∅": r"$\emptyset$",
}
A_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ± [\d.]+(e[-+]?\d+)?)?( %)?")


def of_numbers(numbers: Sequence[Number]) -> list[list[str]]:
    """Return the numbers of a figure as a table with header; columns of published numbers only if there are some."""
    compared = any(number.published is not None for number in numbers)
    others = other_rules(numbers)
    lines = [["", "ours", *(["published", "difference"] if compared else []), *others]]
    for number in numbers:
        published = [published_of(number), difference_of(number)] if compared else []
        lines.append([number.what, ours_of(number), *published, *others_of(number, others)])
    return lines


def of_markdown(text: str) -> list[list[str]]:
    """Return the cells of a table in Markdown."""
    lines = (line.strip() for line in text.splitlines())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if not all(set(cell) <= set("-:") for cell in row)]


def as_latex(cells: Cells) -> str:
    """Return a booktabs table for \\input, with numbers aligned right. It requires \\usepackage{booktabs}."""
    head, *body = cells
    right = [all(A_NUMBER.fullmatch(row[i].strip("*")) or not row[i] for row in body) for i in range(len(head))]
    lines = [" & ".join(map(_latex, row)) + r" \\" for row in cells]
    columns = "".join("r" if numeric else "l" for numeric in right)
    ends = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([ends[0], r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", ends[1], ""])


def as_csv(cells: Cells) -> str:
    """Return cells as comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue()


def _latex(cell: str) -> str:
    bold = cell.startswith("**") and cell.endswith("**") and len(cell) > 4
    text = "".join(SPECIAL.get(letter, letter) for letter in (cell[2:-2] if bold else cell))
    return rf"\textbf{{{text}}}" if bold else text


WRITERS: dict[str, tuple[str, Callable[[Cells], str]]] = {
    "latex": (".tex", as_latex),
    "csv": (".csv", as_csv),
    "markdown": (".md", style.markdown),
}
