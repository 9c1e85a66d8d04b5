"""Speed of all rules on the embedded pair, in turns: `python -m llm_demo.bench --out figures/data/bench_cpu.csv`.

The grid of (K, L) is that of SpecTr's Table 1 (Sun et al., NeurIPS 2023). Every rule is compared with autoregressive decoding by the
same engine, and with transformers' own generation (plain, assisted) of the same two models in the same run. Speed-up and
prediction are those of `ot-draft decode --compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import torch

from llm_demo.bench.contenders import GRID, Grid, own_methods, peers
from llm_demo.machine import machine
from llm_demo.models.load import load_pair
from llm_demo.prompts import Prompt, read_prompts
from llm_demo.rows import Row, write
from ot_draft.cli import progress_bar
from ot_draft.decoding import CannotDecode, DecodeOptions, Pair, SamplingParams, compare_methods
from ot_draft.decoding.benchmark import Comparison, Measured
from ot_draft.decoding.load import DTYPES

SEED = 9
QUICK = {"prompts": 5, "tokens": 16, "batch": (1,), "temperature": (1.0,)}


def bench(
    pair: Pair,
    prompts: Sequence[Prompt],
    batch: int,
    options: DecodeOptions,
    grid: Grid = GRID,
    progress: Any = lambda done: None,
) -> list[Row]:
    """A row for every contender at one batch size and temperature; peers, which take one text at a time, at batch 1 only."""
    texts = [prompt.tokens for prompt in prompts]
    groups = [texts[start : start + batch] for start in range(0, len(texts) - batch + 1, batch)]
    others = peers(pair, grid) if batch == 1 else []
    comparison = compare_methods(pair, groups, own_methods(grid), options, progress=progress, peers=others)
    common = {"batch": batch, "temperature": options.sampling.temperature, "texts": len(groups) * batch}
    return [common | _row(comparison, row) for row in comparison.rows]


def _row(comparison: Comparison, measured: Measured) -> Row:
    """Milliseconds of a call and its parts; empty where they are not known."""
    method, plain = measured.method, measured is comparison.rows[0]
    gain, error = comparison.speed_up(measured)
    parts = {f"{name}_ms": 1000 * measured.cost(name) for name in ("draft", "verify", "select")}
    row: Row = {"rule": method.rule, "law": method.law, "K": method.K, "L": method.L, "calls": len(measured.calls)}
    row |= {"block_efficiency": measured.block_efficiency, "block_efficiency_error": measured.error}
    row |= {"step_ms": 1000 * measured.step} | parts | {"rest_ms": 1000 * measured.step - sum(parts.values())}
    row |= {"tokens_a_second": measured.tokens_a_second, "speed_up": gain, "speed_up_error": 0.0 if plain else error}
    row |= {"predicted": None if plain else comparison.predicted(measured), "reason": comparison.reason(measured)}
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: Any) -> Any:
    unknown = value is None or value != value
    return "" if unknown else f"{value:.5g}" if isinstance(value, float) else value


def show(rows: Sequence[Row]) -> str:
    """The rows as a table, fastest first within a batch size and temperature."""
    lines = [
        f"{'rule':38} {'K x L':>6} {'tokens a call':>15} {'ms a step':>9} {'speed-up':>14} {'predicted':>9}  why it differs"
    ]
    order = sorted(rows, key=lambda row: (row["batch"], row["temperature"], -float(row["speed_up"])))
    for row in order:
        name = f"{row['rule']}, {row['law']}" if row["law"] not in ("", "iid") else row["rule"]
        efficiency = f"{float(row['block_efficiency']):.2f} ± {float(row['block_efficiency_error']):.2f}"
        gain = f"{float(row['speed_up']):.2f} ± {float(row['speed_up_error'] or 'nan'):.2f}"
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
    rows: list[Row] = []
    for batch in options["batch"]:
        if len(prompts) < batch:
            raise CannotDecode(f"{len(prompts)} prompts are fewer than a batch of {batch}: give more --prompts")
        others = len(peers(pair)) if batch == 1 else 0
        total = len(own_methods()) * (len(prompts) // batch + 2) + others * (len(prompts) // batch)
        for temperature in options["temperature"]:
            decoding = DecodeOptions(SamplingParams(temperature), max_tokens=options["tokens"], seed=SEED)
            with progress_bar(total, f"batch {batch}, temperature {temperature}") as advance:
                rows += bench(pair, prompts, batch, decoding, progress=lambda done, advance=advance: advance())
    return [row | where for row in rows]
