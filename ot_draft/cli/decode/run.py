"""What `ot-draft decode` does, once its options are known to be consistent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ot_draft.cli.decode.command import print_json, progress_bar
from ot_draft.cli.decode.live import legend, stream
from ot_draft.cli.decode.measure import compare_methods
from ot_draft.cli.decode.methods import AUTOREGRESSIVE, Method, compared, method_called, shape_of, takes_one_path
from ot_draft.cli.decode.page.origins import ACCEPTED, BONUS, CORRECTED
from ot_draft.cli.decode.page.page import PageText, page
from ot_draft.cli.decode.prompts import encode_prompts, read_prompts
from ot_draft.cli.decode.table import csv_text, footnotes, plan_costs, records, table
from ot_draft.cli.decode.trace import KEPT, ROWS, Trace
from ot_draft.cli.embedded import load_models
from ot_draft.decoding import Options, Pair, Sampling, Step, decode_steps

WIDE = 176  # columns of the table where the output is no terminal


@dataclass(frozen=True)
class Job:
    """Models, texts and options."""

    pair: Pair
    prompts: list[str]
    tokens: list[list[int]]
    options: Options
    given: dict[str, Any]


def run(given: dict[str, Any]) -> None:
    """Decode as the options of the command say; ValueError with one line where they do not fit models or texts."""
    methods = _methods(given)
    sampling = Sampling(given["temperature"], given["top_k"], given["top_p"], given["min_p"])
    laws = given["html"] is not None or (given["trace"] is not None and given["trace_rows"] != 0)
    options = Options(sampling, max_tokens=given["max_tokens"], seed=given["seed"], laws=laws)
    prompts = read_prompts(given["prompts"], given["prompt_file"])
    with Console(stderr=True).status("loading the models"):
        pair = load_models(*(given[name] for name in ("target", "draft", "dtype", "device", "device_map")))
    tokens, _ = encode_prompts(pair, prompts, given["chat"])
    job = Job(pair, prompts, tokens, options, given)
    if given["compare"]:
        _compare(job, methods)
    else:
        _show(job, methods[0])


def _methods(given: dict[str, Any]) -> list[Method]:
    tree, rules, law = given["tree"], given["rules"], given["draft_law"]
    paths, length = (4 if given[name] is None else given[name] for name in ("paths", "length"))
    if given["paths"] is None and rules and all(takes_one_path(rule) for rule in rules):
        paths = 1
    if given["compare"] and not rules and law is None:
        return compared(paths, length, tree)
    shape = shape_of(paths, length, tree)
    named = [method_called(rule, law, shape) for rule in dict.fromkeys(rules or ("joint",))]
    if not given["compare"]:
        return named
    plain = method_called(AUTOREGRESSIVE, None, shape)
    return [plain, *(method for method in named if method != plain)]


def _show(job: Job, method: Method) -> None:
    """One rule: the texts one after the other, each with its own row of random numbers."""
    console, given = Console(), job.given
    trace = _trace(given, given["trace"], method, job.options)
    pages = []
    if console.is_terminal and given["live"]:
        console.print(legend((ACCEPTED, CORRECTED, BONUS)))
    for number, prompt in enumerate(job.prompts):
        text = PageText(prompt, job.pair, method) if given["html"] else None
        steps = decode_steps(job.pair, [job.tokens[number]], method.drafting, replace(job.options, rows=[number]))
        steps = _recorded(steps, trace, number, len(job.tokens[number]))
        if given["live"]:
            steps = stream(console, job.pair, prompt, method.drafting, steps)
        said: list[int] = []
        for step in steps:
            said += step.tokens(0)
            if text is not None:
                text.add(step)
        if not given["live"]:
            click.echo(job.pair.text(said))
        pages += [text] if text is not None else []
    if trace is not None:
        _close([trace])
    if given["html"] is not None:
        given["html"].write_text(page(pages, _settings(given)), encoding="utf-8")
        click.echo(f"page: {given['html']}", err=True)


def _compare(job: Job, methods: Sequence[Method]) -> None:
    """Every method on every prompt, and the table."""
    given = job.given
    traces = {
        method: _trace(given, given["trace"] and given["trace"] / method.slug, method, job.options)
        for method in methods
    }
    positions: dict[tuple[Method, int], int] = {}

    def watch(method: Method, prompt: int, step: Step) -> None:
        trace = traces[method]
        if trace is not None:
            at = positions.get((method, prompt), len(job.tokens[prompt]))
            trace.add(prompt, at, step)
            positions[method, prompt] = at + int(step.length[0]) + 1

    bar, advance = progress_bar(len(methods) * (len(job.prompts) + 2))
    with bar:
        found = compare_methods(job.pair, job.tokens, methods, job.options, watch, advance)
    _close([trace for trace in traces.values() if trace is not None])
    if given["as_json"]:
        print_json({"settings": dict(_settings(given)), "methods": records(found), "costs": plan_costs(found)})
    elif given["as_csv"]:
        click.echo(csv_text(records(found)), nl=False)
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=WIDE)
        count = len(job.prompts)
        title = f"{count} prompt{'s' * (count > 1)}, up to {job.options.max_tokens} tokens each"
        title += f", temperature {job.options.sampling.temperature:g}"
        console.print(table(found, title))
        console.print(footnotes(found), style="dim", highlight=False)


def _recorded(steps: Iterator[Step], trace: Trace | None, prompt: int, position: int) -> Iterator[Step]:
    for step in steps:
        if trace is not None:
            trace.add(prompt, position, step)
        position += int(step.length[0]) + 1
        yield step


def _trace(given: dict[str, Any], folder: Path | None, method: Method, options: Options) -> Trace | None:
    if folder is None:
        return None
    kept, rows = given["trace_keep"], given["trace_rows"]
    return Trace(folder, method, options, KEPT if kept is None else kept, ROWS if rows is None else rows)


def _close(traces: Sequence[Trace]) -> None:
    for trace in traces:
        trace.close()
        limit = "; the limit of laws was reached, the last steps have none (--trace-rows)" if trace.full else ""
        click.echo(f"trace: {trace.folder}, {trace.steps} steps{limit}", err=True)


def _settings(given: dict[str, Any]) -> list[tuple[str, str]]:
    names = ["target", "draft", "dtype", "device", "temperature", "max_tokens", "seed"]
    names += [name for name, neutral in (("top_k", 0), ("top_p", 1), ("min_p", 0)) if given[name] != neutral]
    return [(name.replace("_", "-"), "embedded" if given[name] is None else f"{given[name]:g}" if isinstance(given[name], float)
             else str(given[name])) for name in names]  # fmt: skip
