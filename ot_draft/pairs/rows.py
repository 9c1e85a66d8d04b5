"""compare_rules(pairs, study): every rule under its law, beside the optimum of that law, on every pair; and how long each takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import median_low
from time import perf_counter
from typing import Any

import numpy as np

from ..laws import sets
from ..lp.solution import solve
from ..optimum import optimal_acceptance
from ..problem import Problem
from ..sampling import draw
from .pairs import Pairs
from .study import DUAL, LINEAR_PROGRAM, Cells, Study, block

CHUNK = 8  # pairs a task of joblib; fixed, so that nothing depends on the number of jobs
TIMED, REPEATS = 16, 3  # pairs that are timed at once, and how often
LONG = 1.0  # seconds after which nothing is repeated

Key = tuple[str, str, int]  # rule, law, k


@dataclass(frozen=True)
class Row:
    """One rule (or optimum) on one pair with k drafts; its numbers are those of `study.Cells`, Fractions or Python floats."""

    pair: int
    k: int
    rule: str
    law: str
    accepted: Any
    taken: Any
    error: float
    optimum: Any
    method: str


def compare_rules(
    pairs: Pairs, study: Study | None = None, jobs: int = 1, advance: Callable[[int], object] | None = None
) -> list[Row]:
    """All rows, in order of pairs, ks and rules; the same to the last bit for any number of jobs.

    advance is called with the number of pairs just done.
    """
    study = study or Study()
    chunks = [range(start, min(start + CHUNK, len(pairs))) for start in range(0, len(pairs), CHUNK)]
    rows: list[Row] = []
    for chunk, done in zip(chunks, _run(pairs, study, chunks, jobs), strict=True):
        rows += done
        if advance:
            advance(len(chunk))
    return rows


def _run(pairs: Pairs, study: Study, chunks: Sequence[range], jobs: int) -> Iterator[list[Row]]:
    parts = [(pairs.p[list(c)], pairs.q[list(c)], [pairs.index[row] for row in c]) for c in chunks]
    seconds = study.lp_limit / len(pairs)
    if jobs == 1 or len(chunks) == 1:
        return (_compare_chunk(*part, study, seconds) for part in parts)
    from joblib import Parallel, delayed

    work = Parallel(n_jobs=min(jobs, len(chunks)), return_as="generator")
    return iter(work(delayed(_compare_chunk)(*part, study, seconds) for part in parts))


def _compare_chunk(p: Any, q: Any, index: list[int], study: Study, seconds: float) -> list[Row]:
    found = list(block(study, p, q, lambda row: (index[row],), seconds))
    return [_row(cells, place, pair) for place, pair in enumerate(index) for cells in found]


def _row(cells: Cells, place: int, pair: int) -> Row:
    accepted, taken, optimum = (
        None if x is None else _number(x[place]) for x in (cells.accepted, cells.taken, cells.optimum)
    )
    error = 0.0 if cells.error is None else float(cells.error[place])
    return Row(pair, cells.k, cells.rule, cells.law, accepted, taken, error, optimum, cells.method)


def _number(value: Any) -> Any:
    return value if isinstance(value, Fraction) else float(value)


def measure(pairs: Pairs, study: Study) -> dict[Key, float]:
    """Microseconds a pair of every rule and optimum: the median of three calls on one batch of at most 16 pairs.

    Linear programs (the faster of two calls), and the rule read off them, get one pair. Drawing the drafts is not counted.
    """
    some = pairs.choose(list(range(min(TIMED, len(pairs)))))
    limit = study.lp_limit / len(pairs) / sets.SECONDS
    return {key: _time(call, repeats) / count * 1e6 for key, call, count, repeats in _calls(some, study, limit)}


def _calls(some: Pairs, study: Study, limit: float) -> Iterator[tuple[Key, Callable[[], object], int, int]]:
    """What is timed: its key, the call, the pairs in it, how often it is repeated. limit: draft sets of a program."""
    generator = np.random.default_rng(study.seed)
    for k in study.ks:
        usable = [rule for rule in study.rules if rule.law.is_defined(k)]
        for law in dict.fromkeys(rule.law for rule in usable):
            name = law.spelling
            yield (DUAL, name, k), partial(optimal_acceptance, some.p, some.q, k, law), len(some), REPEATS
            if sets.most(law, some.q[0], k) <= limit:
                yield (LINEAR_PROGRAM, name, k), partial(solve, Problem(some.p[0], some.q[0], k, law)), 1, 2
        for rule in usable:
            if rule.program_sets(some.q[0], k) > limit:
                continue
            p, q = (masses[: 1 if rule.solves else TIMED] for masses in (some.p, some.q))
            call = partial(rule, p, q, draw(rule.law, q, k, generator))
            yield (rule.name, rule.law.spelling, k), call, len(p), 1 if rule.solves else REPEATS


def _time(call: Callable[[], object], repeats: int) -> float:
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < LONG:
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return median_low(seconds)
