"""Run time of the linear program's solvers, of POT's network simplex, of the rules and of the optimum, as n and k grow; one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
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
POT = "pot"  # `pip install POT`, the peer that a user of optimal transport would take; left out where it is missing
PEERS = {**style.SOLVERS, POT: style.Look("#1B7837", "v", "-", "network simplex: POT's ot.emd")}
SIDE_BY_SIDE = ((20, 2), (30, 3), (12, 5))  # (n, k) at which all of PEERS are timed in turns
MOST_TUPLES = 5_000_000  # that POT's program is built from, by enumeration
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
    " Rules: one selection with its\nset-up, batch of one, drafts given. Curves of slow solvers end early. {pot}"
)
WITH_POT = "POT: the same program with a dense cost, built by enumeration of all drafts, and solved; no certificate."
WITHOUT_POT = "POT is not installed here and left out."


def compute(
    full: bool = False,
    jobs: int = 1,
    sizes: tuple[int, ...] = SIZES,
    ks: tuple[int, ...] = (1, 2, 3, 4, 6, 8),
    n_of_rules: int = N_OF_RULES,
    beside: tuple[tuple[int, int], ...] = SIDE_BY_SIDE,
) -> list[dict[str, Any]]:
    """One row a panel, method and size: median of the repeats, in seconds."""
    limit = FULL_LIMIT if full else QUICK_LIMIT
    peers = [name for name in PEERS if name != POT or find_spec("ot")]
    rows = [row for size in beside for row in in_turns(peers, *size)]
    for name in (*peers, "optimum", *RULES):
        on = N_OF_PROGRAMS if name in peers else n_of_rules
        for panel, points in (("n", [(n, K) for n in sizes]), ("k", [(on, k) for k in ks])):
            for (n, k), seconds in zip(points, _times(name, points, limit), strict=False):
                rows.append({"panel": panel, "method": name, "n": n, "k": k, "seconds": seconds})
    return rows


def in_turns(peers: list[str], n: int, k: int) -> list[dict[str, Any]]:
    """All solvers of one program, one after the other and again, so that a busy moment falls on all: medians in seconds."""
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(REPEATS + 1):
        for name in peers:
            try:
                times[name].append(_timed(_call(name, n, k)))
            except (ot.SolverFailed, ot.MissingPackage):
                times[name] = []
    measured = {name: seconds[1:] for name, seconds in times.items() if len(seconds) > REPEATS}  # the first may import
    return [
        {"panel": "side by side", "method": name, "n": n, "k": k, "seconds": median(seconds)}
        for name, seconds in measured.items()
    ]


def _times(name: str, points: list[tuple[int, int]], limit: float) -> Iterator[float]:
    """Median seconds of each point, until one takes longer than the limit or is refused."""
    for n, k in points:
        try:
            seconds = seconds_of(_call(name, n, k), limit, warm=name not in PEERS)
        except (ot.SolverFailed, ot.InvalidArgument, ot.MissingPackage):
            return
        yield seconds
        if seconds > limit:
            return


def _call(name: str, n: int, k: int) -> Callable[[], object]:
    generator = np.random.default_rng(n)
    p, q = generator.dirichlet(np.ones(n), 2)
    if name == POT:
        if n**k > MOST_TUPLES:
            raise ot.InvalidArgument(f"{n}^{k} drafts are too many to enumerate for POT")
        return partial(by_network_simplex, p, q, k)
    if name in style.SOLVERS:
        return partial(ot.solve, ot.Problem(p, q, k), name)
    if name == "optimum":
        return partial(ot.optimal_acceptance, p, q, k)
    return partial(RULES[name], p, q, ot.draw(RULES[name].law, q, k, generator))


def by_network_simplex(p: Any, q: Any, k: int) -> float:
    """The optimum as whoever knows transport computes it: from the law of the draft sets to p, at cost 1 where the set lacks the token."""
    import ot as pot  # the package POT

    n = len(p)
    drafts = np.sort(np.stack([axis.ravel() for axis in np.indices((n,) * k)], axis=-1), axis=-1)
    weights = q[drafts].prod(-1)
    drafts[:, 1:][drafts[:, 1:] == drafts[:, :-1]] = n  # a token that was drafted before
    drafts.sort(axis=-1)
    _, first, of = np.unique(drafts @ (n + 1) ** np.arange(k), return_index=True, return_inverse=True)
    cost = np.ones((len(first), n + 1))
    np.put_along_axis(cost, drafts[first], 0, axis=-1)
    cost = np.ascontiguousarray(cost[:, :n])
    plan = pot.emd(np.bincount(of, weights), p, cost, numItermax=10_000_000)
    return 1 - float((plan * cost).sum())


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
    most = max(int(row["n"]) for row in rows if row["panel"] == "n")
    for row in (row for row in rows if row["panel"] == "n"):
        name = NAMES.get(row["method"], style.look(row["method"]).label)
        if int(row["n"]) == most:
            lines.append(Number(f"ms, n = {most:,}, k = {K}: {name}", 1e3 * float(row["seconds"])))
    for row in (row for row in rows if row["panel"] == "side by side"):
        what = f"ms in turns, n = {row['n']}, k = {row['k']}: {PEERS[row['method']].label}"
        lines.append(Number(what, 1e3 * float(row["seconds"])))
    for name, look in PEERS.items():
        reached = [int(row["n"]) for row in rows if row["method"] == name and row["panel"] == "n"]
        lines += [Number(f"tokens reached: {look.label}", max(reached))] if reached else []
    return lines


def draw(rows: style.Rows) -> Any:
    """Left against n, right against k, log-log."""
    with_pot = any(row["method"] == POT for row in rows)
    figure, panels = style.canvas(2, CAPTION.format(pot=WITH_POT if with_pot else WITHOUT_POT))
    entries: list[tuple[list[style.Entry], list[style.Entry]]] = []
    for axes, panel in zip(panels, ("n", "k"), strict=True):
        panel_rows = [row for row in rows if row["panel"] == panel]
        entries.append(([], []))
        axes.margins(y=0.12)
        axes.set(xscale="log", yscale="log", ylabel="time of one call (s)")
        for name in dict.fromkeys(row["method"] for row in panel_rows):
            points = [(int(row[panel]), float(row["seconds"])) for row in panel_rows if row["method"] == name]
            look = PEERS.get(name) or style.look(name)
            options = {"color": look.colour, "marker": look.marker or None, "ms": 4, "lw": 1.2}
            axes.plot(*zip(*points, strict=True), ls=look.line, **options)
            entries[-1][name in PEERS].append((*points[-1], NAMES.get(name, look.label), look.colour))
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
