"""SpecTr's Table 1 beside the path rules on real models: block efficiency on the same trees, and wall clock on a CPU.

Sun et al., SpecTr: fast speculative decoding via optimal transport, NeurIPS 2023, Table 1 (LM1B; PaLM-2 Gecko drafts for Bison).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from figures import style
from figures.about import About, Number
from figures.paths.control_variates import mean_and_error
from figures.paths.path_rules import JOINT, KSEQ, look
from figures.paths.spectr_table_1 import PUBLISHED, TABLE

TREES = style.DATA / "real_block_efficiency.csv"
BENCH = style.DATA / "bench_cpu.csv"
ONE = "TokenWise(SpeculativeSampling)"
# By block efficiency at K = 8, L = 4, as expected: each is compared with the next one.
ORDER = (JOINT, "TokenWise(Optimal)", KSEQ, "TokenWise(RecursiveRejection)", ONE)
MEASURED = dict(zip(ORDER, ("joint", "optimal", "kseq", "recursiverejection", "speculativesampling"), strict=True))
GAP = " over "
ABOUT = About(
    title="SpecTr's Table 1 on real models",
    claim="With eight drafted paths in the place of one, fewer target calls are needed on a real pair, too, and joint selection needs the"
    " fewest; on a CPU, where a target call costs more for every drafted token, none of it pays.",
    source="Sun et al., SpecTr, NeurIPS 2023, Table 1",
)
NOTE = "another pair and other texts: our draft accepts about one drafted token in three"
CPU = "ours on a CPU, where a target call costs more for every position that it reads"
CAPTION = """Black diamonds: SpecTr's published numbers, with K-SEQ. Ours: SmolLM2-135M-Instruct, its draft of two layers,
temperature 1. Left: expected tokens a target call given the drafted trees, all rules on the same {trees} trees of {texts} texts
(a quarter of them at L = 8), control variates for the luck of the drafts, one standard error over texts. Right: tokens a second over
autoregressive decoding by the same engine, {machine}, load {load}; runs in turns, one standard error."""


def compute(full: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """A row for each rule and (K, L), published and ours, and for each gap between neighbours of ORDER; from committed data."""
    trees, bench = style.read(TREES), style.read(BENCH)
    common: dict[str, Any] = {"trees": sum(int(row["trees"]) for row in trees), "texts": len(trees)}
    common |= {"machine": bench[0]["machine"], "load": bench[0]["load"]}
    rows: list[dict[str, Any]] = []
    for (K, L), (published, speed_up) in PUBLISHED.items():
        theirs = {"block_efficiency": published, "error": 0, "speed_up": speed_up, "speed_up_error": 0}
        rows.append({"rule": TABLE, "K": K, "L": L} | theirs | common)
        for rule in (ONE, JOINT) if K == 1 else ORDER[:-1]:
            found: dict[str, Any] = {"rule": rule, "K": K, "L": L} | efficiency(trees, [(1, column(rule, K, L))], 1)
            rows.append(found | speed(bench, rule, K, L) | common)
    for better, worse in pairwise(ORDER):
        pair = [(1, column(better, 8, 4)), (-1, column(worse, 1 if worse == ONE else 8, 4))]
        gap = {"rule": better + GAP + worse, "K": 8, "L": 4} | efficiency(trees, pair, 0)
        rows.append(gap | {"speed_up": "", "speed_up_error": ""} | common)
    return rows


def column(rule: str, K: int, L: int) -> str:
    """Name of a column of the trees' file; for one path, joint selection is block verification."""
    return f"{'BlockVerification' if (rule, K) == (JOINT, 1) else rule} {K}x{L}"


def efficiency(trees: style.Rows, terms: list[tuple[int, str]], start: float) -> dict[str, float]:
    """start plus a sum of columns, averaged over trees, with its error over texts."""
    rows = [row for row in trees if all(row[name] for _, name in terms)]
    values = start + sum(sign * np.array([float(row[name]) for row in rows]) for sign, name in terms)
    weights = np.array([float(row["trees"]) for row in rows])
    names = sorted((name for name in trees[0] if name.startswith("control")), key=lambda name: "Optimal" not in name)
    controls = np.array([[float(row[name]) for name in names] for row in rows])
    mean, error = mean_and_error(np.asarray(values), weights, controls)
    return {"block_efficiency": mean, "error": error}


def speed(bench: style.Rows, rule: str, K: int, L: int) -> dict[str, Any]:
    """Measured speed-up of a rule, one text at a time, at temperature 1."""
    wanted = ("block" if (rule, K) == (JOINT, 1) else MEASURED[rule], "iid", str(K), str(L), "1", 1.0)
    names = ("rule", "law", "K", "L", "batch")
    found = next(row for row in bench if (*(row[name] for name in names), float(row["temperature"])) == wanted)
    return {name: found[name] for name in ("speed_up", "speed_up_error")}


def numbers(rows: style.Rows) -> list[Number]:
    """Block efficiency and speed-up beside the published ones, and the gaps between rules."""
    found = []
    for row in rows:
        said = f"K = {row['K']}, L = {row['L']}"
        value, error = float(row["block_efficiency"]), float(row["error"])
        if GAP in row["rule"]:
            better, worse = (look(rule).label for rule in row["rule"].split(GAP))
            said = f"block efficiency at {said}: {better} over {worse}"
            found.append(Number(said + ("" if value > 3 * error else " (indistinguishable)"), value, error=error))
        elif row["rule"] in (KSEQ, JOINT, ONE):
            theirs = PUBLISHED[int(row["K"]), int(row["L"])]
            name = look(row["rule"]).label
            found.append(Number(f"block efficiency, {name}, {said}", value, theirs[0], "~", NOTE, error))
            gain, spread = float(row["speed_up"]), float(row["speed_up_error"])
            found.append(Number(f"speed-up on this CPU, {name}, {said}", gain, theirs[1], "~", CPU, spread))
    return found


def draw(rows: style.Rows) -> Any:
    """Block efficiency and speed-up, a group for each (K, L)."""
    figure, panels = style.canvas(2, CAPTION.format(**rows[0]), share_y=False)
    entries: list[list[style.Entry]] = [[], []]
    sizes = list(PUBLISHED)
    for number, found in enumerate(style.split([row for row in rows if GAP not in row["rule"]], "rule")):
        shown = style.Look("#000000", "d", "", TABLE) if found[0]["rule"] == TABLE else look(found[0]["rule"])
        place = [sizes.index((int(row["K"]), int(row["L"]))) + 0.11 * (number - 2.5) for row in found]
        parts = (("block_efficiency", "error"), ("speed_up", "speed_up_error"))
        for axes, names, (value, error) in zip(panels, entries, parts, strict=True):
            y, bars = ([float(row[name]) for row in found] for name in (value, error))
            axes.errorbar(place, y, bars, color=shown.colour, marker=shown.marker, ls="", ms=5, elinewidth=0.8)
            names.append((place[-1], y[-1], shown.label, shown.colour))
    for axes, title in zip(panels, ("block efficiency: tokens a target call", "speed-up, ours on a CPU"), strict=True):
        axes.set_xticks(range(len(sizes)), [f"K = {K}\nL = {L}" for K, L in sizes])
        axes.set(title=title, ylim=(0, None))
    style.label(panels, entries)
    return figure
