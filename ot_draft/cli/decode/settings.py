"""What `ot-draft decode` was asked to do: its options, with what contradicts itself refused before any model is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ... import defaults
from ..options import can_write, can_write_into, given
from ..refused import Refused
from .options import AUTO, DraftOptions, ModelOptions, OutputOptions, PromptOptions, SamplingOptions

MOST_NODES, MOST_TOKENS = 4096, 1_000_000
NEUTRAL = {"top_k": defaults.TOP_K, "top_p": defaults.TOP_P, "min_p": defaults.MIN_P}  # shown where they do something

SIZE, LAW, ANY_RULE = "--paths or --length", "--draft-law", "--rule or --draft-law"
ONE_TREE = "--trace records trees of one shape: give"
INSTEAD = "stands in the place of --paths"
PATHS_ALONE = (
    "--watermark drafts independent paths and shows one rule: give --rule, --paths, --length or --shape 4x4 beside it"
)
CHAIN_ALONE = "--draft chain: drafts one path by block verification: give --length alone"
LOOKUP_ALONE = "--draft lookup drafts one path: give --prompt-lookup-num-tokens in the place of a size"
TEXT_ALONE = "--draft slem: drafts one path by text: leave --shape auto and --max-matching-ngram-size away"
# What does not go together, and the remedy; the first row that applies is the answer. "no X": X is not given, or not so.
EXCLUSIONS: tuple[tuple[str, str, str], ...] = (
    ("--json", "--csv", "--csv and --json both print to standard output: give one of them"),
    ("--json or --csv", "no --compare", "--json and --csv print the table of --compare: add it"),
    ("--compare", "--html", "--html shows the text of one rule: leave --compare away"),
    ("--compare", "--svg", "--svg shows the text of one rule: leave --compare away"),
    ("--compare", "--audit", "--audit shows the text of one rule: leave --compare away"),
    ("what a trace has", "no --trace", "--trace-rows and --trace-keep say what --trace records: add --trace DIR"),
    ("one --tree", SIZE, f"--tree {INSTEAD} and --length: give one or the other"),
    ("--shape", SIZE, f"--shape {INSTEAD}, --length and --tree: give one or the other"),
    ("--shape", "--tree", f"--shape {INSTEAD}, --length and --tree: give one or the other"),
    ("one --shape auto", ANY_RULE, "--shape auto chooses rule and law too: leave --rule and --draft-law away"),
    ("--shape auto", "--trace", f"{ONE_TREE} --shape 4x4 or another"),
    ("--costs", "no choice", "--costs are what --shape auto goes by: leave them away, or the shape"),
    ("--tree dynamic", LAW, "--tree dynamic has a draft law of its own: leave --draft-law away"),
    ("--tree dynamic", "--trace", f"{ONE_TREE} --tree 4,2,1 or another"),
    ("what is looked up", "no lookup",
     "nothing is looked up in this shape: leave --prompt-lookup-num-tokens and --max-matching-ngram-size away"),
    ("--draft slem", "--shape auto", TEXT_ALONE),
    ("--draft slem", "--max-matching-ngram-size", TEXT_ALONE),
    ("--watermark", "--compare", PATHS_ALONE),
    ("--watermark", "--draft lookup", PATHS_ALONE),
    ("--watermark", "--draft chain", PATHS_ALONE),
    ("--watermark", LAW, PATHS_ALONE),
    ("--watermark", "--tree", PATHS_ALONE),
    ("--watermark", "--shape auto", "--watermark drafts paths of one size: give --shape 4x4 in the place of auto"),
    ("--draft chain", ANY_RULE, CHAIN_ALONE),
    ("--draft chain", "--tree", CHAIN_ALONE),
    ("--draft chain", "--shape", CHAIN_ALONE),
    ("--draft chain", "--paths", CHAIN_ALONE),
    ("--draft lookup", ANY_RULE, "--draft lookup has a rule of its own: leave --rule and --draft-law away"),
    ("--draft lookup", "--tree", LOOKUP_ALONE),
    ("--draft lookup", "a size", LOOKUP_ALONE),
    ("--draft lookup", "--trace", "--trace records trees of a draft model: give one"),
    ("several --rule", "no --compare", "several --rule are compared with --compare: add it, or give one"),
)  # fmt: skip


@dataclass(frozen=True)
class DecodeSettings:
    """The options of the command by their groups. Refused where they do not go together, or nothing can be written where they say."""

    prompts: PromptOptions
    models: ModelOptions
    sampling: SamplingOptions
    drafts: DraftOptions
    output: OutputOptions

    def __post_init__(self) -> None:
        facts = self._facts()
        for first, second, why in EXCLUSIONS:
            if facts[first] and facts[second.removeprefix("no ")] != second.startswith("no "):
                raise Refused(why)
        max_tokens, nodes = self.sampling.max_tokens, self.drafts.nodes
        if not 1 <= max_tokens <= MOST_TOKENS:
            raise Refused(f"--max-tokens is {max_tokens}: give a number from 1 to {MOST_TOKENS:,}")
        if nodes > MOST_NODES:
            raise Refused(f"a step would draft {nodes} tokens: give a size of at most {MOST_NODES}")
        self._check_files()

    def _facts(self) -> dict[str, bool]:
        """Truth of every name in EXCLUSIONS: of an option that it was given, and of what follows from several."""
        models, drafts, output = self.models, self.drafts, self.output
        grower, one, any_given = drafts.grower, not output.compare, given(output) | given(drafts)
        return any_given | {
            "--json or --csv": output.as_json or output.as_csv, "what a trace has": any_given["--trace-rows"] or any_given["--trace-keep"],
            SIZE: any_given["--paths"] or any_given["--length"], "a size": drafts.given_size != (None, None),
            "one --tree": drafts.tree is not None and one, "--tree dynamic": grower is not None,
            "--shape auto": drafts.shape == AUTO, "one --shape auto": drafts.shape == AUTO and one,
            ANY_RULE: drafts.named, "several --rule": len(drafts.rules) > 1, "choice": self.chooses,
            "what is looked up": any_given["--prompt-lookup-num-tokens"] or any_given["--max-matching-ngram-size"],
            "lookup": models.looks_up or self.chooses or (grower is not None and grower.counts.n_lookup_tokens > 0),
            "--draft lookup": models.looks_up, "--draft slem": models.by_text, "--draft chain": models.chained,
        }  # fmt: skip

    @property
    def auto(self) -> bool:
        """Whether the shape chooses itself."""
        drafts = self.drafts
        if self.models.chained or drafts.watermark is not None:
            return False
        if drafts.shape is not None or self.models.looks_up:
            return drafts.shape == AUTO
        given = (drafts.draft_law, drafts.paths, drafts.length, drafts.tree, self.output.trace)
        return not drafts.rules and set(given) == {None}

    @property
    def chooses(self) -> bool:
        """Whether the shape that chooses itself is run, alone or among others."""
        return self.auto or (self.output.compare and not self.drafts.named)

    def _check_files(self) -> None:
        output = self.output
        if output.audit is not None and os.path.lexists(output.audit):
            raise Refused(f"--audit {output.audit} is there already: name another file")
        if output.trace is not None and os.path.isdir(output.trace) and any(output.trace.iterdir()):  # noqa: PTH112 which raises for long names
            raise Refused(f"--trace {output.trace} is there already and not empty: name another folder")
        written = {"--audit": output.audit, "--html": output.html, "--svg": output.svg}
        for name, file in written.items():
            if file is not None:
                can_write(name, file)
        if output.trace is not None:
            can_write_into("--trace", output.trace)
        files = (*written.values(), self.drafts.costs, self.prompts.prompt_file)
        named = [file.absolute() for file in files if file is not None]
        if len(set(named)) < len(named):
            raise Refused(f"{max(named, key=named.count)} is named twice: give every file a name of its own")

    def summary_rows(self) -> list[tuple[str, str]]:
        """Names and values for a page or a record: models, numbers, sampling."""
        sampling, shown = self.sampling, list[tuple[str, Any]]()
        shown += [(name, getattr(self.models, name)) for name in ("target", "draft", "backend", "dtype", "device")]
        shown += [(name, getattr(sampling, name)) for name in ("temperature", "max_tokens", "seed")]
        shown += [
            (name, getattr(sampling, name)) for name, neutral in NEUTRAL.items() if getattr(sampling, name) != neutral
        ]
        return [
            (name.replace("_", "-"), "embedded" if x is None else f"{x:g}" if isinstance(x, float) else str(x))
            for name, x in shown
        ]
