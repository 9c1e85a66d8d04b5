"""Adaptive draft length compared with autoregressive decoding and fixed shapes: `python -m llm_demo.bench.auto --out FILE`.

The 40 prompts in `kinds.jsonl` are of four kinds: chat, code, documentation and editing, where the completion repeats much of the prompt.
The methods are interleaved prompt by prompt. `auto` adapts during the timed completions. By default all prompts share one process. With
--fresh each prompt has a separate process, as with `ot-draft decode`, so that nothing is learnt from earlier prompts. The table has ratios
of tokens per second to the autoregressive method, with 95 % confidence intervals over prompts (jackknife, Student's t). `--beside float16`
adds autoregressive decoding and `auto` with weights of that data type; their ratios are also to the autoregressive method of --dtype.
`--draft-beside DRAFT` adds `auto` and a path of four tokens with another draft (skip:17).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import torch
from scipy.stats import t as student

from llm_demo.backends import BACKENDS
from llm_demo.machine import machine
from llm_demo.models.load import load_pair
from llm_demo.prompts import Prompt, read_prompts
from llm_demo.rows import Row, write
from ot_draft.cli import progress_bar
from ot_draft.decoding import CannotDecode, DecodeOptions, Drafting, Pair, PromptLookup, SamplingParams, Step
from ot_draft.decoding.benchmark import Comparison, Measured, compare_methods
from ot_draft.decoding.benchmark.calls import Call, Watch, calls, nobody
from ot_draft.decoding.benchmark.peers import peers
from ot_draft.decoding.load import DTYPES
from ot_draft.decoding.methods import Method, auto_method, lookup_method, method_called, shape_of

Shapes = dict[
    tuple[str, str], Counter[str]
]  # number of steps per chosen shape, by kind of prompt and label of the method
KINDS = Path(__file__).with_name("kinds.jsonl")
SEED = 17
AGAINST = ("all", "shapes", "peers", "plain")  # also fixed shapes of ot_draft, generation of transformers, or nothing
ONE_SHAPE = (("speculativesampling", 1, 1), ("block", 1, 2), ("block", 1, 4), ("joint", 4, 2))


def contenders(pair: Pair, batch: int, against: str) -> list[Method]:
    """Return all methods but the autoregressive one: auto, then those of AGAINST. Methods of transformers require batch 1."""
    methods: list[Method] = [auto_method()]
    if against in ("all", "shapes"):
        methods += [method_called(rule, None, shape_of(K, L, None)) for rule, K, L in ONE_SHAPE]
        methods.append(lookup_method(PromptLookup()))
    if against in ("all", "peers") and batch == 1:
        methods += peers(pair)
    return methods


@dataclass(frozen=True, kw_only=True)
class OfOtherModels(Method):
    """A method with a separate pair of models."""

    method: Method
    pair: Pair = field(compare=False)

    @classmethod
    def like(cls, method: Method, pair: Pair, word: str) -> OfOtherModels:
        """Return the method for another pair, with a word appended to its label."""
        drafts = f"{method.drafts}, {word}".removeprefix(", ")
        named = {"label": f"{method.label}, {word}", "drafts": drafts}
        return cls(**vars(method) | named, method=method, pair=pair)


@calls.register
def calls_of_others(
    method: OfOtherModels, pair: Pair, prompts: Sequence[Sequence[int]], options: DecodeOptions, watch: Watch = nobody
) -> Iterator[Call]:
    """Return the calls of the wrapped method with its pair."""
    return calls(method.method, method.pair, prompts, options, lambda _, text, step: watch(method, text, step))


def beside(pair: Pair, word: str, methods: Sequence[Method]) -> list[Method]:
    """Return these methods for another pair."""
    return [OfOtherModels.like(method, pair, word) for method in methods]


def bench(
    pair: Pair, prompts: Sequence[Prompt], batch: int, options: DecodeOptions, methods: Sequence[Method], progress: Any
) -> list[Row]:
    """Return rows of the autoregressive method and of `methods`, for every kind of prompt and for all.

    Prompts of a batch are sorted by kind, so that most batches have one kind.
    """
    ordered = prompts if batch == 1 else sorted(prompts, key=lambda prompt: prompt.kind)
    groups = [ordered[start : start + batch] for start in range(0, len(ordered) - batch + 1, batch)]
    tokens = [[prompt.tokens for prompt in group] for group in groups]
    shapes: Shapes = {}

    def watch(method: Method, text: int, step: Step) -> None:
        if method.rule == "auto":
            shapes.setdefault((ordered[text].kind, method.label), Counter())[_shape(step.drafting)] += 1

    comparison = compare_methods(pair, tokens, [plain_method()], options, watch, progress, methods)
    return rows_of(comparison.rows, [group[0].kind for group in groups], shapes, batch, options)


def rows_of(
    measured: Sequence[Measured], kinds: Sequence[str], shapes: Shapes, batch: int, options: DecodeOptions
) -> list[Row]:
    """Return the rows of the measurements, the autoregressive method first. kinds: the kind of every group of prompts."""
    common = {"batch": batch, "temperature": options.sampling.temperature}
    rows = []
    for kind in ["all"] if batch > 1 else [*dict.fromkeys(kinds), "all"]:
        chosen = [number for number, other in enumerate(kinds) if kind in ("all", other)]
        part = Comparison([replace(row, groups=[row.groups[g] for g in chosen]) for row in measured], {})
        for row in part.rows:
            of_kind = (
                used for (other, label), used in shapes.items() if label == row.method.label and kind in ("all", other)
            )
            rows.append(common | {"kind": kind} | _row(part, row) | {"shapes": _shares(sum(of_kind, Counter()))})
    return rows


@dataclass(frozen=True)
class Fresh:
    """One prompt after the other, each in a separate process that loads the models. models: keyword arguments of `load_pair`."""

    models: dict[str, Any]
    texts: int
    options: DecodeOptions
    against: str
    threads: int | None

    def rows(self, pair: Pair, progress: Any) -> list[Row]:
        """Return the rows as `bench` does. pair: the same models in this process."""
        measured = [Measured(method) for method in (plain_method(), *contenders(pair, 1, self.against))]
        kinds, shapes = list[str](), Shapes()
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
            for kind, calls, used in pool.map(self.one, range(self.texts)):
                for row, of_row in zip(measured, calls, strict=True):
                    row.groups.append(of_row)
                kinds.append(kind)
                for key, counted in used.items():
                    shapes[key] = shapes.get(key, Counter()) + counted
                progress(f"text {len(kinds)} of {self.texts}")
        return rows_of(measured, kinds, shapes, 1, self.options)

    def one(self, number: int) -> tuple[str, list[list[Call]], Shapes]:
        """Decode one prompt, in a separate process; return its kind, the calls of every method, and the chosen shapes."""
        if self.threads:
            torch.set_num_threads(self.threads)
        pair = load_pair(**self.models)
        prompt = read_prompts(pair.tokenizer, number + 1, KINDS)[number]
        shapes: Shapes = {}

        def watch(method: Method, text: int, step: Step) -> None:
            if method.rule == "auto":
                shapes.setdefault((prompt.kind, method.label), Counter())[_shape(step.drafting)] += 1

        methods, options = contenders(pair, 1, self.against), replace(self.options, seed=SEED + number)
        made = compare_methods(pair, [[prompt.tokens]], [plain_method()], options, watch, peers=methods)
        return prompt.kind, [row.calls for row in made.rows], shapes


def plain_method() -> Method:
    """Return autoregressive decoding, with one token per target call."""
    return method_called("autoregressive", None, shape_of(1, 1, None))


def _row(part: Comparison, measured: Measured) -> Row:
    ratio, error = part.speed_up(measured)
    half = float(student.ppf(0.975, len(measured.groups) - 1)) * error if len(measured.groups) > 1 else float("nan")
    name = f"{measured.method.rule} {measured.method.drafts}".strip()
    numbers = {"tokens_a_call": measured.block_efficiency, "tokens_a_second": measured.tokens_a_second}
    numbers |= {"ratio": ratio, "low": ratio - half, "high": ratio + half}
    return {"method": name, "groups": len(measured.groups)} | {key: f"{value:.4g}" for key, value in numbers.items()}


def _shape(drafting: Drafting) -> str:
    if not drafting.tree.bounds.size:
        return "plain"
    source = f"{drafting.tree.counts.n_paths}x" if drafting.tree.counts.n_model_calls else "lookup "
    return f"{source}{drafting.tree.bounds.length}"


def _shares(used: Counter[str] | None) -> str:
    """Return the shares of the steps by shape, the most frequent first."""
    if not used:
        return ""
    return " ".join(f"{name}:{count / used.total():.2f}" for name, count in used.most_common(6))


def _own_ratio(row: Row) -> str:
    return f", {row['of_its_plain']} of its engine's" if "of_its_plain" in row else ""


def show(rows: Sequence[Row]) -> str:
    """Return one line per row."""
    return "\n".join(
        f"batch {row['batch']} T {row['temperature']} {row['kind']:14} {row['method'][:46]:46} {row['tokens_a_call']:>6} tokens per call"
        f" {row['tokens_a_second']:>6}/s  {row['ratio']} [{row['low']}, {row['high']}] of autoregressive{_own_ratio(row)}  {row['shapes']}"
        for row in rows
    )


@click.command()
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file of the table.")
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded model].")
@click.option(
    "--draft",
    help="Draft model: directory, GGUF file, hub name, safetensors file of layers, tokens or states [default: states].",
)
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)))
@click.option("--backend", default="auto", show_default=True, type=click.Choice(("auto", *BACKENDS)))
@click.option(
    "--texts", default=40, show_default=True, type=click.IntRange(1), help="Number of prompts; four kinds alternate."
)
@click.option(
    "--tokens", default=128, show_default=True, type=click.IntRange(2), help="Maximum number of new tokens per prompt."
)
@click.option("--batch", multiple=True, type=click.IntRange(1), default=(1, 8), show_default=True)
@click.option("--temperature", multiple=True, type=float, default=(1.0, 0.6), show_default=True)
@click.option(
    "--against",
    type=click.Choice(AGAINST),
    default="all",
    show_default=True,
    help="Methods in addition to autoregressive and auto.",
)
@click.option(
    "--beside", type=click.Choice(list(DTYPES)), multiple=True, help="Further data types, for autoregressive and auto."
)
@click.option("--draft-beside", multiple=True, help="Further drafts, for auto and a path of four tokens.")
@click.option("--fresh", is_flag=True, help="Separate process for every prompt, at batch 1.")
@click.option(
    "--loaded-for",
    type=click.IntRange(1),
    help="Argument `tokens` of `load_pair` in every separate process, with --fresh [default: --tokens].",
)
@click.option("--threads", type=click.IntRange(1), help="Number of torch threads on the CPU [default: of torch].")
def main(
    out: Path, target: str | None, draft: str | None, device: str, dtype: str, backend: str, **options: Any
) -> None:
    """Measure all methods, write OUT and print a line for every kind and method."""
    if options["loaded_for"] and not options["fresh"]:
        raise click.UsageError("--loaded-for requires --fresh. Add --fresh, or remove --loaded-for.")
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    try:
        draft = draft or (None if target else "states")
        named: dict[str, Any] = {
            "target": target,
            "draft": draft,
            "dtype": dtype,
            "device": device,
            "backend": backend,
        }
        if options["fresh"]:
            named["tokens"] = options["loaded_for"] or options["tokens"]
        pair = load_pair(**named)
        others = {other: load_pair(target, draft, other, device) for other in options["beside"]}
        drafts = {Path(other).stem: load_pair(target, other, dtype, device) for other in options["draft_beside"]}
        where = machine(device) | {
            "dtype": dtype,
            "backend": pair.backend,
            "tokens": options["tokens"],
            "fresh": options["fresh"],
        }
        prompts = read_prompts(pair.tokenizer, options["texts"], KINDS)
        four_tokens = method_called("block", None, shape_of(1, 4, None))
        rows: list[Row] = []
        for batch in [1] if options["fresh"] else options["batch"]:
            for temperature in options["temperature"]:
                decoding = DecodeOptions(SamplingParams(temperature), max_tokens=options["tokens"], seed=SEED)
                if options["fresh"]:
                    fresh = Fresh(named, len(prompts), decoding, options["against"], options["threads"])
                    with progress_bar(len(prompts), f"temperature {temperature}") as advance:
                        rows += fresh.rows(pair, lambda done, a=advance: a())
                    write([row | where for row in rows], out)
                    continue
                methods = contenders(pair, batch, options["against"])
                for other, models in others.items():
                    methods += beside(models, other, [plain_method(), auto_method()])
                for name, models in drafts.items():
                    methods += beside(models, name, [auto_method(), four_tokens])
                total = (len(prompts) // batch) * (1 + len(methods)) + 2
                with progress_bar(total, f"batch {batch}, temperature {temperature}") as advance:
                    rows += bench(pair, prompts, batch, decoding, methods, lambda done, a=advance: a())
                write([row | where for row in rows], out)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    click.echo(show(rows))


if __name__ == "__main__":
    main()
