"""Mean acceptance of every rule against k on random pairs: p and q independent, flat or heavy-tailed."""

from __future__ import annotations

from typing import Any

import numpy as np

from figures import about, style
from figures.about import About, Number
from ot_draft.data import Study, compare_rules, summarise
from ot_draft.data.pairs import Pairs, as_pairs
from ot_draft.data.tables import as_records

N, CONCENTRATIONS, SEED = 50, (1.0, 0.1), 7
ABOUT = About(
    title="Acceptance against k: random pairs",
    claim="On flat random pairs the rules are far below the optimum. On heavy-tailed pairs, where one token has most of the "
    "probability, they are close to it.",
    source="this project; the table of rules names the sources of the rules",
)
CAPTION = f"""p and q drawn independently from a symmetric Dirichlet distribution on {N} tokens. Mean and standard error over the pairs,
shifted sideways for legibility. Recursive rejection without replacement is estimated from random draft tokens; everything
else is exact."""


def random_pairs(concentration: float, count: int) -> Pairs:
    """Return `count` independent pairs, labelled by the concentration."""
    masses = np.random.default_rng([SEED, int(10 * concentration)]).dirichlet(np.full(N, concentration), (2, 1, count))
    return as_pairs({"p": masses[0], "q": masses[1], "temperatures": np.array([concentration])}, "Dirichlet")


def compute(
    full: bool = False, jobs: int = 1, count: int | None = None, ks: tuple[int, ...] = (1, 2, 4, 8, 16)
) -> list[dict[str, Any]]:
    """Return the summary of the comparison; `group` is the concentration."""
    settings = Study(ks=ks, rules=style.ALL_BUT_PROGRAMS, lp_limit=0)
    records = []
    for concentration in CONCENTRATIONS:
        pairs = random_pairs(concentration, count or (1000 if full else 100))
        records += as_records(summarise(compare_rules(pairs, settings, jobs), pairs))
    return records


def numbers(rows: style.Rows) -> list[Number]:
    """Return optimum, K-SEQ and recursive rejection for eight i.i.d. draft tokens."""
    return style.accepted_numbers(rows, "8", lambda group: f"Dirichlet({float(group):g})")


def draw(rows: style.Rows) -> Any:
    """Draw a panel per concentration."""
    lines = about.as_summaries(rows)
    figure, panels = style.canvas(2, CAPTION)
    entries = []
    for axes, group in zip(panels, dict.fromkeys(line.group for line in lines), strict=True):
        group_rows = [line for line in lines if line.group == group]
        entries.append(style.plot_acceptance(axes, group_rows))
        kind = "flat" if float(group) == 1 else "heavy-tailed"
        axes.set_title(f"{group_rows[0].pairs} pairs, {N} tokens, Dirichlet({float(group):g}): {kind}")
    style.label(panels, entries)
    return figure
