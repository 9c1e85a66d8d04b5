"""K-SEQ's division factor: acceptance and validity against gamma, and gamma* on real pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures import style
from figures.about import About, Number
from ot_draft.data import read_pairs

FILE = style.DATA / "smollm2_pairs.npz"
PANELS = {"target Ber(1/2), draft Ber(1/4), k = 2": 2, "one real context, k = 8": 8}
BLUE, ORANGE, BLACK, GREEN = "#0072B2", "#D55E00", "#000000", "#009E73"
ABOUT = About(
    title="The division factor gamma",
    claim="K-SEQ's rule is valid from gamma* on, where its acceptance 1 - (1 - beta)^k equals gamma beta. It is best there, "
    "because the acceptance decreases in gamma. gamma* is between 1 and k.",
    source="Sun et al. 2023 (SpecTr), Algorithm 2 and Theorem 1",
    comparison="The paper states this for every pair; the number is a check value of the theory page.",
)
CAPTION = """beta(gamma) = sum of min(q, p/gamma): the probability that one draft token is accepted. p_acc(gamma) = 1 - (1 - beta)^k: the
probability that one of k is. The rule is valid where p_acc does not exceed gamma beta = sum of min(gamma q, p), which
excludes the grey region. The dot is K-SEQ: gamma*, by bisection. Right: gamma* on the real pairs (figures/data, both
temperatures), median and the central 50 and 90 % of the contexts; it is in [1, k], the dashed lines."""


def compute(
    full: bool = False,
    jobs: int = 1,
    points: int = 121,
    count: int | None = None,
    ks: tuple[int, ...] = (1, 2, 4, 8, 16, 32),
) -> list[dict[str, Any]]:
    """Return rows of the two pairs by gamma, and of all real pairs by k."""
    real = read_pairs(FILE)
    real = real if count is None else real.first(count)
    typical = np.argsort(np.minimum(real.p, real.q).sum(-1), kind="stable")[len(real) // 2]
    pairs = [(np.array([0.5, 0.5]), np.array([0.75, 0.25])), (real.p[typical], real.q[typical])]
    rows: list[dict[str, Any]] = []
    for (panel, k), (p, q) in zip(PANELS.items(), pairs, strict=True):
        for gamma in [*np.linspace(1, k, points), best_factor(p, q, k)]:
            beta = acceptance_of_one(p, q, gamma)
            rows.append({"panel": panel, "x": gamma, "beta": beta, "p_acc": 1 - (1 - beta) ** k, "most": gamma * beta})
    for k in ks:
        factors = [best_factor(p, q, k) for p, q in zip(real.p, real.q, strict=True)]
        low, lower, median, upper, high = np.quantile(factors, (0.05, 0.25, 0.5, 0.75, 0.95)).tolist()
        line = {"panel": f"{len(real)} real pairs", "x": k, "beta": median, "p_acc": lower, "most": upper}
        rows.append(line | {"low": low, "high": high})
    return [{"low": "", "high": ""} | row for row in rows]


def acceptance_of_one(p: Any, q: Any, gamma: float) -> float:
    """Return beta(gamma)."""
    return float(np.minimum(q, p / gamma).sum())


def best_factor(p: Any, q: Any, k: int) -> float:
    """Return gamma* by bisection, rounded up; independent of the library's implementation."""
    low, high = 1.0, float(k)
    if _is_valid(p, q, k, low):
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_valid(p, q, k, middle) else (middle, high)
    return high


def _is_valid(p: Any, q: Any, k: int, gamma: float) -> bool:
    beta = acceptance_of_one(p, q, gamma)
    return 1 - (1 - beta) ** k <= gamma * beta


def numbers(rows: style.Rows) -> list[Number]:
    """Return K-SEQ's numbers on the Bernoulli pair, and the median of gamma* on the real pairs."""
    bernoulli = [row for row in rows if row["panel"].startswith("target")][-1]
    lines = [Number("acceptance at gamma*, Ber(1/4) for Ber(1/2), k = 2", float(bernoulli["p_acc"]), 0.8476)]
    lines.append(Number("gamma* there", float(bernoulli["x"])))
    real = [row for row in rows if row["low"]]
    return lines + [Number(f"gamma*, median of the real pairs, k = {row['x']}", float(row["beta"])) for row in real[1:]]


def draw(rows: style.Rows) -> Any:
    """Draw acceptance and validity of two pairs, and gamma* against k."""
    figure, panels = style.canvas(3, CAPTION, share_y=False)
    entries: list[list[style.Entry]] = []
    for axes, panel_rows in zip(panels, style.split(rows, "panel"), strict=True):
        x, beta, accepted, most = ([float(row[name]) for row in panel_rows] for name in ("x", "beta", "p_acc", "most"))
        axes.set_title(panel_rows[0]["panel"])
        if panel_rows[0]["low"]:
            low, high = ([float(row[name]) for row in panel_rows] for name in ("low", "high"))
            axes.fill_between(x, low, high, color=BLUE, alpha=0.15, lw=0)
            axes.fill_between(x, accepted, most, color=BLUE, alpha=0.3, lw=0)
            axes.plot(x, beta, color=BLUE, lw=1.6, marker="o", ms=4)
            axes.plot(x, np.transpose([np.ones(len(x)), x]), ls="--", color=BLACK, lw=1)
            axes.set(
                xscale="log", yscale="log", xlabel="number of draft tokens k", ylabel=r"division factor $\gamma^*$"
            )
            for axis, values in ((axes.xaxis, x), (axes.yaxis, x)):
                axis.set_ticks(values, [f"{value:g}" for value in values])
            axes.minorticks_off()
            entries.append([(x[-1], x[-1], "k", BLACK), (x[-1], 1, "1", BLACK), (x[-1], beta[-1], "median", BLUE)])
            continue
        (*x, star), (*beta, _), (*accepted, best), (*most, _) = x, beta, accepted, most
        axes.axvspan(1, star, color="#000000", alpha=0.07, lw=0)
        entries.append([])
        names = (r"$\gamma\beta$", "$p_{acc}$", r"$\beta$")
        for values, colour, name in zip((most, accepted, beta), (BLACK, ORANGE, GREEN), names, strict=True):
            axes.plot(x, values, color=colour, ls="--" if values is most else "-", lw=1.5)
            entries[-1].append((x[-1], values[-1], name, colour))
        axes.plot(star, best, "o", color=ORANGE, ms=7)
        text = f"$\\gamma^*$ = {star:.3f},\nacceptance {best:.4f}"
        line = {"arrowstyle": "-", "color": ORANGE, "lw": 0.6}
        axes.annotate(text, (star, best), (0, -38), textcoords="offset points", ha="center", arrowprops=line)
        axes.text(1 + 0.02 * (x[-1] - 1), min(beta), "not valid", fontsize=8, color="#5F5F5F", va="bottom")
        axes.set(xlabel=r"division factor $\gamma$", ylabel="probability")
    style.label(panels, entries)
    return figure
