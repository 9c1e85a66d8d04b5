"""Run time of the linear program's solvers, of the rules and of the optimum, as n and k grow; one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import ot_draft as ot
from figures import style
from figures.about import About, Number

K, N_OF_PROGRAMS, N_OF_RULES = 2, 12, 32_768  # what is held fixed in the left and in the right panel
SIZES = (4, 8, 16, 32, 64, 128, 256, 1024, 4096, 16_384, 65_536, 151_936)
REPEATS = 5  # of a call, where it is quick
FULL_LIMIT, QUICK_LIMIT = 30.0, 0.5  # seconds a solve; the curve ends with the first point above
RULES = {
    **{rule.name: rule for rule in ot.rules.ALL if not rule.solves and rule.law.is_defined(8)},
    "Optimal, 1024 classes": ot.rules.Optimal(classes=1024),
}
NAMES = {"optimum": "optimum (dual), i.i.d."}
TITLES = {"n": f"k = {K}", "k": f"programs on {N_OF_PROGRAMS} tokens, rules on {N_OF_RULES:,}"}
ABOUT = About(
    title="Run time",
    claim="The linear program grows out of reach within dozens of tokens or a few drafts; the rules, Optimal among them, run in"
    " milliseconds on a whole vocabulary.",
    source="Sun et al. 2023 (SpecTr): exact optimum exponential in k, K-SEQ near-linear; Optimal: this project",
    comparison="Run times of other machines are not set beside ours: what is reproduced is how they grow.",
)
CAPTION = (
    "p, q ~ Dirichlet(1), float64, one thread; median of up to five calls. LP: building, solving and certifying the program."
    " Rules: one selection with its\nset-up, batch of one, drafts given. Curves of slow solvers end early."
)


def compute(
    full: bool = False,
    jobs: int = 1,
    sizes: tuple[int, ...] = SIZES,
    ks: tuple[int, ...] = (1, 2, 3, 4, 6, 8),
    n_of_rules: int = N_OF_RULES,
) -> list[dict[str, Any]]:
    """One row a panel, method and size: median of the repeats, in seconds."""
    limit = FULL_LIMIT if full else QUICK_LIMIT
    rows = []
    for name in (*style.SOLVERS, "optimum", *RULES):
        on = N_OF_PROGRAMS if name in style.SOLVERS else n_of_rules
        for panel, points in (("n", [(n, K) for n in sizes]), ("k", [(on, k) for k in ks])):
            for (n, k), seconds in zip(points, _times(name, points, limit), strict=False):
                rows.append({"panel": panel, "method": name, "n": n, "k": k, "seconds": seconds})
    return rows


def _times(name: str, points: list[tuple[int, int]], limit: float) -> Iterator[float]:
    """Median seconds of each point, until one takes longer than the limit or is refused."""
    for n, k in points:
        try:
            seconds = seconds_of(_call(name, n, k), limit, warm=name not in style.SOLVERS)
        except (ot.SolverFailed, ot.InvalidArgument, ot.MissingPackage):
            return
        yield seconds
        if seconds > limit:
            return


def _call(name: str, n: int, k: int) -> Callable[[], object]:
    generator = np.random.default_rng(n)
    p, q = generator.dirichlet(np.ones(n), 2)
    if name in style.SOLVERS:
        return partial(ot.solve, ot.Problem(p, q, k), name)
    if name == "optimum":
        return partial(ot.optimal_acceptance, p, q, k)
    return partial(RULES[name], p, q, ot.draw(RULES[name].law, q, k, generator))


def seconds_of(call: Callable[[], object], limit: float, warm: bool = True) -> float:
    """Median of the repeats after a first call, which may import or compile; fewer once half the limit is spent.

    warm: False takes a first call that lasts longer than the limit for the answer.
    """
    first = _timed(call)
    times = [first] if first > limit and not warm else []
    while not times or (len(times) < REPEATS and sum(times) <= limit / 2):
        times.append(_timed(call))
    return median(times)


def _timed(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def numbers(rows: style.Rows) -> list[Number]:
    """Milliseconds at the largest n, of everything that gets there, and how far the linear programs get."""
    lines = []
    most = max(int(row["n"]) for row in rows)
    for row in (row for row in rows if row["panel"] == "n"):
        name = NAMES.get(row["method"], style.look(row["method"]).label)
        if int(row["n"]) == most:
            lines.append(Number(f"ms, n = {most:,}, k = {K}: {name}", 1e3 * float(row["seconds"])))
    for name, look in style.SOLVERS.items():
        reached = [int(row["n"]) for row in rows if row["method"] == name and row["panel"] == "n"]
        lines += [Number(f"tokens reached: {look.label}", max(reached))] if reached else []
    return lines


def draw(rows: style.Rows) -> Any:
    """Left against n, right against k, log-log."""
    figure, panels = style.canvas(2, CAPTION)
    entries: list[tuple[list[style.Entry], list[style.Entry]]] = []
    for axes, panel in zip(panels, ("n", "k"), strict=True):
        panel_rows = [row for row in rows if row["panel"] == panel]
        entries.append(([], []))
        axes.margins(y=0.12)
        axes.set(xscale="log", yscale="log", ylabel="time of one call (s)")
        for name in dict.fromkeys(row["method"] for row in panel_rows):
            points = [(int(row[panel]), float(row["seconds"])) for row in panel_rows if row["method"] == name]
            look = style.SOLVERS.get(name) or style.look(name)
            options = {"color": look.colour, "marker": look.marker or None, "ms": 4, "lw": 1.2}
            axes.plot(*zip(*points, strict=True), ls=look.line, **options)
            entries[-1][name in style.SOLVERS].append((*points[-1], NAMES.get(name, look.label), look.colour))
        axes.set(xlabel="vocabulary size n" if panel == "n" else "number of drafts k", title=TITLES[panel])
    ks = sorted({int(row["k"]) for row in rows if row["panel"] == "k"})
    panels[1].set_xticks(ks, [str(k) for k in ks])
    panels[1].minorticks_off()
    panels[0].get_xlim()  # matplotlib scales axes when it is asked
    inside = panels[0].transData + panels[0].transAxes.inverted()
    ends = [inside.transform(entry[:2])[0] for entry in entries[0][1]]
    style.direct_labels(panels[0], entries[0][0])
    style.direct_labels(panels[0], entries[0][1], left=max(ends, default=1.0) + 0.06)  # where their curves end
    style.direct_labels(panels[1], [*entries[1][0], *entries[1][1]])
    return figure
