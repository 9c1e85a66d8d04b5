"""Optimal selection on eight tokens and three draft tokens: envelope, levels, distribution of the selected token. Exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from figures import style
from figures.about import About, Number

K, LAMBDA = 3, Fraction(3, 4)  # drafts; the level whose intervals are shown
TARGET, DRAFT = (2, 5, 6, 2, 1, 7, 5, 12), (5, 11, 13, 3, 1, 3, 2, 2)  # in fortieths, p/q increasing
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#5F5F5F"  # draft, target, selected token, one lambda
ABOUT = About(
    title="How optimal selection works",
    claim="A convex envelope, with one level for every breakpoint, and a coupling of the selected draft token with the target "
    "reach the optimum for k i.i.d. draft tokens: without a linear program, in O(n log n).",
    source="this project; the optimum's formula: Hu et al. 2025",
)
CAPTION = """Eight tokens in the order of p/q, three i.i.d. draft tokens; exact, in Fractions. Left: t and F are the probabilities of the
first i tokens under draft and target, t^3 is the probability that all draft tokens are among them. No rule accepts more than
1 - (t^3 - F), so the optimum is 1 minus the largest gap, at i*. The envelope G is F shifted up: left of i* by the largest
gap so far, right of it by the largest still to come. It is convex; its increments are the distribution m of the selected
draft token. Middle: every breakpoint is active up to its level. At lambda the active breakpoints divide the tokens into
intervals. The highest interval that holds a draft token is chosen, and in it the first one drawn. Its token is among the
first i with the probability on the dotted chord of t^3 on the left; the average over lambda in [0, 1] is G, which determines
the levels. Right: the selected token is accepted with probability min(1, p/m); otherwise a token is sampled from the
normalised (p - m)+."""


def compute(full: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """Return rows whose i-th one has the i-th breakpoint and, from 1 on, the token before it."""
    columns: dict[str, list[Any]]
    p, q = ([Fraction(mass, sum(masses)) for mass in masses] for masses in (TARGET, DRAFT))
    f, t = ([Fraction(0), *accumulate(masses)] for masses in (p, q))
    g = [x**K for x in t]
    gain = [a - b for a, b in zip(g, f, strict=True)]
    envelope = [f[i] + min(max(gain[: i + 1]), max(gain[i:])) for i in range(len(t))]
    columns = {"t": t, "F": f, "g": g, "G": envelope, "level": levels(t, g, envelope)}
    columns |= {"q": ["", *q], "p": ["", *p], "m": ["", *(b - a for a, b in pairwise(envelope))]}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def levels(t: list[Fraction], g: list[Fraction], envelope: list[Fraction]) -> list[Fraction]:
    """Return the level at which each breakpoint is removed, one at a time. The ends are never removed and have level 1."""

    def kink(h: list[Fraction], a: int, i: int, b: int) -> Fraction:
        return (h[b] - h[i]) / (t[b] - t[i]) - (h[i] - h[a]) / (t[i] - t[a])

    level, alive, now = [Fraction(1)] * len(t), list(range(len(t))), Fraction(0)
    rest = {i: kink(envelope, i - 1, i, i + 1) for i in alive[1:-1]}
    while len(alive) > 2:
        loss = {i: kink(g, a, i, b) for a, i, b in zip(alive, alive[1:], alive[2:], strict=False)}
        first = min(loss, key=lambda i: rest[i] / loss[i])
        lasts = rest[first] / loss[first]
        if now + lasts >= 1:
            break
        now += lasts
        rest = {i: rest[i] - lasts * loss[i] for i in loss}
        level[first] = now
        alive.remove(first)
    return level


def numbers(rows: style.Rows) -> list[Number]:
    """Return the acceptance in the figure, and the optimum by the formula 1 - max(t^k - F)."""
    g, f = ([style.number(row[name]) for row in rows] for name in ("g", "F"))
    masses = [(style.number(row["p"]), style.number(row["m"])) for row in rows[1:]]
    optimum = 1 - max(a - b for a, b in zip(g, f, strict=True))
    return [
        Number(
            "acceptance, sum of min(p, m)",
            sum(map(min, masses)),
            optimum,
            note="the formula of Hu et al. 2025, on this pair",
        )
    ]


def draw(rows: style.Rows) -> Any:
    """Draw envelope, levels, distribution of the selected token."""
    figure, panels = style.canvas(3, CAPTION, share_y=False, least=3.5)
    t, f, g, envelope, level = ([style.number(row[name]) for row in rows] for name in ("t", "F", "g", "G", "level"))
    alive = [i for i, c in enumerate(level) if c > LAMBDA]
    panels[0].plot([t[i] for i in alive], [g[i] for i in alive], color=GREY, lw=1.2, ls=":")
    _draw_envelope(panels[0], K, t, f, g, envelope)
    _draw_levels(panels[1], t, level, alive, float(LAMBDA))
    _draw_masses(panels[2], *([style.number(row[name]) for row in rows[1:]] for name in ("q", "p", "m")))
    return figure


def _draw_envelope(axes: Any, k: int, t: list[float], f: list[float], g: list[float], envelope: list[float]) -> None:
    """Draw t^k, the cumulative target F and its shift, and the envelope G."""
    gap, star = max((b - a, i) for i, (a, b) in enumerate(zip(f, g, strict=True)))
    fine = [i / 200 for i in range(201)]
    axes.plot(fine, [x**k for x in fine], color="#000000", lw=1.2)
    axes.plot(t, envelope, color=GREEN, lw=2.6, marker="o", ms=5)
    axes.plot(t, f, color=ORANGE, lw=1.4, marker="o", ms=3)
    axes.plot(t, [x + gap for x in f], color=ORANGE, lw=1, ls="--")
    arrow = {"arrowstyle": "<->", "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (t[star], g[star]), (t[star], f[star]), arrowprops=arrow)
    for text, at, place, colour in (
        ("$t^3$: all three drafts among the first $i$", (0.52, 0.52**k), (0.42, 0.03), "#000000"),
        ("$F$: the target among the first $i$", (t[2], f[2]), (0.1, 0.5), ORANGE),
        ("$F$ + the largest gap", (t[1], f[1] + gap), (0.01, 0.36), ORANGE),
        ("$G$: the envelope", (t[3], envelope[3]), (0.4, 0.64), GREEN),
        (f"$i^* = {star}$, gap $1 - \\alpha^* = {gap:.3f}$", (t[star], f[star] + gap / 3), (0.7, 0.18), "#000000"),
    ):
        axes.annotate(text, at, place, color=colour, arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5})
    axes.set(title="1. the envelope", xlabel="draft probability $t$ of the first $i$ tokens", ylabel="probability")


def _draw_levels(axes: Any, t: list[float], level: list[float], alive: list[int], at_level: float) -> None:
    """Draw a bar per breakpoint, and the intervals at one level."""
    axes.bar(t[1:-1], level[1:-1], width=0.008, color="#000000")
    for x, height in list(zip(t, level, strict=True))[1:-1]:
        axes.annotate(f"{height:.2g}", (x, height), (0, 2), textcoords="offset points", ha="center", fontsize=7)
    axes.axhline(at_level, color=GREY, lw=1.2, ls=":")
    axes.annotate(at := f"$\\lambda = {at_level}$", (0.02, at_level + 0.02), color=GREY)
    for bottom, ends, name in ((-0.2, range(len(t)), "tokens"), (-0.42, alive, f"intervals at {at}")):
        axes.annotate(name, (0.005, bottom + 0.08), fontsize=8)
        for shade, (a, b) in enumerate(pairwise(ends)):
            axes.barh(bottom, t[b] - t[a], left=t[a], height=0.1, color=BLUE, alpha=(0.25, 0.5)[shade % 2])
            numbers = f"{a + 1}" if b == a + 1 else f"{a + 1}-{b}"
            axes.text((t[a] + t[b]) / 2, bottom, numbers, ha="center", va="center", fontsize=7)
    axes.set(title="2. the levels of the breakpoints", xlabel="draft probability $t$ of the first $i$ tokens")
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylabel("level", y=0.7)


def _draw_masses(axes: Any, q: list[float], p: list[float], m: list[float]) -> None:
    """Draw the probability of every token under draft, target and selection."""
    common = [min(a, b) for a, b in zip(p, m, strict=True)]
    bars = ((q, q, BLUE, "draft q"), (p, common, ORANGE, "target p"), (m, common, GREEN, "selected draft m"))
    for place, (mass, full, colour, name) in enumerate(bars):
        x = [y + 0.27 * place - 0.27 for y in range(1, len(p) + 1)]
        axes.bar(x, mass, 0.25, color=colour, alpha=0.35)
        axes.bar(x, full, 0.25, color=colour)
        axes.annotate(name, (0.42, 0.94 - 0.06 * place), xycoords="axes fraction", color=colour)
    axes.annotate("full colour: min(p, m)", (0.42, 0.76), xycoords="axes fraction")
    axes.set(title=f"3. the selected draft: sum of min(p, m) = $\\alpha^*$ = {sum(common):.3f}")
    axes.set(xlabel="token, p/q increasing", ylabel="probability", xticks=range(1, len(p) + 1))
