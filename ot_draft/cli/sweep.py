"""`ot-draft sweep`: rules and ks over sharded files of pairs or logits, on an engine of the user's choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..data import Sweep, open_shards, run_sweep, summarise_sweep, tables
from ..data.study import QUICK_RULES
from ..data.sweep import Progress
from .console import one_line, print_json, progress_bar, without_nan
from .options import DEFAULTS, Place, can_write_into, form_of, parts
from .rule_target import refuted_rules
from .study import marked, print_summaries, reading_options, study_of, study_options


@click.command(context_settings=DEFAULTS)
@click.argument("shards", nargs=-1, required=True, type=Place())
@click.option("--out", required=True, type=Place(file_okay=False),
              help="Output folder of the parquet files. The same command resumes an interrupted run.")  # fmt: skip
@study_options(rules=", ".join(rule.name for rule in QUICK_RULES), ks="2,4,8")
@click.option("--temperature", type=float, default=1.0, help="Temperature of both models, for shards with logits only.")
@reading_options
@click.option("--rows", type=click.IntRange(1), help="Maximum number of pairs per parquet file "
              "[default: as many as one core processes in about a minute].")  # fmt: skip
@click.option(
    "--engine",
    type=click.Choice(["loky", "threading", "sequential"]),
    default="loky",
    help="joblib backend for parallel execution.",
)
@click.option("--tries", type=click.IntRange(1), default=3, help="Maximum number of attempts if worker processes die.")
def sweep(
    shards: tuple[Path, ...], out: Path, temperature: float, normalise: bool, pad: bool, logits: bool, rows: int | None, engine: str,
    jobs: int, tries: int, **of_study: Any
) -> None:  # fmt: skip
    """Compute the acceptance of every rule on all pairs of SHARDS.

    SHARDS are files or folders of files. A shard holds distributions p and q of shape (..., n), or target_logits and draft_logits, in any
    format that compare reads. Uncompressed .npz and .safetensors files are read row by row; other files are loaded completely. The output
    is bitwise identical for every --engine. Read the folder of --out with pyarrow, pandas or polars. It has one row per pair, rule and k,
    with the temperature if the shard has an array `temperatures`. One table is printed per temperature.
    """
    from joblib import parallel_config

    form = form_of(of_study)
    can_write_into("--out", out)
    out.mkdir(parents=True, exist_ok=True)
    with one_line():
        study = study_of(**of_study)
        work = Sweep(tuple(open_shards(shards, temperature, pad, normalise, logits)), study, temperature, rows)
        for shard in work.shards:
            if shard.padding:
                click.echo(f"{shard.file}: {shard.padding}", err=True)
        with (
            parallel_config(engine, n_jobs=jobs),
            progress_bar(sum(shard.rows for shard in work.shards), "pairs") as move,
        ):

            def advance(progress: Progress) -> None:
                said = f"pairs, {len(progress.trouble)} worker failures" if progress.trouble else "pairs"
                move(said, to=progress.rows)

            trouble = run_sweep(work, out, tries, advance)
        refuted = refuted_rules(of_study["names"], parts(of_study["laws"]), study.ks)
        means = marked(summarise_sweep(out), refuted, study.samples)
    for line in trouble:
        click.echo(f"worker processes died, and their parts were repeated: {line}", err=True)
    if form == "json":
        print_json(without_nan(tables.as_records(means)))
    else:
        titled = []
        for group in dict.fromkeys(line.group for line in means):
            lines = [line for line in means if line.group == group]
            titled.append((lines, (f"temperature {group}: " if group else "") + f"{lines[0].pairs:,} pairs, {out}"))
        print_summaries(form, titled or [(means, f"0 pairs, {out}")], study.target_name)
