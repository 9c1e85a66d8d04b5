"""Draft tokens without replacement: distance of the rules from the certified optimum, and their time."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import ot_draft as otd
from figures import style
from figures.about import About, Number
from figures.acceptance.acceptance_random import N, random_pairs
from ot_draft.data import read_pairs
from ot_draft.data.estimate import expected_acceptance
from ot_draft.data.summary import clustered_error

FILE = style.DATA / "smollm2_pairs.npz"
CONTEXTS, PAIRS, SAMPLES = 20, 20, 256
LAW = otd.WithoutReplacement()
ORDERS = {"RandomOrder": 64, "RandomOrder, at most 4 orders": 4, "RandomOrder, 1 order": 1}
HEADS = {"HeadAndTail": None, "HeadAndTail, 256 classes": 256}
RECURSIVE, OPTIMUM, HYBRID, INDEPENDENT = "RecursiveRejectionWithoutReplacement", "optimum", "Hybrid(auto)", "i.i.d."
LOOKS = {
    "RandomOrder": ("#882255", "-", "random order"),
    "RandomOrder, at most 4 orders": ("#882255", "--", "at most 4 orders"),
    "RandomOrder, 1 order": ("#882255", ":", "one order"),
    "HeadAndTail, 256 classes": ("#AA4499", "-", "head and tail"),
    RECURSIVE: (style.look(RECURSIVE).colour, "-", "recursive rejection"),
    HYBRID: (style.look("optimum hybrid:auto").colour, "-.", "optimum, hybrid drafts, j from q"),
    INDEPENDENT: ("#000000", "-", "optimum, i.i.d. drafts"),
}
ABOUT = About(
    title="Optimal selection without replacement",
    claim="Selecting the draft token that is last in a random order of the tokens reaches the certified optimum under any draft "
    "law. Recursive rejection is some hundredths below it, HeadAndTail some thousandths.",
    source="random orders, HeadAndTail: this project; recursive rejection without replacement: Yang et al. 2024, Chen et al. 2024 "
    "(Sequoia)",
    comparison="No optimum under this draft law is published.",
)
CAPTION = f"""Mean gap to the certified optimum of sampling without replacement (the dual), with its standard error. Random order: sum of
min(p, m), where m is the distribution of the selected token: a lower bound on its acceptance, because the residual token may
be a draft token, too; the same holds for HeadAndTail. Its orders come from column generation, until 1e-6 is left or 64 are
tried (not enough for a few real pairs). Recursive rejection: estimated from {SAMPLES} draft tuples per pair. Other draft
laws for comparison. Real pairs: {CONTEXTS} contexts, every 16th of figures/data; random pairs: {PAIRS} pairs of {N} tokens.
In brackets: median time of one selection at the largest k, including set-up, one thread."""


def compute(
    full: bool = False, jobs: int = 1, count: int | None = None, ks: tuple[int, ...] = (2, 4, 8)
) -> list[dict[str, Any]]:
    """Return a row per set of pairs, k and method: mean gap to the optimum without replacement, orders, seconds per pair."""
    pairs = read_pairs(FILE).first(count or (5 * CONTEXTS if full else CONTEXTS))
    sets = {f"real pairs, temperature {group}": pairs.at_temperature(float(group)) for group in ("1.0", "0.6")}
    for concentration in (1.0, 0.1):
        sets[f"random pairs, Dirichlet({concentration:g})"] = random_pairs(
            concentration, count or (20 * PAIRS if full else PAIRS)
        )
    rows: list[dict[str, Any]] = []
    for name, chosen in sets.items():
        for k in ks:
            tasks = (
                delayed(one_pair)(p, q, k, seed) for p, q, seed in zip(chosen.p, chosen.q, chosen.index, strict=True)
            )
            results = Parallel(jobs)(tasks)
            for way in results[0]:
                value, orders, seconds = np.array([pair[way] for pair in results]).T
                gap = np.array([pair[OPTIMUM][0] for pair in results]) - value
                row = {"pairs": f"{len(chosen)} {name}", "k": k, "way": way, "mean": value.mean(), "gap": gap.mean()}
                row |= {"error": clustered_error(gap.tolist(), chosen.text), "largest_gap": gap.max()}
                rows.append(row | {"orders": orders.mean(), "most": orders.max(), "seconds": np.median(seconds)})
    return rows


def one_pair(p: np.ndarray, q: np.ndarray, k: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Return acceptance, number of orders and seconds of one selection, for every method."""
    generator = np.random.default_rng([seed, k])
    best = otd.optimal_acceptance(p, q, k, LAW)
    results = {OPTIMUM: (best, np.nan, _seconds(otd.optimal_acceptance, p, q, k, LAW))}
    for way, orders in ORDERS.items():
        rule = otd.rules.RandomOrder(orders=orders)
        seconds = _seconds(rule, p, q, otd.draw(LAW, q, k, generator))
        ranks, _, selected = rule.mixture(p, q, k)  # results of the call above
        results[way] = (np.minimum(p, selected).sum(), len(ranks), seconds)
    for way, classes in HEADS.items():
        selection = otd.rules.HeadAndTail(classes=classes)
        seconds = _seconds(selection, p, q, otd.draw(LAW, q, k, generator))
        results[way] = (np.minimum(p, selection.selected_law(p, q, k)).sum(), np.nan, seconds)
    recursive = otd.rules.RecursiveRejectionWithoutReplacement()
    estimate = expected_acceptance(recursive, otd.Problem(p, q, k, LAW), SAMPLES, generator)
    results[RECURSIVE] = (estimate.value, np.nan, _seconds(recursive, p, q, otd.draw(LAW, q, k, generator)))
    for way, law in ((HYBRID, otd.Hybrid("auto")), (INDEPENDENT, otd.IID())):
        seconds = _seconds(otd.rules.Optimal(law), p, q, otd.draw(law, q, k, generator))
        results[way] = (otd.optimal_acceptance(p, q, k, law), np.nan, seconds)
    return results


def _seconds(call: Any, *arguments: Any) -> float:
    start = perf_counter()
    call(*arguments)
    return perf_counter() - start


def numbers(rows: style.Rows) -> list[Number]:
    """Return mean gaps to the optimum at the largest k."""
    ways = (*list(ORDERS)[:1], *list(HEADS)[-1:], RECURSIVE)
    largest_k = [row for row in rows if row["k"] == rows[-1]["k"] and row["way"] in ways]
    return [
        Number(
            f"gap, {row['pairs']}, k = {row['k']}: {LOOKS[row['way']][2]}", float(row["gap"]), error=float(row["error"])
        )
        for row in largest_k
    ]


def table(rows: style.Rows) -> str:
    """Return a Markdown table."""
    lines = [
        ["pairs", "k", "way", "acceptance", "gap to the optimum", "largest gap", "orders (maximum)", "ms per pair"]
    ]
    for row in rows:
        mean, gap, error, largest, orders, most, _ = (float(text) for text in list(row.values())[3:])
        gaps = [f"{gap:.2g} ± {error:.1g}", f"{largest:.2g}"] if row["way"] != OPTIMUM else ["", ""]
        number = f"{orders:.1f} ({most:.0f})" if orders == orders else ""
        lines.append([row["pairs"], row["k"], row["way"], f"{mean:.4f}", *gaps, number, _milliseconds(row)])
    return style.markdown(lines)


def _milliseconds(row: dict[str, str]) -> str:
    time = 1e3 * float(row["seconds"])
    return f"{time:.0f}" if time >= 10 else f"{time:.2g}"


def draw(rows: style.Rows) -> Any:
    """Draw a panel per set of pairs, a line per method."""
    figure, panels = style.canvas(2, CAPTION, rows=2)
    entries: list[list[style.Entry]] = []
    for axes, pairs_rows in zip(panels, style.split(rows, "pairs"), strict=True):
        entries.append([])
        for way_rows in style.split([row for row in pairs_rows if row["way"] in LOOKS], "way"):
            colour, kind, name = LOOKS[way_rows[0]["way"]]
            ks = [int(row["k"]) for row in way_rows]
            gap, error = ([float(row[name]) for row in way_rows] for name in ("gap", "error"))
            axes.errorbar(ks, gap, error, color=colour, ls=kind, lw=1.4, marker="o", ms=3.5, elinewidth=0.8)
            entries[-1].append((ks[-1], gap[-1], f"{name} ({_milliseconds(way_rows[-1])} ms)", colour))
        axes.set(
            title=pairs_rows[0]["pairs"], xlabel="number of draft tokens k", ylabel="gap to the optimum", xscale="log"
        )
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
    style.label(panels, entries)
    return figure
