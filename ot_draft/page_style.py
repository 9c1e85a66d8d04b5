"""How every page looks that is written as one file: light and dark, and narrow screens."""

from __future__ import annotations

# Okabe and Ito's colours, told apart by everyone; the verdict stands there as a word too.
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
