"""The settings of `ot-draft decode`. Contradictory options raise click.UsageError before any model is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from ...defaults import SamplingFields
from ..options import can_write, can_write_into
from .options import DraftOptions, ModelOptions, OutputOptions, PromptOptions, SamplingOptions


@dataclass(frozen=True)
class DecodeSettings:
    """The options of the command by group. Raises UsageError if options exclude each other or an output path is not writable."""

    prompts: PromptOptions
    models: ModelOptions
    sampling: SamplingOptions
    drafts: DraftOptions
    output: OutputOptions

    def __post_init__(self) -> None:
        for excluded, message in EXCLUSIONS:
            if excluded(self):
                raise click.UsageError(message)
        max_tokens, nodes = self.sampling.max_tokens, self.drafts.nodes
        token_limit, node_limit = 1_000_000, 4096
        if not 1 <= max_tokens <= token_limit:
            raise click.UsageError(
                f"--max-tokens must be from 1 to {token_limit:,}, got {max_tokens}. Use such a number."
            )
        if nodes > node_limit:
            raise click.UsageError(
                f"number of draft tokens per step must be at most {node_limit}, got {nodes}. Reduce the size of the draft."
            )
        self._check_files()

    @property
    def auto(self) -> bool:
        """Whether the shape is chosen in each step (`Auto`)."""
        drafts = self.drafts
        if drafts.shape is not None:
            return drafts.shape.auto
        return not (self.one_path or drafts.named or self.output.trace is not None)

    @property
    def one_path(self) -> bool:
        """Whether the kind of draft drafts one path by a rule of its own."""
        return self.models.looks_up or self.models.chained

    @property
    def looks_up(self) -> bool:
        """Whether prompt lookup drafts in some step."""
        adaptive = self.drafts.adaptive
        return self.models.looks_up or self.chooses or (adaptive is not None and adaptive.counts.n_lookup_tokens > 0)

    @property
    def shape_of_one_path(self) -> bool:
        """Whether a draft of one path admits the shape: auto for prompt lookup, one path for a chain."""
        shape = self.drafts.shape
        if shape is None:
            return True
        return shape.auto and not self.models.by_text if self.models.looks_up else shape.paths == 1

    @property
    def chooses(self) -> bool:
        """Whether `Auto` is run, alone or among other methods."""
        return self.auto or (self.output.compare is not None and not self.drafts.named)

    def _check_files(self) -> None:
        output = self.output
        if output.audit is not None and os.path.lexists(output.audit):
            raise click.UsageError(f"--audit must be a new file, got '{output.audit}', which exists. Use another file.")
        if output.trace is not None and os.path.isdir(output.trace) and any(output.trace.iterdir()):  # noqa: PTH112 which raises for long names
            raise click.UsageError(f"--trace must be a new or empty folder, got '{output.trace}'. Use another folder.")
        for each in output.files:
            if each not in (output.html, output.svg):
                raise click.UsageError(
                    f"--out must be one .html and one .svg file at most, got '{each}'. Use such a name."
                )
        written = {"--audit": output.audit, "--out": output.html, "--out ": output.svg}
        for name, file in written.items():
            if file is not None:
                can_write(name.strip(), file)
        if output.trace is not None:
            can_write_into("--trace", output.trace)
        files = (*written.values(), self.drafts.costs, self.prompts.prompt_file)
        named = [file.absolute() for file in files if file is not None]
        if len(set(named)) < len(named):
            raise click.UsageError(
                f"input and output files must be distinct, got '{max(named, key=named.count)}' twice. Use another name."
            )

    def summary_rows(self) -> list[tuple[str, str]]:
        """Names and values for a page or a record: models, numbers, sampling."""
        sampling, shown = self.sampling, list[tuple[str, Any]]()
        shown += [(name, getattr(self.models, name)) for name in ("target", "draft", "backend", "dtype", "device")]
        shown += [(name, getattr(sampling, name)) for name in ("temperature", "max_tokens", "seed")]
        # Shown if they have another value.
        neutral = {"top_k": SamplingFields.top_k, "top_p": SamplingFields.top_p, "min_p": SamplingFields.min_p}
        shown += [(name, getattr(sampling, name)) for name in neutral if getattr(sampling, name) != neutral[name]]
        return [
            (name.replace("_", "-"), "embedded" if x is None else f"{x:g}" if isinstance(x, float) else str(x))
            for name, x in shown
        ]


def _differs(s: DecodeSettings) -> bool:
    """Whether draft tokens of a watermark would not be independent paths of one draft model, of one size."""
    shape = s.drafts.shape
    return s.output.compare is not None or s.one_path or (shape is not None and shape.paths is None)


# Conditions that exclude each other, with the message. The first matching row applies.
EXCLUSIONS: tuple[tuple[Callable[[DecodeSettings], bool], str], ...] = (
    (
        lambda s: s.drafts.watermark is not None and _differs(s),
        "--draft-law watermark: requires paths of one size by one draft model and one rule. Use --shape KxL and --rule only.",
    ),
    (
        lambda s: s.output.compare is not None and bool(s.output.files or s.output.audit),
        "--out and --audit require a single rule. Remove --compare.",
    ),
    (
        lambda s: s.one_path and (s.drafts.named or not s.shape_of_one_path),
        "--draft lookup, slem: and chain: draft one path by their own rule. Remove --rule, --draft-law and other --shape than auto or 1xL.",
    ),
    (
        lambda s: (
            (s.auto and s.drafts.named and s.output.compare is None)
            or (s.drafts.adaptive is not None and s.drafts.draft_law is not None)
        ),
        "--shape auto chooses rule and draft law, and dynamic trees determine the draft law. Remove --rule and --draft-law.",
    ),
    (
        lambda s: s.output.trace is not None and (s.auto or s.drafts.adaptive is not None or s.models.looks_up),
        "--trace requires a draft model and trees of one shape. Use --shape 4x4 or another fixed shape.",
    ),
    (
        lambda s: s.drafts.costs is not None and not s.chooses,
        "--costs requires --shape auto. Remove --costs, or use --shape auto without rule and draft law.",
    ),
    (
        lambda s: s.drafts.lookup is not None and not s.looks_up,
        "this shape does not use prompt lookup. Remove --prompt-lookup.",
    ),
    (
        lambda s: len(s.drafts.rules) > 1 and s.output.compare is None,
        "several --rule require --compare. Add --compare, or use one rule.",
    ),
)
