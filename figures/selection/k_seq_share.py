"""K-SEQ's share of the optimum against its guarantee: on real pairs, on random ones, and in the worst cases found."""

from __future__ import annotations

from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number
from figures.acceptance.acceptance_random import N, random_pairs
from ot_draft.data import Study, compare_rules, read_pairs
from ot_draft.data.estimate import expected_acceptance
from ot_draft.data.pairs import Pairs

FILE = style.DATA / "smollm2_pairs.npz"
GUARANTEE, WORST, SEARCHED = "guarantee", "worst of two tokens", "worst of four tokens, by search"
COLOURS = {"real": "#0072B2", "random": "#009E73", GUARANTEE: "#000000", WORST: "#D55E00", SEARCHED: "#D55E00"}
ABOUT = About(
    title="K-SEQ's share of the optimum",
    claim="The probability that K-SEQ accepts a draft token is at least 1 - (1 - 1/k)^k of the optimal acceptance. The worst "
    "cases found are well above this bound, and real pairs are further above.",
    source="Sun et al. 2023 (SpecTr), Theorem 1; the worst cases: this project",
    comparison="The published number is a lower bound.",
)
CAPTION = f"""Acceptance by K-SEQ's tests divided by the optimum, i.i.d. draft tokens. Lines: mean over the pairs; bands: from the 5 % of
pairs with the smallest shares up; dots: the smallest share of any pair. Real pairs: figures/data, both temperatures
together; random pairs: {N} tokens, flat and heavy-tailed together. Worst of two tokens: target (t^k, 1 - t^k), draft (t, 1 -
t), where the optimum is 1, minimised over t. Circles: the smallest share that a Nelder-Mead search over all pairs of four
tokens finds; it agrees."""
NOTE = "the proof compares with the factor k, while K-SEQ runs at gamma* < k: the guarantee is not tight"


def compute(
    full: bool = False,
    jobs: int = 1,
    count: int | None = None,
    searches: int = 2,
    ks: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16),
) -> list[dict[str, Any]]:
    """Return a row per case and k: mean, 5 % quantile and minimum of the share."""
    real = read_pairs(FILE)
    sets = {f"real: {len(real)} pairs": [real if count is None else real.first(count)]}
    number = count or (1000 if full else 200)
    sets[f"random: {2 * number} pairs"] = [random_pairs(concentration, number) for concentration in (1.0, 0.1)]
    rows: list[dict[str, Any]] = []
    for name, parts in sets.items():
        shares_of_parts = [_shares(pairs, ks, jobs) for pairs in parts]
        for k in ks:
            shares = np.concatenate([part[k] for part in shares_of_parts])
            low = float(np.quantile(shares, 0.05))
            rows.append({"case": name, "k": k, "mean": shares.mean(), "low": low, "least": shares.min()})
    for k in ks:
        worst = {
            GUARANTEE: float(otd.kseq_bound(k)),
            WORST: worst_of_two(k),
            SEARCHED: worst_by_search(k, 6 * searches if full else searches),
        }
        rows += [{"case": name, "k": k, "mean": value, "low": value, "least": value} for name, value in worst.items()]
    return rows


def _shares(pairs: Pairs, ks: tuple[int, ...], jobs: int) -> dict[int, Any]:
    shares: dict[int, list[float]] = {k: [] for k in ks}
    for row in compare_rules(pairs, Study(ks, (otd.rules.KSeq(),), lp_limit=0), jobs):
        if row.rule == "KSeq" and row.optimum > 0:
            shares[row.k].append(row.taken / row.optimum)
    return {k: np.array(values) for k, values in shares.items()}


def share(p: Any, q: Any, k: int) -> float:
    """Return the share of the optimum that K-SEQ's tests accept."""
    taken = expected_acceptance(otd.rules.KSeq(), otd.Problem(p, q, k)).taken
    return float(taken) / float(otd.optimal_acceptance(p, q, k))


def worst_of_two(k: int) -> float:
    """Return the minimum share over t of target (t^k, 1 - t^k) and draft (t, 1 - t); the optimum is 1, since p(H) >= q(H)^k."""
    from scipy.optimize import minimize_scalar

    def of(t: float) -> float:
        return share(np.array([t**k, 1 - t**k]), np.array([t, 1 - t]), k)

    return float(minimize_scalar(of, bounds=(0.01, 0.999), method="bounded", options={"xatol": 1e-9}).fun)


def worst_by_search(k: int, starts: int, n: int = 4) -> float:
    """Return the minimum share that the Nelder-Mead method finds among pairs of n tokens, from random starts."""
    from scipy.optimize import minimize
    from scipy.special import softmax

    def of(x: Any) -> float:
        return share(softmax(x[:n]), softmax(x[n:]), k)

    generator = np.random.default_rng([k, n])
    tries = (2 * generator.standard_normal(2 * n) for _ in range(starts))
    return min(float(minimize(of, x, method="Nelder-Mead", options={"maxfev": 800}).fun) for x in tries)


def numbers(rows: style.Rows) -> list[Number]:
    """Return the minimum shares at k = 2, 4, 8, with the guarantee."""
    lines = []
    for k in sorted({int(row["k"]) for row in rows} & {2, 4, 8}):
        least = {row["case"]: float(row["least"]) for row in rows if int(row["k"]) == k}
        names = (WORST, *(case for case in least if case.startswith("real")))
        lines += [
            Number(
                f"K-SEQ's smallest share of the optimum, k = {k}, {name}",
                least[name],
                least[GUARANTEE],
                "≥",
                NOTE,
                headline=k == 8 and name != WORST,
            )
            for name in names
        ]
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw one panel."""
    figure, (axes,) = style.canvas(1, CAPTION, wide=1.25)
    entries: list[style.Entry] = []
    for case_rows in style.split(rows, "case"):
        name = case_rows[0]["case"]
        colour = COLOURS.get(name) or COLOURS[name.split(":")[0]]
        ks, mean, low, least = ([float(row[column]) for row in case_rows] for column in ("k", "mean", "low", "least"))
        if name == SEARCHED:
            axes.plot(ks, least, "o", ms=8, mfc="none", mec=colour, mew=1)
            continue
        axes.plot(ks, mean, color=colour, lw=1.6, ls="--" if name == GUARANTEE else "-")
        entries.append((ks[-1], mean[-1], f"{name}, $1 - (1 - 1/k)^k$" if name == GUARANTEE else name, colour))
        if ":" in name:
            axes.fill_between(ks, low, mean, color=colour, alpha=0.15, lw=0)
            axes.plot(ks, least, ".", color=colour, ms=6)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [f"{k:g}" for k in ks])
    axes.minorticks_off()
    axes.set(
        xlabel="number of draft tokens k", ylabel="share of the optimum", title="accepted by K-SEQ's tests / optimum"
    )
    style.label([axes], [entries])
    return figure
