"""Gap between path rules and the path program, the certified bound of every lossless rule, on small random models."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed

import ot_draft as otd
from figures import style
from figures.about import About, Number
from figures.trees.path_rules import look

SIZES = ((3, 1, 3), (3, 2, 2), (3, 3, 2), (2, 3, 3))  # vocabulary, K, L
TOKEN_WISE = (otd.rules.RecursiveRejection(), otd.rules.KSeq(), otd.rules.Optimal())
RULES: tuple[otd.trees.PathRule, ...] = (
    *(otd.trees.TokenWise(rule) for rule in TOKEN_WISE),
    otd.trees.Traversal(),
    otd.trees.Joint(),
)
ABOUT = About(
    title="How much any lossless path rule could still gain",
    claim="The path program bounds every lossless rule from above. Block verification attains it for one path. For several paths "
    "joint selection is a few percent below it, token-wise selection and Traversal more.",
    source="this project; Sun et al. 2024 (block verification is optimal for one path)",
)
SOLVERS = ("highs", "cvxpy", "pulp")
CAPTION = """Random Markov models of order 1 with Dirichlet(1) rows, target and draft independent of each other; every number by
enumeration of all draft paths. A dot is a model; the dash is the mean, with its standard error. 0 is the value of the path
program: the largest expected accepted length of any lossless rule that may know both models everywhere, also where nothing
was drafted. It is certified in rational numbers (interval width at most {width} tokens; {solvers} agree to {apart} tokens).
For one path, block verification attains it; joint selection and Traversal are the same rule there."""


def compute(full: bool = False, jobs: int = 1, count: int | None = None) -> list[dict[str, Any]]:
    """Return a row per model and rule: expected accepted length, bound, its certified width, and the difference between the solvers."""
    count = count or (100 if full else 8)
    todo = [(size, number) for size in SIZES for number in range(count)]
    return [row for rows in Parallel(jobs)(delayed(_model)(*size, number) for size, number in todo) for row in rows]


def _model(n: int, K: int, L: int, number: int) -> list[dict[str, Any]]:
    generator = np.random.default_rng([n, K, L, number])
    contexts = [(), *((token,) for token in range(n))]
    targets, drafts = ({context: generator.dirichlet(np.ones(n)) for context in contexts} for _ in range(2))
    model = otd.trees.MarkovModel(targets, drafts, 1)
    bounds = [otd.trees.path_bound(model, K, L, solver) for solver in SOLVERS]
    values = [float(bound.value) for bound in bounds]
    upper = float(bounds[0].certificate.upper)
    common = {"n": n, "K": K, "L": L, "model": number, "bound": upper}
    common |= {"width": float(bounds[0].certificate.width), "apart": max(values) - min(values)}
    return [
        common | {"rule": rule.name, "length": otd.trees.evaluate(rule, model, (K, L)).expected_length}
        for rule in RULES
    ]


def gaps(rows: style.Rows) -> np.ndarray:
    """Return the gap of a rule to the bound, in per cent."""
    return np.array([100 * (1 - float(row["length"]) / float(row["bound"])) for row in rows])


def numbers(rows: style.Rows) -> list[Number]:
    """Return the mean gaps of joint selection and K-SEQ, in per cent of the bound."""
    lines = []
    for rule_rows in style.split(
        [row for row in rows if row["rule"] in ("Joint", "TokenWise(KSeq)")], "n", "K", "L", "rule"
    ):
        x, row = gaps(rule_rows), rule_rows[0]
        what = f"{look(row['rule']).label}: % missed, n = {row['n']}, K = {row['K']}, L = {row['L']}"
        lines.append(Number(what, float(x.mean()), error=float(x.std(ddof=1) / np.sqrt(len(x)))))
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw a panel per size, a line per rule."""
    width, apart = (f"{max(float(row[name]) for row in rows):.0e}" for name in ("width", "apart"))
    caption = CAPTION.format(width=width, apart=apart, solvers="HiGHS, Clarabel and CBC")
    figure, panels = style.canvas(2, caption, rows=(len(SIZES) + 1) // 2)
    for axes, size_rows in zip(panels, style.split(rows, "n", "K", "L"), strict=True):
        for place, rule_rows in enumerate(style.split(size_rows, "rule")):
            rule_look, values = look(rule_rows[0]["rule"]), gaps(rule_rows)
            jitter = np.random.default_rng(0).uniform(-0.22, 0.22, len(values))
            axes.plot(place + jitter, values, ".", color=rule_look.colour, alpha=0.45, ms=5)
            error = values.std(ddof=1) / np.sqrt(len(values))
            axes.errorbar(place, values.mean(), error, color=rule_look.colour, marker="_", ms=26, mew=2.2, capsize=3)
            axes.annotate(f"{values.mean():.1f} %", (place + 0.3, values.mean()), color=rule_look.colour, fontsize=8)
        names = [look(rule_rows[0]["rule"]).label for rule_rows in style.split(size_rows, "rule")]
        axes.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=8)
        paths = "1 path" if size_rows[0]["K"] == "1" else f"{size_rows[0]['K']} paths"
        title = f"{size_rows[0]['n']} tokens, {paths} of length {size_rows[0]['L']}"
        axes.set(title=title, xlim=(-0.5, len(names) - 0.2), xlabel="rule", ylabel="gap to the bound, %")
    return figure


def table(rows: style.Rows) -> str:
    """Return a Markdown table of the mean and the largest gap, by rule and size."""
    sizes = style.split(rows, "n", "K", "L")
    lines = [["gap to the bound: mean ± standard error (largest)"]]
    lines[0] += [f"n = {size[0]['n']}, K = {size[0]['K']}, L = {size[0]['L']}" for size in sizes]
    for rule in dict.fromkeys(row["rule"] for row in rows):
        values = [gaps([row for row in size if row["rule"] == rule]) for size in sizes]
        cells = [f"{x.mean():.2f} ± {x.std(ddof=1) / np.sqrt(len(x)):.2f} % ({x.max():.1f} %)" for x in values]
        lines.append([look(rule).label, *cells])
    return style.markdown(lines)
