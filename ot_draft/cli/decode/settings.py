"""The settings of `ot-draft decode`. Contradictory options raise Refused before any model is loaded."""

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
ONE_TREE = "--trace requires trees of one shape. Use"
ONE_RULE = "requires a single rule. Remove --compare."
SHAPE_ALONE = "--shape excludes --paths, --length and --tree. Use one way to set the shape."
PATHS_ALONE = "--watermark requires independent paths of one draft model and one rule. Use only --rule, --paths, --length or --shape KxL."
CHAIN_ALONE = "--draft chain: drafts one path for block verification. Of the shape options, use --length only."
LOOKUP_ALONE = "--draft lookup drafts one path. Use --prompt-lookup-num-tokens instead of a size."
TEXT_ALONE = "--draft slem: drafts one path by text. Remove --shape auto and --max-matching-ngram-size."
# Pairs of conditions that exclude each other, with the message. The first matching row applies. "no X": X is false.
EXCLUSIONS: tuple[tuple[str, str, str], ...] = (
    ("--json", "--csv", "--csv and --json both print to standard output. Use one of them."),
    ("--json or --csv", "no --compare", "--json and --csv require --compare. Add --compare."),
    ("--compare", "--html", f"--html {ONE_RULE}"),
    ("--compare", "--svg", f"--svg {ONE_RULE}"),
    ("--compare", "--audit", f"--audit {ONE_RULE}"),
    ("what a trace has", "no --trace", "--trace-rows and --trace-keep require --trace. Add --trace DIR."),
    ("one --tree", SIZE, "--tree excludes --paths and --length. Use one of them."),
    ("--shape", SIZE, SHAPE_ALONE),
    ("--shape", "--tree", SHAPE_ALONE),
    ("one --shape auto", ANY_RULE, "--shape auto also chooses rule and draft law. Remove --rule and --draft-law."),
    ("--shape auto", "--trace", f"{ONE_TREE} --shape 4x4 or another size."),
    ("--costs", "no choice", "--costs requires --shape auto. Remove --costs, or use --shape auto without rule, draft law and size."),
    ("--tree dynamic", LAW, "--tree dynamic determines the draft law. Remove --draft-law."),
    ("--tree dynamic", "--trace", f"{ONE_TREE} --tree 4,2,1 or another fixed tree."),
    ("what is looked up", "no lookup",
     "this shape does not use prompt lookup. Remove --prompt-lookup-num-tokens and --max-matching-ngram-size."),
    ("--draft slem", "--shape auto", TEXT_ALONE),
    ("--draft slem", "--max-matching-ngram-size", TEXT_ALONE),
    ("--watermark", "--compare", PATHS_ALONE),
    ("--watermark", "--draft lookup", PATHS_ALONE),
    ("--watermark", "--draft chain", PATHS_ALONE),
    ("--watermark", LAW, PATHS_ALONE),
    ("--watermark", "--tree", PATHS_ALONE),
    ("--watermark", "--shape auto", "--watermark requires paths of one size. Use --shape 4x4 instead of auto."),
    ("--draft chain", ANY_RULE, CHAIN_ALONE),
    ("--draft chain", "--tree", CHAIN_ALONE),
    ("--draft chain", "--shape", CHAIN_ALONE),
    ("--draft chain", "--paths", CHAIN_ALONE),
    ("--draft lookup", ANY_RULE, "--draft lookup determines rule and draft law. Remove --rule and --draft-law."),
    ("--draft lookup", "--tree", LOOKUP_ALONE),
    ("--draft lookup", "a size", LOOKUP_ALONE),
    ("--draft lookup", "--trace", "--trace requires a draft model. Use another --draft."),
    ("several --rule", "no --compare", "several --rule require --compare. Add --compare, or use one rule."),
)  # fmt: skip


@dataclass(frozen=True)
class DecodeSettings:
    """The options of the command by group. Raises Refused if options exclude each other or an output path is not writable."""

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
            raise Refused(f"--max-tokens must be from 1 to {MOST_TOKENS:,}, got {max_tokens}. Use such a number.")
        if nodes > MOST_NODES:
            raise Refused(
                f"number of draft tokens per step must be at most {MOST_NODES}, got {nodes}. Reduce the size of the draft."
            )
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
        """Whether the shape is chosen in each step (`Auto`)."""
        drafts = self.drafts
        if self.models.chained or drafts.watermark is not None:
            return False
        if drafts.shape is not None or self.models.looks_up:
            return drafts.shape == AUTO
        given = (drafts.draft_law, drafts.paths, drafts.length, drafts.tree, self.output.trace)
        return not drafts.rules and set(given) == {None}

    @property
    def chooses(self) -> bool:
        """Whether `Auto` is run, alone or among other methods."""
        return self.auto or (self.output.compare and not self.drafts.named)

    def _check_files(self) -> None:
        output = self.output
        if output.audit is not None and os.path.lexists(output.audit):
            raise Refused(f"--audit must be a new file, got '{output.audit}', which exists. Use another file.")
        if output.trace is not None and os.path.isdir(output.trace) and any(output.trace.iterdir()):  # noqa: PTH112 which raises for long names
            raise Refused(f"--trace must be a new or empty folder, got '{output.trace}'. Use another folder.")
        written = {"--audit": output.audit, "--html": output.html, "--svg": output.svg}
        for name, file in written.items():
            if file is not None:
                can_write(name, file)
        if output.trace is not None:
            can_write_into("--trace", output.trace)
        files = (*written.values(), self.drafts.costs, self.prompts.prompt_file)
        named = [file.absolute() for file in files if file is not None]
        if len(set(named)) < len(named):
            raise Refused(
                f"input and output files must be distinct, got '{max(named, key=named.count)}' twice. Use another name."
            )

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
