"""A hundred random pairs of ten tokens, k = 1 to 20: the list-level race, the certified optimum and the other rules."""

from __future__ import annotations

from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number
from ot_draft.data.estimate import expected_acceptance

N, PAIRS, SEED, STEP = 10, 100, 6, 0.2
RACE, BOUND, OPTIMUM, LP = "list-level race", "its lower bound", "optimum", "optimum by LP"
RULES = (otd.rules.KSeq(), otd.rules.RecursiveRejection(), otd.rules.ImportanceWeighted())
ABOUT = About(
    title="The list-level race on random pairs",
    claim="Coupling k draft tokens with the output by one exponential race accepts at least the bound of the list matching lemma. "
    "It starts below recursive rejection, exceeds it for larger k, and stays below K-SEQ and the optimum.",
    source="Rowan, Phan and Khisti 2025 (list-level distribution coupling), Figure 6 and Theorem 1",
    comparison="The paper has curves and no table, and other random pairs: only the shape is comparable.",
)
CAPTION = f"""{PAIRS} pairs of {N} tokens, p and q uniform on the simplex; mean over the pairs, bands: standard error. The rules share the
pairs, so gaps have smaller errors. Race: output = argmin over i and l of S_i^l / p_i, draft l = argmin over i of S_i^l /
q_i, S independent exponential variables; its acceptance is exact up to quadrature, not sampled. Lower bound: the list
matching lemma. Optimum: the dual, for every pair and k; squares: the linear program with its certificate in rational
numbers, first pairs, for some k."""


def race_acceptance(p: Any, q: Any, k: int) -> tuple[float, float]:
    """Return the probability that the race's output is among its k drafts, and the lemma's lower bound: p, q (n,) positive.

    Let y win list 1 at time t (rate k, y with probability p(y)), H(s) = sum_i (q_i s - p_i)+ and r_y = p_y / q_y. List 1
    drafts y with probability exp(-t H(r_y)), any other list with probability t q_y times the integral of exp(-t H)
    from r_y on, independently. The first alone gives the bound, sum of p_y k / (k + H(r_y)).
    """
    order = np.argsort(p / q, kind="stable")
    p, q = p[order], q[order]
    ratio, slope = p / q, np.cumsum(q)
    height = slope * ratio - np.cumsum(p)  # H at the ratios
    time = np.exp(np.arange(-36, 4, STEP))  # trapezoids in log t: the error falls like exp(-pi^2 / STEP)
    weight, t = STEP * time * np.exp(-time), time[:, None] / k
    own = np.exp(-t * height)
    steps = np.append(np.diff(ratio), np.inf)
    pieces = own * -np.expm1(-t * slope * steps) / slope
    others = q * np.cumsum(pieces[:, ::-1], -1)[:, ::-1]
    accepted = 1 - (1 - own) * (1 - np.minimum(others, 1)) ** (k - 1)
    return float(weight @ (accepted * p).sum(-1)), float((p * k / (k + height)).sum())


def compute(
    full: bool = False, jobs: int = 1, count: int = PAIRS, ks: tuple[int, ...] = tuple(range(1, 21))
) -> list[dict[str, Any]]:
    """Return a row per k and method: mean acceptance, standard error, number of pairs."""
    p, q = np.random.default_rng(SEED).dirichlet(np.ones(N), (2, count))
    checked, solved_ks = count if full else min(3, count), ks if full else ks[:: max(1, len(ks) // 4)]
    rows: list[dict[str, Any]] = []
    for k in ks:
        race = np.array([race_acceptance(*pair, k) for pair in zip(p, q, strict=True)])
        acceptances = {OPTIMUM: np.array(otd.optimal_acceptance(p, q, k)), RACE: race[:, 0], BOUND: race[:, 1]}
        for rule in RULES:
            acceptances[rule.name] = np.array(expected_acceptance(rule, otd.Problem(p, q, k)).value)
        if k in solved_ks:
            solutions = [otd.solve(otd.Problem(p[i], q[i], k), "highs") for i in range(checked)]
            acceptances[LP] = np.array([float(solution.acceptance) for solution in solutions])
        for way, values in acceptances.items():
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0
            off = abs(values - acceptances[OPTIMUM][: len(values)]).max() if way == LP else ""
            rows.append({"k": k, "way": way, "mean": values.mean(), "error": error, "pairs": len(values), "off": off})
    return rows


def numbers(rows: style.Rows) -> list[Number]:
    """Return race and optimum at several k, with the lemma's bound, and the gap between the linear programs and the dual."""
    lines = []
    for k in ("1", "5", "20"):
        by_way = {row["way"]: row for row in rows if row["k"] == k}
        for way in (OPTIMUM, RACE) if by_way else ():
            what, mean, error = f"{way}, k = {k}", float(by_way[way]["mean"]), float(by_way[way]["error"])
            bound = float(by_way[BOUND]["mean"]) if way == RACE else None
            lines.append(Number(what, mean, bound, "≥" if bound else "=", "the lemma's bound" if bound else "", error))
    curves = {
        way: {int(row["k"]): float(row["mean"]) for row in rows if row["way"] == way}
        for way in (RACE, "RecursiveRejection")
    }
    passed = [k for k, value in curves[RACE].items() if value > curves["RecursiveRejection"][k]]
    lines += [Number("smallest k where the race exceeds recursive rejection", min(passed))] if passed else []
    off = [float(row["off"]) for row in rows if row["off"]]
    return [*lines, Number("largest distance of a linear program from the dual", max(off))]


def draw(rows: style.Rows) -> Any:
    """Draw acceptance on the left, the gap of the race to the optimum on the right."""
    figure, panels = style.canvas(2, CAPTION, share_y=False)
    optimum = {row["k"]: float(row["mean"]) for row in rows if row["way"] == OPTIMUM}
    entries: list[list[style.Entry]] = [[], []]
    for way_rows in style.split(rows, "way"):
        way = way_rows[0]["way"]
        look = style.look(way)
        k, mean, error = (np.array([float(row[name]) for row in way_rows]) for name in ("k", "mean", "error"))
        if way == LP:
            panels[0].plot(k, [optimum[row["k"]] for row in way_rows], "s", ms=7, mfc="none", mec="#000000", mew=0.9)
            continue
        gap = np.array([optimum[row["k"]] for row in way_rows]) - mean
        for axes, ends, values in zip(panels, entries, (mean, gap), strict=True):
            if way != OPTIMUM or axes is panels[0]:
                axes.plot(k, values, color=look.colour, ls=look.line, marker=look.marker or None, ms=3.5, lw=1.3)
                ends.append((k[-1], values[-1], look.label, look.colour))
        panels[0].fill_between(k, mean - error, mean + error, color=look.colour, alpha=0.12, lw=0)
    panels[0].set(title=f"{rows[0]['pairs']} pairs, {N} tokens", ylabel="acceptance probability")
    panels[1].set(title="gap to the optimum", ylabel="optimum minus acceptance")
    for axes in panels:
        axes.set(xlabel="number of draft tokens k", xticks=[1, 5, 10, 15, 20])
    style.label(panels, entries)
    return figure
