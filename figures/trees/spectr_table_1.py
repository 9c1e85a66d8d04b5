"""SpecTr's Table 1 and the path rules on simulated models: one number is fitted, all others are predictions.

Sun et al., SpecTr: fast speculative decoding via optimal transport, NeurIPS 2023, Table 1 (LM1B; PaLM-2 Gecko drafts for Bison).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number, with_error
from figures.trees.path_rules import JOINT, KSEQ, accepted_lengths, look, mean_and_error
from ot_draft.trees.evaluation.simulate import simulate
from ot_draft.trees.model import SimulatedModel

PUBLISHED = {(1, 4): (2.4, 1.67), (8, 4): (3.1, 2.08), (1, 8): (2.9, 1.56), (8, 8): (4.0, 2.13)}  # efficiency, speed-up
TABLE = "SpecTr, Table 1"
STORED = style.DATA / "spectr_simulated.csv"  # with more iterations, for docs/published.md
ABOUT = About(
    title="SpecTr's Table 1 on simulated models",
    claim="Eight draft paths instead of one raise the block efficiency from 2.4 to 3.1 (L = 4) and from 2.9 to 4.0 (L = 8), and "
    "the speed-up from 1.67 to 2.08 and from 1.56 to 2.13.",
    source="Sun et al., SpecTr, NeurIPS 2023, Table 1",
)
NOTE = "simulated models with one fitted number, not the published ones"
CAPTION = """Black diamonds: SpecTr's published block efficiency (left) and relative wall-clock speed-up (right), with K-SEQ. Ours:
simulated models (n = {n}, {iterations} iterations, one standard error) whose mean of sum min(p, q), {acceptance}, was fitted
to one published number, {fitted} at K = 1, L = 4; everything else is predicted. Real sequences have stretches that are easy
or hard to draft. Simulated contexts are independent of each other, which may be why the published numbers are higher at L =
8. Right: our block efficiency at the costs of one iteration that the published pairs imply, {costs} autoregressive steps in
this order, as if every rule had the same cost."""


def compute(full: bool = False, jobs: int = 1, n: int = 2000, iterations: int | None = None) -> list[dict[str, Any]]:
    """Return a row per rule and (K, L): block efficiency, its error, and the speed-up at the published rule's cost."""
    iterations = iterations or (4000 if full else 200)
    model = fitted(n, PUBLISHED[1, 4][0], iterations)
    lengths = accepted_lengths(model, list(PUBLISHED), iterations, jobs)
    common = {"n": n, "iterations": iterations, "acceptance": round(model.acceptance()[0], 3)}
    rows: list[dict[str, Any]] = []
    for (K, L), (published, speed_up) in PUBLISHED.items():
        rows.append(
            {"rule": TABLE, "K": K, "L": L, "block_efficiency": published, "error": 0, "speed_up": speed_up} | common
        )
        for rule in (rule for rule, *size in lengths if size == [K, L]):
            row: dict[str, Any] = {"rule": rule, "K": K, "L": L} | mean_and_error(lengths[rule, K, L])
            rows.append(row | {"speed_up": row["block_efficiency"] * speed_up / published} | common)
    return rows


def fitted(n: int, published: float, iterations: int) -> SimulatedModel:
    """Return the model with this block efficiency of one path at L = 4: acceptance by bisection, on the same random numbers."""
    rule, low, high = otd.trees.TokenWise(otd.rules.SpeculativeSampling()), 0.4, 0.8
    for _ in range(7):
        model = SimulatedModel(n=n).with_acceptance((low + high) / 2)
        efficiency = simulate(rule, model, (1, 4), 2 * iterations, seed=7).block_efficiency
        low, high = ((low + high) / 2, high) if efficiency < published else (low, (low + high) / 2)
    return model


def numbers(rows: style.Rows) -> list[Number]:
    """Return K-SEQ's numbers with the published ones, and joint selection in a separate column."""
    by_rule = {(row["rule"], int(row["K"]), int(row["L"])): row for row in rows}
    longer = {(int(row["K"]), int(row["L"])): row for row in style.read(STORED) if row["rule"] == KSEQ}
    lines = []
    for (K, L), (published, _) in PUBLISHED.items():
        ours, joint, stored = by_rule[KSEQ, K, L], by_rule[JOINT, K, L], longer[K, L]
        value, error = _efficiency(ours)
        what = f"SpecTr, Table 1, simulated: block efficiency, K-SEQ, K = {K}, L = {L}"
        more = f"{NOTE}; in {int(stored['iterations']):,} iterations {with_error(*_efficiency(stored))}"
        other = ((look(JOINT).label, *_efficiency(joint)),)
        lines.append(Number(what, value, published, "~", more, error, other, headline=(K, L) != (1, 4)))
    return lines


def _efficiency(row: dict[str, str]) -> tuple[float, float]:
    return float(row["block_efficiency"]), float(row["error"])


def look_with_published(rule: str) -> style.Look:
    """Return the style of a path rule, or of the published numbers."""
    return style.Look("#000000", "d", "", TABLE) if rule == TABLE else look(rule)


def draw(rows: style.Rows) -> Any:
    """Draw block efficiency and relative wall-clock time, a group per (K, L)."""
    ratios = [f"{published / speed_up:.2f}" for published, speed_up in PUBLISHED.values()]
    caption = CAPTION.format(fitted=PUBLISHED[1, 4][0], costs=", ".join(ratios), **rows[0])
    figure, panels = style.canvas(2, caption, share_y=False)
    entries: list[list[style.Entry]] = [[], []]
    for number, rule_rows in enumerate(style.split(rows, "rule")):
        rule_look = look_with_published(rule_rows[0]["rule"])
        place = np.arange(len(rule_rows)) + 0.11 * (number - 2.5)
        efficiency, error, speed_up = (
            [float(row[name]) for row in rule_rows] for name in ("block_efficiency", "error", "speed_up")
        )
        scale = np.array(speed_up) / efficiency
        for axes, y, bars, names in zip(panels, (efficiency, speed_up), (error, error * scale), entries, strict=True):
            axes.errorbar(
                place,
                y,
                bars,
                color=rule_look.colour,
                marker=rule_look.marker,
                ls="",
                ms=7 if number == 0 else 5,
                elinewidth=0.8,
            )
            names.append((place[-1], y[-1], rule_look.label, rule_look.colour))
    for axes, title, unit in zip(
        panels,
        ("block efficiency", "speed-up"),
        ("tokens per target call", "speed-up over autoregressive decoding"),
        strict=True,
    ):
        axes.set_xticks(range(len(PUBLISHED)), [f"K = {K}\nL = {L}" for K, L in PUBLISHED])
        axes.set(title=title, xlabel="paths and their length", ylabel=unit)
    style.label(panels, entries)
    return figure


def table(rows: style.Rows) -> str:
    """Return the table of the numbers, with K-SEQ divided by the published ones."""
    sizes = style.split(rows, "K", "L")
    lines = [["block efficiency (speed-up)", *(f"K = {size[0]['K']}, L = {size[0]['L']}" for size in sizes)]]
    by_rule = {(row["rule"], row["K"], row["L"]): row for row in rows}
    for rule in dict.fromkeys(row["rule"] for row in rows):
        rule_rows = [by_rule[rule, size[0]["K"], size[0]["L"]] for size in sizes]
        cells = [
            f"{float(row['block_efficiency']):.2f} ± {float(row['error']):.2f} ({float(row['speed_up']):.2f})"
            for row in rule_rows
        ]
        lines.append([look_with_published(rule).label, *(cell.replace(" ± 0.00", "") for cell in cells)])
    more = [
        float(by_rule[KSEQ, size[0]["K"], size[0]["L"]]["block_efficiency"])
        / float(by_rule[TABLE, size[0]["K"], size[0]["L"]]["block_efficiency"])
        - 1
        for size in sizes
    ]
    lines.append([f"{look(KSEQ).label}, over the published", *(f"{x:+.1%}" for x in more)])
    return style.markdown(lines)
