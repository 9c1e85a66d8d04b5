"""Mean acceptance of every rule against k on the committed pairs of two real language models."""

from __future__ import annotations

from typing import Any

from figures import style
from figures.about import About, Number
from ot_draft.data import Study, compare_rules, read_pairs, summarise
from ot_draft.data.tables import as_records

FILE = style.DATA / "smollm2_pairs.npz"
STORED = style.DATA / "smollm2_compared.csv"
ABOUT = About(
    title="Acceptance against k: real contexts",
    claim="On real next-token laws K-SEQ comes within a few points of the i.i.d. optimum, and another way to draw the drafts gains"
    " more than a better way to select one.",
    source="Sun et al. 2023 (SpecTr) for K-SEQ; Optimal and hybrid drafting: this project",
    comparison="The models are ours: no published number is about them.",
)
CAPTION = (
    "SmolLM2-135M-Instruct as target, a draft of two layers; next-token laws on 479 tokens and 32 tail classes (figures/data)."
    " Mean over contexts with the standard error over\ntexts (shifted sideways for legibility; the rules share the contexts, so"
    " gaps between lines are surer than the bars). Without replacement a tail class is drafted once at most.\nRecursive"
    " rejection without replacement is estimated from 256 random draft tuples a context, all else exact. Hybrid drafting fixes the"
    " top j tokens, j chosen by Hybrid('auto')\nfrom q and k, and draws the others outside them."
)


def compute(
    full: bool = False, jobs: int = 1, limit: int | None = None, ks: tuple[int, ...] | None = None
) -> list[dict[str, Any]]:
    """The summary of the comparison, `group` being the temperature: stored, and computed again with more k, or of fewer pairs."""
    if not full and limit is None and ks is None:
        return style.read(STORED)
    settings = Study(ks=ks or (1, 2, 3, 4, 6, 8, 12, 16), rules=style.ALL_BUT_PROGRAMS, lp_limit=0)
    pairs = read_pairs(FILE)
    pairs = pairs if limit is None else pairs.first(limit)
    return as_records(summarise(compare_rules(pairs, settings, jobs), pairs))


def numbers(rows: style.Rows) -> list[Number]:
    """Optimum, K-SEQ and recursive rejection for eight i.i.d. drafts."""
    return style.accepted_numbers(rows, "8", lambda group: f"T = {group}")


def draw(rows: style.Rows) -> Any:
    """A panel a temperature."""
    return style.acceptance_by_temperature(rows, CAPTION)
