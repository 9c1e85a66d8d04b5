"""SpecTr's Table 1 and the path rules on two real pairs: block efficiency on the same trees, and the speed-up at SpecTr's costs.

Sun et al., SpecTr: fast speculative decoding via optimal transport, NeurIPS 2023, Table 1 (LM1B; PaLM-2 Gecko drafts for Bison).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import hypot
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures import model_pairs, style
from figures.about import About, Number
from figures.trees import two_sizes
from figures.trees.path_rules import JOINT, KSEQ, look
from figures.trees.spectr_table_1 import PUBLISHED, TABLE, look_with_published

TREES = style.DATA / "real_block_efficiency.csv"
SMOLLM2, QWEN = model_pairs.SMOLLM2.name, model_pairs.QWEN.name
ONE = "TokenWise(SpeculativeSampling)"
# In the expected order of block efficiency at K = 8, L = 4; each rule is compared with the next one.
ORDER = (JOINT, "TokenWise(Optimal)", KSEQ, "TokenWise(RecursiveRejection)", ONE)
GAP = " over "
SPEED_UP = {"speed_up": "block_efficiency", "speed_up_error": "error"}
TEXTS_EACH = 10  # min. number of texts per control variate; others are omitted
Values = NDArray[np.float64]
Mean = Callable[[style.Rows, list[tuple[int, str]], float], dict[str, float]]
ABOUT = About(
    title="SpecTr's Table 1 on real models",
    claim="Eight draft paths instead of one save target calls on two real pairs, and joint selection saves most. At the costs "
    "that SpecTr's own numbers imply, eight paths are faster than one at both lengths.",
    source="Sun et al., SpecTr, NeurIPS 2023, Table 1",
)
NOTES = {
    SMOLLM2: "another pair and other prompts: less than half of our draft tokens are accepted",
    QWEN: "another pair and other prompts: half of them are code and edits, which this draft model predicts well",
}
RATIO = "another pair; the standard error is for independent runs"
COSTS = "our tokens per target call at the step costs that the published pairs imply"
CAPTION = """Black diamonds: SpecTr's published numbers, with K-SEQ. Ours at temperature 1, one standard error over prompts. Upper row:
SmolLM2-135M-Instruct, its hidden-state draft model, {smollm2}; a quarter of the prompts has L = 8. Lower row:
Qwen2.5-Coder-Instruct of 1.5B and 0.5B parameters (Q4_K_M, llama.cpp): K-SEQ exactly given {texts} completions, the
other rules by their differences from it on {qwen} that K-SEQ with K = L = 8 reaches.
All rules of a row have the same trees. Left: expected tokens per target call. Right: the same at the costs of one
iteration that the published pairs imply, {costs}
autoregressive steps in the order of the axis, as if every rule had the same cost."""


def tables() -> dict[str, tuple[style.Rows, Mean]]:
    """Return the prompts of each pair at temperature 1, and the function that averages columns over them."""
    return {SMOLLM2: (style.read(TREES), efficiency), QWEN: (two_sizes.of_temperature(1.0), two_sizes.efficiency)}


def compute(full: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """Return a row per pair, rule and (K, L), and per gap between neighbours of ORDER, from committed data."""
    costs = {
        size: efficiency / speed_up for size, (efficiency, speed_up) in PUBLISHED.items()
    }  # of a step, in autoregressive steps
    rows: list[dict[str, Any]] = []
    for pair, (trees, mean) in tables().items():
        common: dict[str, Any] = {"trees": sum(int(row["trees"]) for row in trees), "texts": len(trees)}
        common |= {"costs": ", ".join(f"{cost:.2f}" for cost in costs.values())}
        for (K, L), (published, speed_up) in PUBLISHED.items():
            theirs = {"block_efficiency": published, "error": 0, "speed_up": speed_up, "speed_up_error": 0}
            rows.append({"pair": pair, "rule": TABLE, "K": K, "L": L} | theirs | common)
            for rule in (ONE, JOINT) if K == 1 else ORDER[:-1]:
                line: dict[str, Any] = {"pair": pair, "rule": rule, "K": K, "L": L}
                line |= mean(trees, [(1, column(rule, K, L))], 1)
                worth = {name: line[value] / costs[K, L] for name, value in SPEED_UP.items()}
                rows.append(line | worth | common)
        for better, worse in pairwise(ORDER):
            terms = [(1, column(better, 8, 4)), (-1, column(worse, 1 if worse == ONE else 8, 4))]
            gap = {"pair": pair, "rule": better + GAP + worse, "K": 8, "L": 4} | mean(trees, terms, 0)
            rows.append(gap | {"speed_up": "", "speed_up_error": ""} | common)
    return rows


def column(rule: str, K: int, L: int) -> str:
    """Return the name of a column of the trees' file; for one path, joint selection is block verification."""
    return f"{'BlockVerification' if (rule, K) == (JOINT, 1) else rule} {K}x{L}"


def efficiency(trees: style.Rows, terms: list[tuple[int, str]], start: float) -> dict[str, float]:
    """Return `start` plus a sum of columns, averaged over trees, with its standard error over prompts."""
    rows = [row for row in trees if all(row[name] for _, name in terms)]
    values = start + sum(sign * np.array([float(row[name]) for row in rows]) for sign, name in terms)
    weights = np.array([float(row["trees"]) for row in rows])
    names = sorted((name for name in trees[0] if name.startswith("control")), key=lambda name: "Optimal" not in name)
    controls = np.array([[float(row[name]) for name in names] for row in rows])
    mean, error = controlled_mean(np.asarray(values), weights, controls)
    return {"block_efficiency": mean, "error": error}


def controlled_mean(values: Values, weights: Values, controls: Values) -> tuple[float, float]:
    """Return the weighted mean over prompts with control variates, and its standard error over prompts.

    values: (T,), a mean over weights[t] trees of each text. controls: (T, C), with expectation 0. The mean is the intercept of a weighted
    least-squares fit on the controls, and the error is the sandwich estimate. Without controls, it is the weighted mean.
    """
    texts = len(values)
    kept = min(controls.shape[1], max(texts // TEXTS_EACH - 1, 0))
    x = np.column_stack((np.ones(texts), controls[:, :kept]))
    inverse = np.linalg.inv(x.T @ (weights[:, None] * x))
    fitted = inverse @ x.T @ (weights * values)
    scores = x * (weights * (values - x @ fitted))[:, None]
    covariance = inverse @ (scores.T @ scores) @ inverse * texts / max(texts - x.shape[1], 1)
    return float(fitted[0]), float(np.sqrt(covariance[0, 0]))


def numbers(rows: style.Rows) -> list[Number]:
    """Return the published rule with the published numbers, joint selection in a separate column, and gains and gaps between rules."""
    return [line for pair_rows in style.split(rows, "pair") for line in _numbers(pair_rows, pair_rows[0]["pair"])]


def _numbers(rows: style.Rows, pair: str) -> list[Number]:
    found = {(row["rule"], int(row["K"]), int(row["L"])): row for row in rows}
    lines = []
    for (K, L), published in PUBLISHED.items():
        ours, joint = found[_published_rule(K), K, L], found[JOINT, K, L]
        for what, theirs, note, (value, error) in (
            ("block efficiency", published[0], NOTES[pair], ("block_efficiency", "error")),
            ("speed-up at the published costs", published[1], COSTS, ("speed_up", "speed_up_error")),
        ):
            others = ((look(JOINT).label, float(joint[value]), float(joint[error])),)
            name = f"{pair}: {what}, {look(ours['rule']).label}, K = {K}, L = {L}"
            lines.append(Number(name, float(ours[value]), theirs, "~", note, float(ours[error]), others))
    for L in (4, 8):
        ours, one = found[KSEQ, 8, L], found[ONE, 1, L]
        gain = float(ours["block_efficiency"]) / float(one["block_efficiency"])
        parts = [float(row["error"]) / float(row["block_efficiency"]) for row in (ours, one)]
        spread = gain * hypot(*parts)
        what = f"SpecTr, Table 1, {pair}: block efficiency, K = 8 over K = 1, L = {L}"
        theirs = PUBLISHED[8, L][0] / PUBLISHED[1, L][0]
        lines.append(Number(what, gain, round(theirs, 2), "~", RATIO, spread, headline=pair == QWEN))
    for row in (row for row in rows if GAP in row["rule"]):
        size = f"K = {row['K']}, L = {row['L']}"
        more, spread = float(row["block_efficiency"]), float(row["error"])
        better, worse = (look(rule).label for rule in row["rule"].split(GAP))
        what = f"{pair}: block efficiency at {size}: {better} over {worse}"
        lines.append(Number(what + ("" if abs(more) > 3 * spread else " (indistinguishable)"), more, error=spread))
    return lines


def _published_rule(K: int) -> str:
    """Return the rule of the paper: K-SEQ, which is speculative sampling for one path."""
    return KSEQ if K > 1 else ONE


def draw(rows: style.Rows) -> Any:
    """Draw block efficiency and speed-up, a group per (K, L), a row of panels per pair."""
    pairs = style.split(rows, "pair")
    counts = [f"{pair_rows[0]['trees']} trees of {pair_rows[0]['texts']} texts" for pair_rows in pairs]
    texts = len(two_sizes.of_temperature(1.0, two_sizes.ALONG))
    caption = CAPTION.format(smollm2=counts[0], qwen=counts[1], texts=texts, costs=rows[0]["costs"])
    figure, panels = style.canvas(2, caption, rows=len(pairs), share_y=False)
    entries: list[list[style.Entry]] = []
    for pair_rows, row in zip(pairs, (panels[:2], panels[2:]), strict=True):
        entries += _panels(pair_rows, row)
    style.label(panels, entries)
    return figure


def _panels(rows: style.Rows, panels: Any) -> list[list[style.Entry]]:
    """Draw both panels of a pair, and the names of their points."""
    entries: list[list[style.Entry]] = [[], []]
    sizes = list(PUBLISHED)
    for number, rule_rows in enumerate(style.split([row for row in rows if GAP not in row["rule"]], "rule")):
        rule_look = look_with_published(rule_rows[0]["rule"])
        place = [sizes.index((int(row["K"]), int(row["L"]))) + 0.11 * (number - 2.5) for row in rule_rows]
        parts = (("block_efficiency", "error"), ("speed_up", "speed_up_error"))
        for axes, names, (value, error) in zip(panels, entries, parts, strict=True):
            y, bars = ([float(row[name]) for row in rule_rows] for name in (value, error))
            axes.errorbar(place, y, bars, color=rule_look.colour, marker=rule_look.marker, ls="", ms=5, elinewidth=0.8)
            names.append((place[-1], y[-1], rule_look.label, rule_look.colour))
    titles = ("block efficiency", "speed-up at the published costs")
    units = ("tokens per target call", "speed-up over autoregressive decoding")
    for axes, title, unit in zip(panels, titles, units, strict=True):
        axes.set_xticks(range(len(sizes)), [f"K = {K}\nL = {L}" for K, L in sizes])
        axes.set(title=f"{rows[0]['pair']}: {title}", xlabel="paths and their length", ylabel=unit, ylim=(0, None))
    return entries
