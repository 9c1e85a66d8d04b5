"""Pairs (p, q), in memory or in a file that is read as they are needed, and what is known of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..array_files import hash_of
from ..arrays import Array
from ..errors import InvalidDistribution
from ..problem import Problem
from .records import LABELS, Loaded
from .shards import Shard, check_temperature, divided, is_rounded, open_shard, temperatures_of

__all__ = ["Pairs", "as_pairs"]


@dataclass(frozen=True, kw_only=True)
class PairsFound(ABC):
    """Facts about m pairs of laws, wherever these are.

    index: (m,) what each was called in its file, which also seeds its random drafts, so that a selection of pairs gets the
    numbers it has among all. group: (m,) the temperature, or "" without one. labels: name -> (m,), for the output only.
    text: (m,) pairs of one text are not independent of each other; every pair its own where nothing is known.
    padding: what was filled up, in words.
    """

    source: str
    index: tuple[int, ...]
    group: tuple[str, ...]
    text: tuple[int, ...]
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    padding: str = ""

    def __len__(self) -> int:
        return len(self.index)

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of tokens."""

    @abstractmethod
    def load(self) -> Pairs:
        """The pairs in memory. Raises InvalidDistribution for a row of a file that is not a distribution."""

    @abstractmethod
    def _laws_of(self, rows: Sequence[int]) -> dict[str, Any]:
        """The fields that hold the laws, for some of the pairs."""

    @abstractmethod
    def digest(self) -> str:
        """Hash of the laws and of what the pairs are called."""

    def choose(self, rows: Sequence[int]) -> Self:
        """Some of the pairs."""
        known: dict[str, Any] = {
            name: tuple(getattr(self, name)[row] for row in rows) for name in ("index", "group", "text")
        }
        labels = {name: tuple(values[row] for row in rows) for name, values in self.labels.items()}
        return replace(self, **known, labels=labels, **self._laws_of(rows))

    def loaded_if_few(self, numbers: int = 1 << 24) -> PairsFound:
        """Load the pairs if p has at most `numbers` entries (256 MB with q), so that invalid rows raise an error before any work."""
        return self.load() if len(self) * self.n <= numbers else self

    def parts(self, size: int) -> Iterator[Self]:
        """Yield all pairs, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.choose(range(start, min(start + size, len(self))))

    def at_temperature(self, temperature: float) -> Self:
        """The pairs of one temperature."""
        rows = [row for row, group in enumerate(self.group) if group and float(group) == temperature]
        if not rows:
            known = ", ".join(sorted({group for group in self.group if group}))
            remedy = "Use --temperature to divide logits by a temperature."
            raise InvalidDistribution(
                f"the stored temperature must be one of {self.source} ({known or 'none'}), got {temperature}. {remedy}"
            )
        return self.choose(rows)

    def first(self, limit: int) -> Self:
        """At most `limit` pairs of every group, evenly spaced, because files are sorted by kind of text."""
        rows = []
        for group in dict.fromkeys(self.group):
            members = [row for row, value in enumerate(self.group) if value == group]
            count = min(limit, len(members))
            rows += [members[int(number * len(members) / count)] for number in range(count)]
        return self.choose(rows)


@dataclass(frozen=True, kw_only=True)
class Pairs(PairsFound):
    """m pairs of laws in memory. p, q: (m, n), float numpy or Fractions."""

    p: Array
    q: Array

    @property
    def n(self) -> int:
        return int(self.p.shape[-1])

    def load(self) -> Pairs:
        return self

    def digest(self) -> str:
        return hash_of(f"{Loaded(self.p).digest()} {Loaded(self.q).digest()}", [str(self.index).encode()])

    def _laws_of(self, rows: Sequence[int]) -> dict[str, Any]:
        return {"p": self.p[list(rows)], "q": self.q[list(rows)]}


@dataclass(frozen=True, kw_only=True)
class PairFile(PairsFound):
    """m pairs of a file, of which no more are in memory than are asked for."""

    shard: Shard
    temperature: float = 1.0  # by which logits are divided

    @property
    def n(self) -> int:
        return self.shard.n

    def load(self, at_once: int = 1 << 20) -> Pairs:
        """at_once: numbers of the file that are turned into laws at a time."""
        p = q = np.empty((0, self.n))
        done = 0
        for start, stop in _runs(self.index, max(1, at_once // self.n)):
            laws = self.shard.read(start, stop, self.temperature, exact=True)
            if not done:
                p, q = (np.empty((len(self), self.n), law.dtype) for law in laws)
            p[done : done + stop - start], q[done : done + stop - start] = laws
            done += stop - start
        known = {name: getattr(self, name) for name in ("source", "index", "group", "text", "labels", "padding")}
        return Pairs(p=p, q=q, **known)

    def digest(self) -> str:
        return hash_of(f"{self.shard.digest} {self.shard.normalise} {self.temperature}", [str(self.index).encode()])

    def _laws_of(self, rows: Sequence[int]) -> dict[str, Any]:
        return {}


def _runs(index: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """The numbers as stretches start .. stop - 1, in their order, none longer than `most`."""
    start = stop = index[0]
    for number in index:
        if number != stop or stop - start >= most:
            yield start, stop
            start = stop = number
        stop += 1
    yield start, stop


def open_pairs(
    file: Path | str,
    normalise: bool = False,
    pad: bool = False,
    temperature: float = 1.0,
    draft_file: Path | None = None,
    logits: bool = False,
) -> PairFile:
    """The pairs of a file of any kind that `formats` reads, under the names of `names_in`; logits are divided by the temperature.

    Where the file holds `temperatures` (T,), p is (T, ..., n); where it holds `text` (C,) and p is (T, C, n), as the committed data, it is
    used, too. All of the file is passed through once, see `open_shards`; a row that is not a distribution raises an error when it is read.
    normalise, pad, draft_file, logits: see `open_shard`.
    """
    file = Path(file)
    shard = open_shard(file, pad, normalise, draft_file, logits)
    check_temperature(shard, temperature)
    about = {name: shard.columns[name].whole() for name in ("temperatures", *LABELS) if name in shard.columns}
    known = _about(about, shard.axes, str(file))
    if temperature != 1:
        known["group"] = tuple(group or str(temperature) for group in known["group"])
    return PairFile(shard=shard, padding=shard.padding, temperature=temperature, **known)


def read_pairs(file: Path | str, normalise: bool = False, pad: bool = False, logits: bool = False) -> Pairs:
    """Return the pairs of target and draft distributions in a file, in memory and validated.

    Parameters
    ----------
    file : str or Path
        File in a format of `ot_draft.data.formats`, with arrays p and q of shape (..., n), or logits.
    normalise : bool, default=False
        Whether to divide rounded probabilities by their sums, which must lie within 1 % of 1.
    pad : bool, default=False
        Whether to fill the shorter of two vocabularies with probability 0 at its end.
    logits : bool, default=False
        Whether p and q, or arrays under other names of probabilities, are logits.

    Returns
    -------
    Pairs
        p and q of shape (m, n), float64 or Fractions, and what the file says of each pair.

    Raises
    ------
    InvalidDistribution
        If the file cannot be read, holds other arrays, or a row is not a distribution.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "pairs.json")
    ...     _ = file.write_text('{"p": [["1/2", "1/2"]], "q": [["3/4", "1/4"]]}')
    ...     pairs = read_pairs(file)
    >>> pairs.q
    array([[Fraction(3, 4), Fraction(1, 4)]], dtype=object)
    """
    return open_pairs(file, normalise, pad, logits=logits).load()


def as_pairs(arrays: dict[str, Any], source: str, normalise: bool = False) -> Pairs:
    """Validated pairs from p and q (..., n) and, if they are there, `temperatures` and the labels of contexts.

    normalise: divide masses by their sums first, where these are within 1 % of 1, as those of rounded masses are.
    """
    p, q = (divided(arrays[name]) if normalise else arrays[name] for name in ("p", "q"))
    try:
        problem = Problem(p, q, 1)
    except InvalidDistribution as error:
        rounded = not normalise and np.shape(p) == np.shape(q) and all(is_rounded(arrays[name]) for name in ("p", "q"))
        remedy = ". For rounded probabilities, use --normalise (normalise=True)" if rounded else ""
        raise InvalidDistribution(f"{source}: {str(error).removesuffix('.')}{remedy}") from error
    laws = {name: law.reshape(-1, problem.n) for name, law in (("p", problem.p), ("q", problem.q))}
    return Pairs(**laws, **_about(arrays, problem.batch, source))


def _about(arrays: Mapping[str, Any], batch: tuple[int, ...], source: str) -> dict[str, Any]:
    """Fields of `PairsFound` for pairs with these leading axes."""
    count = prod(batch)
    if count == 0:
        raise InvalidDistribution(f"{source} must hold at least one pair, got leading axes {batch}. Add pairs.")
    context = np.arange(count) % (batch[-1] if batch else 1)
    temperatures = temperatures_of(arrays.get("temperatures", ()), batch, source)
    group = np.repeat(temperatures or ("",), count // len(temperatures or ("",)))
    labels = {name: np.asarray(arrays[name]) for name in LABELS if np.shape(arrays.get(name, ())) == batch[-1:] != ()}
    text = labels["text"][context] if "text" in labels else np.arange(count)
    return {
        "source": source,
        "index": tuple(range(count)),
        "group": tuple(map(str, group)),
        "text": tuple(np.unique(text, return_inverse=True)[1].tolist()),
        "labels": {name: tuple(map(str, values[context])) for name, values in labels.items()},
    }
