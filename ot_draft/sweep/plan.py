"""What a sweep computes, in which parts, and how it is told from another sweep in the same folder."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import inf
from pathlib import Path

from .. import __version__
from ..array_files import put
from ..arrays import Array
from ..errors import InvalidArgument
from ..laws import DraftLaw
from ..problem import Problem
from ..rules import KSeq, NaiveTarget, Optimal, RecursiveRejection, SpeculativeSampling
from ..selection import SelectionRule
from ..targets import Target
from .parts import is_whole
from .shards import Shard

# Rules whose acceptance has a formula that is quick on many pairs at a time.
DEFAULT_RULES: tuple[SelectionRule, ...] = (
    SpeculativeSampling(),
    NaiveTarget(),
    RecursiveRejection(),
    KSeq(),
    Optimal(),
)
MOST_DRAFTS = 32_767  # what a column of 16 bits holds
MANIFEST = "_sweep.json"  # readers of parquet folders pass over such names


@dataclass(frozen=True)
class Part:
    """Rows start .. stop - 1 of a shard: what one task computes and one parquet file holds."""

    number: int
    shard: Shard
    start: int
    stop: int

    @property
    def file_name(self) -> str:
        return f"part-{self.number:06}.parquet"


@dataclass(frozen=True)
class Plan:
    """A sweep. rules: each under its own law. rows: pairs a part, at most; one part never spans two shards.

    samples, seed: random draft tuples for acceptances without a formula; every pair, rule and k has its own stream of
    random numbers (SeedSequence with the pair's place as its key), so that nothing depends on parts, order or engine.
    target: for the place of p, in everything that is computed; the optimum is then the frontier at its budget (docs/lossy.md).
    """

    shards: tuple[Shard, ...]
    rules: tuple[SelectionRule, ...] = DEFAULT_RULES
    ks: tuple[int, ...] = (2, 4, 8)
    temperature: float = 1.0
    samples: int = 256
    seed: int = 0
    rows: int = 16_384
    target: Target | None = None

    def __post_init__(self) -> None:
        for name, value in (("rows", self.rows), ("samples", self.samples), *(("k", k) for k in self.ks)):
            if value < 1:
                raise InvalidArgument(f"{name} is {value}: give a whole number from 1 on")
        if not self.ks or not self.rules or not self.shards:
            raise InvalidArgument("a sweep needs at least one shard, one rule and one k")
        if max(self.ks) > MOST_DRAFTS:
            raise InvalidArgument(f"k is {max(self.ks)}: give numbers up to {MOST_DRAFTS}")
        labels = [shard.label for shard in self.shards]
        if len(set(labels)) < len(labels):
            raise InvalidArgument(
                f"two shards are called {max(labels, key=labels.count)}: open all with one open_shards"
            )
        if not any(rule.law.is_defined(k) for rule in self.rules for k in self.ks):
            named = ", ".join(rule.name for rule in self.rules)
            raise InvalidArgument(
                f"no law of {named} is defined for k = {', '.join(map(str, self.ks))}: give another k"
            )
        if not 0 < self.temperature < inf:
            raise InvalidArgument(f"temperature is {self.temperature}: give a finite number above 0")

    @property
    def parts(self) -> list[Part]:
        spans = [
            (shard, start, min(start + self.rows, shard.rows))
            for shard in self.shards
            for start in range(0, shard.rows, self.rows)
        ]
        return [Part(number, *span) for number, span in enumerate(spans)]

    def manifest(self) -> str:
        """What makes two sweeps the same: inputs by content, rules, ks, seed, version; not the engine, nor the folder."""
        what = {
            "made_by": f"ot_draft {__version__}",
            "shards": [[shard.label, shard.digest, shard.rows, shard.n] for shard in self.shards],
            "rules": [[re.sub(r" at 0x\w+", "", repr(rule)), rule.law.spelling] for rule in self.rules],
            "ks": self.ks,
            "temperature": self.temperature,
            "samples": self.samples,
            "seed": self.seed,
            "rows": self.rows,
            **({} if self.target is None else {"target": repr(self.target)}),
        }
        return json.dumps(what, indent=1) + "\n"

    def problem(self, p: Array, q: Array, k: int, law: DraftLaw) -> Problem:
        """The pairs (R, n) with k drafts by the law, their target replaced where another is wanted."""
        return Problem(p if self.target is None else self.target(p, q, k, law), q, k, law)

    def claim(self, out: Path) -> None:
        """Make the folder this sweep's, or find that it is. Raises InvalidArgument if it is another's."""
        out.mkdir(parents=True, exist_ok=True)
        manifest, wanted = out / MANIFEST, self.manifest()
        parts = sorted(file.name for file in out.glob("part-*.parquet"))
        if not manifest.exists():
            if parts:
                raise InvalidArgument(f"{out} holds {parts[0]} and no {MANIFEST}: give an empty folder")
            with put(manifest) as temporary:
                temporary.write_text(wanted, encoding="utf-8")
        elif different := _difference(manifest, wanted):
            raise InvalidArgument(
                f"{manifest} describes another sweep ({different} differs): give another folder,"
                " or the old settings to go on with it"
            )
        foreign = sorted(set(parts) - {part.file_name for part in self.parts})
        if foreign:
            raise InvalidArgument(f"{out} holds {foreign[0]}, which is no part of this sweep: move it elsewhere")

    def missing(self, out: Path) -> list[Part]:
        """Parts of which no whole file is there: none, or one that was cut short or changed."""
        return [part for part in self.parts if not is_whole(out / part.file_name)]


def _difference(manifest: Path, wanted: str) -> str:
    """What differs, by name; "" where nothing does."""
    try:
        there, asked = json.loads(manifest.read_text(encoding="utf-8")), json.loads(wanted)
        return ", ".join(sorted(name for name in there.keys() | asked.keys() if there.get(name) != asked.get(name)))
    except (ValueError, AttributeError, RecursionError):
        return "its form"
