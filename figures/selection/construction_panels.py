"""The three panels of the figure of the construction."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#5F5F5F"  # draft, target, selected token, one lambda


def draw_envelope(axes: Any, k: int, t: list[float], f: list[float], g: list[float], envelope: list[float]) -> None:
    """t^k, the cumulated target F and its shift, the envelope G."""
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
    axes.set(title="1. the envelope", xlabel="draft mass $t$ of the first $i$ tokens", ylabel="probability")


def draw_levels(axes: Any, t: list[float], level: list[float], alive: list[int], at_level: float) -> None:
    """A bar a breakpoint, and the intervals at one level."""
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
    axes.set(title="2. the levels of the breakpoints", xlabel="draft mass $t$ of the first $i$ tokens")
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylabel("level", y=0.7)


def draw_masses(axes: Any, q: list[float], p: list[float], m: list[float]) -> None:
    """Draft, target and selected law of every token."""
    common = [min(a, b) for a, b in zip(p, m, strict=True)]
    shown = ((q, q, BLUE, "draft q"), (p, common, ORANGE, "target p"), (m, common, GREEN, "selected draft m"))
    for place, (mass, full, colour, name) in enumerate(shown):
        x = [y + 0.27 * place - 0.27 for y in range(1, len(p) + 1)]
        axes.bar(x, mass, 0.25, color=colour, alpha=0.35)
        axes.bar(x, full, 0.25, color=colour)
        axes.annotate(name, (0.42, 0.94 - 0.06 * place), xycoords="axes fraction", color=colour)
    axes.annotate("full colour: min(p, m)", (0.42, 0.76), xycoords="axes fraction")
    axes.set(title=f"3. the selected draft: sum of min(p, m) = $\\alpha^*$ = {sum(common):.3f}")
    axes.set(xlabel="token, p/q increasing", ylabel="mass", xticks=range(1, len(p) + 1))
