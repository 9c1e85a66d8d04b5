"""Khisti et al. 2024, Figure 2: three tokens, uniform draft, k = 2; the optimum against K-SEQ and recursive rejection.

'Multi-draft speculative sampling: canonical architectures and theoretical limits'. Targets [1/3, x, 2/3 - x] and
[1/6, x, 5/6 - x]. Every number is exact: all nine draft pairs are enumerated in Fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ot_draft as otd
from figures import style
from figures.about import About, Number

K = 2
FIRST = (Fraction(1, 3), Fraction(1, 6))  # p(1) in the left and in the right panel
RULES = (otd.rules.KSeq(), otd.rules.RecursiveRejection(), otd.rules.ImportanceWeighted())
ABOUT = About(
    title="Three tokens, two drafts: Khisti's Figure 2",
    claim="With two i.i.d. draft tokens acceptance 1 is possible for targets other than the draft distribution: here exactly if "
    "every target probability is in [1/9, 5/9]. K-SEQ and recursive rejection stay below 1, unless target and draft are "
    "equal.",
    source="Khisti et al. 2025 (multi-draft speculative sampling), Figure 2 and the condition p(H) >= q(H)^2",
)
CAPTION = """Three tokens, uniform draft distribution, two i.i.d. draft tokens. Exact: all draft pairs are enumerated in Fractions. After
Khisti et al. 2024, Figure 2, who draw the optimum, SpecTr (K-SEQ) and SpecInfer (recursive rejection); importance weighting
(w = p/q) is added."""


def compute(full: bool = False, jobs: int = 1, steps: int | None = None) -> list[dict[str, Any]]:
    """Return a row per rule and point: p(1), x, rule, acceptance."""
    steps = steps or (240 if full else 60)
    draft = [Fraction(1, 3)] * 3
    rows: list[dict[str, Any]] = []
    for first in FIRST:
        for step in range(steps + 1):
            x = (1 - first) * Fraction(step, steps)
            problem = otd.Problem([first, x, 1 - first - x], draft, K)
            acceptances = {"optimum": otd.optimal_acceptance(problem.p, problem.q, K)}
            acceptances |= {rule.name: otd.evaluate(rule, problem).acceptance for rule in RULES}
            rows += [{"first": first, "x": x, "rule": name, "acceptance": value} for name, value in acceptances.items()]
    return rows


def numbers(rows: style.Rows) -> list[Number]:
    """Return the points at which the optimum reaches 1, in the left panel, and the largest values otherwise."""
    left = [row for row in rows if row["first"] == "1/3" and row["rule"] == "optimum"]
    ones = [style.number(row["x"]) for row in left if row["acceptance"] == "1"]
    step = f"x runs in steps of {style.number(left[1]['x']):.4f}"
    lines = [Number("acceptance 1 from x =, p(1) = 1/3", min(ones), 1 / 9, note=step)]
    lines.append(Number("acceptance 1 up to x =", max(ones), 5 / 9, note=step))
    right = [style.number(row["acceptance"]) for row in rows if row["first"] == "1/6" and row["rule"] == "optimum"]
    return [*lines, Number("largest optimum, p(1) = 1/6", max(right))]


def draw(rows: style.Rows) -> Any:
    """Draw a panel per target, a line per rule."""
    figure, panels = style.canvas(2, CAPTION)
    entries: list[list[style.Entry]] = []
    for axes, first in zip(panels, dict.fromkeys(row["first"] for row in rows), strict=True):
        target_rows = [row for row in rows if row["first"] == first]
        entries.append([])
        for name in dict.fromkeys(row["rule"] for row in target_rows):
            points = [
                (style.number(row["x"]), style.number(row["acceptance"])) for row in target_rows if row["rule"] == name
            ]
            look = style.look(name)
            axes.plot(*zip(*points, strict=True), color=look.colour, lw=2 if name == "optimum" else 1.3)
            entries[-1].append((*points[-1], look.label, look.colour))
        rest = 1 - Fraction(first)
        axes.set(
            title=f"target [{first}, x, {rest} - x], draft [1/3, 1/3, 1/3]",
            xlabel="x",
            ylabel="acceptance probability, k = 2",
        )
    style.label(panels, entries)
    return figure
