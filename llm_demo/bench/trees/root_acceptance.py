"""Acceptance of one token compared with the optimum, at the roots of the table's trees, by draft quality."""

from __future__ import annotations

import numpy as np

import ot_draft as otd
from llm_demo.bench.trees.lengths import expected_length, merged_laws
from llm_demo.bench.trees.measure import Behind, drafted
from llm_demo.bench.trees.plans import WITHOUT
from llm_demo.bench.trees.token_classes import merged_row
from llm_demo.rows import Row
from ot_draft.data.estimate import expected_acceptance

NUMBERS = (2, 4, 8)
RULES = (otd.rules.SpeculativeSampling(), otd.rules.RecursiveRejection(), otd.rules.KSeq(), otd.rules.Optimal())
COLUMNS = (*(rule.name for rule in RULES), WITHOUT.name)


def root_rows(behind: Behind, name: str) -> list[Row]:
    """Return a row for every k of one draft at one context, with the acceptance by rule; none for greedy targets.

    Values are exact for i.i.d. drafts, of which `Optimal` attains the optimum. For drafts without replacement the value is the acceptance
    probability of k tokens that are drawn once.
    """
    temperature, none = behind.context.temperature, np.zeros(0, dtype=np.int64)
    if not temperature:
        return []
    draft = behind.draft(name)
    (p,), (q,) = behind.target.at([()]), draft.logits.at([()])
    row = merged_row(p, q, temperature, none)
    masses = row.rest_p / row.rest_p.sum(), row.rest_q / row.rest_q.sum()
    overlap = float(np.minimum(*masses).sum())
    shapes = {k: otd.trees.FixedTree(otd.trees.TreeShape.by_level((k,)), otd.WithoutReplacement()) for k in NUMBERS}
    trees = drafted(dict.fromkeys(shapes.values()), draft, behind.context)
    laws = merged_laws(behind.target, draft.logits, set(draft.known), list(trees.values()), temperature)
    found = []
    for k, shape in shapes.items():
        values = {rule.name: expected_acceptance(rule, otd.Problem(*masses, k)).value for rule in RULES}
        values[WITHOUT.name] = expected_length(otd.trees.TokenWise(WITHOUT), trees[shape], laws)
        shares = {rule: round(float(value), 5) for rule, value in values.items()}
        found.append(behind.about | {"draft": name, "k": k, "overlap": round(overlap, 5)} | shares)
    return found
