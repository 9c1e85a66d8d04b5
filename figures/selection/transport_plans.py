"""Transport plans of four rules as heat maps. Exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import ot_draft as otd
from figures import style
from figures.about import About, Number

K, TOKENS = 2, "abc"
P, Q = (Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)), (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))
RULES = {
    "LP optimum": otd.rules.FromCoupling(solver="flow"),
    "Optimal": otd.rules.Optimal(),
    "K-SEQ": otd.rules.KSeq(),
    "recursive rejection": otd.rules.RecursiveRejection(),
}
ABOUT = About(
    title="Transport plans",
    claim="A selection rule is a coupling of the draft tokens with the output. The probability inside the frames, where the "
    "output was drafted, is the acceptance. Optimal's plan differs from that of the linear program and has the same "
    "acceptance.",
    source="Sun et al. 2023 (SpecTr), Section 3: optimal transport with membership cost; Optimal: this project",
)
CAPTION = """Three tokens, two i.i.d. draft tokens: target (1/6, 1/3, 1/2), draft (1/2, 1/3, 1/6). Rows: the nine draft pairs in the order
in which they were drawn, with their probabilities; columns: the output. Numbers: joint probability of draft pair and output
in %, 0 below 0.05; rows sum to the draft law, columns to the target, both exactly. Frames: the output is one of the draft
tokens. The linear program's plan is one of many optimal vertices."""


def compute(full: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """Return a row per rule, draft pair and output: the probability in the plan."""
    problem = otd.Problem(list(P), list(Q), K)
    rows: list[dict[str, Any]] = []
    for name, rule in RULES.items():
        for drafts in product(range(len(P)), repeat=K):
            law = plan_row(rule, problem, drafts)
            for output, mass in enumerate(law):
                rows.append(
                    {"rule": name, "drafts": "".join(TOKENS[x] for x in drafts), "output": TOKENS[output], "mass": mass}
                )
    for name in RULES:  # raises for an invalid plan
        plan = [row for row in rows if row["rule"] == name]
        columns = [sum(row["mass"] for row in plan if row["output"] == token) for token in TOKENS]
        assert columns == list(problem.p)
    return rows


def plan_row(rule: otd.SelectionRule, problem: otd.Problem, drafts: tuple[int, ...]) -> list[Fraction]:
    """Return the joint probability of this draft tuple with every output."""
    import numpy as np

    tokens = np.array(drafts)
    weight = problem.law.probability(problem.q, tokens)
    return [weight * share for share in rule(problem.p, problem.q, tokens).output(tokens)]


def accepted(rows: style.Rows) -> float:
    """Return the probability of outputs that were drafted."""
    return sum(style.number(row["mass"]) for row in rows if row["output"] in row["drafts"])


def numbers(rows: style.Rows) -> list[Number]:
    """Return the acceptance of each plan."""
    return [Number(f"acceptance, {plan[0]['rule']}", accepted(plan)) for plan in style.split(rows, "rule")]


def draw(rows: style.Rows) -> Any:
    """Draw a heat map per rule."""
    import numpy as np

    figure, panels = style.canvas(4, CAPTION, share_y=True, wide=0.62)
    for axes, plan in zip(panels, style.split(rows, "rule"), strict=True):
        drafts = list(dict.fromkeys(row["drafts"] for row in plan))
        mass = np.reshape([100 * style.number(row["mass"]) for row in plan], (len(drafts), -1))
        axes.imshow(mass, cmap="Blues", vmin=0, vmax=28, aspect="auto")
        axes.grid(False)
        for (row, column), value in np.ndenumerate(mass):
            percent = f"{value:.1f}" if value >= 0.05 else "0"
            axes.text(column, row, percent, ha="center", va="center", color="#FFFFFF" if value > 15 else "#222222")
            if TOKENS[column] in drafts[row]:
                axes.add_patch(_frame(column, row))
        axes.set_title(f"{plan[0]['rule']}\naccepts {accepted(plan):.4f}")
        axes.set_xticks(range(len(TOKENS)), [f"{token}: {p}" for token, p in zip(TOKENS, P, strict=True)])
        weights = [f"{pair}: {Q[TOKENS.index(pair[0])] * Q[TOKENS.index(pair[1])]}" for pair in drafts]
        axes.set_yticks(range(len(drafts)), weights)
        axes.set_xlabel("output and its target probability")
    panels[0].set_ylabel("draft tokens and their probability")
    return figure


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor="#D55E00", lw=1.3)
