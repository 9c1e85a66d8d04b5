"""The options of `ot-draft decode` in five groups. A field of a group is an option of the command, with its help and default."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import click

from ... import defaults
from ...draft_spec import Chain, DraftSpec, Lookup, OtherTokenizer
from ...errors import CannotDecode, InvalidArgument
from ...trees import TreeDrafter, drafting
from ..options import Place, option, whole_numbers
from ..refused import Refused

AUTO = "auto"
FILE = Place(dir_okay=False)
SHOWN: dict[str, Any] = {"show_default": True}


@dataclass(frozen=True)
class TreeAsked:
    """Value of --tree: numbers of children by level, or a way to grow trees that follow the draft."""

    children: tuple[int, ...] | None = None
    grower: TreeDrafter | None = None


class Tree(click.ParamType):
    """Numbers of children by level, like 4,2,1, or the name of a dynamic tree."""

    name = "tree"

    def convert(self, value: Any, param: Any, context: Any) -> TreeAsked:
        if str(value).lower().startswith(drafting.FAMILY):
            try:
                return TreeAsked(grower=drafting.called(value))
            except InvalidArgument as error:
                raise Refused(f"--tree: {error}") from None
        numbers = whole_numbers(value)
        if not numbers:
            remedy = "Use 4,2,1 for fixed numbers of children, or dynamic:32 for an adaptive tree of up to 32 nodes."
            raise Refused(f"--tree must be numbers of children per level, or dynamic:NODES, got {value!r}. {remedy}")
        return TreeAsked(numbers)


class Shape(click.ParamType):
    """auto, or K x L."""

    name = "shape"

    def convert(self, value: Any, param: Any, context: Any) -> str | tuple[int, int]:
        if value == AUTO:
            return AUTO
        parts = str(value).lower().replace("×", "x").split("x")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise Refused(f"--shape must be auto or KxL, got {value!r}. Use 4x4 for four paths of four tokens.")
        return int(parts[0]), int(parts[1])


class DraftName(click.ParamType):
    """A name that `DraftSpec.parse` reads."""

    name = "draft"

    def convert(self, value: Any, param: Any, context: Any) -> str:
        try:
            DraftSpec.parse(value)
        except CannotDecode as error:
            raise Refused(f"--{error}") from None
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
        **SHOWN,
    )
    backend: str = option(
        "--backend",
        default=defaults.BACKEND,
        help="Inference backend: torch, or one that an installed package registers, as a clone of the repository does for OpenVINO and"
        " llama.cpp (docs/backends.md). auto: the fastest backend for float32 weights that is installed and reads the target, else torch.",
        **SHOWN,
    )
    device: str = option(
        "--device", default=defaults.DEVICE, help="Device of the models, such as cpu or cuda.", **SHOWN
    )
    device_map: str | None = option(
        "--device-map", help="device_map of accelerate for the target, such as auto [default: --device]."
    )
    cache: bool = option(
        "--cache/--no-cache",
        default=True,
        help="Cache converted GGUF files, which then load about ten times as fast.",
        **SHOWN,
    )

    @property
    def spec(self) -> DraftSpec | None:
        """The draft, None for the bundled one."""
        return None if self.draft is None else DraftSpec.parse(self.draft)

    @property
    def by_text(self) -> bool:
        """Whether a draft model with another tokenizer drafts text."""
        return isinstance(self.spec, OtherTokenizer) and self.spec.by_text

    @property
    def looks_up(self) -> bool:
        """Whether prompt lookup, or a draft model that drafts text, replaces a draft model."""
        return isinstance(self.spec, Lookup) or self.by_text

    @property
    def chained(self) -> bool:
        """Whether another model drafts for the draft model."""
        return isinstance(self.spec, Chain)


@dataclass(frozen=True)
class SamplingOptions:
    """Settings of sampling, number of tokens of a text, and seed."""

    temperature: float = option(
        "--temperature", type=float, default=defaults.TEMPERATURE, help="Sampling temperature (0: greedy).", **SHOWN
    )
    top_k: int = option(
        "--top-k",
        type=int,
        default=defaults.TOP_K,
        help="Number of most probable tokens to sample from (0: all).",
        **SHOWN,
    )
    top_p: float = option(
        "--top-p",
        type=float,
        default=defaults.TOP_P,
        help="Total probability of the most probable tokens to sample from (1: all).",
        **SHOWN,
    )
    min_p: float = option(
        "--min-p",
        type=float,
        default=defaults.MIN_P,
        help="Minimum probability of sampled tokens, relative to the largest probability (0: all).",
        **SHOWN,
    )
    max_tokens: int = option(
        "--max-tokens", type=int, default=defaults.MAX_TOKENS, help="Maximum number of new tokens per prompt.", **SHOWN
    )
    seed: int = option(
        "--seed",
        type=int,
        default=defaults.SEED,
        help="Random seed. With --shape auto, it determines the output only together with --costs.",
        **SHOWN,
    )


@dataclass(frozen=True)
class DraftOptions:
    """Shape, law and rule of the drafts. None: not given."""

    shape: str | tuple[int, int] | None = option(
        "--shape",
        type=Shape(),
        help="Draft shape. KxL, such as 4x4: K paths of length L; auto: the shape with the most expected tokens per second, chosen in"
        " each step [default: auto, unless rule, draft law, size or --trace is given].",
    )
    costs: Path | None = option(
        "--costs",
        type=FILE,
        help="File with the output of --compare --json. --shape auto uses its costs instead of measured times.",
    )
    lookup_tokens: int | None = option(
        "--prompt-lookup-num-tokens",
        type=int,
        help=f"Maximum number of draft tokens from prompt lookup [default: {defaults.LOOKUP[0]}; auto: {defaults.AUTO_LOOKUP[0]}].",
    )
    lookup_ngram: int | None = option(
        "--max-matching-ngram-size",
        type=int,
        help=f"Maximum n-gram length of prompt lookup, in tokens [default: {defaults.LOOKUP[1]}; auto: {defaults.AUTO_LOOKUP[1]}].",
    )
    rules: tuple[str, ...] = option(
        "--rule",
        multiple=True,
        help="Verification rule: joint, block, traversal, naive, autoregressive or a selection rule such as KSeq; repeatable with --compare"
        f" [default: {defaults.RULE}].",
    )
    draft_law: str | None = option(
        "--draft-law",
        help="Draft law: iid, hybrid:J, hybrid:auto, without-replacement, hub or top [default: that of the rule].",
    )
    paths: int | None = option("--paths", type=int, help=f"Number of draft paths K [default: {defaults.PATHS}].")
    length: int | None = option(
        "--length", type=int, help=f"Length L of the draft paths, in tokens [default: {defaults.LENGTH}]."
    )
    tree: TreeAsked | None = option(
        "--tree",
        type=Tree(),
        help="Draft tree, instead of paths: numbers of children per level, such as 4,2,1; or dynamic:NODES[:METHOD], a tree of up to NODES"
        f" nodes that adapts to each step, where METHOD is one of {', '.join(drafting.ALL)} [default METHOD: {drafting.USUAL}].",
    )
    watermark: str | None = option(
        "--watermark",
        metavar="KEY",
        help="Watermark key. Draft tokens are the winners of exponential races with this key, and detection statistics are printed."
        " With --rule race (the default), output tokens are winners, too. Other rules: selection rules, such as KSeq.",
    )

    @property
    def children(self) -> tuple[int, ...] | None:
        """Numbers of children by level, if --tree gave any."""
        return None if self.tree is None else self.tree.children

    @property
    def grower(self) -> TreeDrafter | None:
        """Drafter of trees that follow the draft, if --tree asked for such."""
        return None if self.tree is None else self.tree.grower

    @property
    def named(self) -> bool:
        """Whether a rule or a law was named: then only what was named is compared."""
        return bool(self.rules) or self.draft_law is not None

    @property
    def given_size(self) -> tuple[int | None, int | None]:
        """Paths and length, as far as given."""
        return self.shape if isinstance(self.shape, tuple) else (self.paths, self.length)

    @property
    def size(self) -> tuple[int, int]:
        """Paths and length."""
        paths, length = self.given_size
        return defaults.PATHS if paths is None else paths, defaults.LENGTH if length is None else length

    @property
    def nodes(self) -> int:
        """The most nodes that a step may draft."""
        paths, length = self.size
        levels = accumulate(self.children or (), mul)
        grown = 0 if self.grower is None else self.grower.bounds.size
        return max(paths * length, sum(levels), grown, self.lookup_tokens or 0, self.lookup_ngram or 0)


@dataclass(frozen=True)
class OutputOptions:
    """Output: views, files and tables."""

    compare: bool = option(
        "--compare", is_flag=True, help="Continue every prompt with every method, and print a table."
    )
    live: bool = option(
        "--live/--no-live", default=True, help="Print tokens as they are generated, coloured by origin in a terminal."
    )
    html: Path | None = option("--html", type=FILE, help="Output file: HTML page that explains every token.")
    svg: Path | None = option("--svg", type=FILE, help="Output file: SVG image of the live view.")
    trace: Path | None = option(
        "--trace",
        type=Place(file_okay=False),
        help="Output folder, new or empty: all steps, with target and draft distributions.",
    )
    trace_rows: int | None = option(
        "--trace-rows",
        type=click.IntRange(0),
        help=f"Maximum number of pairs of distributions in the trace [default: {defaults.TRACE_ROWS}].",
    )
    trace_keep: int | None = option(
        "--trace-keep",
        type=click.IntRange(0),
        help="Number of most probable tokens stored individually; the others are merged into classes (0: store all tokens)"
        f" [default: {defaults.TRACE_KEPT}].",
    )
    audit: Path | None = option(
        "--audit",
        type=FILE,
        help="Output file, new: .jsonl log of the emitted tokens and target distributions, which are tested against each other.",
    )
    as_json: bool = option("--json", is_flag=True, help="Print the comparison as JSON, with costs for `ot-draft plan`.")
    as_csv: bool = option("--csv", is_flag=True, help="Print the comparison as CSV.")

    @property
    def laws_wanted(self) -> bool:
        """Whether the full distributions of every step are needed: for the page, the audit, and a trace that records any."""
        return self.html is not None or self.audit is not None or (self.trace is not None and self.trace_rows != 0)
