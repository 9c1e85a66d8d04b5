"""Grouping tokens of nearly equal ratio: loss of acceptance and gain of time at the size of a real vocabulary."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number
from ot_draft.data import Study, compare_rules
from ot_draft.data.pairs import as_pairs

N, CLASSES = 151_936, (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
SPREADS, TIMED, REPEATS, FLOOR = (0.3, 1.0, 2.0), 1.0, 15, 1e-9
K_SEQ, EXACT = "K-SEQ", "exact"
COLOURS = {("2", "0.3"): "#56B4E9", ("2", "1.0"): "#0072B2", ("2", "2.0"): "#332288"}
COLOURS |= {("8", "0.3"): "#E69F00", ("8", "1.0"): "#D55E00", ("8", "2.0"): "#882255"}
ABOUT = About(
    title="Classes of nearly equal ratio",
    claim="Optimal selection does not need to sort the vocabulary: grouping tokens of nearly equal p/q costs little acceptance, "
    "never losslessness, and makes one selection as cheap as a few softmaxes.",
    source="this project",
    comparison="SpecTr calls the optimum exponential in k; no published run time is for this size.",
)
CAPTION = f"""Logits 3 x for the target, 3 x + s z for the draft, x and z normal, one pair for each s; n = {N:,}. Left: optimum minus sum
of min(p, m), where m is the distribution of the token that Optimal(classes=...) selects, in float64. Without classes the
loss is at most {{exact}}; losses below {FLOOR:g} are not drawn. K-SEQ's loss at s = 1 for comparison. Right, s = 1: one
selection including set-up, in float32 with torch on one CPU thread, in softmaxes of the same tensor: median over {REPEATS}
rounds of the ratio within a round. The last point is exact, without classes."""


def compute(
    full: bool = False, jobs: int = 1, n: int = N, ks: tuple[int, ...] = (2, 8), classes: tuple[int, ...] = CLASSES
) -> list[dict[str, Any]]:
    """Return a row per spread, k and rule: loss, and for one of the spreads the time in units of softmax."""
    rules: dict[str, otd.SelectionRule] = {K_SEQ: otd.rules.KSeq()}
    rules |= {str(number): otd.rules.Optimal(classes=number) for number in classes} | {EXACT: otd.rules.Optimal()}
    x, z = np.random.default_rng(11).standard_normal((2, n))
    rows: list[dict[str, Any]] = []
    for spread in SPREADS:
        logits = np.stack((3 * x, 3 * x + spread * z))
        masses = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        pair = as_pairs({"p": masses[0], "q": masses[1]}, "random logits")
        for k in ks:
            results = compare_rules(pair, Study((k,), tuple(rules.values()), lp_limit=0))[-len(rules) :]
            for (name, rule), row in zip(rules.items(), results, strict=True):
                time = _in_softmaxes(rule, logits, k, 5 * REPEATS if full else REPEATS) if spread == TIMED else ""
                loss = row.optimum - row.accepted
                rows.append({"n": n, "k": k, "spread": spread, "classes": name, "loss": loss, "softmaxes": time})
    return rows


def _in_softmaxes(rule: otd.SelectionRule, logits: np.ndarray, k: int, repeats: int) -> float:
    """Return the time of a selection in float32 divided by that of a softmax of the same tensor: median over interleaved rounds."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    target_logits, draft_logits = torch.tensor(logits, dtype=torch.float32)
    p, q = torch.softmax(target_logits, -1), torch.softmax(draft_logits, -1)
    drafts = otd.draw(rule.law, q, k, torch.Generator().manual_seed(12))
    ratios = []
    for _ in range(repeats + 2):  # the first two warm up, and compile
        start = perf_counter()
        torch.softmax(target_logits, -1)
        middle = perf_counter()
        rule(p, q, drafts)
        ratios.append((perf_counter() - middle) / (middle - start))
    torch.set_num_threads(threads)
    return median(ratios[2:])


def numbers(rows: style.Rows) -> list[Number]:
    """Return loss and time at 1,024 classes, and those of K-SEQ."""
    lines = []
    for row in (row for row in rows if row["classes"] in ("1024", K_SEQ) and row["softmaxes"]):
        name = K_SEQ if row["classes"] == K_SEQ else "Optimal, 1,024 classes"
        lines.append(Number(f"loss, k = {row['k']}, {name}", float(row["loss"])))
        lines.append(Number(f"softmaxes for one selection, k = {row['k']}, {name}", float(row["softmaxes"])))
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw loss on the left, time on the right, log-log."""
    exact = max(abs(float(row["loss"])) for row in rows if row["classes"] == EXACT)
    figure, panels = style.canvas(2, CAPTION.format(exact=f"{exact:.0e}"), share_y=False)
    entries: list[list[style.Entry]] = [[], []]
    for k_seq, *of_classes, last in style.split(rows, "k", "spread"):
        k, spread = last["k"], last["spread"]
        options: dict[str, Any] = {"color": COLOURS[k, spread], "marker": "o" if k == "2" else "s", "ms": 4, "lw": 1.3}
        losses = [(int(row["classes"]), float(row["loss"])) for row in of_classes if float(row["loss"]) > FLOOR]
        curves = [(losses, f"k = {k}, s = {float(spread):g}", "loss")]
        if last["softmaxes"]:
            times = [(int(row["classes"]), float(row["softmaxes"])) for row in of_classes]
            times.append((int(last["n"]), float(last["softmaxes"])))
            curves.append((times, f"k = {k}: exactly in {times[-1][1]:.0f}", "softmaxes"))
        for axes, ends, (points, name, column) in zip(panels, entries, curves, strict=False):
            axes.plot(*zip(*points, strict=True), **options)
            ends.append((*points[-1], name, options["color"]))
            if last["softmaxes"]:
                level = float(k_seq[column])
                axes.axhline(level, color=options["color"], ls=":", lw=1)
                ends.append((points[-1][0], level, f"K-SEQ, k = {k}", options["color"]))
    panels[0].set(title="loss of acceptance by classes", ylabel="optimum minus acceptance")
    panels[1].set(title="time of one selection", ylabel="softmaxes of the same tensor")
    for axes in panels:
        axes.set(xscale="log", yscale="log", xlabel="classes")
        axes.grid(True)
    style.label(panels, entries)
    return figure
