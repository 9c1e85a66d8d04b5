"""The options of `ot-draft decode`, in five groups: a field of a group is an option of the command, with its help and its default."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import click

from ... import defaults
from ...errors import InvalidArgument
from ...trees import TreeDrafter, drafting
from ..options import Place, option, whole_numbers
from ..refused import Refused

AUTO, LOOKUP = "auto", "lookup"
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
            dynamic = "dynamic:32 for a tree of up to 32 nodes that follows the draft"
            raise Refused(f"--tree {value}: give the number of children on every level, like 4,2,1, or {dynamic}")
        return TreeAsked(numbers)


class Shape(click.ParamType):
    """auto, or K x L."""

    name = "shape"

    def convert(self, value: Any, param: Any, context: Any) -> str | tuple[int, int]:
        if value == AUTO:
            return AUTO
        parts = str(value).lower().replace("×", "x").split("x")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise Refused(f"--shape {value}: give auto, or paths x length, like 4x4")
        return int(parts[0]), int(parts[1])


@dataclass(frozen=True)
class PromptOptions:
    """Texts to continue."""

    prompts: tuple[str, ...] = option("--prompt", multiple=True, help="Text to continue; may be given several times.")
    prompt_file: Path | None = option("--prompt-file", type=Place(), help="More of them, one a line.")
    chat: bool | None = option(
        "--chat/--no-chat", default=None, help="As a user's turn [default: where the model has a chat template]."
    )


@dataclass(frozen=True)
class ModelOptions:
    """Models and how to load them. None: the embedded ones."""

    target: str | None = option(
        "--target", help="Directory, GGUF file or hub name [default: the embedded SmolLM2-135M-Instruct]."
    )
    draft: str | None = option(
        "--draft",
        help="The same, or safetensors of layers for the target's embedding, or lookup: prompt lookup; for the embedded target also"
        " tokens or states, the embedded drafts that read so [default: states]; skip:12,20, exit:8: the target without layers, or its"
        " first ones; tli:NAME, slem:NAME: a model with another tokenizer, by common tokens or by text; chain:Q,R: R drafts for Q.",
    )
    dtype: str = option(
        "--dtype",
        default=defaults.DTYPE,
        help="Of both models' weights and products; any but float32 takes backend torch.",
        **SHOWN,
    )
    backend: str = option(
        "--backend",
        default=defaults.BACKEND,
        help="Engine of the forward passes: torch, or one that an installed package registers, as a clone of the repository does for"
        " OpenVINO and llama.cpp (docs/decoding.md); auto: the fastest for float32 weights that is installed and reads the target.",
        **SHOWN,
    )
    device: str = option("--device", default=defaults.DEVICE, help="cpu or cuda.", **SHOWN)
    device_map: str | None = option(
        "--device-map", help="How accelerate spreads the target over devices, for example auto."
    )
    cache: bool = option(
        "--cache/--no-cache",
        default=True,
        help="Keep what a GGUF file was converted to, and load it in a tenth of the time from then on.",
        **SHOWN,
    )

    @property
    def by_text(self) -> bool:
        """Whether a draft model with another tokenizer drafts by its text."""
        return (self.draft or "").startswith("slem:")

    @property
    def looks_up(self) -> bool:
        """Whether prompt lookup, or a draft by text, stands in the place of a draft model."""
        return self.draft == LOOKUP or self.by_text

    @property
    def chained(self) -> bool:
        """Whether the draft model has a draft of its own."""
        return (self.draft or "").startswith("chain:")


@dataclass(frozen=True)
class SamplingOptions:
    """Settings of sampling, number of tokens of a text, and seed."""

    temperature: float = option("--temperature", type=float, default=defaults.TEMPERATURE, help="0: greedy.", **SHOWN)
    top_k: int = option("--top-k", type=int, default=defaults.TOP_K, help="0: all tokens.", **SHOWN)
    top_p: float = option("--top-p", type=float, default=defaults.TOP_P, **SHOWN)
    min_p: float = option("--min-p", type=float, default=defaults.MIN_P, **SHOWN)
    max_tokens: int = option("--max-tokens", type=int, default=defaults.MAX_TOKENS, help="A text.", **SHOWN)
    seed: int = option("--seed", type=int, default=defaults.SEED, **SHOWN)


@dataclass(frozen=True)
class DraftOptions:
    """Shape, law and rule of the drafts. None: not given."""

    shape: str | tuple[int, int] | None = option(
        "--shape",
        type=Shape(),
        help="auto: every step drafts what promises most tokens a second; or paths x length, like 4x4 "
        "[default: auto, unless the rule, the law or a size is given].",
    )
    costs: Path | None = option(
        "--costs",
        type=FILE,
        help="For the shape auto: what --compare --json printed, in the place of the clock; texts follow the seed then.",
    )
    lookup_tokens: int | None = option(
        "--prompt-lookup-num-tokens",
        type=int,
        help=f"Looked up at most [default: {defaults.LOOKUP[0]}; auto: {defaults.AUTO_LOOKUP[0]}].",
    )
    lookup_ngram: int | None = option(
        "--max-matching-ngram-size",
        type=int,
        help=f"Last tokens that are looked for [default: {defaults.LOOKUP[1]}; auto: {defaults.AUTO_LOOKUP[1]}].",
    )
    rules: tuple[str, ...] = option(
        "--rule",
        multiple=True,
        help="joint, block, traversal, naive, a selection rule such as KSeq, or autoregressive; several with --compare"
        f" [default: {defaults.RULE}].",
    )
    draft_law: str | None = option(
        "--draft-law", help="iid, hybrid:J, hybrid:auto, without-replacement, hub, top [default: the rule's]."
    )
    paths: int | None = option("--paths", type=int, help=f"Number of drafted paths K [default: {defaults.PATHS}].")
    length: int | None = option("--length", type=int, help=f"Length L of the paths [default: {defaults.LENGTH}].")
    tree: TreeAsked | None = option(
        "--tree",
        type=Tree(),
        help="Instead: children of a node on every level, like 4,2,1, or dynamic:NODES, a tree that follows the draft;"
        f" dynamic:NODES:WAY: {', '.join(drafting.ALL)}.",
    )
    watermark: str | None = option(
        "--watermark",
        metavar="KEY",
        help="Draft by races of this key, and say how well it is found; --rule race (the default): the text is their winner, whatever"
        " the draft; or a selection rule, token by token, such as KSeq.",
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

    compare: bool = option("--compare", is_flag=True, help="Every method continues every prompt; print the table.")
    live: bool = option(
        "--live/--no-live", default=True, help="Show the text while it comes, coloured by origin in a terminal."
    )
    html: Path | None = option("--html", type=FILE, help="Write a page that explains every token.")
    svg: Path | None = option("--svg", type=FILE, help="Write the live view as a picture.")
    trace: Path | None = option("--trace", type=Place(file_okay=False), help="A new folder for steps and laws.")
    trace_rows: int | None = option("--trace-rows", type=click.IntRange(0), help="Laws recorded at most.")
    trace_keep: int | None = option(
        "--trace-keep", type=click.IntRange(0), help="Tokens of a law that stay themselves, 0: all."
    )
    audit: Path | None = option(
        "--audit",
        type=FILE,
        help="Test the emitted tokens against the target's laws, and log both in a new .jsonl file.",
    )
    as_json: bool = option("--json", is_flag=True, help="Print the comparison as JSON, with costs for `ot-draft plan`.")
    as_csv: bool = option("--csv", is_flag=True, help="Print the comparison as CSV.")

    @property
    def laws_wanted(self) -> bool:
        """Whether the whole laws of every step are looked at: for the page, the audit, and a trace that records any."""
        return self.html is not None or self.audit is not None or (self.trace is not None and self.trace_rows != 0)
