"""Two i.i.d. draft tokens on real contexts: acceptance of each rule by kind of text, and its gain over one draft token."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures import style
from figures.about import About, Number
from ot_draft import rules
from ot_draft.data import Study, compare_rules, read_pairs
from ot_draft.data.summary import clustered_error

FILE = style.DATA / "smollm2_pairs.npz"
ONE = "one draft"
RULES = (rules.ImportanceWeighted(), rules.KSeq(), rules.RecursiveRejection())
SHOWN = (ONE, "RecursiveRejection", "KSeq", "ImportanceWeighted", "optimum")
LOOKS = {ONE: ("#5F5F5F", "x", "one draft")}
ABOUT = About(
    title="Two i.i.d. drafts by kind of text",
    claim="With two i.i.d. draft tokens the rules have the same order on every kind of text: recursive rejection (SpecInfer), "
    "K-SEQ (SpecTr), importance weighting, the optimum. The gaps between them are small compared with the gain of the "
    "second draft token.",
    source="Khisti et al. 2025, experiments with i.i.d. drafts (the layout of their Table 3)",
    comparison="Only the order is comparable: they measure block efficiency of larger models on other prompts; this is the acceptance "
    "of one token.",
)
CAPTION = """Real pairs (figures/data), k = 2. Mean over contexts; bars: standard error over sequences. The rules share the contexts, so
the gaps between them have much smaller errors than the bars (table real_kinds.md). Exact, by formula."""


def compute(full: bool = False, jobs: int = 1, limit: int | None = None, k: int = 2) -> list[dict[str, Any]]:
    """Return a row per temperature, kind and rule: acceptance, and the gain over one draft token, with errors."""
    pairs = read_pairs(FILE)
    pairs = pairs if limit is None else pairs.first(limit)
    accepted: dict[str, dict[int, float]] = {name: {} for name in SHOWN}
    for row in compare_rules(pairs, Study((1, k), RULES, lp_limit=0), jobs):
        if row.k == 1 and row.rule == "optimum":
            accepted[ONE][row.pair] = row.accepted
        if row.k == k and row.rule in accepted:
            accepted[row.rule][row.pair] = row.accepted
    values = {name: np.array([of[index] for index in pairs.index]) for name, of in accepted.items()}
    rows: list[dict[str, Any]] = []
    for group in dict.fromkeys(pairs.group):
        for kind in (*dict.fromkeys(pairs.labels["kind"]), "all"):
            contexts = [
                i for i, of in enumerate(pairs.labels["kind"]) if pairs.group[i] == group and kind in (of, "all")
            ]
            text = [pairs.text[i] for i in contexts]
            for name in SHOWN:
                line: dict[str, Any] = {"temperature": group, "kind": kind, "contexts": len(contexts), "rule": name}
                for column, acceptances in (
                    ("mean", values[name][contexts]),
                    ("more", (values[name] - values[ONE])[contexts]),
                ):
                    line |= {column: acceptances.mean(), f"{column}_error": clustered_error(acceptances.tolist(), text)}
                rows.append(line)
    return rows


def table(rows: style.Rows) -> str:
    """Return a Markdown table with a column per rule; in brackets the paired gain over one draft token."""
    lines = [["T", "kind", *(_name(name) for name in SHOWN)]]
    for kind_rows in style.split(rows, "temperature", "kind"):
        cells = [f"{float(row['mean']):.4f}" for row in kind_rows]
        gains = [f" ({float(row['more']):+.4f} ± {float(row['more_error']):.4f})" for row in kind_rows]
        lines.append(
            [
                kind_rows[0]["temperature"],
                kind_rows[0]["kind"],
                cells[0],
                *(map("".join, zip(cells[1:], gains[1:], strict=True))),
            ]
        )
    return style.markdown(lines)


def numbers(rows: style.Rows) -> list[Number]:
    """Return the numbers of all kinds together."""
    all_kinds = [row for row in rows if row["kind"] == "all"]
    return [
        Number(
            f"T = {row['temperature']}, k = 2, {_name(row['rule'])}", float(row["mean"]), error=float(row["mean_error"])
        )
        for row in all_kinds
    ]


def _name(rule: str) -> str:
    return LOOKS[rule][2] if rule in LOOKS else style.look(rule).label


def draw(rows: style.Rows) -> Any:
    """Draw a panel per temperature, a line per kind."""
    parts = style.split(rows, "temperature")
    figure, panels = style.canvas(len(parts), CAPTION, share_y=True)
    entries: list[list[style.Entry]] = []
    for axes, temperature_rows in zip(panels, parts, strict=True):
        kinds = list(dict.fromkeys(row["kind"] for row in temperature_rows))
        entries.append([])
        for place, rule_rows in enumerate(style.split(temperature_rows, "rule")):
            name = rule_rows[0]["rule"]
            colour, marker = (
                LOOKS[name][:2] if name in LOOKS else (style.look(name).colour, style.look(name).marker or "s")
            )
            x = [position + 0.09 * (place - 2) for position in range(len(kinds))]
            mean, error = ([float(row[column]) for row in rule_rows] for column in ("mean", "mean_error"))
            axes.errorbar(x, mean, error, color=colour, marker=marker, ls="", ms=5, elinewidth=0.7)
            entries[-1].append((x[-1], mean[-1], _name(name), colour))
        axes.set_xticks(
            range(len(kinds)), [f"{row['kind']}\n({row['contexts']})" for row in temperature_rows[:: len(SHOWN)]]
        )
        axes.set(
            title=f"temperature {temperature_rows[0]['temperature']}",
            ylabel="acceptance probability",
            xlabel="kind of text (contexts)",
        )
    style.label(panels, entries)
    return figure
