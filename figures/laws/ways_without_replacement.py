"""What the figure of drawing without replacement compares, on one pair: values, orders and times."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import ot_draft as ot
from ot_draft.compare import expected_acceptance

LAW, SAMPLES = ot.WithoutReplacement(), 512
ORDERS = {"RandomOrder": 64, "RandomOrder, at most 4 orders": 4, "RandomOrder, 1 order": 1}
RECURSIVE, OPTIMUM, HYBRID, INDEPENDENT = "RecursiveRejectionWithoutReplacement", "optimum", "Hybrid(auto)", "i.i.d."


def one_pair(p: np.ndarray, q: np.ndarray, k: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Acceptance, number of orders and seconds of one selection, for every way."""
    generator = np.random.default_rng([seed, k])
    best = ot.optimal_acceptance(p, q, k, LAW)
    found = {OPTIMUM: (best, np.nan, _seconds(ot.optimal_acceptance, p, q, k, LAW))}
    for way, orders in ORDERS.items():
        rule = ot.rules.RandomOrder(orders=orders)
        seconds = _seconds(rule, p, q, ot.draw(LAW, q, k, generator))
        ranks, _, selected = rule.mixture(p, q, k)  # what the call above has left
        found[way] = (np.minimum(p, selected).sum(), len(ranks), seconds)
    recursive = ot.rules.RecursiveRejectionWithoutReplacement()
    estimate = expected_acceptance(recursive, ot.Problem(p, q, k, LAW), SAMPLES, generator)
    found[RECURSIVE] = (estimate.value, np.nan, _seconds(recursive, p, q, ot.draw(LAW, q, k, generator)))
    for way, law in ((HYBRID, ot.Hybrid("auto")), (INDEPENDENT, ot.IID())):
        seconds = _seconds(ot.rules.Optimal(law), p, q, ot.draw(law, q, k, generator))
        found[way] = (ot.optimal_acceptance(p, q, k, law), np.nan, seconds)
    return found


def _seconds(call: Any, *arguments: Any) -> float:
    start = perf_counter()
    call(*arguments)
    return perf_counter() - start
