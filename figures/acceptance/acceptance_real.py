"""Mean acceptance of every rule against k on the committed contexts of two real pairs of language models."""

from __future__ import annotations

from typing import Any

from figures import model_pairs, style
from figures.about import About, Number
from ot_draft.data import Study, compare_rules, read_pairs, summarise
from ot_draft.data.tables import as_records

FILE, STORED = model_pairs.SMOLLM2.contexts, model_pairs.SMOLLM2.compared
ABOUT = About(
    title="Acceptance against k: real contexts",
    claim="On real next-token distributions K-SEQ is within a few percentage points of the i.i.d. optimum, with a weak draft "
    "model and with a good one. With the good one these points are half of the rejections. The draft law matters more than "
    "the selection rule, except for the good draft model at temperature 1.",
    source="Sun et al. 2023 (SpecTr) for K-SEQ; Optimal and hybrid drafting: this project",
    comparison="No published number is for these models.",
)
CAPTION = (
    "Upper row: " + model_pairs.SMOLLM2.models + ". Lower row: " + model_pairs.QWEN.models + "."
    " Next-token distributions on 479 tokens and 32 tail classes (figures/data). Mean over contexts, standard error over sequences"
    " (shifted sideways for legibility; the rules share the contexts, so gaps between lines have smaller errors than the bars)."
    " Without replacement, a tail class is drafted at most once. Recursive rejection without replacement is estimated from 256"
    " random draft tuples per context, everything else is exact. Hybrid drafting fixes the j most probable tokens,"
    " j chosen by Hybrid('auto') from q and k, and samples the others outside them."
)


def compute(
    full: bool = False, jobs: int = 1, limit: int | None = None, ks: tuple[int, ...] | None = None
) -> list[dict[str, Any]]:
    """Return the comparison for each pair of models; `group` is the temperature. It is stored, or computed for other k or contexts."""
    rows: list[dict[str, Any]] = []
    settings = Study(ks=ks or (1, 2, 3, 4, 6, 8, 12, 16), rules=style.ALL_BUT_PROGRAMS, lp_limit=0)
    for pair in model_pairs.ALL:
        if not full and limit is None and ks is None:
            found: Any = style.read(pair.compared)
        else:
            pairs = read_pairs(pair.contexts)
            pairs = pairs if limit is None else pairs.first(limit)
            found = as_records(summarise(compare_rules(pairs, settings, jobs), pairs))
        rows += [{"pair": pair.name} | row for row in found]
    return rows


def numbers(rows: style.Rows) -> list[Number]:
    """Return optimum, K-SEQ and recursive rejection for eight i.i.d. draft tokens."""
    return [
        number
        for pair in style.split(rows, "pair")
        for number in style.accepted_numbers(pair, "8", f"{pair[0]['pair']}: T = {{}}".format)
    ]


def draw(rows: style.Rows) -> Any:
    """Draw a row of panels per pair of models, a panel per temperature."""
    return style.acceptance_by_temperature(rows, CAPTION)
