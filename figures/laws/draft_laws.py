"""Draft laws at equal k: the optimum of each, compared with i.i.d. drafting."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed

import ot_draft as otd
from figures import style
from figures.about import About, Number
from ot_draft.data import read_pairs
from ot_draft.data.pairs import Pairs
from ot_draft.data.summary import clustered_error

FILE = style.DATA / "smollm2_pairs.npz"
CONTEXTS = 160
INDEPENDENT, AUTO, WITHOUT_REPLACEMENT, HUB = "i.i.d.", "hybrid, j from q", "without replacement", "hub"
GROUPS = {"1.0": ("#D55E00", "o"), "0.6": ("#0072B2", "s")}
ABOUT = About(
    title="Draft laws at equal k",
    claim="The draft law matters more than the selection rule: the optimum increases from i.i.d. draft tokens to those without "
    "replacement. Fixing some of the most probable tokens, j of k, gains most of that.",
    source="Hu et al. 2025 (greedy drafting), Sun et al. 2024 (SpecHub), Yang et al. 2024 (without replacement); hybrid: this project",
    comparison="Their models and prompts differ from ours: only the order of the draft laws is comparable.",
)
CAPTION = """Optimum under each draft law (the dual, certified) minus the optimum for i.i.d. draft tokens, on the same contexts: mean and
standard error over sequences of the paired difference; real pairs (figures/data). Hybrid with j: the draft model's j most
probable tokens and k - j samples outside them; j = k - 1 is greedy drafting. SpecHub's draft law exists for k = 2 only, and
its optimum is that of greedy drafting. Without replacement, a tail class of the data is drafted at most once."""


def laws(k: int) -> dict[str, otd.DraftLaw]:
    """Return name -> draft law, for k draft tokens."""
    hybrid = {f"hybrid, j = {j}{', greedy' * (j == k - 1)}": otd.Hybrid(j) for j in range(1, k + 1)}
    named: dict[str, otd.DraftLaw] = {INDEPENDENT: otd.IID(), **hybrid, AUTO: otd.Hybrid("auto")}
    return named | ({HUB: otd.SpecHubLaw()} if k == 2 else {}) | {WITHOUT_REPLACEMENT: otd.WithoutReplacement()}


def compute(
    full: bool = False, jobs: int = 1, limit: int | None = None, ks: tuple[int, ...] = (2, 4, 8)
) -> list[dict[str, Any]]:
    """Return a row per temperature, k and draft law: mean optimum, and the gain over i.i.d. draft tokens."""
    pairs = read_pairs(FILE)
    pairs = pairs if full else pairs.first(limit or CONTEXTS)
    rows: list[dict[str, Any]] = []
    for k in ks:
        optima = {name: _optima(pairs, k, law, jobs) for name, law in laws(k).items()}
        for group in dict.fromkeys(pairs.group):
            contexts = [row for row, value in enumerate(pairs.group) if value == group]
            text = [pairs.text[row] for row in contexts]
            for name, values in optima.items():
                more = values[contexts] - optima[INDEPENDENT][contexts]
                row = {"temperature": group, "contexts": len(contexts), "k": k, "law": name}
                row |= {"mean": values[contexts].mean(), "error": clustered_error(values[contexts], text)}
                rows.append(row | {"more": more.mean(), "more_error": clustered_error(more, text)})
    return rows


def _optima(pairs: Pairs, k: int, law: otd.DraftLaw, jobs: int) -> Any:
    if law != otd.WithoutReplacement():
        return np.asarray(otd.optimal_acceptance(pairs.p, pairs.q, k, law))
    optimum = delayed(otd.optimal_acceptance)
    return np.array(Parallel(jobs)(optimum(p, q, k, law) for p, q in zip(pairs.p, pairs.q, strict=True)))


def numbers(rows: style.Rows) -> list[Number]:
    """Return i.i.d., the best fixed j, j from q, and without replacement, at temperature 1."""
    lines = []
    for k_rows in style.split([row for row in rows if row["temperature"] == "1.0"], "k"):
        fixed = [row for row in k_rows if "j =" in row["law"]]
        best = max(fixed, key=lambda row: float(row["mean"]))
        for row in (k_rows[0], best, *(row for row in k_rows if row["law"] in (AUTO, WITHOUT_REPLACEMENT))):
            what = f"optimum, T = 1, k = {row['k']}, {row['law']}{' (the best j)' * (row is best)}"
            lines.append(Number(what, float(row["mean"]), error=float(row["error"])))
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw a panel per k, a line per draft law, a marker per temperature."""
    parts = style.split(rows, "k")
    figure, panels = style.canvas(len(parts), CAPTION, share_y=False, wide=0.8)
    ends = [float(row["more"]) + sign * float(row["more_error"]) for row in rows for sign in (-1, 1)]
    limits = (min(ends) - 0.01, max(ends) + 0.01)  # equal limits, so that panels can be compared
    for axes, k_rows in zip(panels, parts, strict=True):
        names = list(dict.fromkeys(row["law"] for row in k_rows))[::-1]
        places = {name: place for place, name in enumerate(names)}
        for temperature_rows in style.split(k_rows, "temperature"):
            group = temperature_rows[0]["temperature"]
            colour, marker = GROUPS[group]
            y = [places[row["law"]] + (0.12 if group == "1.0" else -0.12) for row in temperature_rows]
            more, error = ([float(row[name]) for row in temperature_rows] for name in ("more", "more_error"))
            axes.errorbar(more, y, xerr=error, color=colour, marker=marker, ls="", ms=4.5, elinewidth=0.8)
            zero = f"T = {group}: i.i.d. {float(temperature_rows[0]['mean']):.3f}"
            axes.annotate(
                zero, (0.03, 0.08 if group == "1.0" else 0.025), xycoords="axes fraction", color=colour, fontsize=8
            )
        axes.axvline(0, color="#000000", lw=0.8)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(-0.6 - len(names) / 7, len(names) - 0.4)
        axes.grid(True, axis="both", alpha=0.3)
        axes.set(
            title=f"k = {k_rows[0]['k']}, {k_rows[0]['contexts']} contexts",
            xlabel="optimum minus that of i.i.d. draft tokens",
            ylabel="draft law",
            xlim=limits,
        )
    return figure
