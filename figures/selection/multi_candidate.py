"""Recursive rejection with and without replacement against k on real contexts: the multi-candidate paper's comparison."""

from __future__ import annotations

from typing import Any

from figures import model_pairs, style
from figures.about import About, Number
from ot_draft import rules
from ot_draft.data import Study, compare_rules, read_pairs, summarise
from ot_draft.data.tables import as_records

CONTEXTS = 80
WITH, WITHOUT = "RecursiveRejection", "RecursiveRejectionWithoutReplacement"
ABOUT = About(
    title="Acceptance against k, with and without replacement",
    claim="More draft tokens are accepted more often, with diminishing returns. Sampling them without replacement gains more for "
    "larger k and for lower temperatures.",
    source="Yang et al. 2024 (multi-candidate speculative decoding), acceptance against k",
    comparison="Only the shape is comparable: the paper has other models and prompts, and none of its numbers is certain to us.",
)
CAPTION = f"""Upper row: {model_pairs.SMOLLM2.models}. Lower row: {model_pairs.QWEN.models}. Mean over contexts, standard error over
sequences. Without replacement is estimated from 256 random draft tuples per context, everything else is exact. Black: the
optimum for each draft law."""


def compute(
    full: bool = False, jobs: int = 1, limit: int | None = None, ks: tuple[int, ...] = (1, 2, 4, 8, 16)
) -> list[dict[str, Any]]:
    """Return the summary of the comparison of each pair of models; `group` is the temperature."""
    chosen = (rules.RecursiveRejection(), rules.RecursiveRejectionWithoutReplacement())
    rows: list[dict[str, Any]] = []
    for pair in model_pairs.ALL:
        pairs = read_pairs(pair.contexts)
        pairs = pairs if full else pairs.first(limit or CONTEXTS)
        found = as_records(summarise(compare_rules(pairs, Study(ks, chosen, lp_limit=0), jobs), pairs))
        rows += [{"pair": pair.name} | row for row in found]
    return rows


def numbers(rows: style.Rows) -> list[Number]:
    """Return the numbers of both draft laws at k = 1, 4 and 16."""
    shown_rows = [row for row in rows if row["k"] in ("1", "4", "16") and row["rule"] in (WITH, WITHOUT)]
    return [
        Number(
            f"{row['pair']}: T = {row['group']}, k = {row['k']}, {style.look(row['rule']).label}",
            float(row["accepted"]),
            error=float(row["error"]),
        )
        for row in shown_rows
    ]


def draw(rows: style.Rows) -> Any:
    """Draw a row of panels per pair of models, a panel per temperature."""
    return style.acceptance_by_temperature(rows, CAPTION)
