"""Top-k and top-p truncation of target and draft alike, on real contexts at temperature 1."""

from __future__ import annotations

from typing import Any

from figures import style
from figures.about import About, Number
from figures.acceptance.temperature import K, lines_of
from figures.acceptance.temperature import compute as sweep

KINDS = {"top-k": "top-k", "top-p": "top-p"}
NONE = "none"
ABOUT = About(
    title="Truncation: top-k and top-p",
    claim="Truncating both models to their most probable tokens reduces the acceptance, because the two sets differ: the target "
    "may exclude what the draft model proposes. K-SEQ, recursive rejection and the i.i.d. optimum keep their order.",
    source="this project; both models are truncated in the same way, as in decoding",
    comparison="No paper that is reproduced here reports this.",
)
CAPTION = """Real contexts, one per sequence (figures/data/smollm2_settings.npz), temperature 1, four draft tokens. Target and draft are
truncated in the same way, each to its own most probable tokens, and normalised. 'none': no truncation. Mean and standard
error over contexts, which all points share. Recursive rejection without replacement is estimated, everything else is exact."""


def compute(full: bool = False, jobs: int = 1, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the summary for each truncation, and as `none` for temperature 1."""
    rows = [row for kind in KINDS for row in sweep(full, jobs, limit, (K,), kind)]
    plain = [row for row in sweep(full, jobs, limit, (K,)) if row["group"] == "1.0"]
    return rows + [{**row, "setting": kind, "group": NONE} for kind in KINDS for row in plain]


def numbers(rows: style.Rows) -> list[Number]:
    """Return the optimum of i.i.d. draft tokens and K-SEQ, for every truncation."""
    lines = []
    for kind in KINDS:
        lines_of_kind = lines_of([row for row in rows if row["setting"] == kind], K)
        for key in ("optimum", "KSeq"):
            for row in lines_of_kind[key]:
                name = f"{kind} = {float(row['group']):g}" if row["group"] != NONE else "no truncation"
                if row["group"] != NONE or kind == "top-k":
                    lines.append(
                        Number(f"{name}, {style.look(key).label}", float(row["accepted"]), error=float(row["error"]))
                    )
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw a panel per kind of truncation."""
    figure, panels = style.canvas(2, CAPTION)
    entries: list[list[style.Entry]] = []
    for axes, (kind, name) in zip(panels, KINDS.items(), strict=True):
        entries.append([])
        for place, (key, line_rows) in enumerate(lines_of([row for row in rows if row["setting"] == kind], K).items()):
            look = style.look(key)
            mean, error = ([float(row[column]) for row in line_rows] for column in ("accepted", "error"))
            x = [number + 0.04 * (place - 3) for number in range(len(line_rows))]
            options = {"color": look.colour, "ls": look.line, "marker": look.marker or None, "ms": 4}
            axes.errorbar(x, mean, error, elinewidth=0.7, **options)
            entries[-1].append((x[-1], mean[-1], look.label, look.colour))
        names = [f"{float(row['group']):g}" if row["group"] != NONE else NONE for row in line_rows]
        axes.set_xticks(range(len(names)), names)
        axes.set(
            title=f"{kind}, k = {K} drafts, {line_rows[0]['pairs']} contexts",
            xlabel=name,
            ylabel="acceptance probability",
        )
    style.label(panels, entries)
    return figure
