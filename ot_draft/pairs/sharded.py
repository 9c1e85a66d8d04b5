"""A study of shards: its parts, what one of them computes, the parquet files that hold them, and how it is told from another sweep."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from .. import __version__
from ..array_files import put
from ..arrays import Array
from ..errors import DraftSelectionError, InvalidArgument
from ..optional import load
from .shards import Shard
from .study import DUAL, QUICK_RULES, Study, block

MANIFEST = "_sweep.json"  # readers of parquet folders pass over such names
CELLS = 1 << 16  # rows times tokens at a time: what a core's cache holds; fixed, so that nothing depends on the engine


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

    def is_in(self, out: Path) -> bool:
        """Whether its file is there and can be read to its end."""
        try:
            return (out / self.file_name).exists() and read_part(out / self.file_name) is not None
        except InvalidArgument:
            return False


@dataclass(frozen=True)
class Sweep:
    """A study of all pairs of some shards. rows: pairs a part, at most; one part never spans two shards. temperature: of logits."""

    shards: tuple[Shard, ...]
    study: Study = field(default_factory=lambda: Study(ks=(2, 4, 8), rules=QUICK_RULES))
    temperature: float = 1.0
    rows: int = 16_384

    def __post_init__(self) -> None:
        if not self.shards:
            raise InvalidArgument("a sweep needs at least one shard")
        if self.rows < 1:
            raise InvalidArgument(f"rows is {self.rows}: give a whole number from 1 on")
        if not 0 < self.temperature < inf:
            raise InvalidArgument(f"temperature is {self.temperature}: give a finite number above 0")
        rules, ks = self.study.rules, self.study.ks
        if not any(rule.law.is_defined(k) for rule in rules for k in ks):
            named = ", ".join(rule.name for rule in rules)
            raise InvalidArgument(f"no law of {named} is defined for k = {', '.join(map(str, ks))}: give another k")
        labels = [shard.label for shard in self.shards]
        if len(set(labels)) < len(labels):
            raise InvalidArgument(
                f"two shards are called {max(labels, key=labels.count)}: open all with one open_shards"
            )

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
            "rules": [[re.sub(r" at 0x\w+", "", repr(rule)), rule.law.spelling] for rule in self.study.rules],
            "ks": self.study.ks,
            "temperature": self.temperature,
            "samples": self.study.samples,
            "seed": self.study.seed,
            "rows": self.rows,
            **({} if self.study.target is None else {"target": repr(self.study.target)}),
        }
        return json.dumps(what, indent=1) + "\n"

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
        return [part for part in self.parts if not part.is_in(out)]


def parquet_module() -> Any:
    """pyarrow.parquet."""
    return load("pyarrow.parquet", "sweep")


def write_part(table: Any, file: Path) -> None:
    """Put an arrow table into the folder under the file's name in one step, with checksums."""
    with put(file) as temporary:
        parquet_module().write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_part(file: Path) -> Any:
    """The arrow table of a file that `write_part` wrote. Raises InvalidArgument where it is another, or was changed."""
    try:
        return parquet_module().read_table(file, page_checksum_verification=True)
    except (OSError, ValueError) as error:  # pyarrow's own are one of these
        reason = " ".join(str(error).split())[:200]
        raise InvalidArgument(f"{file} cannot be read: {reason}; the same sweep makes it again") from error


def _difference(manifest: Path, wanted: str) -> str:
    """What differs, by name; "" where nothing does."""
    try:
        there, asked = json.loads(manifest.read_text(encoding="utf-8")), json.loads(wanted)
        return ", ".join(sorted(name for name in there.keys() | asked.keys() if there.get(name) != asked.get(name)))
    except (ValueError, AttributeError, RecursionError):
        return "its form"


@dataclass(frozen=True)
class Done:
    """Rows of a part that is written, or the reason why it cannot be: wrong input is no matter for another try."""

    rows: int
    refused: str = ""


def make_part(sweep: Sweep, part: Part, out: Path) -> Done:
    """Compute a part and put its file into the folder under its name in one step: whole or not at all."""
    try:
        table = _table(sweep, part)
    except DraftSelectionError as error:
        return Done(0, str(error))
    write_part(table, out / part.file_name)
    return Done(part.stop - part.start)


def _table(sweep: Sweep, part: Part) -> Any:
    """The part as an arrow table: one row for every pair, k and rule that is defined there; what is lossy says so."""
    import pyarrow

    study, file, step = sweep.study, crc32(part.shard.label.encode()), max(1, CELLS // part.shard.n)
    columns: dict[str, list[Array]] = {}
    words: dict[str, list[tuple[str, int]]] = {"shard": [], "rule": [], "law": []}
    for start in range(part.start, part.stop, step):
        rows = np.arange(start, min(start + step, part.stop))
        p, q = part.shard.read(start, start + len(rows), sweep.temperature)
        for cells in block(study, p, q, lambda row, start=start: (file, start + row)):  # type: ignore[misc]
            if cells.rule == DUAL or cells.accepted is None:
                continue
            found = {"row": rows, "k": np.full(len(rows), cells.k, np.int16), "acceptance": cells.accepted}
            found |= {"taken": cells.taken, "error": cells.error, "optimum": cells.optimum}
            for name, values in found.items():
                columns.setdefault(name, []).append(values)
            for name, word in (("shard", part.shard.label), ("rule", cells.rule), ("law", cells.law)):
                words[name].append((word, len(rows)))
    named = {name: _words(found) for name, found in words.items()}
    if study.target:
        named = {"shard": named["shard"], "target": _words([(study.target_name, len(named["shard"]))])} | named
    return pyarrow.table(named | {name: np.concatenate(parts) for name, parts in columns.items()})


def _words(runs: list[tuple[str, int]]) -> Any:
    """A column of words, each so many times. A dictionary with a word twice is written with bytes that vary."""
    import pyarrow

    known, places = np.unique([word for word, _ in runs], return_inverse=True)
    codes = np.repeat(places.astype(np.int16), [count for _, count in runs])
    return pyarrow.DictionaryArray.from_arrays(codes, known.tolist())
