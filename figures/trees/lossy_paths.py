"""Block efficiency against the KL of a sequence: path rules for other targets, and rules of engines, on concatenated real contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import ot_draft as otd
from figures import style
from figures.about import About, Number
from figures.acceptance.lossy import CONTEXTS, FILE, curve_of_kl, lossy_rules
from figures.trees.context_chain import ContextChain, Drafted, drafted, emitted
from figures.trees.path_rules import look
from ot_draft.bias import bias_of
from ot_draft.data import read_pairs

TEXT = 100  # tokens per sequence
PATHS, LENGTH = 4, 4
ITERATIONS, FULL = 160, 4000
SEED = 19
# Budgets per token: KL in nats, total variation, ratio in nats.
KLS, TVS, RATIOS = (0.01, 0.03, 0.1, 0.3), (0.05, 0.1, 0.2), (0.15, 0.4, 1.0)
ONE_PATH, SEVERAL = "one path", f"{PATHS} paths"
FRONTIER, ENGINE, NOTHING = "frontier", "engine", "0"
JOINT, OPTIMAL = otd.trees.Joint(), otd.trees.TokenWise(otd.rules.Optimal())
ABOUT = About(
    title="Tokens per target call bought with bias, along paths",
    claim="The KL divergence of a sequence is the sum over its tokens. On one path the rules of engines are below token-wise selection"
    " for the best r at the same KL. With several paths joint selection for r stays above token-wise selection.",
    source="this project; rules: Leviathan et al. 2023, Medusa 2024 and vLLM, TensorRT-LLM, Narasimhan et al. 2025",
    comparison="No paper gives these numbers: the biases of these rules were not known.",
)
CAPTION = """{contexts} real contexts (figures/data/smollm2_pairs.npz, temperature 1), concatenated: the distributions after a prefix are
those of one context, chosen by a hash of its last tokens. Paths of length {length}; a sequence has {text} tokens. Its KL is the sum of its
tokens' KL(r || p), 0 for the token after the last drafted one. Left: one path, where joint selection is block verification. Black: the
largest value of any rule token by token, with the KL distributed optimally over the contexts; red: rules of engines by their exact output
distribution. Coloured: one budget for every token. Right: {number} i.i.d. paths. Exact on the left except for joint selection; otherwise
{iterations} iterations, the same draft tokens for the rules of a panel, bars of one standard error. Ensembles, Chow's cascade and budgets
of total variation have infinite KL, because they emit draft tokens of target probability 0: they are in the table only."""


def compute(full: bool = False, jobs: int = 1, limit: int | None = None) -> list[dict[str, Any]]:
    """Return a row per rule and budget: tokens per target call and KL of a sequence, on one path and on several."""
    pairs = read_pairs(FILE).at_temperature(1.0)
    pairs = pairs if full and not limit else pairs.first(limit or CONTEXTS)
    model, iterations = ContextChain(pairs.p, pairs.q), limit or (FULL if full else ITERATIONS)
    curve = curve_of_kl(pairs.p, pairs.q)
    rows = [_row(ONE_PATH, FRONTIER, "", _on_one_path(point["acceptance"], point["bias"])) for point in curve]
    rows += [*_engines(model), *(_token_wise(model, *budget) for budget in budgets(tuple(MAKERS)))]
    for name, number in ((ONE_PATH, 1), (SEVERAL, PATHS)):
        trees = drafted(model, number, LENGTH, iterations, SEED)
        tasks = [(rule, *budget) for rule, kinds in PATH_RULES[name] for budget in budgets(kinds)]
        found = Parallel(jobs)(delayed(_simulated)(model, rule, target, trees) for rule, _, target in tasks)
        rows += [_row(name, rule.name, budget, row) for (rule, budget, _), row in zip(tasks, found, strict=True)]
    common = {"contexts": len(model.p), "length": LENGTH, "text": TEXT, "number": PATHS, "iterations": iterations}
    return [row | common for row in rows]


MAKERS: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "KL": (otd.lossy.KL, KLS),
    "TV": (otd.lossy.TotalVariation, TVS),
    "ratio": (otd.lossy.Ratio, RATIOS),
}
# Rules, and the kinds of budgets of each.
PATH_RULES: dict[str, tuple[tuple[otd.trees.PathRule, tuple[str, ...]], ...]] = {
    ONE_PATH: ((JOINT, ("KL",)),),
    SEVERAL: (
        (JOINT, tuple(MAKERS)),
        (OPTIMAL, ("KL",)),
        (otd.trees.TokenWise(otd.rules.KSeq()), ("KL",)),
    ),
}


def budgets(kinds: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Return name and target of the budgets of these kinds, and of budget 0 once, which is the same for all."""
    yield NOTHING, otd.lossy.KL(0.0)
    for kind in kinds:
        make, values = MAKERS[kind]
        yield from ((f"{kind} {value:g}", make(value)) for value in values)


def _row(paths: str, rule: str, budget: str, found: dict[str, float], name: str = "") -> dict[str, Any]:
    return {"paths": paths, "rule": rule, "budget": budget, "name": name} | found


def _token_wise(model: ContextChain, budget: str, target: Any) -> dict[str, Any]:
    """Return the optimum for r on one path, which speculative sampling attains."""
    r = target(model.p, model.q, 1, otd.IID())
    spent = bias_of(r, model.p).kl.mean()
    return _row(ONE_PATH, OPTIMAL.name, budget, _on_one_path(np.minimum(r, model.q).sum(-1).mean(), spent))


def _engines(model: ContextChain) -> Iterator[dict[str, Any]]:
    for name, rule in lossy_rules().items():
        result = otd.evaluate(rule, otd.Problem(model.p, model.q, 1))
        accepted_here = result.accept.sum(-1)  # the path continues only if the draft token itself is accepted
        yield _row(ONE_PATH, ENGINE, "", _on_one_path(accepted_here.mean(), result.bias.kl.mean()), name)


def _on_one_path(accepted: float, spent: float) -> dict[str, float]:
    """Return the exact value: every context is an independent sample, so that depth i is reached with probability accepted^i."""
    reached = accepted ** np.arange(LENGTH + 1)
    tokens = float(reached.sum())
    return {"kl": TEXT * spent * float(reached[:-1].sum()) / tokens, "block_efficiency": tokens, "error": 0.0}


def _simulated(model: ContextChain, rule: Any, target: Any, trees: list[Drafted]) -> dict[str, float]:
    tokens, spent = emitted(rule, target, model, trees)
    error = float(tokens.std(ddof=1) / np.sqrt(len(tokens)))
    return {
        "kl": max(float(TEXT * spent.sum() / tokens.sum()), 0.0),
        "block_efficiency": float(tokens.mean()),
        "error": error,
    }


def finite_engines(rows: style.Rows) -> style.Rows:
    """Return the rules of engines whose KL is finite."""
    return [row for row in rows if row["rule"] == ENGINE and np.isfinite(float(row["kl"]))]


def frontier(rows: style.Rows) -> tuple[list[float], list[float]]:
    """Return KL of a sequence and tokens per target call: the maximum, token by token, on one path."""
    line = sorted((float(row["kl"]), float(row["block_efficiency"])) for row in rows if row["rule"] == FRONTIER)
    return [kl for kl, _ in line], [tokens for _, tokens in line]


def numbers(rows: style.Rows) -> list[Number]:
    """Return the frontier at the KL of each engine's rule, and the values at the budgets with several paths."""
    found = []
    for row in finite_engines(rows):
        kl = float(row["kl"])
        what = f"frontier at the KL of {row['name']}, {kl:.1f} per sequence; that rule: {float(row['block_efficiency']):.3f}"
        found.append(Number(what, float(np.interp(kl, *frontier(rows)))))
    for row in rows:
        if row["paths"] == SEVERAL:
            what = f"{look(row['rule']).label}, {SEVERAL}, {row['budget']}: KL per sequence {float(row['kl']):.1f}, tokens per target call"
            found.append(Number(what, float(row["block_efficiency"]), error=float(row["error"])))
    return found


def draw(rows: style.Rows) -> Any:
    """Draw tokens per target call against the KL of a sequence: one path on the left, several on the right."""
    figure, panels = style.canvas(2, CAPTION.format(**rows[0]))
    panels[0].plot(*frontier(rows), color="#000000", lw=1.3, label="largest, token by token")
    for place, row in enumerate(finite_engines(rows)):
        x, y = float(row["kl"]), float(row["block_efficiency"])
        panels[0].plot([x], [y], marker="o", ms=4, ls="", color="#B03A2E")
        below = {"fontsize": 5.5, "xytext": (4, 4 - 8 * (place % 2)), "textcoords": "offset points"}
        panels[0].annotate(row["name"], (x, y), **below)
    for axes, paths in zip(panels, (ONE_PATH, SEVERAL), strict=True):
        _lines(axes, rows, paths)
        axes.set(title=paths, xlabel=f"KL divergence per sequence of {TEXT} tokens, nats")
        axes.set_xscale("symlog", linthresh=0.5)
        axes.legend(fontsize=7, loc="upper left", frameon=False)
    panels[0].set(ylabel="tokens per target call", xlim=(-0.05, 250), ylim=(1.4, 2.9))
    return figure


MARKS = {"KL": ("o", "-"), "ratio": ("^", ":")}


def _lines(axes: Any, rows: style.Rows, paths: str) -> None:
    """Return a line per rule and kind of budget, from the point without bias."""
    here = [row for row in rows if row["paths"] == paths and row["budget"] and np.isfinite(float(row["kl"]))]
    for of_rule in style.split(here, "rule"):
        for kind, (marker, dashes) in MARKS.items():
            line = [row for row in of_rule if row["budget"].startswith((NOTHING, kind))]
            if len(line) > 1:
                rule_look = look(line[0]["rule"])
                x, y, error = ([float(row[name]) for row in line] for name in ("kl", "block_efficiency", "error"))
                label = f"{rule_look.label}, {kind} budgets"
                axes.errorbar(
                    x,
                    y,
                    error,
                    color=rule_look.colour,
                    marker=marker,
                    ls=dashes,
                    ms=4,
                    lw=1.3,
                    elinewidth=0.7,
                    label=label,
                )


def table(rows: style.Rows) -> str:
    """Return every point of the figure except the frontier's."""
    lines = [["paths", "rule", "budget per token", "KL of a sequence", "tokens per target call"]]
    for row in rows:
        if row["rule"] != FRONTIER:
            error = f" ± {float(row['error']):.3f}" if float(row["error"]) else ""
            efficiency = f"{float(row['block_efficiency']):.3f}{error}"
            name = row["name"] or look(row["rule"]).label
            lines.append([row["paths"], name, row["budget"], f"{float(row['kl']):.2f}", efficiency])
    return style.markdown(lines)
