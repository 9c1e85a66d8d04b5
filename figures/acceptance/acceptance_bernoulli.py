"""Acceptance of every rule against k on Bernoulli pairs, exact, with the check values of the theory page."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ot_draft as otd
from figures import style
from figures.about import About, Number

PAIRS = ((Fraction(1, 2), Fraction(1, 4)), (Fraction(1, 2), Fraction(1, 10)))  # P(1) under target and draft
# k = 2, to four digits: optimum, K-SEQ, recursive rejection.
CHECKS = {"1/4": (0.9375, 0.8476, 0.8125), "1/10": (0.69, 0.6584, 0.64)}
RULES = tuple(rule for rule in otd.rules.ALL if rule.law == otd.IID() and "optimal" not in rule.claims)
ABOUT = About(
    title="Acceptance against k: Bernoulli pairs",
    claim="Two tokens are enough to distinguish the rules: the optimum exceeds K-SEQ, and K-SEQ exceeds recursive rejection, for "
    "every k.",
    source="Sun et al. 2023 (SpecTr), Bernoulli examples; the expected numbers are check values of the theory page",
)
CAPTION = """Two tokens, k i.i.d. draft tokens. Exact: all draft tuples are enumerated in Fractions. Rings: check values at k = 2. Rules
for other draft laws have acceptance 1 from k = 2 on, because they draft both tokens. 'First draft only' coincides with
recursive rejection: its residual token counts as accepted if it was drafted later."""


def compute(full: bool = False, jobs: int = 1, ks: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    """Return one row per pair, k and rule."""
    rows: list[dict[str, Any]] = []
    for target, draft in PAIRS:
        for k in ks or range(1, 13 if full else 9):
            problem = otd.Problem([1 - target, target], [1 - draft, draft], k)
            acceptances = {"optimum": otd.optimal_acceptance(problem.p, problem.q, k)}
            acceptances |= {rule.name: otd.evaluate(rule, problem).acceptance for rule in RULES}
            point = {"target": target, "draft": draft, "k": k}
            rows += [point | {"rule": name, "acceptance": value} for name, value in acceptances.items()]
    return rows


def numbers(rows: style.Rows) -> list[Number]:
    """Return optimum, K-SEQ and recursive rejection for two draft tokens, with the check values."""
    lines = []
    for draft, values in CHECKS.items():
        acceptances = {row["rule"]: row["acceptance"] for row in rows if row["draft"] == draft and row["k"] == "2"}
        for name, value in zip(("optimum", "KSeq", "RecursiveRejection"), values, strict=True):
            if acceptances:
                what = f"acceptance, draft Ber({draft}), target Ber(1/2), k = 2: {style.look(name).label}"
                lines.append(Number(what, style.number(acceptances[name]), value))
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw a panel per pair and a line per rule."""
    figure, panels = style.canvas(2, CAPTION)
    entries: list[list[style.Entry]] = []
    for axes, draft in zip(panels, dict.fromkeys(row["draft"] for row in rows), strict=True):
        pair_rows = [row for row in rows if row["draft"] == draft]
        entries.append([])
        for name in dict.fromkeys(row["rule"] for row in pair_rows):
            points = [(int(row["k"]), style.number(row["acceptance"])) for row in pair_rows if row["rule"] == name]
            look = style.look(name)
            axes.plot(*zip(*points, strict=True), color=look.colour, marker=look.marker or None, ms=4.5, lw=1.4)
            entries[-1].append((*points[-1], look.label, look.colour))
        for value in CHECKS.get(draft, ()):
            axes.plot(2, value, "o", ms=11, mfc="none", mec="#000000", mew=0.8)
        axes.set_xticks(sorted({int(row["k"]) for row in pair_rows}))
        axes.set(title=f"target Ber({pair_rows[0]['target']}), draft Ber({draft})", xlabel="number of draft tokens k")
        axes.set_ylabel("acceptance probability")
    style.label(panels, entries)
    return figure
