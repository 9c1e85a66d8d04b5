"""`ot-draft check --compare`: acceptance and time of a rule next to the library's rules for the same draft law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter

import numpy as np

from .. import rules
from ..data import Study, compare_rules, summarise, tables
from ..data.pairs import as_pairs
from ..errors import InvalidArgument
from ..laws import is_defined
from ..sampling import draw
from ..selection import SelectionRule, under, with_arguments
from .study import print_summaries


def print_beside_library(
    rule: SelectionRule,
    refuted: bool,
    ks: Sequence[int] = (1, 2, 4),
    count: int = 16,
    n: int = 1_000,
    timed_n: int = 32_000,
) -> None:
    """Print a table of acceptances on `count` simulated pairs of n tokens, and the time per call for `timed_n` tokens.

    refuted: whether the rule is marked as not lossless.
    """
    shown = with_arguments(rule)
    valid = [under(other, rule.law) for other in rules.ALL if not (other.cost.slow or other.cost.solves_program)]
    others = [other for other in valid if other is not None and other.name != shown]
    study = Study(tuple(ks), (rule, *others), lp_limit=0)
    _, p, q = _pairs(count, n)
    pairs = as_pairs({"p": p, "q": q}, "simulated", True)
    means = summarise(compare_rules(pairs, study), pairs, study)
    lines = [replace(line, refuted=refuted and line.rule == shown) for line in means]
    title = f"\n{shown} and the library's rules on {count} simulated pairs, n = {n:,}: softmax of Gaussian logits"
    print_summaries("", [(lines, title)], "", tables.notes(lines, study, False))
    taken = [line.k for line in lines if line.rule == shown and line.accepted is not None]
    if taken:
        times = sorted((in_softmaxes(each, max(taken), timed_n), with_arguments(each)) for each in study.rules)
        listed = ", ".join(f"{name} {time:.3g}" for time, name in times if time < np.inf)
        print_summaries(
            "",
            [],
            "",
            f"Time per call for one context, n = {timed_n:,}, k = {max(taken)}, NumPy float64, in softmaxes of one row: {listed}.",
        )


def in_softmaxes(
    rule: SelectionRule, k: int, n: int, clock: Callable[[], float] = perf_counter, rounds: int = 3
) -> float:
    """Time of one selection over that of one softmax of n tokens, the median of `rounds`; infinite if the rule does not take k drafts."""
    if not is_defined(rule.law, k):
        return np.inf
    logits, p, q = _pairs(1, n)
    drafts = draw(rule.law, q, k, np.random.default_rng(0))

    def seconds(call: Callable[..., object], *arguments: object) -> float:
        start = clock()
        call(*arguments)
        return clock() - start

    try:
        rule(p, q, drafts)  # may compile
    except (InvalidArgument, NotImplementedError):
        return np.inf
    return median(seconds(rule, p, q, drafts) / seconds(softmax, logits) for _ in range(rounds))


def _pairs(count: int, n: int) -> Sequence[np.ndarray]:
    """Target logits, p and q (count, n): Gaussian logits, and noise on them for the draft."""
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, (count, n))
    return logits, softmax(logits), softmax(logits + generator.normal(0, 1, (count, n)))


def softmax(logits: np.ndarray) -> np.ndarray:
    """The distribution of each row."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
