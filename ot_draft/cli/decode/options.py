"""The options of `ot-draft decode` in five groups. A field of a group is an option of the command, with its help and default."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any, ClassVar

import click

from ... import defaults
from ...defaults import SamplingFields
from ...draft_spec import DraftSpec
from ...errors import CannotDecode, InvalidArgument
from ...trees import TreeDrafter, drafting
from ..options import DEFAULTS, Place, option, whole_numbers


@dataclass(frozen=True)
class Shape:
    """Value of --shape: auto, or K paths of length L, or numbers of children per level, or a tree that adapts to each step."""

    auto: bool = False
    paths: int | None = None
    length: int | None = None
    children: tuple[int, ...] | None = None
    adaptive: TreeDrafter | None = None


class ShapeType(click.ParamType):
    """auto, KxL, numbers of children by level such as 4,2,1, or the name of a dynamic tree."""

    name = "shape"

    def convert(self, value: Any, param: Any, context: Any) -> Shape:
        if isinstance(value, Shape):
            return value
        text = str(value).lower()
        if text == "auto":
            return Shape(auto=True)
        if text.startswith(drafting.FAMILY):
            try:
                return Shape(adaptive=drafting.called(value))
            except InvalidArgument as error:
                raise click.UsageError(f"--shape: {error}") from None
        parts = text.replace("×", "x").split("x")
        if len(parts) == 2 and all(part.strip().isdecimal() for part in parts):
            return Shape(paths=int(parts[0]), length=int(parts[1]))
        if numbers := whole_numbers(value):
            return Shape(children=numbers)
        raise click.UsageError(
            f"--shape must be auto, KxL, numbers of children per level, or dynamic:NODES, got {value!r}. Use 4x4 for four paths of four"
            " tokens, 4,2,1 for a tree, or dynamic:32 for a tree of up to 32 nodes that adapts to each step."
        )


class LookupType(click.ParamType):
    """Number of tokens of prompt lookup, and n-gram length if wanted."""

    name = "lookup"

    def convert(self, value: Any, param: Any, context: Any) -> tuple[int, ...]:
        numbers = whole_numbers(value)
        if not 1 <= len(numbers) <= 2:
            raise click.UsageError(
                f"--prompt-lookup must be one or two positive integers, got {value!r}. Use 10,2 for up to 10 tokens by up to 2-grams."
            )
        return numbers


class DraftName(click.ParamType):
    """A name that `DraftSpec.parse` reads."""

    name = "draft"

    def convert(self, value: Any, param: Any, context: Any) -> str:
        try:
            DraftSpec.parse(value)
        except CannotDecode as error:
            raise click.UsageError(f"--{error}") from None
        return str(value)


@dataclass(frozen=True)
class PromptOptions:
    """Texts to continue."""

    prompts: tuple[str, ...] = option(
        "--prompt", multiple=True, help="Prompt to continue; repeatable [default: three built-in prompts]."
    )
    prompt_file: Path | None = option(
        "--prompt-file", type=Place(), help="UTF-8 file of further prompts, one per line."
    )
    chat: bool | None = option(
        "--chat/--no-chat",
        default=None,
        help="Format prompts as user messages [default: if the target has a chat template].",
    )


@dataclass(frozen=True)
class ModelOptions:
    """Models and how to load them. None: the embedded ones."""

    target: str | None = option(
        "--target",
        help="Target model: directory, GGUF file or hub name [default: the bundled SmolLM2-135M-Instruct].",
    )
    draft: str | None = option(
        "--draft",
        type=DraftName(),
        metavar="TEXT",
        help="Draft model: directory, GGUF file, hub name, or .safetensors file of layers for the target's embedding; lookup: prompt"
        " lookup; tokens or states: bundled draft model that reads tokens or hidden states of the bundled target [default: states];"
        " skip:12,20: target without these layers; exit:8: first 8 layers of the target; tli:NAME, slem:NAME: model with another"
        " tokenizer, by common tokens or by text; chain:Q,R: draft model Q, for which R drafts.",
    )
    dtype: str = option(
        "--dtype",
        default=defaults.DTYPE,
        help="Data type of weights and activations. Types other than float32 run on backend torch.",
        **DEFAULTS,
    )
    backend: str = option(
        "--backend",
        default=defaults.BACKEND,
        help="Inference backend: torch, or one that an installed package registers, as a clone of the repository does for OpenVINO and"
        " llama.cpp (docs/backends.md). auto: the fastest backend for float32 weights that is installed and reads the target, else torch.",
        **DEFAULTS,
    )
    device: str = option(
        "--device",
        default=defaults.DEVICE,
        help="Device of the models, such as cpu or cuda; auto: the target on all devices by accelerate's device_map.",
        **DEFAULTS,
    )
    cache: bool = option(
        "--cache/--no-cache",
        default=True,
        help="Cache converted GGUF files, which then load about ten times as fast.",
        **DEFAULTS,
    )

    @property
    def placement(self) -> tuple[str, str | None]:
        """Device and device map."""
        device_maps = {"auto", "balanced", "balanced_low_0", "sequential"}  # of accelerate
        return (defaults.DEVICE, self.device) if self.device in device_maps else (self.device, None)

    @property
    def spec(self) -> DraftSpec | None:
        """The draft, None for the bundled one."""
        return None if self.draft is None else DraftSpec.parse(self.draft)

    @property
    def by_text(self) -> bool:
        """Whether a draft model with another tokenizer drafts text."""
        return self.spec is not None and self.spec.by_text

    @property
    def looks_up(self) -> bool:
        """Whether prompt lookup, or a draft model that drafts text, replaces a draft model."""
        return self.spec is not None and (self.spec.looks_up or self.spec.by_text)

    @property
    def chained(self) -> bool:
        """Whether another model drafts for the draft model."""
        return self.spec is not None and self.spec.chained


@dataclass(frozen=True)
class SamplingOptions:
    """Settings of sampling, number of tokens of a text, and seed."""

    temperature: float = option(
        "--temperature",
        type=float,
        default=SamplingFields.temperature,
        help="Sampling temperature (0: greedy).",
        **DEFAULTS,
    )
    top_k: int = option(
        "--top-k",
        type=int,
        default=SamplingFields.top_k,
        help="Number of most probable tokens to sample from (0: all).",
        **DEFAULTS,
    )
    top_p: float = option(
        "--top-p",
        type=float,
        default=SamplingFields.top_p,
        help="Total probability of the most probable tokens to sample from (1: all).",
        **DEFAULTS,
    )
    min_p: float = option(
        "--min-p",
        type=float,
        default=SamplingFields.min_p,
        help="Minimum probability of sampled tokens, relative to the largest probability (0: all).",
        **DEFAULTS,
    )
    max_tokens: int = option(
        "--max-tokens",
        type=int,
        default=defaults.MAX_TOKENS,
        help="Maximum number of new tokens per prompt.",
        **DEFAULTS,
    )
    seed: int = option(
        "--seed",
        type=int,
        default=defaults.SEED,
        help="Random seed. With --shape auto, it determines the output only together with --costs.",
        **DEFAULTS,
    )


@dataclass(frozen=True)
class DraftOptions:
    """Shape, law and rule of the drafts. None: not given."""

    default_rule: ClassVar[str] = "joint"
    shape: Shape | None = option(
        "--shape",
        type=ShapeType(),
        help="Draft shape: auto, KxL, numbers of children per level, or dynamic:NODES[:METHOD] [default: auto, or 4x4 if rule, draft law or"
        " trace is given]. auto: in each step, the shape with the most expected tokens per second. 4x4: 4 paths of 4 tokens. 4,2,1: a"
        " tree. dynamic:32: a tree of up to 32 nodes that adapts to each step, where METHOD is one of"
        f" {', '.join(drafting.ALL)} [default METHOD: {drafting.USUAL}].",
    )
    costs: Path | None = option(
        "--costs",
        type=Place(dir_okay=False),
        help="File with the output of --compare json. --shape auto uses its costs instead of measured times.",
    )
    lookup: tuple[int, ...] | None = option(
        "--prompt-lookup",
        type=LookupType(),
        metavar="TOKENS[,NGRAM]",
        help="Maximum number of draft tokens from prompt lookup, and maximum n-gram length [default:"
        f" {','.join(map(str, defaults.LOOKUP))}; auto: {','.join(map(str, defaults.AUTO_LOOKUP))}].",
    )
    rules: tuple[str, ...] = option(
        "--rule",
        multiple=True,
        help="Verification rule: joint, block, traversal, naive, autoregressive or a selection rule such as KSeq; repeatable with --compare"
        f" [default: {default_rule}].",
    )
    draft_law: str | None = option(
        "--draft-law",
        help="Draft law: iid, hybrid:J, hybrid:auto, without-replacement, hub, top, or watermark:KEY [default: that of the rule]."
        " watermark:KEY: draft tokens, and with --rule race (its default) output tokens, are the winners of exponential races with this"
        " key; detection statistics are printed.",
    )

    @property
    def watermark(self) -> str | None:
        """Key of the watermark."""
        kind, colon, key = (self.draft_law or "").partition(":")
        return key if (kind, colon) == ("watermark", ":") else None

    @property
    def children(self) -> tuple[int, ...] | None:
        """Numbers of children by level, if --shape has any."""
        return None if self.shape is None else self.shape.children

    @property
    def adaptive(self) -> TreeDrafter | None:
        """Drafter of trees that adapt to each step, if --shape has one."""
        return None if self.shape is None else self.shape.adaptive

    @property
    def named(self) -> bool:
        """Whether a rule or a law was named: then only what was named is compared."""
        return bool(self.rules) or self.draft_law is not None

    @property
    def given_size(self) -> tuple[int | None, int | None]:
        """Paths and length, as far as given."""
        return (None, None) if self.shape is None else (self.shape.paths, self.shape.length)

    @property
    def size(self) -> tuple[int, int]:
        """Paths and length."""
        paths, length = self.given_size
        return defaults.PATHS if paths is None else paths, defaults.LENGTH if length is None else length

    @property
    def nodes(self) -> int:
        """Maximum number of nodes that a step drafts."""
        paths, length = self.size
        levels = accumulate(self.children or (), mul)
        adaptive = 0 if self.adaptive is None else self.adaptive.bounds.size
        return max(paths * length, sum(levels), adaptive, *(self.lookup or (0,)))


@dataclass(frozen=True)
class OutputOptions:
    """Views, files and tables."""

    compare: str | None = option(
        "--compare",
        is_flag=False,
        flag_value="table",
        type=click.Choice(["table", "json", "csv"]),
        help="Continue every prompt with every method and print a table. json: with the costs for --costs and `ot-draft plan`.",
    )
    files: tuple[Path, ...] = option(
        "--out",
        type=Place(dir_okay=False),
        multiple=True,
        metavar="FILE",
        help="Output file: .html for a page that explains every token, .svg for an image of the terminal; repeatable.",
    )
    trace: Path | None = option(
        "--trace",
        type=Place(file_okay=False),
        help=f"Output folder, new or empty: all steps, with up to {defaults.TRACE_ROWS:,} pairs of target and draft distributions.",
    )
    audit: Path | None = option(
        "--audit",
        type=Place(dir_okay=False),
        help="Output file, new: .jsonl log of the emitted tokens and target distributions, which are tested against each other.",
    )

    @property
    def html(self) -> Path | None:
        """The page, if one is wanted."""
        return next((file for file in self.files if file.suffix == ".html"), None)

    @property
    def svg(self) -> Path | None:
        """The image, if one is wanted."""
        return next((file for file in self.files if file.suffix == ".svg"), None)

    @property
    def laws_wanted(self) -> bool:
        """Whether the full distributions of every step are needed."""
        return self.html is not None or self.audit is not None or self.trace is not None
