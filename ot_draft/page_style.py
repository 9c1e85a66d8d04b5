"""The look of HTML pages that are written as one file, in light and dark mode and on narrow screens."""

from collections.abc import Iterable, Sequence
from html import escape

# The verdict is also written as a word: colour alone does not carry it.
STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --line: #ccc; --code: #f4f4f4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #181818; --line: #444; --code: #242424; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap; }
.verdict { color: #fff; border-radius: 4px; padding: .1rem .5rem; }
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return an HTML table. Cells are HTML; the first `texts` columns hold text, the others numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        numbers = "".join(f'<{tag} class="number">{cell}</{tag}>' for cell in cells[texts:])
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells[:texts]) + f"{numbers}</tr>\n"

    head = f"<thead>{line(heads, 'th')}</thead>\n" if heads else ""
    body = "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table>\n{head}<tbody>\n{body}</tbody></table></div>\n'


def page(title: str, body: str, style: str = "") -> str:
    """Return a complete page without links: the title as heading, then the body in HTML. `style` is added to the common style."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}</body>\n</html>\n"
    )
