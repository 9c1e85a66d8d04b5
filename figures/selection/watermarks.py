"""Watermarks: strength against acceptance for k draft tokens, proved optimal on a small pair; power of detection by rule."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number
from proofs_checks.races.watermarks import cells, frontier_point
from proofs_checks.random_cases import Case

P, Q = ((Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)), (Fraction(1, 10), Fraction(3, 10), Fraction(6, 10)))
RACE, NONE = "race", "no key"
RULES = (otd.rules.KSeq(), otd.rules.Optimal())
FALSE_ALARM, SEED = 0.01, 38
COLOURS = {1: "#A0A0A0", 2: "#0072B2", 4: "#D55E00", 8: "#000000"}
ABOUT = About(
    title="What a watermark costs in acceptance",
    claim="No rule has both: the watermark of full strength has the acceptance of the races of k lists, which is less than the "
    "optimum. One unit of strength costs at most one unit of acceptance. A rule that uses the races' draft tokens token by "
    "token keeps part of the signal.",
    source="this project; Hu and Huang 2024 (2410.20418) for one draft; lists: Rowan, Phan and Khisti 2025",
    comparison="Hu and Huang show that both extremes exclude each other. We found no publication of the frontier for k draft tokens.",
)
CAPTION = """Left: p = (0.5, 0.3, 0.2), q = (0.1, 0.3, 0.6). Strength: probability that the token is that of the key's race. Every point
maximises acceptance + price x strength, proved in rational numbers. Right: {tokens} tokens in simulated contexts of n = {n}
tokens, k = {k}; power: share of sequences of that many tokens that are detected at a false-positive rate of 1 %, tokens
sampled from these."""


def compute(
    full: bool = False,
    jobs: int = 1,
    ks: tuple[int, ...] = (1, 2, 4, 8),
    steps: int = 20,
    contexts: int = 150,
    n: int = 100,
    k: int = 4,
) -> list[dict[str, Any]]:
    """Return rows of the frontier, by k and price, and rows of detection, by rule."""
    rows: list[dict[str, Any]] = []
    for number in ks:
        masses, best = cells(Case(P, Q, number, 0)), otd.optimal_acceptance(list(P), list(Q), number)
        points = {frontier_point(masses, P, Fraction(2 * step + 1, 2 * steps)) for step in range(steps + 1)}
        for accepted, strength in sorted(points, key=lambda point: point[1]):
            row = {"kind": "frontier", "k": number, "accepted": float(accepted), "strength": float(strength)}
            rows.append(row | {"optimum": float(best)})
    rows += _detection(contexts * 5 if full else contexts, n, k)
    names = {name: "" for row in rows for name in row}
    return [names | row for row in rows]


def _detection(contexts: int, n: int, k: int, draws: int = 20) -> list[dict[str, Any]]:
    from scipy.stats import gamma

    found: dict[str, list[tuple[float, bool]]] = {name: [] for name in (RACE, *(rule.name for rule in RULES), NONE)}
    for context in range(contexts):
        generator = np.random.default_rng([SEED, context])
        logits = 1.9 * generator.standard_exponential(n)
        p, q = (_softmax(x) for x in (logits, 0.85 * logits + 1.2 * generator.standard_normal(n)))
        races = generator.exponential(size=(draws, k, n))
        least, drafts = races.min(1), (races / q).argmin(-1)
        outputs = {RACE: (least / p).argmin(-1), NONE: generator.choice(n, draws, p=p)}
        for rule in RULES:
            laws = rule(np.tile(p, (draws, 1)), np.tile(q, (draws, 1)), drafts).output(drafts)
            outputs[rule.name] = (laws.cumsum(-1) < generator.random((draws, 1)) * laws.sum(-1, keepdims=True)).sum(-1)
        for name, tokens in outputs.items():
            scores = -np.log(-np.expm1(-k * np.take_along_axis(least, tokens[:, None], -1)[:, 0]))
            found[name] += zip(scores.tolist(), (drafts == tokens[:, None]).any(-1).tolist(), strict=True)
    rows = []
    for name, pairs in found.items():
        scores, accepted = (np.array(column) for column in zip(*pairs, strict=True))
        row = {"kind": "detection", "rule": name, "k": k, "n": n, "tokens": len(scores), "mean": scores.mean()}
        row |= {"accepted": "" if name == NONE else accepted.mean()}
        for length in (50, 200):
            sums = np.random.default_rng([SEED, length]).choice(scores, (4000, length)).sum(-1)
            row |= {f"z{length}": (scores.mean() - 1) * length**0.5}
            row |= {f"power{length}": (sums > gamma(length).isf(FALSE_ALARM)).mean()}
        rows.append(row)
    return rows


def _softmax(logits: np.ndarray) -> np.ndarray:
    masses = np.exp(logits - logits.max())
    return np.asarray(masses / masses.sum())


def numbers(rows: style.Rows) -> list[Number]:
    """Return both ends of each frontier, and acceptance and power of each rule."""
    lines = []
    for part in style.split([row for row in rows if row["kind"] == "frontier"], "k"):
        low, high = part[0], part[-1]
        lines += [
            Number(
                f"k = {low['k']}: largest acceptance",
                float(low["accepted"]),
                float(low["optimum"]),
                "=",
            ),
            Number(f"k = {low['k']}: strength at this acceptance", float(low["strength"])),
            Number(f"k = {low['k']}: acceptance at full strength", float(high["accepted"])),
        ]
    for row in (row for row in rows if row["kind"] == "detection"):
        lines += [
            Number(f"{row['rule']}: detected after {length} tokens", float(row[f"power{length}"]))
            for length in (50, 200)
        ]
        lines += [Number(f"{row['rule']}: acceptance", float(row["accepted"]))] if row["accepted"] else []
    return lines


def draw(rows: style.Rows) -> Any:
    """Draw the frontiers, and acceptance of the rules against z after 50 tokens."""
    found = [row for row in rows if row["kind"] == "detection"]
    figure, panels = style.canvas(2, CAPTION.format(**found[0]), share_y=False)
    entries: list[list[style.Entry]] = [[], []]
    for part in style.split([row for row in rows if row["kind"] == "frontier"], "k"):
        x, y = ([float(row[name]) for row in part] for name in ("strength", "accepted"))
        colour = COLOURS.get(int(part[0]["k"]), "#7F7F7F")
        panels[0].plot(x, y, marker="o", ms=3.5, lw=1.3, color=colour)
        panels[0].plot([x[0], x[-1]], [y[0], y[-1]], lw=0.7, ls=":", color=colour)  # mixtures of the ends
        entries[0].append((x[-1], y[-1], f"k = {part[0]['k']}", colour))
    for row in found:
        if row["accepted"]:
            panels[1].plot(float(row["z50"]), float(row["accepted"]), "o", color="#000000", ms=5)
            panels[1].annotate(
                f"  {row['rule']}, power {float(row['power50']):.2f}", (float(row["z50"]), float(row["accepted"]))
            )
    panels[0].set(title="three tokens", xlabel="strength", ylabel="acceptance probability")
    panels[1].set(
        title=f"{found[0]['n']} tokens, k = {found[0]['k']}",
        xlabel="z after 50 tokens",
        ylabel="acceptance probability",
    )
    panels[1].margins(x=0.4, y=0.3)
    style.label(panels[:1], entries[:1])
    return figure
