"""Speed of all rules on real models, in turns: `python -m llm_demo.bench --out figures/data/bench_cpu.csv`.

The grid of (K, L) is that of SpecTr's Table 1 (Sun et al., NeurIPS 2023). Every rule is compared with autoregressive decoding by the
same engine, and with transformers' own generation (plain, assisted) of the same two models in the same run. Beside each
measured speed-up stands what the wall-clock model predicts from costs that were measured before.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from llm_demo.bench import costs as bench_costs
from llm_demo.bench.methods import GRID, contenders
from llm_demo.bench.run import Runs, run_all
from llm_demo.machine import machine
from llm_demo.models.load import load_pair
from llm_demo.prompts import Prompt, read_prompts
from ot_draft.decoding import DTYPES, CannotDecode, Options, Pair, Sampling

SEED = 9
QUICK = {"prompts": 5, "tokens": 16, "batch": (1,), "temperature": (1.0,)}
Row = dict[str, Any]


def bench(
    pair: Pair,
    prompts: Sequence[Prompt],
    batch: int,
    options: Options,
    grid: tuple[tuple[int, int], ...] = GRID,
    progress: Any = lambda done: None,
) -> list[Row]:
    """A row for every contender at one batch size and temperature; peers, which take one text at a time, at batch 1 only."""
    chosen = contenders(grid, peers=batch == 1)
    ours = [each for each in chosen if each.method]
    groups = [prompts[start : start + batch] for start in range(0, len(prompts) - batch + 1, batch)]
    before = bench_costs.measure(pair, [prompt.tokens for prompt in groups[0]], ours, options)
    costs = bench_costs.costs_of(before, ours)
    runs = run_all(pair, chosen, groups, options, progress)
    common = {"batch": batch, "temperature": options.sampling.temperature, "texts": len(groups) * batch}
    return [common | _row(done, runs[0], before, costs) for done in runs]


def _row(done: Runs, baseline: Runs, before: dict[str, bench_costs.Parts], costs: dict[str, Any]) -> Row:
    each, parts, plain = done.contender, done.parts, baseline.parts
    gain, error = done.speed_up(baseline)
    found: Row = {"rule": each.name, "law": each.law, "K": each.K, "L": each.L, "calls": len(done.chosen)}
    found |= {"block_efficiency": done.block_efficiency, "block_efficiency_error": done.error}
    step = sorted(done.steps)[len(done.steps) // 2]
    names = ("draft", "verify", "select", "rest")
    found |= {"step_ms": step} | {f"{name}_ms": getattr(parts, name) if parts else "" for name in names}
    found |= {"tokens_a_second": 1000 * done.block_efficiency / step, "speed_up": gain, "speed_up_error": error}
    found |= {"predicted": "", "reason": ""}
    if each.method and each.K and parts and plain:
        name = bench_costs.key(each)
        expected = bench_costs.predicted(each, done.block_efficiency, done.error, costs[name])
        first = before[bench_costs.key(baseline.contender)].total
        why = bench_costs.reason(gain, expected, before[name], parts, first, plain.total)
        found |= {"predicted": expected, "reason": why}
    return {name: f"{value:.5g}" if isinstance(value, float) else value for name, value in found.items()}


def write(rows: Sequence[Row], file: Path) -> None:
    """Rows as CSV."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(file: Path) -> list[Row]:
    """The rows of a CSV; none where it is missing."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def show(rows: Sequence[Row]) -> str:
    """The rows as a table, fastest first within a batch size and temperature."""
    lines = [
        f"{'rule':38} {'K x L':>6} {'tokens a call':>15} {'ms a step':>9} {'speed-up':>14} {'predicted':>9}  why it differs"
    ]
    order = sorted(rows, key=lambda row: (row["batch"], row["temperature"], -float(row["speed_up"])))
    for row in order:
        name = f"{row['rule']}, {row['law']}" if row["law"] not in ("", "iid") else row["rule"]
        efficiency = f"{float(row['block_efficiency']):.2f} ± {float(row['block_efficiency_error']):.2f}"
        gain = f"{float(row['speed_up']):.2f} ± {float(row['speed_up_error']):.2f}"
        guess = f"{float(row['predicted']):.2f}" if row["predicted"] else ""
        size = f"{row['K']} x {row['L']}" if row["K"] else ""
        lines.append(
            f"{name[:38]:38} {size:>6} {efficiency:>15} {float(row['step_ms']):9.1f} {gain:>14} {guess:>9}  {row['reason']}"
        )
    return "\n".join(lines)


@click.command()
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The CSV.")
@click.option("--target", help="Directory, GGUF file or hub name [default: the embedded model].")
@click.option("--draft", help="The same of the draft, or a safetensors file of layers.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)))
@click.option("--prompts", default=200, show_default=True, help="Of five kinds in turn.")
@click.option("--tokens", default=64, show_default=True, help="Of every text.")
@click.option("--batch", multiple=True, type=click.IntRange(1), default=(1, 8), show_default=True)
@click.option("--temperature", multiple=True, type=float, default=(0.6, 1.0), show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Of torch, on the CPU [default: torch's own].")
@click.option("--quick", is_flag=True, help="A few minutes on a CPU: 5 prompts, 16 tokens, batch 1, temperature 1.")
def main(out: Path, target: str | None, draft: str | None, device: str, dtype: str, **options: Any) -> None:
    """Measure, write OUT and print the table."""
    if options["quick"]:
        options |= QUICK
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    try:
        pair = load_pair(target, draft, dtype, device)
        rows = _settings(pair, machine(device) | {"dtype": dtype}, options)
        write(rows, out)
    except (CannotDecode, OSError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(show(rows))


def _settings(pair: Pair, where: dict[str, str], options: dict[str, Any]) -> list[Row]:
    """All batch sizes and temperatures."""
    prompts = read_prompts(pair.tokenizer, options["prompts"])
    columns = (TextColumn("{task.description:40.40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rows: list[Row] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        for batch in options["batch"]:
            if len(prompts) < batch:
                raise CannotDecode(f"{len(prompts)} prompts are fewer than a batch of {batch}: give more --prompts")
            total = len(contenders(peers=batch == 1)) * (len(prompts) // batch)
            for temperature in options["temperature"]:
                task = bar.add_task(f"batch {batch}, temperature {temperature}", total=total)
                decoding = Options(Sampling(temperature), max_tokens=options["tokens"], seed=SEED)
                rows += bench(pair, prompts, batch, decoding, progress=lambda done, task=task: bar.advance(task))
    return [row | where for row in rows]
