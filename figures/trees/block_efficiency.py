"""Block efficiency of the path rules on simulated models: against K, against L, and at equal numbers of drafted nodes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from figures import style
from figures.about import About, Number
from figures.trees.budget import WAYS, simulate_budget
from figures.trees.path_rules import JOINT, KSEQ, LOOKS, accepted_lengths, look, mean_and_error
from ot_draft.trees.model import SimulatedModel

KS, LS, BUDGETS, DEPTH = (1, 2, 4, 8), (2, 4, 8), (8, 16, 32, 64), 8
ABOUT = About(
    title="Block efficiency of path rules, paths against trees",
    claim="On the same i.i.d. paths joint selection accepts more than token-wise selection and Traversal, and the gain grows with "
    "the length. At equal numbers of drafted nodes it is above or level with the published trees; the closest is Sequoia's "
    "with Traversal.",
    source="this project; SpecTr, Sequoia, EAGLE-2, DySpec, SpecDec++ and traversal verification for the compared methods",
)
CAPTION = """Simulated models (n = {n}, mean of sum min(p, q) = {acceptance}), {iterations} iterations, bars of one standard error. The
rules of a panel share the draft tokens, so gaps have smaller errors than the bars (paired errors in block_efficiency.md).
Left and middle: K i.i.d. paths of length L. For K = 1 all token-wise rules are equal, and Joint and Traversal are block
verification. Right: equal numbers of drafted nodes in one target call, without the cost of drafting. Paths have the best (K,
L) with K L nodes; trees are at most 8 deep, without replacement and with recursive rejection unless stated: k-ary by level
and Sequoia's (from measured acceptance), EAGLE-2's and DySpec's (by the confidence of the draft model); SpecDec++ at its
mean length."""


def compute(
    full: bool = False, jobs: int = 1, n: int | None = None, iterations: int | None = None, budgets: Any = None
) -> list[dict[str, Any]]:
    """Return a row per rule and (K, L), and per drafting method of trees and number of nodes."""
    model = SimulatedModel(n=n or (32_000 if full else 2000))
    iterations, budgets = iterations or (4000 if full else 120), budgets or (BUDGETS if full else BUDGETS[:3])
    lengths = accepted_lengths(model, list(product(KS, LS)), iterations, jobs)
    rows = [_row(rule, K, L, K * L, x, lengths[KSEQ, K, L]) for (rule, K, L), x in lengths.items()]
    ways = [*product(WAYS[:-1], budgets), *((WAYS[-1], budget) for budget in budgets if budget < 32)]
    draft = delayed(simulate_budget)
    trees = Parallel(jobs)(draft(way, model, budget, DEPTH, iterations) for way, budget in ways)
    rows += [_row(found.way, "", "", found.nodes, found.lengths) for found in trees]
    common = {"n": model.n, "iterations": iterations, "acceptance": round(model.acceptance()[0], 3)}
    return [row | common for row in rows]


def _row(rule: str, K: Any, L: Any, nodes: float, lengths: Any, base: Any = None) -> dict[str, Any]:
    row: dict[str, Any] = {"rule": rule, "K": K, "L": L, "nodes": nodes} | mean_and_error(lengths)
    row |= {"over_kseq": "", "over_kseq_error": ""}
    if base is not None:  # ratio of means over the same drafts
        ratio = row["block_efficiency"] / (1 + base.mean())
        spread = np.std(lengths - ratio * base, ddof=1) / np.sqrt(len(base)) / (1 + base.mean())
        row |= {"over_kseq": ratio - 1, "over_kseq_error": spread}
    return row


def numbers(rows: style.Rows) -> list[Number]:
    """Return joint selection divided by K-SEQ on the longest paths, and the methods at the largest number of nodes."""
    L, nodes = (max({row[name] for row in rows if row["K"]}, key=int) for name in ("L", "nodes"))
    gains = [row for row in rows if row["rule"] == JOINT and row["L"] == L]
    lines = []
    for row in gains:
        error = float(row["over_kseq_error"])
        lines.append(Number(f"joint over K-SEQ, K = {row['K']}, L = {L}", float(row["over_kseq"]), error=error))
    for row in (row for row in rows if row["nodes"] == nodes and row["rule"] in (KSEQ, *LOOKS)):
        what = f"block efficiency with {nodes} nodes: {look(row['rule']).label}"
        lines.append(Number(what, float(row["block_efficiency"]), error=float(row["error"])))
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw block efficiency against K at the largest L, against L at the largest K, and against nodes."""
    figure, panels = style.canvas(3, CAPTION.format(**rows[0]))
    chains, trees = ([row for row in rows if bool(row["K"]) == chain] for chain in (True, False))
    K, L = (max({row[name] for row in chains}, key=int) for name in ("K", "L"))
    at_l, at_k = ([row for row in chains if row[name] == value] for name, value in (("L", L), ("K", K)))
    entries = [_lines(panels[0], at_l, "K"), _lines(panels[1], at_k, "L")]
    budgets = sorted({row["nodes"] for row in trees if row["rule"] == "EAGLE-2"}, key=float)
    for budget in budgets[::-1]:
        for sizes in style.split([row for row in chains if row["nodes"] == budget], "rule"):
            trees.insert(0, max(sizes, key=lambda row: float(row["block_efficiency"])))
    compared = (KSEQ, "TokenWise(Optimal)", *LOOKS)
    entries.append(_lines(panels[2], [row for row in trees if row["rule"] in compared], "nodes"))
    panels[0].set(title=f"paths of length {L}", xlabel="paths K", ylabel="tokens per target call")
    panels[1].set(title=f"{K} paths", xlabel="length L")
    panels[2].set(title="equal numbers of drafted nodes", xlabel="drafted nodes")
    for axes, ticks in zip(panels, ([*map(str, KS)], [*map(str, LS)], budgets), strict=True):
        axes.set_xscale("log", base=2)
        axes.set_xticks([float(x) for x in ticks], ticks)
        axes.minorticks_off()
    style.label(panels, entries)
    return figure


def _lines(axes: Any, rows: style.Rows, column: str) -> list[style.Entry]:
    entries = []
    for number, rule_rows in enumerate(style.split(rows, "rule")):
        rule_look, points = look(rule_rows[0]["rule"]), sorted(rule_rows, key=lambda row: float(row[column]))
        x = [float(row[column]) * 1.02 ** (number - 3) for row in points]
        y, error = ([float(row[name]) for row in points] for name in ("block_efficiency", "error"))
        options = {"color": rule_look.colour, "marker": rule_look.marker, "ls": rule_look.line, "ms": 5, "lw": 1.3}
        axes.errorbar(x, y, error, elinewidth=0.7, **options)
        if rule_look.marker == "x":  # its line ends before the others
            axes.text(x[-1] * 1.06, y[-1] - 0.06, rule_look.label, color=rule_look.colour, fontsize=8)
        else:
            entries.append((x[-1], y[-1], rule_look.label, rule_look.colour))
    return entries


def table(rows: style.Rows) -> str:
    """Return block efficiency of every rule and size, and the gain over token-wise K-SEQ on the same draft paths."""
    lines = [["rule", "K", "L", "nodes", "block efficiency", "over K-SEQ, same paths"]]
    for row in rows:
        efficiency = f"{float(row['block_efficiency']):.3f} ± {float(row['error']):.3f}"
        over = f"{float(row['over_kseq']):+.1%} ± {float(row['over_kseq_error']):.1%}" if row["over_kseq"] else ""
        lines.append([look(row["rule"]).label, row["K"], row["L"], f"{float(row['nodes']):.3g}", efficiency, over])
    return style.markdown(lines)
