"""What the figure of hybrid drafting compares: every fixed number of top tokens, chosen ones, and no replacement."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
from joblib import Parallel, delayed

import ot_draft as ot
from ot_draft.compare import Pairs, Settings, compare_rules

FIXED, RULE, AUTO, BEST, OTHER = "fixed j", "rule at j", "auto", "best j each", "without replacement"
CONSTANTS = (("POWER", 0.25), ("POWER", 0.35), ("SEEN", 0.4), ("SEEN", 0.6), ("HEAD", 128), ("HEAD", 400))


def ways_to_draft(pairs: Pairs, k: int, jobs: int) -> dict[tuple[str, int | str], Any]:
    """Acceptance (pairs,) of every way to draft; the rule's from its own law of the selected token."""
    rules = tuple(ot.rules.Optimal(ot.Hybrid(j)) for j in range(k + 1))
    rows = [row for row in compare_rules(pairs, Settings((k,), rules, lp_limit=0), jobs) if row.rule == "Optimal"]
    optimum, rule = (np.reshape([getattr(row, name) for row in rows], (-1, k + 1)) for name in ("optimum", "accepted"))
    ways: dict[tuple[str, int | str], Any] = {(FIXED, j): optimum[:, j] for j in range(k + 1)}
    ways |= {(RULE, j): rule[:, j] for j in range(k + 1)}
    best = delayed(ot.optimal_acceptance)
    other = Parallel(jobs)(best(p, q, k, ot.WithoutReplacement()) for p, q in zip(pairs.p, pairs.q, strict=True))
    ways |= {(OTHER, ""): np.array(other), (BEST, ""): optimum.max(-1)}
    choices: dict[str, Any] = {AUTO: {}, **{f"{AUTO}, {name} = {x}": {name: x} for name, x in CONSTANTS}}
    for name, constants in choices.items():
        with mock.patch.multiple("ot_draft.laws.top_number", **constants) if constants else nullcontext():
            j = (ot.Hybrid("auto").top_drafts(pairs.q, k) >= 0).sum(-1)
        ways[name, ""] = np.take_along_axis(optimum, j[:, None], -1)[:, 0]
    return ways
