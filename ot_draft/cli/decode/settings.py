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
    watermark: str | None
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
        for refused, why in self._contradictions():
            if refused:
                raise Refused(why)
        self._check_files()

    def _contradictions(self) -> list[tuple[bool, str]]:
        """What does not go together, and the remedy."""
        sized = self.paths is not None or self.length is not None
        prints, traces, grows = self.as_json or self.as_csv, self.trace is not None, self.grower is not None
        one_rule = [name for name in ("html", "svg", "audit") if getattr(self, name) is not None]
        about_lookup = self.lookup_tokens is not None or self.lookup_ngram is not None
        looks_up = self.looks_up or self.chooses or (self.grower is not None and self.grower.takes > 0)
        marked = self.watermark is not None
        one_tree = "--trace records trees of one shape: give"
        instead = "stands in the place of --paths"
        return [
            (self.as_json and self.as_csv, "--csv and --json both print to standard output: give one of them"),
            (prints and not self.compare, "--json and --csv print the table of --compare: add it"),
            *((self.compare, f"--{name} shows the text of one rule: leave --compare away") for name in one_rule),
            (not traces and (self.trace_rows, self.trace_keep) != (None, None),
             "--trace-rows and --trace-keep say what --trace records: add --trace DIR"),
            (self.tree is not None and not self.compare and sized,
             f"--tree {instead} and --length: give one or the other"),
            (self.shape is not None and (sized or self.tree is not None),
             f"--shape {instead}, --length and --tree: give one or the other"),
            (self.shape == AUTO and self.named and not self.compare,
             "--shape auto chooses rule and law too: leave --rule and --draft-law away"),
            (self.shape == AUTO and traces, f"{one_tree} --shape 4x4 or another"),
            (self.costs is not None and not self.chooses,
             "--costs are what --shape auto goes by: leave them away, or the shape"),
            (grows and self.draft_law is not None, "--tree dynamic has a draft law of its own: leave --draft-law away"),
            (grows and traces, f"{one_tree} --tree 4,2,1 or another"),
            (about_lookup and not looks_up,
             "nothing is looked up in this shape: leave --prompt-lookup-num-tokens and --max-matching-ngram-size away"),
            (self.by_text and (self.shape == AUTO or self.lookup_ngram is not None),
             "--draft slem: drafts one path by text: leave --shape auto and --max-matching-ngram-size away"),
            (marked and bool(self.compare or self.looks_up or self.chained or self.draft_law or self.tree),
             "--watermark drafts independent paths and shows one rule: give --rule, --paths, --length or --shape 4x4 beside it"),
            (marked and self.shape == AUTO, "--watermark drafts paths of one size: give --shape 4x4 in the place of auto"),
            (self.chained and (self.named or self.tree is not None or self.shape is not None or self.paths is not None),
             "--draft chain: drafts one path by block verification: give --length alone"),
            (self.looks_up and self.named, "--draft lookup has a rule of its own: leave --rule and --draft-law away"),
            (self.looks_up and (self.tree is not None or self.size != (None, None)),
             "--draft lookup drafts one path: give --prompt-lookup-num-tokens in the place of a size"),
            (self.looks_up and traces, "--trace records trees of a draft model: give one"),
            (len(self.rules) > 1 and not self.compare,
             "several --rule are compared with --compare: add it, or give one"),
            (not 1 <= self.max_tokens <= MOST_TOKENS,
             f"--max-tokens is {self.max_tokens}: give a number from 1 to {MOST_TOKENS:,}"),
            (self._nodes > MOST_NODES,
             f"a step would draft {self._nodes} tokens: give a size of at most {MOST_NODES}"),
        ]  # fmt: skip

    @property
    def _nodes(self) -> int:
        """The most nodes that a step may draft."""
        paths, length = (4 if number is None else number for number in self.size)
        levels = accumulate(self.children or (), mul)
        grown = 0 if self.grower is None else self.grower.budget
        return max(paths * length, sum(levels), grown, self.lookup_tokens or 0, self.lookup_ngram or 0)

    @property
    def looks_up(self) -> bool:
        """Whether prompt lookup, or a draft by text, stands in the place of a draft model."""
        return self.draft == LOOKUP or self.by_text

    @property
    def by_text(self) -> bool:
        """Whether a draft model with another tokenizer drafts by its text."""
        return (self.draft or "").startswith("slem:")

    @property
    def chained(self) -> bool:
        """Whether the draft model has a draft of its own."""
        return (self.draft or "").startswith("chain:")

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
        if self.chained or self.watermark is not None:
            return False
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

    def _check_files(self) -> None:
        if self.audit is not None and os.path.lexists(self.audit):
            raise Refused(f"--audit {self.audit} is there already: name another file")
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
        values = [getattr(self, name) for name in names]
        words = ["embedded" if x is None else f"{x:g}" if isinstance(x, float) else str(x) for x in values]
        return [(name.replace("_", "-"), word) for name, word in zip(names, words, strict=True)]
