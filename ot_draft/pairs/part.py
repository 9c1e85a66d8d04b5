"""One part of a sweep: read its rows, compute every rule at every k, write one parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ..arrays import Array
from ..errors import DraftSelectionError
from ..optimum import optimal_acceptance
from ..problem import Problem
from .estimate import evaluate_pairs
from .sharded import Part, Sweep, write_part

CELLS = 1 << 16  # rows times tokens at a time: what a core's cache holds; fixed, so that nothing depends on the engine


@dataclass(frozen=True)
class Done:
    """A part that is written, or the reason why it cannot be: wrong input is no matter for another try."""

    number: int
    rows: int
    refused: str = ""


def make_part(sweep: Sweep, part: Part, out: Path) -> Done:
    """Compute a part and put its file into the folder under its name in one step: whole or not at all."""
    try:
        table = _table(sweep, part)
    except DraftSelectionError as error:
        return Done(part.number, 0, str(error))
    write_part(table, out / part.file_name)
    return Done(part.number, part.stop - part.start)


NUMBERS = ("acceptance", "taken", "error", "optimum")


def _table(sweep: Sweep, part: Part) -> Any:
    """The part as an arrow table: one row for every pair, k and rule that is defined there; what is lossy says so."""
    import pyarrow

    study = sweep.study
    columns: dict[str, list[Array]] = {name: [] for name in ("row", "k", "code", *NUMBERS)}
    step = max(1, CELLS // part.shard.n)
    for start in range(part.start, part.stop, step):
        stop = min(start + step, part.stop)
        for k, code, numbers in _block(sweep, part, start, stop):
            columns["row"].append(np.arange(start, stop))
            columns["k"].append(np.full(stop - start, k, dtype=np.int16))
            columns["code"].append(np.full(stop - start, code, dtype=np.int16))
            for name, values in zip(NUMBERS, numbers, strict=True):
                columns[name].append(values)
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    codes = joined.pop("code")

    def words(of_rules: list[str]) -> Any:
        """A column of words, one for each rule. A dictionary with a word twice is written with bytes that vary."""
        known, places = np.unique(of_rules, return_inverse=True)
        return pyarrow.DictionaryArray.from_arrays(places.astype(np.int16)[codes], known.tolist())

    lossy = {"target": words([study.target_name] * len(study.rules))} if study.target else {}
    return pyarrow.table(
        {
            "shard": words([part.shard.label] * len(study.rules)),
            **lossy,
            "rule": words([rule.name for rule in study.rules]),
            "law": words([rule.law.spelling for rule in study.rules]),
            **joined,
        }
    )


def _block(sweep: Sweep, part: Part, start: int, stop: int) -> Iterator[tuple[int, int, tuple[Array, ...]]]:
    """For every k and rule, by its place in the study, its numbers on some rows, (rows,) each."""
    study, (p, q) = sweep.study, part.shard.read(start, stop, sweep.temperature)
    file = crc32(part.shard.label.encode())

    def place_of(row: int) -> tuple[int, int]:
        return file, start + row

    for k in study.ks:
        problems: dict[Any, Problem] = {}
        optima: dict[Any, Array] = {}
        for code, rule in enumerate(study.rules):
            if not rule.law.is_defined(k):
                continue
            if rule.law not in problems:
                problems[rule.law] = study.problem(p, q, k, rule.law)
                optima[rule.law] = optimal_acceptance(problems[rule.law].p, q, k, rule.law)
            numbers = evaluate_pairs(rule, problems[rule.law], study.samples, study.seed, place_of, optima[rule.law])
            yield k, code, (*numbers, optima[rule.law])
