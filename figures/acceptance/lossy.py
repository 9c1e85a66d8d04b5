"""Acceptance against bias on real contexts: the frontier, and the rules of engines below it."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures import style
from figures.about import About, Number
from ot_draft import IID, Hybrid, Problem, evaluate, frontier, lossy, optimal_acceptance, rules
from ot_draft.bias import bias_of
from ot_draft.data import read_pairs
from ot_draft.laws import FixedFirst
from proofs_checks.lossy import engine_rules, published_targets

FILE = style.DATA / "smollm2_pairs.npz"
TOP = 4  # draft tokens of SGLang's rule, the most probable ones
CONTEXTS = 80
BUDGETS = (0.01, 0.02, 0.05, 0.1)
GRID = (0.0, *np.geomspace(1e-3, 4.0, 28))  # budgets of a context's curve; those of the mean are between its ends
SLOPES = np.geomspace(1e-2, 30.0, 60)  # acceptance per nat; each gives one point of the mean's curve
ABOUT = About(
    title="Acceptance bought with bias",
    claim="Every rule that does not keep the target distribution is a lossless rule for another distribution. The largest "
    "acceptance at each distance is therefore a frontier. Rules of engines are below it, some by more than half of the "
    "distance that they use.",
    source="this project; rules: Leviathan et al. 2023, Medusa 2024 and vLLM, SGLang, TensorRT-LLM, transformers,"
    " Narasimhan et al. 2025",
    comparison="No paper gives these numbers: the biases of these rules were not known.",
)
CAPTION = """Real contexts at temperature 1 (figures/data/smollm2_pairs.npz), one draft token. SGLang's rule takes the most probable
tokens of the draft model and appears in the numbers only. Lines: the largest acceptance of any rule at a mean bias, with the
budget distributed optimally over the contexts. Points: unmodified rules, by their exact output distribution. Left: total
variation. Right: KL(output || target); rules with infinite KL are omitted."""


def lossy_rules() -> dict[str, Any]:
    """Return the compared rules for one draft token, by the name that the figure prints."""
    toward, first = lossy.Toward, rules.SpeculativeSampling()
    named: dict[str, Any] = {f"lenience {value:g}": engine_rules.LenientSampling(value) for value in (0.9, 0.7, 0.5)}
    named |= {f"lenience {value:g}, from p": engine_rules.LenientSampling(value, "target") for value in (0.7, 0.5)}
    named |= {f"ensemble {value:g}": toward(published_targets.Ensemble(value), first) for value in (0.9, 0.7)}
    named |= {
        f"cascade {name} {value:g}": toward(published_targets.Cascade(name, value), first) for name, value in CASCADES
    }
    named["typical (vLLM)"] = engine_rules.TypicalAcceptance()
    named["typical, greedy"] = engine_rules.TypicalAcceptance(fallback="greedy")
    named["relaxed (TensorRT-LLM)"] = engine_rules.RelaxedAcceptance()
    return named


CASCADES = (("opt", 0.1), ("chow", 0.5), ("token-v3", 0.2))
THRESHOLDS = ((1, 0.9), (1, 0.5), (0.3, 1))
TREES = {f"SGLang {single:g}, {both:g}": engine_rules.TwoThresholds(single, both) for single, both in THRESHOLDS}


def compute(full: bool = False, jobs: int = 1, limit: int | None = None) -> list[dict[str, Any]]:
    """Return curves, points and table: mean acceptance and bias over contexts, and the frontier at each context's bias."""
    pairs = read_pairs(FILE).at_temperature(1.0)
    pairs = pairs if full and not limit else pairs.first(limit or CONTEXTS)
    p, q = pairs.p, pairs.q
    rows = [{"kind": "frontier tv", **point} for point in _curve_of_tv(p, q)]
    rows += [{"kind": "frontier kl", **point} for point in curve_of_kl(p, q)]
    for name, rule in lossy_rules().items():
        rows.append({"kind": "rule", "name": name, **_measured(rule, Problem(p, q, 1, IID()))})
    for name, rule in TREES.items():
        rows.append({"kind": "tree", "name": name, **_measured_on_tops(rule, Problem(p, q, TOP, Hybrid(top=TOP)))})
    for eps in BUDGETS:
        for k in (1, 2, 4, 8):
            found = frontier(p, q, k, IID(), "tv", [eps])
            rows.append(
                {"kind": "table", "name": f"k = {k}", "budget": eps, "acceptance": float(found.acceptance.mean())}
            )
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name, "") for name in columns} for row in rows]


def _curve_of_tv(p: Any, q: Any) -> list[dict[str, float]]:
    """Return a line: one unit of total variation buys one unit of acceptance in every context, up to 1."""
    lossless = float(optimal_acceptance(p, q, 1).mean())
    return [{"bias": 0.0, "acceptance": lossless}, {"bias": 1 - lossless, "acceptance": 1.0}]


def curve_of_kl(p: Any, q: Any) -> list[dict[str, float]]:
    """Return the mean's frontier: for each slope, the point of that slope in every context, which distributes the budget optimally."""
    found = frontier(p, q, 1, IID(), "kl", GRID)
    points = []
    for slope in SLOPES:
        best = (found.acceptance - slope * found.budget).argmax(-1)
        rows = np.arange(len(best))
        points.append(
            {"bias": float(found.budget[best].mean()), "acceptance": float(found.acceptance[rows, best].mean())}
        )
    return sorted(points, key=lambda point: point["bias"])


def _measured(rule: Any, problem: Problem) -> dict[str, float]:
    """Return mean acceptance and bias of a rule for one draft token, all draft tokens enumerated."""
    result = evaluate(rule, problem)
    return _row(problem, result.output, result.acceptance, result.accept.sum(-1), result.bias)


def _measured_on_tops(rule: Any, problem: Problem) -> dict[str, float]:
    """Return the same for a rule on the draft model's most probable tokens, which q determines."""
    assert isinstance(problem.law, FixedFirst)
    drafts = problem.law.fixed_drafts(problem.q, problem.k)
    selection = rule(problem.p, problem.q, drafts)
    output, taken = selection.output(drafts), selection.accept.sum(-1)
    accepted = np.take_along_axis(output, drafts, -1).sum(-1)
    return _row(problem, output, accepted, taken, bias_of(output, problem.p))


def _row(problem: Problem, output: Any, accepted: Any, taken: Any, bias: Any) -> dict[str, float]:
    """Return means. taken: draft tokens that the rule accepts itself, without draft tokens from its residual.

    best: the largest acceptance at each context's total variation; needed: the frontier's total variation for the same acceptance.
    """
    lossless = optimal_acceptance(problem.p, problem.q, problem.k, problem.law)
    means = {
        "acceptance": accepted,
        "taken": taken,
        "bias": bias.total_variation,
        "kl": bias.kl,
        "best": np.minimum(1, lossless + bias.total_variation),
        "needed": np.maximum(accepted - lossless, 0),
    }
    return {name: float(np.mean(value)) for name, value in means.items()}


def numbers(rows: style.Rows) -> list[Number]:
    """Return the table of budgets, and for each rule its bias and the bias that the frontier needs."""
    found = [
        Number(f"optimum at TV {float(row['budget']):g}, {row['name']}", float(row["acceptance"]))
        for row in rows
        if row["kind"] == "table"
    ]
    for row in rows:
        if row["kind"] in ("rule", "tree"):
            what = f"{row['name']}: acceptance {float(row['acceptance']):.3f}, TV used"
            found += [Number(what, float(row["bias"])), Number(f"{row['name']}: TV needed", float(row["needed"]))]
    return found


def draw(rows: style.Rows) -> Any:
    """Draw acceptance against TV on the left, against KL on the right."""
    figure, panels = style.canvas(2, CAPTION)
    for axes, kind, column, label in zip(
        panels, ("frontier tv", "frontier kl"), ("bias", "kl"), ("total variation", "KL, nats"), strict=True
    ):
        line = [(float(row["bias"]), float(row["acceptance"])) for row in rows if row["kind"] == kind]
        axes.plot(*zip(*line, strict=True), color="#000000", label="frontier")
        shown = [row for row in rows if row["kind"] == "rule" and np.isfinite(float(row[column]))]
        for place, row in enumerate(shown):
            x, y = float(row[column]), float(row["acceptance"])
            axes.plot([x], [y], marker="o", ms=4, ls="", color="#B03A2E")
            axes.annotate(
                row["name"], (x, y), fontsize=5.5, xytext=(4, 4 - 8 * (place % 2)), textcoords="offset points"
            )
        axes.set(xlabel=f"mean {label}", ylabel="mean acceptance probability")
    panels[0].set(xlim=(-0.01, 0.5), ylim=(0.3, 0.7))
    panels[1].set(xlim=(-0.02, 1.0))
    return figure
