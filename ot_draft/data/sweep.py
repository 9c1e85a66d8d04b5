"""A study of shards: its parts, the computation of one part, the Parquet files, and the run that computes missing parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ..array_files import atomic_write, differences, remove_partial_files, write_json
from ..arrays import Array
from ..errors import DraftSelectionError, InvalidArgument, InvalidDistribution, SweepFailed
from ..laws import is_defined
from ..optional import load
from ..version import __version__
from .shards import Shard
from .study import QUICK_RULES, OptimumRow, Study, block

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

    def is_in(self, out: Path) -> bool:
        """Whether its file is there and can be read to its end."""
        try:
            return (out / self.file_name).exists() and read_part(out / self.file_name) is not None
        except InvalidArgument:
            return False


@dataclass(frozen=True)
class Sweep:
    """A comparison of rules on all pairs of some shards, in parts that `run_sweep` computes and writes.

    Parameters
    ----------
    shards : tuple of Shard
        Files of pairs, from `open_shards`.
    study : Study, optional
        Rules, numbers of draft tokens k and settings. By default, rules whose acceptance has a fast formula, with k = 2, 4 and 8.
    temperature : float, default=1.0
        Temperature by which logits are divided.
    rows : int, optional
        Maximum number of pairs per part. A part never spans two shards. By default, a part has at most 16,384 pairs and at most
        2^26 pairs times tokens.

    Raises
    ------
    InvalidArgument
        If shards is empty, two shards have the same label, a number is out of range, or the draft law of no rule is defined for any k.
    """

    shards: tuple[Shard, ...]
    study: Study = field(default_factory=lambda: Study(ks=(2, 4, 8), rules=QUICK_RULES))
    temperature: float = 1.0
    rows: int | None = None

    def __post_init__(self) -> None:
        if not self.shards:
            raise InvalidArgument("shards must not be empty. Give files with open_shards.")
        if self.rows is not None and self.rows < 1:
            raise InvalidArgument(f"rows must be an integer from 1, got {self.rows}. Leave it out for the default.")
        if not 0 < self.temperature < inf:
            raise InvalidArgument(
                f"temperature must be finite and above 0, got {self.temperature}. Give 1 for the logits as they are."
            )
        rules, ks = self.study.rules, self.study.ks
        if not any(is_defined(rule.law, k) for rule in rules for k in ks):
            named = ", ".join(rule.name for rule in rules)
            raise InvalidArgument(
                f"ks must have a k for which the draft law of {named} is defined, got {', '.join(map(str, ks))}. Give another k."
            )
        labels = [shard.label for shard in self.shards]
        if len(set(labels)) < len(labels):
            twice = max(labels, key=labels.count)
            raise InvalidArgument(
                f"shards must have labels that differ, got {twice} twice. Open all with one open_shards."
            )

    @property
    def parts(self) -> list[Part]:
        most_rows, most_cells = 1 << 14, 1 << 26  # of a part by default
        steps = [self.rows or max(1, min(most_rows, most_cells // shard.n)) for shard in self.shards]
        places = [
            (shard, start, min(start + step, shard.rows))
            for shard, step in zip(self.shards, steps, strict=True)
            for start in range(0, shard.rows, step)
        ]
        return [Part(number, *place) for number, place in enumerate(places)]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that identify a sweep: inputs by content, rules, ks, seed and version, but not the engine or the folder."""
        return {
            "made_by": f"ot_draft {__version__}",
            "shards": [[shard.label, shard.digest, shard.rows, shard.n] for shard in self.shards],
            **self.study.settings, "temperature": self.temperature, "rows": self.rows,
            "normalise": any(shard.normalise for shard in self.shards),
            **({"temperatures": [shard.temperatures for shard in self.shards]} if self.has_temperatures else {}),
        }  # fmt: skip

    @property
    def has_temperatures(self) -> bool:
        """Whether some shard says which temperature its pairs were recorded at."""
        return any(shard.temperatures for shard in self.shards)

    def claim(self, out: Path) -> None:
        """Write the manifest, or compare with the one that exists. Raises InvalidArgument if the folder belongs to another sweep."""
        out.mkdir(parents=True, exist_ok=True)
        manifest, parts = out / MANIFEST, sorted(file.name for file in out.glob("part-*.parquet"))
        if not manifest.exists():
            if parts:
                raise InvalidArgument(f"{out} must be empty or hold {MANIFEST}, got {parts[0]}. Use another folder.")
            write_json(manifest, self.settings)
        elif different := differences(manifest, self.settings):
            raise InvalidArgument(
                f"{out} must belong to this sweep, got another sweep ({different} differs). Use another folder, or the old"
                " settings to resume it."
            )
        foreign = sorted(set(parts) - {part.file_name for part in self.parts})
        if foreign:
            raise InvalidArgument(
                f"{out} must hold parts of this sweep only, got {foreign[0]}. Move it to another folder."
            )

    def missing(self, out: Path) -> list[Part]:
        """Parts without a complete file."""
        return [part for part in self.parts if not part.is_in(out)]


def read_part(file: Path) -> Any:
    """The Arrow table of a file that `make_part` wrote. Raises InvalidArgument if it is damaged or of another kind."""
    try:
        return load("pyarrow.parquet", "sweep").read_table(file, page_checksum_verification=True)
    except (OSError, ValueError) as error:  # pyarrow's own are one of these
        reason = " ".join(str(error).split())[:200]
        raise InvalidArgument(
            f"{file} must be a readable part ({reason}). Run the same sweep again, which rewrites it."
        ) from error


def make_part(sweep: Sweep, part: Part, out: Path) -> tuple[int, str]:
    """Compute a part and write its file atomically.

    Return the number of rows and "", or 0 and an error message for invalid input, which another attempt would not change.
    """
    try:
        table = _table(sweep, part)
    except DraftSelectionError as error:
        return 0, str(error)
    with atomic_write(out / part.file_name) as temporary:
        load("pyarrow.parquet", "sweep").write_table(table, temporary, compression="zstd", write_page_checksum=True)
    return part.stop - part.start, ""


def _table(sweep: Sweep, part: Part, cells: int = 1 << 16) -> Any:
    """The part as an Arrow table: one row per pair, k and rule whose draft law is defined, with the target if the rules are lossy.

    cells: rows times tokens at a time, as many as fit the cache of a core; fixed, so that nothing depends on the engine.
    """
    import pyarrow

    study, file, step = sweep.study, crc32(part.shard.label.encode()), max(1, cells // part.shard.n)
    columns: dict[str, list[Array]] = {}
    words: dict[str, list[tuple[str, int]]] = {"shard": [], "rule": [], "law": [], "temperature": []}
    for start in range(part.start, part.stop, step):
        rows = np.arange(start, min(start + step, part.stop))
        p, q = part.shard.read(start, start + len(rows), sweep.temperature)
        groups = [(word, len(list(same))) for word, same in groupby(part.shard.groups(start, start + len(rows)))]
        for found in block(study, p, q, lambda row, start=start: (file, start + row)):  # type: ignore[misc]
            if found.rule == OptimumRow.DUAL or found.accepted is None:
                continue
            numbers = {"row": rows, "k": np.full(len(rows), found.k, np.int16), "acceptance": found.accepted}
            numbers |= {name: getattr(found, name) for name in ("taken", "error", "optimum")}
            for name, values in numbers.items():
                columns.setdefault(name, []).append(values)
            for name, word in (("shard", part.shard.label), ("rule", found.rule), ("law", found.law)):
                words[name].append((word, len(rows)))
            words["temperature"] += groups
    named = {name: _words(runs) for name, runs in words.items() if name != "temperature" or sweep.has_temperatures}
    if study.target:
        named = {"shard": named["shard"], "target": _words([(study.target_name, len(named["shard"]))])} | named
    return pyarrow.table(named | {name: np.concatenate(parts) for name, parts in columns.items()})


def _words(runs: list[tuple[str, int]]) -> Any:
    """A column of words, each repeated. Words are unique in the dictionary, so that the bytes of the file do not vary."""
    import pyarrow

    known, places = np.unique([word for word, _ in runs], return_inverse=True)
    codes = np.repeat(places.astype(np.int16), [count for _, count in runs])
    return pyarrow.DictionaryArray.from_arrays(codes, known.tolist())


@dataclass(frozen=True)
class Progress:
    """Progress after a part: pairs done, pairs in total, missing parts, and messages about attempts that failed."""

    rows: int
    of: int
    parts_left: int
    trouble: tuple[str, ...] = ()


def run_sweep(
    sweep: Sweep, out: Path | str, tries: int = 3, advance: Callable[[Progress], object] | None = None
) -> tuple[str, ...]:
    """Compute a sweep and write one Parquet file per part.

    The joblib backend in use computes the parts: `with joblib.parallel_config(backend="loky", n_jobs=8): run_sweep(...)`. For a
    cluster, use "dask" with a `distributed.Client`, or "ray" after `ray.util.joblib.register_ray()`. The workers must see the shards
    and `out` under the same paths. The files do not depend on the backend. A complete file of an earlier call is kept, so that an
    interrupted sweep continues when it is called again.

    Parameters
    ----------
    sweep : Sweep
        Shards, rules and settings.
    out : str or Path
        Output folder, which is created. It must be empty or belong to the same sweep.
    tries : int, default=3
        Maximum number of attempts if workers die.
    advance : callable, optional
        Called after every part with its progress: `rows` of `of` pairs are done, `parts_left` parts are missing.

    Returns
    -------
    tuple of str
        One message per attempt that failed.

    Raises
    ------
    InvalidDistribution
        If a row is not a probability vector. Valid parts are written first.
    InvalidArgument
        If the folder belongs to another sweep.
    SweepFailed
        If workers die in every attempt.
    MissingPackage
        If pyarrow is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ot_draft.data import open_shards, summarise_sweep
    >>> with TemporaryDirectory() as folder:
    ...     file, out = Path(folder, "pairs.npz"), Path(folder, "out")
    ...     np.savez(file, p=[[0.5, 0.5]], q=[[0.75, 0.25]])
    ...     failures = run_sweep(Sweep(tuple(open_shards([file]))), out)
    ...     names = sorted(part.name for part in out.iterdir())
    ...     means = summarise_sweep(out)
    >>> failures, names
    ((), ['_sweep.json', 'part-000000.parquet'])
    >>> {line.rule: round(line.accepted, 4) for line in means if line.k == 2 and line.rule in ("KSeq", "Optimal")}
    {'KSeq': 0.8476, 'Optimal': 0.9375}
    """
    from joblib import delayed

    load("pyarrow.parquet", "sweep")  # raises before any work if it is not installed
    out = Path(out)
    sweep.claim(out)
    remove_partial_files(out, "part-")
    total = sum(shard.rows for shard in sweep.shards)
    trouble: list[str] = []
    refused: list[str] = []
    missing = sweep.missing(out)
    while missing and not refused:
        rows, left = total - sum(part.stop - part.start for part in missing), len(missing)
        try:
            for made, refusal in _as_they_end([delayed(make_part)(sweep, part, out) for part in missing]):
                refused += [refusal] if refusal else []
                rows, left = rows + made, left - (not refusal)
                if advance:
                    advance(Progress(rows, total, left, tuple(trouble)))
            break
        except Exception as error:  # of the engine: make_part returns messages on invalid input
            said = " ".join(str(error).split())[:200]
            trouble.append(f"attempt {len(trouble) + 1}: {type(error).__name__}: {said}")
            missing = [part for part in missing if not part.is_in(out)]
            if len(trouble) >= tries:
                raise SweepFailed(
                    f"{len(missing)} of {len(sweep.parts)} parts are missing after {tries} attempts, the last with {trouble[-1]}. Run the"
                    " same sweep again to resume, with fewer jobs if the memory ran out."
                ) from error
    if refused:
        raise InvalidDistribution(
            refused[0] + (f" ({len(refused) - 1} other parts are invalid, too.)" if len(refused) > 1 else "")
        )
    return tuple(trouble)


def _as_they_end(tasks: list[Any]) -> Iterator[tuple[int, str]]:
    """Results of the tasks as they are completed; in rounds on engines (ray) that return nothing before all are completed."""
    from joblib import Parallel, effective_n_jobs

    try:
        work = Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
    except ValueError:
        size = 8 * effective_n_jobs()
        for start in range(0, len(tasks), size):
            yield from Parallel(batch_size=1)(tasks[start : start + size])
        return
    yield from work(tasks)
