"""Temperature sweep on real contexts: acceptance of each rule with four draft tokens, and the optimum for one to eight."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures import style
from figures.about import About, Number
from ot_draft import Hybrid, rules
from ot_draft.data import Study, compare_rules, summarise
from ot_draft.data.pairs import Pairs, as_pairs
from ot_draft.data.tables import as_records

FILE = style.DATA / "smollm2_settings.npz"
K, CONTEXTS = 4, 80
RULES = (
    rules.KSeq(),
    rules.RecursiveRejection(),
    rules.RecursiveRejectionWithoutReplacement(),
    rules.Optimal(Hybrid("auto")),
)
SHADES = {1: "#A8A8A8", 2: "#808080", 4: "#505050", 8: "#000000"}
ABOUT = About(
    title="Temperature",
    claim="At low temperatures i.i.d. draft tokens repeat each other: K-SEQ and even the i.i.d. optimum gain little from more "
    "draft tokens, while distinct draft tokens keep their gain.",
    source="this project; temperatures as in Khisti et al. 2025 and Yang et al. 2024",
    comparison="Only the shape is comparable: papers report other models.",
)
CAPTION = """Real contexts, one per sequence (figures/data/smollm2_settings.npz), target and draft at the same temperature; mean and
standard error over contexts. Left: four draft tokens; recursive rejection without replacement is estimated, everything else
is exact. Right: the optimum for i.i.d. draft tokens (lines) and without replacement (dotted), with errors as on the left.
Above temperature 1 the tail classes have much probability (0.3 of p at 1.5): the i.i.d. numbers differ from those of the
full vocabulary by at most 0.002 in the mean; the others are for the merged pairs."""


def settings_pairs(kind: str, limit: int | None = None) -> Pairs:
    """Return the pairs of one kind of setting ('temperature', 'top-k', 'top-p'); `group` is its value."""
    with np.load(FILE, allow_pickle=False) as stored:
        rows = stored["setting"] == kind
        p, q = (stored[name][rows].astype(np.float64) for name in "pq")
        arrays = {"temperatures": stored["value"][rows], "kind": stored["kind"], "text": stored["text"]}
    arrays |= {"p": p / p.sum(-1, keepdims=True), "q": q / q.sum(-1, keepdims=True)}
    pairs = as_pairs(arrays, FILE.name)
    return pairs if limit is None else pairs.first(limit)


def compute(
    full: bool = False,
    jobs: int = 1,
    limit: int | None = None,
    ks: tuple[int, ...] = (1, 2, 4, 8),
    kind: str = "temperature",
) -> list[dict[str, Any]]:
    """Return the comparison for K draft tokens, and the optima for all k; `group` is the value of the setting."""
    pairs = settings_pairs(kind, limit or (None if full else CONTEXTS))
    rows = []
    for k in ks:
        compared = RULES if k == K else (rules.KSeq(), rules.RecursiveRejectionWithoutReplacement())
        results = compare_rules(pairs, Study((k,), compared, samples=64 if k == K else 1, lp_limit=0), jobs)
        rows += as_records(summarise([row for row in results if k == K or row.rule == "optimum"], pairs))
    return [{"setting": kind, **row} for row in rows]


def lines_of(rows: style.Rows, k: int) -> dict[str, style.Rows]:
    """Return rows of k draft tokens by the key of their look, without the linear program's and duplicates."""
    lines: dict[str, style.Rows] = {}
    for row in rows:
        if int(row["k"]) == k and row["accepted"] and row["rule"] not in ("Optimal", "optimum by LP"):
            key = row["rule"] if row["law"] == "iid" or row["rule"] != "optimum" else f"optimum {row['law']}"
            lines.setdefault(key, []).append(row)
    return lines


def numbers(rows: style.Rows) -> list[Number]:
    """Return the numbers of the lowest temperature, 1 and the highest, for K draft tokens."""
    lines = []
    groups = list(dict.fromkeys(row["group"] for row in rows))
    for group in dict.fromkeys((groups[0], "1.0", groups[-1])):
        for key, line in lines_of(rows, K).items():
            for row in (row for row in line if row["group"] == group):
                what = f"T = {group}, k = {K}, {style.look(key).label}"
                lines.append(Number(what, float(row["accepted"]), error=float(row["error"])))
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw rules on the left, numbers of draft tokens on the right."""
    figure, panels = style.canvas(2, CAPTION)
    entries: list[list[style.Entry]] = [[], []]
    for index, (key, line_rows) in enumerate(lines_of(rows, K).items()):
        look = style.look(key)
        x, mean, error = ([float(row[name]) for row in line_rows] for name in ("group", "accepted", "error"))
        x = [value + 0.008 * (index - 3) for value in x]  # so that error bars do not hide each other
        options = {"color": look.colour, "ls": look.line, "marker": look.marker or None, "ms": 4, "elinewidth": 0.7}
        panels[0].errorbar(x, mean, error, **options)
        entries[0].append((x[-1], mean[-1], look.label, look.colour))
    for k in sorted({int(row["k"]) for row in rows}):
        for key, line in (("optimum", "-"), ("optimum without-replacement", ":")):
            points = [(float(row["group"]), float(row["accepted"])) for row in lines_of(rows, k)[key]]
            if k > 1 or line == "-":
                panels[1].plot(*zip(*points, strict=True), color=SHADES[k], ls=line, marker="o", ms=3)
                name = f"k = {k}{', without replacement' * (line == ':')}"
                entries[1].append((*points[-1], name, SHADES[k]))
    panels[0].set(title=f"k = {K}, {rows[0]['pairs']} contexts", ylabel="acceptance probability")
    panels[1].set(title="optimum for k draft tokens", ylabel="acceptance probability")
    for axes in panels:
        axes.set(xlabel="temperature of target and draft", xlim=(0.15, 1.55))
    style.label(panels, entries)
    return figure
