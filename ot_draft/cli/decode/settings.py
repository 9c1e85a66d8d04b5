"""What `ot-draft decode` was asked to do: its options, with what contradicts itself refused before any model is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path

from ...paths import TreeDrafter
from ..options import can_write, can_write_into
from ..refused import Refused

AUTO, LOOKUP = "auto", "lookup"
MOST_NODES, MOST_TOKENS = 4096, 1_000_000
NEUTRAL = {"top_k": 0, "top_p": 1, "min_p": 0}  # settings that are told only where they do something


@dataclass(frozen=True)
class TreeAsked:
    """What --tree names: numbers of children by level, or a way to grow trees that follow the draft."""

    children: tuple[int, ...] | None = None
    grower: TreeDrafter | None = None


@dataclass(frozen=True)
class DecodeSettings:
    """The options of the command by their names; None where one was not given. Refused where they do not go together."""

    prompts: tuple[str, ...]
    prompt_file: Path | None
    chat: bool | None
    target: str | None
    draft: str | None
    dtype: str
    device: str
    device_map: str | None
    cache: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    max_tokens: int
    seed: int
    shape: str | tuple[int, int] | None
    costs: Path | None
    lookup_tokens: int | None
    lookup_ngram: int | None
    rules: tuple[str, ...]
    draft_law: str | None
    paths: int | None
    length: int | None
    tree: TreeAsked | None
    compare: bool
    live: bool
    html: Path | None
    svg: Path | None
    trace: Path | None
    trace_rows: int | None
    trace_keep: int | None
    audit: Path | None
    as_json: bool
    as_csv: bool

    def __post_init__(self) -> None:
        self._check_form()
        self._check_files()
        if self.tree is not None and not self.compare and (self.paths is not None or self.length is not None):
            raise Refused("--tree stands in the place of --paths and --length: give one or the other")
        self._check_shape()
        self._check_lookup()
        if len(self.rules) > 1 and not self.compare:
            raise Refused("several --rule are compared with --compare: add it, or give one")
        if not 1 <= self.max_tokens <= MOST_TOKENS:
            raise Refused(f"--max-tokens is {self.max_tokens}: give a number from 1 to {MOST_TOKENS:,}")
        if self._nodes > MOST_NODES:
            raise Refused(f"a step would draft {self._nodes} tokens: give a size of at most {MOST_NODES}")

    def _check_shape(self) -> None:
        sized = self.paths is not None or self.length is not None or self.tree is not None
        if self.shape is not None and sized:
            raise Refused("--shape stands in the place of --paths, --length and --tree: give one or the other")
        if self.shape == AUTO and self.named and not self.compare:
            raise Refused("--shape auto chooses rule and law too: leave --rule and --draft-law away")
        if self.shape == AUTO and self.trace is not None:
            raise Refused("--trace records trees of one shape: give --shape 4x4 or another")
        if self.costs is not None and not self.chooses:
            raise Refused("--costs are what --shape auto goes by: leave them away, or the shape")
        if self.grower is not None and self.draft_law is not None:
            raise Refused("--tree dynamic has a draft law of its own: leave --draft-law away")
        if self.grower is not None and self.trace is not None:
            raise Refused("--trace records trees of one shape: give --tree 4,2,1 or another")

    def _check_lookup(self) -> None:
        given = self.lookup_tokens is not None or self.lookup_ngram is not None
        takes = self.grower is not None and self.grower.takes > 0
        if given and not (self.looks_up or self.chooses or takes):
            raise Refused(
                "nothing is looked up in this shape: leave --prompt-lookup-num-tokens and --max-matching-ngram-size away"
            )
        if self.looks_up and self.named:
            raise Refused("--draft lookup has a rule of its own: leave --rule and --draft-law away")
        if self.looks_up and (self.tree is not None or self.size != (None, None)):
            raise Refused("--draft lookup drafts one path: give --prompt-lookup-num-tokens in the place of a size")
        if self.looks_up and self.trace is not None:
            raise Refused("--trace records trees of a draft model: give one")

    @property
    def _nodes(self) -> int:
        """The most nodes that a step may draft."""
        paths, length = (4 if number is None else number for number in self.size)
        levels = accumulate(self.children or (), mul)
        grown = 0 if self.grower is None else self.grower.budget
        return max(paths * length, sum(levels), grown, self.lookup_tokens or 0, self.lookup_ngram or 0)

    @property
    def looks_up(self) -> bool:
        """Whether prompt lookup stands in the place of a draft model."""
        return self.draft == LOOKUP

    @property
    def children(self) -> tuple[int, ...] | None:
        """Numbers of children by level, if --tree gave any."""
        return None if self.tree is None else self.tree.children

    @property
    def grower(self) -> TreeDrafter | None:
        """How trees grow that follow the draft, if --tree asked for such."""
        return None if self.tree is None else self.tree.grower

    @property
    def auto(self) -> bool:
        """Whether the shape chooses itself."""
        if self.shape is not None or self.looks_up:
            return self.shape == AUTO
        given = (self.rules, self.draft_law, self.paths, self.length, self.tree, self.trace)
        return all(each is None or each == () for each in given)

    @property
    def named(self) -> bool:
        """Whether a rule or a law was named: then only what was named is compared."""
        return bool(self.rules) or self.draft_law is not None

    @property
    def chooses(self) -> bool:
        """Whether the shape that chooses itself is run, alone or among others."""
        return self.auto or (self.compare and not self.named)

    @property
    def size(self) -> tuple[int | None, int | None]:
        """Paths and length, as far as given."""
        return self.shape if isinstance(self.shape, tuple) else (self.paths, self.length)

    def _check_form(self) -> None:
        if self.as_json and self.as_csv:
            raise Refused("--csv and --json both print to standard output: give one of them")
        if (self.as_json or self.as_csv) and not self.compare:
            raise Refused("--json and --csv print the table of --compare: add it")
        for name, file in (("--html", self.html), ("--svg", self.svg)):
            if file is not None and self.compare:
                raise Refused(f"{name} shows the text of one rule: leave --compare away")

        if self.audit is not None and self.compare:
            raise Refused("--audit tests the text of one rule: leave --compare away")

    def _check_files(self) -> None:
        if self.audit is not None and os.path.lexists(self.audit):
            raise Refused(f"--audit {self.audit} is there already: name another file")
        if (self.trace_rows is not None or self.trace_keep is not None) and self.trace is None:
            raise Refused("--trace-rows and --trace-keep say what --trace records: add --trace DIR")
        if self.trace is not None and os.path.isdir(self.trace) and any(self.trace.iterdir()):  # noqa: PTH112 which raises for long names
            raise Refused(f"--trace {self.trace} is there already and not empty: name another folder")
        written = {"--audit": self.audit, "--html": self.html, "--svg": self.svg}
        for name, file in written.items():
            if file is not None:
                can_write(name, file)
        if self.trace is not None:
            can_write_into("--trace", self.trace)
        named = [file.absolute() for file in (*written.values(), self.costs, self.prompt_file) if file is not None]
        if len(set(named)) < len(named):
            raise Refused(f"{max(named, key=named.count)} is named twice: give every file a name of its own")

    @property
    def laws_wanted(self) -> bool:
        """Whether the whole laws of every step are looked at: for the page, the audit, and a trace that records any."""
        return self.html is not None or self.audit is not None or (self.trace is not None and self.trace_rows != 0)

    def told(self) -> list[tuple[str, str]]:
        """Names and values for a page or a record: models, numbers, sampling."""
        names = ["target", "draft", "dtype", "device", "temperature", "max_tokens", "seed"]
        names += [name for name, neutral in NEUTRAL.items() if getattr(self, name) != neutral]
        return [(name.replace("_", "-"), _told(getattr(self, name))) for name in names]


def _told(value: object) -> str:
    return "embedded" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
