"""`ot-draft decode --compare`: every method on every prompt, as a table."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...decoding import PromptLookup, Step
from ...decoding.benchmark import Measured, compare_methods
from ...decoding.benchmark.peers import peers
from ...decoding.methods import Method
from ..console import peak_memory, print_csv, print_json, progress_bar, table_console, without_nan
from .run import Job, close_traces, lookup_of, open_trace
from .table import csv_rows, footnotes, interim, records, table


def compare(job: Job, methods: Sequence[Method]) -> None:
    """Every method on every prompt, transformers' own where no methods were named, and the table."""
    output, drafts = job.settings.output, job.settings.drafts
    others = [method for method in methods if not method.fixed_shape]
    if not drafts.named:
        others += peers(job.pair, drafts.size[1], lookup=lookup_of(drafts, PromptLookup()))
    methods = [method for method in methods if method.fixed_shape]
    folders = {method: output.trace and output.trace / method.slug for method in methods}
    traces = {method: open_trace(folder, method, job.options) for method, folder in folders.items()}
    positions: dict[tuple[Method, int], int] = {}

    def watch(method: Method, prompt: int, step: Step) -> None:
        trace = traces.get(method)
        if trace is not None:
            position = positions.get((method, prompt), len(job.tokens[prompt]))
            trace.add(prompt, position, step)
            positions[method, prompt] = position + int(step.length[0]) + 1

    groups = [[tokens] for tokens in job.tokens]
    runs = len(methods) * (len(groups) + 2) + len(others) * len(groups)
    with progress_bar(runs, "decoding", alike=False) as advance:  # warm-ups are short, methods differ

        def show(row: Measured) -> None:
            advance(by=0, line=interim(row, len(groups)))

        shown = show if output.compare == "table" else None
        comparison = compare_methods(job.pair, groups, methods, job.options, watch, advance, others, shown)
    close_traces([trace for trace in traces.values() if trace is not None])
    if output.compare == "json":
        rows, costs = without_nan(records(comparison)), comparison.plan_costs()
        print_json({"settings": dict(job.settings.summary_rows()), "methods": rows, "costs": costs})
    elif output.compare == "csv":
        print_csv(csv_rows(comparison))
    else:
        console, count = table_console(192), len(job.prompts)
        title = f"{count} prompt{'s' * (count > 1)}, up to {job.options.max_tokens} tokens each"
        title += f", temperature {job.options.sampling.temperature:g}"
        console.print(table(comparison, title))
        console.print(footnotes(comparison), style="dim", highlight=False)
        click.echo(peak_memory(), err=True)
