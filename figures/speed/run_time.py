"""Time and memory of the optimum, its construction, the solvers of the program and the rules, as n and k grow; one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from math import comb, inf
from statistics import median
from time import perf_counter
from typing import Any

import ot_draft as otd
from figures import style
from figures.about import About, Number
from figures.speed.methods import FIRST, OURS, PACKAGES, PEERS, RULES, call, label_of, megabytes

K, N_OF_PROGRAMS, N_OF_RULES = 2, 12, 32_768  # fixed values in the left and in the right panel
SIZES = (4, 8, 16, 32, 64, 128, 256, 1024, 4096, 16_384, 65_536, 151_936)
REPEATS = 5  # of a fast call
FULL_LIMIT, QUICK_LIMIT = 30.0, 0.2  # seconds per solve; the curve ends with the first point above
SIDE_BY_SIDE = (  # (n, k) of the interleaved timings
    *((n, 2) for n in (10, 20, 50, 100, 1000, 151_936)),
    *((20, 3), (30, 3), (40, 3), (12, 5), (1000, 8), (10_000, 4), (151_936, 8)),
)
TITLES = {"n": f"k = {K}", "k": f"programs on {N_OF_PROGRAMS} tokens, rules on {N_OF_RULES:,}"}
ABOUT = About(
    title="Run time",
    claim="Solvers of the linear program are infeasible from dozens of tokens or a few draft tokens on. The optimum with its "
    "plan, and the rules, Optimal among them, take milliseconds on a whole vocabulary.",
    source="Sun et al. 2023 (SpecTr): exact optimum exponential in k, K-SEQ near-linear; construction, Optimal: this project",
    comparison="Global Resolution (Thomas and Pal 2025) states less than 100 ms per token for the optimum, on another machine. Run "
    "times of different machines are not comparable: only their growth is.",
)
CAPTION = """p, q ~ Dirichlet(1), float64, one thread; median of up to five calls. LP: building, solving and certifying the program.
Network simplex: its cost matrix is given. Rules: one selection with set-up, batch of one, draft tokens given. Curves of slow
solvers end early. {missing}"""


def compute(
    full: bool = False,
    jobs: int = 1,
    sizes: tuple[int, ...] = SIZES,
    ks: tuple[int, ...] = (1, 2, 3, 4, 6, 8),
    n_of_rules: int = N_OF_RULES,
    beside: tuple[tuple[int, int], ...] = SIDE_BY_SIDE,
) -> list[dict[str, Any]]:
    """Return a row per panel, method and size: median of the repeats in seconds; interleaved ones with `full` also megabytes."""
    limit = FULL_LIMIT if full else QUICK_LIMIT
    peers = [name for name in PEERS if find_spec(PACKAGES.get(name, "scipy"))]
    rows = in_turns([*OURS, *peers], beside, limit, memory=full)
    for name in (*peers, "optimum", "construction", *RULES):
        on = N_OF_PROGRAMS if name in peers else n_of_rules
        for panel, points in (("n", [(n, K) for n in sizes]), ("k", [(on, k) for k in ks])):
            for (n, k), seconds in zip(points, _times(name, points, limit), strict=False):
                rows.append(_row(panel, name, n, k, seconds))
    return rows


def _row(panel: str, name: str, n: int, k: int, seconds: float, megabytes: Any = "") -> dict[str, Any]:
    return {"panel": panel, "method": name, "n": n, "k": k, "seconds": seconds, "megabytes": megabytes}


def in_turns(
    names: list[str], sizes: tuple[tuple[int, int], ...], limit: float, memory: bool = False
) -> list[dict[str, Any]]:
    """Time all methods of one problem interleaved, so that load affects all: medians in seconds.

    A method that exceeds the limit is not tried with more draft sets; one that raises an error for a size is omitted.
    """
    rows: list[dict[str, Any]] = []
    names = [name for name in names if _is_ready(name)]
    reach: dict[str, float] = dict.fromkeys(names, inf)
    for n, k in sorted(sizes, key=lambda size: draft_sets(*size)):
        here = [name for name in names if draft_sets(n, k) <= reach[name]]
        times: dict[str, list[float]] = {name: [] for name in here}
        for _ in range(REPEATS + 1):
            for name in [name for name in here if sum(times[name]) <= limit]:
                try:
                    times[name].append(_timed(call(name, n, k)))
                except (otd.SolverFailed, otd.InvalidArgument, otd.MissingPackage):
                    here.remove(name)
        for name in here:
            first, *later = times[name]
            reach[name] = draft_sets(n, k) if first > limit else reach[name]
            taken = megabytes(name, n, k) if memory else ""
            rows.append(_row("side by side", name, n, k, median(later or [first]), taken))
    return rows


def _is_ready(name: str) -> bool:
    """Return whether a method runs: a first call, which imports and compiles."""
    try:
        call(name, *FIRST)()
    except (otd.SolverFailed, otd.MissingPackage):
        return False
    return True


def draft_sets(n: int, k: int) -> int:
    """Return the number of sets of 1 to k of n tokens."""
    return sum(comb(n, size) for size in range(1, k + 1))


def _times(name: str, points: list[tuple[int, int]], limit: float) -> Iterator[float]:
    """Return median seconds of each point, until one takes longer than the limit or raises an error."""
    for n, k in points:
        try:
            seconds = seconds_of(call(name, n, k), limit, warm=name not in PEERS)
        except (otd.SolverFailed, otd.InvalidArgument, otd.MissingPackage):
            return
        yield seconds
        if seconds > limit:
            return


def seconds_of(call: Callable[[], object], limit: float, warm: bool = True) -> float:
    """Return the median time of repeats after a first call, which may import or compile; fewer repeats after half the limit.

    warm: if False, the time of a first call that exceeds the limit is returned.
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
    """Return milliseconds at the largest n; interleaved times; and the largest linear programs."""
    most = max(int(row["n"]) for row in rows if row["panel"] == "n")
    lines = [
        Number(f"ms, n = {most:,}, k = {K}: {label_of(row['method'])}", 1e3 * float(row["seconds"]))
        for row in rows
        if row["panel"] == "n" and int(row["n"]) == most
    ]
    for row in (row for row in rows if row["panel"] == "side by side"):
        what = f"ms, interleaved, n = {int(row['n']):,}, k = {row['k']}: {label_of(row['method'])}"
        lines.append(Number(what, 1e3 * float(row["seconds"])))
    for name, look in PEERS.items():
        reached = [int(row["n"]) for row in rows if row["method"] == name and row["panel"] == "n"]
        lines += [Number(f"tokens reached: {look.label}", max(reached))] if reached else []
    return lines


def table(rows: style.Rows) -> str:
    """Return interleaved milliseconds and measured megabytes of one call: a row per size, a column per method."""
    side = [row for row in rows if row["panel"] == "side by side"]
    names = [name for name in (*OURS, *PEERS) if any(row["method"] == name for row in side)]
    parts = []
    for unit, column, factor in (("ms", "seconds", 1e3), ("MB", "megabytes", 1.0)):
        if not all(row[column] for row in side):
            continue
        cells = {(row["n"], row["k"], row["method"]): f"{factor * float(row[column]):,.4g}" for row in side}
        lines = [
            f"| {int(n):,}, {k} | " + " | ".join(cells.get((n, k, name), "") for name in names) + " |"
            for n, k in dict.fromkeys((row["n"], row["k"]) for row in side)
        ]
        heads = " | ".join(label_of(name) for name in names)
        parts.append("\n".join([f"| n, k: {unit} | {heads} |", "|---" * (len(names) + 1) + "|", *lines]))
    return "\n\n".join(parts)


def draw(rows: style.Rows) -> Any:
    """Draw times against n on the left, against k on the right, log-log."""
    missing = sorted({PACKAGES[name] for name in PACKAGES if not any(row["method"] == name for row in rows)})
    names = ["POT" if package == "ot" else package for package in missing]
    figure, panels = style.canvas(
        2, CAPTION.format(missing=f"Not installed here: {', '.join(names)}." if names else "")
    )
    entries: list[tuple[list[style.Entry], list[style.Entry]]] = []
    for axes, panel in zip(panels, ("n", "k"), strict=True):
        panel_rows = [row for row in rows if row["panel"] == panel]
        entries.append(([], []))
        axes.margins(y=0.12)
        axes.set(xscale="log", yscale="log", ylabel="time, s")
        for name in dict.fromkeys(row["method"] for row in panel_rows):
            points = [(int(row[panel]), float(row["seconds"])) for row in panel_rows if row["method"] == name]
            look = PEERS.get(name) or OURS.get(name) or style.look(name)
            options = {"color": look.colour, "marker": look.marker or None, "ms": 4, "lw": 1.2}
            axes.plot(*zip(*points, strict=True), ls=look.line, **options)
            entries[-1][name in PEERS].append((*points[-1], look.label, look.colour))
        axes.set(xlabel="vocabulary size n" if panel == "n" else "number of draft tokens k", title=TITLES[panel])
    ks = sorted({int(row["k"]) for row in rows if row["panel"] == "k"})
    panels[1].set_xticks(ks, [str(k) for k in ks])
    panels[1].minorticks_off()
    panels[0].get_xlim()  # matplotlib scales axes only on request
    inside = panels[0].transData + panels[0].transAxes.inverted()
    ends = [inside.transform(entry[:2])[0] for entry in entries[0][1]]
    style.direct_labels(panels[0], entries[0][0])
    style.direct_labels(panels[0], entries[0][1], left=max(ends, default=1.0) + 0.06)  # at the ends of their curves
    style.direct_labels(panels[1], [*entries[1][0], *entries[1][1]])
    return figure
