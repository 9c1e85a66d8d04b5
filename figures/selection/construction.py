"""How optimal selection works, on eight tokens and three drafts: the envelope, the levels, the selected law. Exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from figures import style
from figures.about import About, Number
from figures.selection.construction_panels import draw_envelope, draw_levels, draw_masses

K, LAMBDA = 3, Fraction(3, 4)  # drafts; the level whose intervals are shown
TARGET, DRAFT = (2, 5, 6, 2, 1, 7, 5, 12), (5, 11, 13, 3, 1, 3, 2, 2)  # in fortieths, p/q increasing
ABOUT = About(
    title="How optimal selection works",
    claim="The optimum for k i.i.d. drafts is reached by a convex envelope, one level for every breakpoint, and a coupling of the"
    " selected draft with the target: no linear program, O(n log n).",
    source="this project; the optimum's formula: Hu et al. 2025",
)
CAPTION = """Eight tokens in the order of p/q, three i.i.d. drafts; exact, in Fractions. Left: t and F are the masses of the
first i tokens under draft and target, t^3 the probability that all drafts are among them: no rule accepts more than
1 - (t^3 - F), so the largest gap, at i*, is what the optimum lacks to 1. The envelope G is F shifted up: left of i* by the
largest gap so far, right of it by the largest still to come. It is convex, and its steps will be the law m of the selected
draft. Middle: every breakpoint lives up to its level. At lambda the living ones cut the tokens into intervals; the highest
interval that holds a draft wins, and in it the first one drawn. Its token is among the first i with the probability on
the dotted chord of t^3 on the left; the average over lambda in [0, 1] is G, and that fixes the levels. Right: the selected
token is taken with probability min(1, p/m), else one is drawn from what p has over m."""


def compute(full: bool = False, jobs: int = 1) -> list[dict[str, Any]]:
    """Row i: the i-th breakpoint and, from 1 on, the token before it."""
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
    """Level of every breakpoint: a death at a time. The ends live for ever, and are given 1."""

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
    """The acceptance that is drawn, and the optimum by the formula 1 - max(t^k - F)."""
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
    """Envelope, levels, selected law."""
    figure, panels = style.canvas(3, CAPTION, share_y=False)
    t, f, g, envelope, level = ([style.number(row[name]) for row in rows] for name in ("t", "F", "g", "G", "level"))
    alive = [i for i, c in enumerate(level) if c > LAMBDA]
    panels[0].plot([t[i] for i in alive], [g[i] for i in alive], color="#5F5F5F", lw=1.2, ls=":")
    draw_envelope(panels[0], K, t, f, g, envelope)
    draw_levels(panels[1], t, level, alive, float(LAMBDA))
    draw_masses(panels[2], *([style.number(row[name]) for row in rows[1:]] for name in ("q", "p", "m")))
    return figure
