"""Hybrid drafting on the real pairs: acceptance against the number j of fixed tokens, and how j is chosen."""

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
from ot_draft.laws.hybrid import StandIn

FILE = style.DATA / "smollm2_pairs.npz"
FIXED, RULE, AUTO, BEST, WITHOUT_REPLACEMENT = "fixed j", "rule at j", "auto", "best j each", "without replacement"
# Other values of the three constants of the estimate of Hybrid('auto').
CONSTANTS = (("power", 0.25), ("power", 0.35), ("seen", 0.4), ("seen", 0.6), ("head", 128), ("head", 400))
LEVELS = {
    WITHOUT_REPLACEMENT: ("#000000", ":", "optimum, without replacement"),
    BEST: ("#009E73", "--", "best j in each context (uses p)"),
    AUTO: ("#332288", "-.", "j chosen from q"),
}
ABOUT = About(
    title="Hybrid drafting: how many top tokens to fix",
    claim="Fixing the draft model's j most probable tokens and sampling the other k - j outside them keeps an exact optimal rule "
    "of near-linear time. With a fixed j near k/2 it is close to the optimum of sampling without replacement.",
    source="this project; j = 0 is SpecTr's i.i.d. drafting, j = k - 1 the greedy drafting of Hu et al. 2025",
    comparison="No published number is for these models.",
)
CAPTION = """Real pairs (figures/data), 160 sequences. The first j draft tokens are the draft model's most probable tokens T, the other k
- j are i.i.d. samples outside T. Line: mean optimum under that draft law, with the standard error over sequences. All points
share the contexts, so gaps have smaller errors than the bars (table hybrid.md). Rings: the rule Optimal, p(T) + sum of
min(p, m) outside T, with the distribution m of the token that it actually selects. j chosen from q: Hybrid('auto'); its three
constants were chosen on the same contexts with an earlier draft model (hybrid.md has others). The best j of each line is
chosen on these pairs. The best j in each context depends on p, which a draft model does not know."""


def compute(
    full: bool = False, jobs: int = 1, limit: int | None = None, ks: tuple[int, ...] = (2, 4, 8)
) -> list[dict[str, Any]]:
    """Return a row per temperature, k and drafting method: mean, and difference from the best fixed j, with errors."""
    pairs = read_pairs(FILE)
    pairs = pairs if limit is None else pairs.first(limit)
    rows: list[dict[str, Any]] = []
    for k in ks:
        ways = ways_to_draft(pairs, k, jobs)
        for group in dict.fromkeys(pairs.group):
            contexts = [row for row, value in enumerate(pairs.group) if value == group]
            text = [pairs.text[row] for row in contexts]
            fixed = max((ways[FIXED, j][contexts] for j in range(k + 1)), key=np.mean)
            for (way, j), values in ways.items():
                row = {"temperature": group, "k": k, "way": way, "j": j}
                for name, acceptances in (("mean", values[contexts]), ("more", values[contexts] - fixed)):
                    row |= {name: float(acceptances.mean()), f"{name}_error": clustered_error(acceptances, text)}
                rows.append(row)
    return rows


def ways_to_draft(pairs: Pairs, k: int, jobs: int) -> dict[tuple[str, int | str], Any]:
    """Return the acceptance (pairs,) of every drafting method; the rule's from the distribution of its selected token."""
    of_law = Parallel(jobs)(delayed(_fixed)(pairs, k, otd.Hybrid(j)) for j in range(k + 1))
    optimum, attained = (np.stack(columns, -1) for columns in zip(*of_law, strict=True))
    ways: dict[tuple[str, int | str], Any] = {(FIXED, j): optimum[:, j] for j in range(k + 1)}
    ways |= {(RULE, j): attained[:, j] for j in range(k + 1)}
    optimal = delayed(otd.optimal_acceptance)
    without_replacement = Parallel(jobs)(
        optimal(p, q, k, otd.WithoutReplacement()) for p, q in zip(pairs.p, pairs.q, strict=True)
    )
    ways |= {(WITHOUT_REPLACEMENT, ""): np.array(without_replacement), (BEST, ""): optimum.max(-1)}
    choices: dict[str, Any] = {AUTO: {}, **{f"{AUTO}, {name} = {x}": {name: x} for name, x in CONSTANTS}}
    for name, constants in choices.items():
        j = (otd.Hybrid("auto", StandIn(**constants)).fixed_drafts(pairs.q, k) >= 0).sum(-1)
        ways[name, ""] = np.take_along_axis(optimum, j[:, None], -1)[:, 0]
    return ways


def _fixed(pairs: Pairs, k: int, law: otd.Hybrid) -> tuple[Any, Any]:
    """Return the optimum of a draft law, and the rule's acceptance from the distribution of its selected token: (pairs,) each."""
    problem = otd.Problem(pairs.p, pairs.q, k, law)
    return otd.optimal_acceptance(pairs.p, pairs.q, k, law), otd.rules.Optimal(law).attained(problem)


def numbers(rows: style.Rows) -> list[Number]:
    """Return the largest k: i.i.d., the best fixed j, and the other methods."""
    lines = []
    for temperature_rows in style.split([row for row in rows if row["k"] == rows[-1]["k"]], "temperature"):
        fixed = [row for row in temperature_rows if row["way"] == FIXED]
        best = max(fixed, key=lambda row: float(row["mean"]))
        for row in (
            fixed[0],
            best,
            *(row for row in temperature_rows if row["way"] in (AUTO, BEST, WITHOUT_REPLACEMENT)),
        ):
            name = f"j = {row['j']}{', the best' * (row is best)}" if row["way"] == FIXED else row["way"]
            what = f"T = {row['temperature']}, k = {row['k']}: {name}"
            lines.append(Number(what, float(row["mean"]), error=float(row["mean_error"])))
    return lines


def table(rows: style.Rows) -> str:
    """Return a Markdown table with a column per temperature and k."""
    ways = list(dict.fromkeys(row["way"] for row in rows if not row["j"]))
    columns = [["", "best fixed j", "its mean", "rule - optimum, at most", *ways]]
    for setting_rows in style.split(rows, "temperature", "k"):
        by_way = {(row["way"], row["j"]): row for row in setting_rows}
        means = {row["j"]: float(row["mean"]) for row in setting_rows if row["way"] == FIXED}
        best = max(means, key=means.__getitem__)
        column = [f"T = {setting_rows[0]['temperature']}, k = {setting_rows[0]['k']}", best]
        column.append(f"{means[best]:.4f} ± {float(by_way[FIXED, best]['mean_error']):.4f}")
        column.append(f"{max(abs(float(by_way[RULE, j]['mean']) - mean) for j, mean in means.items()):.0e}")
        for row in (by_way[way, ""] for way in ways):
            mean, more, error = (float(row[name]) for name in ("mean", "more", "more_error"))
            column.append(f"{mean:.4f} ({more:+.4f} ± {error:.4f})")
        columns.append(column)
    note = "Mean acceptance; in brackets: paired difference from the best fixed j, ± standard error over sequences.\n\n"
    return note + style.markdown(list(zip(*columns, strict=True)))


def draw(rows: style.Rows) -> Any:
    """Draw a row of panels per temperature, a panel per k."""
    settings = sorted(
        style.split(rows, "temperature", "k"), key=lambda setting_rows: -float(setting_rows[0]["temperature"])
    )
    groups = len({row["temperature"] for row in rows})
    figure, panels = style.canvas(len(settings) // groups, CAPTION, rows=groups)
    entries: list[list[style.Entry]] = []
    for axes, setting_rows in zip(panels, settings, strict=True):
        fixed, rule = ([row for row in setting_rows if row["way"] == way] for way in (FIXED, RULE))
        j, mean, error = ([float(row[name]) for row in fixed] for name in ("j", "mean", "mean_error"))
        axes.errorbar(j, mean, error, color="#000000", lw=1.4, elinewidth=0.5, marker="o", ms=3)
        axes.plot(j, [float(row["mean"]) for row in rule], "o", ms=8, mfc="none", mec="#D55E00", mew=1)
        entries.append([(j[-1], mean[-1], f"one j: {max(mean):.3f} at j = {mean.index(max(mean))}", "#000000")])
        for row in (row for row in setting_rows if row["way"] in LEVELS):
            colour, line, name = LEVELS[row["way"]]
            axes.axhline(float(row["mean"]), color=colour, ls=line, lw=1.3)
            entries[-1].append((j[-1], float(row["mean"]), f"{name}: {float(row['mean']):.3f}", colour))
        axes.set_title(f"temperature {setting_rows[0]['temperature']}, k = {setting_rows[0]['k']}")
        axes.set(xticks=j, xlabel="number j of fixed tokens", ylabel="mean acceptance probability")
    style.label(panels, entries)
    return figure
