"""Tables and numbers of the pages, generated from data files: the directive `results` and the role `value`.

A table names a CSV file by its path in the repository and lists its columns, one a line, as `column | heading | format`::

    ```{results} figures/data/bench_fresh_cpu.csv
    :where: kind=all; method=auto chosen in every step
    temperature
    ratio | speed-up | .2f
    ```

Without columns the table has all of them. A number is one cell: {value}`FILE; column; where; format`. Every file has a line in
docs/data/provenance.csv, which becomes the caption.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).parents[1]
PROVENANCE = "docs/data/provenance.csv"
Row = dict[str, str]


def read(file: str, where: str = "", root: Path = ROOT) -> list[Row]:
    """Return the rows of a CSV file that fulfil all conditions `column=value` of `where`, which semicolons separate."""
    with (root / file).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    conditions = [condition.strip().partition("=") for condition in where.split(";") if condition.strip()]
    found = [row for row in rows if all(row[column] == value for column, _, value in conditions)]
    if not found:
        raise ValueError(f"{file} must have a row where {where or 'any'}")
    return found


def shown(row: Row, column: str, form: str = "") -> str:
    """Return one cell, as a number in the given format; an empty cell stays empty."""
    text = row[column]
    return format(float(text), form) if form and text else text


def table(file: str, columns: list[str], where: str = "", root: Path = ROOT) -> list[str]:
    """Return the lines of a Markdown table."""
    rows = read(file, where, root)
    parts = [[part.strip() for part in column.split("|")] for column in columns] or [[name] for name in rows[0]]
    specified = [(name, *rest, *("", "")[len(rest) :]) for name, *rest in parts]
    lines = [[heading or name for name, heading, _ in specified], ["---"] * len(specified)]
    lines += [[shown(row, name, form) for name, _, form in specified] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def caption(file: str, root: Path = ROOT) -> str:
    """Return the sentence that says where the numbers come from."""
    origin = read(PROVENANCE, f"file={file}", root)[0]
    said = {"threads": "{} threads" if origin["threads"] != "1" else "{} thread", "commit": "commit {}"}
    facts = [
        said.get(name, "{}").format(origin[name])
        for name in ("cpu", "threads", "versions", "date", "commit")
        if origin[name]
    ]
    command = f" Command: `{origin['command']}`." if origin["command"] else ""
    return f"*Data: {'; '.join([f'`{file}`', *facts])}.*{command}"


class Results(SphinxDirective):
    """A table from a data file, with its provenance."""

    required_arguments = 1
    has_content = True
    option_spec = {"where": directives.unchanged}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        file = self.arguments[0]
        self.env.note_dependency(str(ROOT / file))
        self.env.note_dependency(str(ROOT / PROVENANCE))
        try:
            lines = [*table(file, list(self.content), self.options.get("where", "")), "", caption(file)]
        except (OSError, KeyError, ValueError) as error:
            raise self.error(f"results: {type(error).__name__}: {error}") from error
        body = nodes.container(classes=["results"])
        self.state.nested_parse(StringList(lines), self.content_offset, body)
        return [body]


class Theorems(SphinxDirective):
    """The theorems that Coq checks, from the list that `make formal` compiles: `one token`, `paths` or `computed`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        from proofs_checks.formal.listed.along_paths import ALONG_PATHS
        from proofs_checks.formal.listed.computed import COMPUTED
        from proofs_checks.formal.listed.one_token import ONE_TOKEN

        theorems = {"one token": ONE_TOKEN, "paths": ALONG_PATHS, "computed": COMPUTED}[self.arguments[0]]
        rows = [[f"`{each.file}.v`", each.title, each.claim, each.source] for each in theorems]
        cells = [[cell.replace("|", r"\|").replace("*", r"\*") for cell in row] for row in rows]
        lines = ["| file | theorem | statement | source |", "|---|---|---|---|"]
        body = nodes.container(classes=["results"])
        self.state.nested_parse(StringList([*lines, *("| " + " | ".join(row) + " |" for row in cells)]), 0, body)
        return [body]


class Value(SphinxRole):
    """One number of a data file."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        file, column, *conditions, form = (part.strip() for part in self.text.split(";"))
        self.env.note_dependency(str(ROOT / file))
        try:
            (row,) = read(file, ";".join(conditions))
            return [nodes.Text(shown(row, column, form))], []
        except (OSError, KeyError, ValueError) as error:
            message = self.inliner.reporter.error(f"value: {type(error).__name__}: {error}", line=self.lineno)
            return [], [message]


def setup(app: Any) -> dict[str, Any]:
    """Register the directives and the role with Sphinx."""
    app.add_directive("results", Results)
    app.add_directive("theorems", Theorems)
    app.add_role("value", Value())
    return {"parallel_read_safe": True}
