"""`ot-draft sweep`: rules and ks over sharded files of pairs or logits, on an engine of the user's choice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ..pairs import Study, Sweep, open_shards, run_sweep, summarise_sweep, tables
from ..pairs.run_sweep import ENGINES, Progress, engine
from ..pairs.study import QUICK_RULES, choose_rules
from ..pairs.summary import Summary
from ..targets.frontier import target_within
from .console import one_line, print_json, progress_bar, table_console, without_nan
from .forms import form_of, form_options, print_form
from .options import JOBS, SAMPLES, Numbers, can_write_into, parts


@click.command()
@click.argument("shards", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path),
              help="Folder of the parquet files; the same sweep goes on where it was stopped.")  # fmt: skip
@click.option(
    "--rules", "names", default=", ".join(rule.name for rule in QUICK_RULES), show_default=True, help="By comma."
)
@click.option(
    "--law", "laws", default="", help="Draft laws, by comma, as in compare. Without it each rule is under its own."
)
@click.option(
    "--budget", help="Lossy on purpose: all rules for the best target so far from p, e.g. tv=0.05, kl=0.02, ratio=0.3."
)
@click.option("--k", "ks", type=Numbers(), default="2,4,8", show_default=True, help="Numbers of drafts.")
@click.option(
    "--temperature", type=float, default=1.0, show_default=True, help="Of both models; shards of logits only."
)
@click.option("--samples", type=click.IntRange(1, SAMPLES), default=256, show_default=True,
              help="Random draft tuples a pair, for rules whose acceptance has no formula.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of these draft tuples.")
@click.option(
    "--rows", type=click.IntRange(1), default=16_384, show_default=True, help="Pairs a parquet file, at most."
)
@click.option("--engine", "name", type=click.Choice(ENGINES), default="loky", show_default=True)
@click.option("--address", help="Of a running dask or ray cluster; without it these start one of --jobs workers here.")
@click.option("--jobs", type=JOBS, default=os.cpu_count() or 1, help="Workers [default: one a core].")
@click.option("--tries", type=click.IntRange(1), default=3, show_default=True, help="In all, when workers die.")
@form_options
def sweep(
    shards: tuple[Path, ...], out: Path, names: str, laws: str, budget: str | None, ks: tuple[int, ...], temperature: float,
    samples: int, seed: int, rows: int, name: str, address: str | None, jobs: int, tries: int, **flags: Any
) -> None:  # fmt: skip
    """Acceptance of every rule at every k on the pairs of SHARDS: .npz, .safetensors or .parquet files, or folders of them.

    A shard holds laws p and q of shape (..., n), or target_logits and draft_logits; all kinds of files that compare reads will do, of which
    .npz that are not compressed and .safetensors are read by rows. The files written are the same to the last bit on every engine.
    Read the folder of --out with pyarrow, pandas or polars: one row a pair, rule and k.
    """
    form = form_of(flags)
    can_write_into("--out", out)
    out.mkdir(parents=True, exist_ok=True)
    with one_line():
        rules = choose_rules(parts(names), parts(laws))
        lossy = None if budget is None else target_within(budget)
        study = Study(ks, rules, samples, seed, target=lossy)
        work = Sweep(tuple(open_shards(shards, temperature)), study, temperature, rows)
        with engine(name, jobs, address):
            trouble = _run(work, out, tries)
        means = summarise_sweep(out)
    for line in trouble:
        click.echo(f"workers died and their parts were done again: {line}", err=True)
    _print(means, out, form)


def _run(work: Sweep, out: Path, tries: int) -> tuple[str, ...]:
    with progress_bar(sum(shard.rows for shard in work.shards), "pairs") as move:

        def advance(progress: Progress) -> None:
            said = f"pairs, {len(progress.trouble)} deaths" if progress.trouble else "pairs"
            move(said, to=progress.rows)

        return run_sweep(work, out, tries, advance)


def _print(means: list[Summary], out: Path, form: str) -> None:
    if form == "json":
        print_json(without_nan(tables.as_records(means)))
        return
    pairs = means[0].pairs if means else 0
    lossy = f", for {means[0].target} in the place of p (NOT lossless)" if means and means[0].target else ""
    title = f"{pairs:,} pairs, {out}{lossy}"
    if form:
        print_form(form, [(means, title)])
        return
    console = table_console(80)
    console.print(tables.table(means, title, console.width))
