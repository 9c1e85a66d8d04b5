"""`ot-draft compare`: every rule beside the optimum."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..laws import spellings
from ..pairs import (
    Pairs,
    Row,
    Study,
    Summary,
    as_pairs,
    choose_rules,
    compare_rules,
    exact_masses,
    measure,
    read_pairs,
    summarise,
    tables,
    total_variation,
)
from ..targets import target_within
from .console import one_line, progress_bar, table_console
from .options import JOBS, SAMPLES, Numbers, can_write_into, parts
from .refused import Refused

COMMITTED = Path("figures/data/smollm2_pairs.npz")  # of a clone


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--p", "target", help="Target law on the command line, exact: 1/2,1/2 (with --q, instead of FILE).")
@click.option("--q", "draft", help="Draft law on the command line, exact: 1/4,3/4.")
@click.option("--k", "ks", type=Numbers(), default="1,2,4,8", show_default=True, help="Numbers of drafts.")
@click.option("--rules", "names", default="", help="Only these rules, by comma: KSeq,RecursiveRejection.")
@click.option("--law", "laws", default="", help="Only under these draft laws, by comma: "
              f"{', '.join(spellings())}. Without it each rule is under its own.")  # fmt: skip
@click.option(
    "--budget", help="Lossy on purpose: all rules for the best target so far from p, e.g. tv=0.05, kl=0.02, ratio=0.3."
)
@click.option("--temperature", type=float, help="Only this temperature, of a file that holds several.")
@click.option("--limit", type=click.IntRange(1), help="At most so many pairs a temperature, evenly spaced in the file.")
@click.option("--samples", type=click.IntRange(2, SAMPLES), default=256, show_default=True,
              help="Random draft tuples a pair, for rules whose acceptance has no formula.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of these draft tuples.")
@click.option("--lp-limit", type=click.IntRange(0, 100_000), default=600, show_default=True,
              help="Solve linear programs of at most so many draft sets (0: none).")  # fmt: skip
@click.option("--jobs", type=JOBS, default=os.cpu_count() or 1, help="Processes [default: one a core].")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Write summary.csv, pairs.csv and compare.json there.")  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print the summary as CSV instead of a table.")
@click.option("--json", "as_json", is_flag=True, help="Print summary and pairs as JSON instead of a table.")
@click.option("--plot", is_flag=True, help="Write acceptance.svg and acceptance.png to the folder of --out.")
def compare(
    file: Path | None, target: str | None, draft: str | None, names: str, laws: str, budget: str | None,
    temperature: float | None, limit: int | None, jobs: int, out: Path | None, as_csv: bool, as_json: bool, plot: bool, **numbers: Any
) -> None:  # fmt: skip
    """Every rule beside the optimum, on the pairs (p, q) of FILE.

    FILE: .npz, .safetensors or .pt with p and q of shape (..., n), .npy with both stacked, .json {"p": ..., "q": ...} (exact with masses
    like "1/3"), .csv with columns p and q, one token a row, and a column `pair` where there are several pairs, or .parquet with lists
    p and q, one row a pair. target and draft, or target_logits and draft_logits, may stand in the place of p and q, and beside them
    `temperatures`, one for each entry of the first axis. Without FILE, --p and --q, or the committed real pairs in a clone.
    """
    if plot and out is None:
        raise Refused("--plot needs a folder to write to: add --out DIR")
    if as_csv and as_json:
        raise Refused("--csv and --json both print to standard output: give one of them")
    if out is not None:
        can_write_into("--out", out)
        out.mkdir(parents=True, exist_ok=True)
    with one_line():
        pairs = _pairs(file, target, draft)
        pairs = pairs if temperature is None else pairs.at_temperature(temperature)
        pairs = pairs if limit is None else pairs.first(limit)
        lossy = None if budget is None else target_within(budget)
        study = Study(rules=choose_rules(parts(names), parts(laws)), target=lossy, **numbers)
        rows = _run(pairs, study, jobs)
        lines = summarise(rows, pairs, measure(pairs, study), study)
        if out is not None:
            _write(out, lines, rows, pairs, study, plot)
    _print(lines, rows, pairs, study, "csv" if as_csv else "json" if as_json else "table")


def _pairs(file: Path | None, target: str | None, draft: str | None) -> Pairs:
    if (target is None) != (draft is None):
        raise Refused("--p and --q belong together: give both")
    if target is not None and draft is not None:
        if file is not None:
            raise Refused("give FILE or --p and --q, not both")
        masses = {name: np.array(exact_masses(text), dtype=object) for name, text in (("p", target), ("q", draft))}
        return as_pairs(masses, "command line")
    clone = Path(__file__).parents[2] / COMMITTED
    if file is None and not COMMITTED.is_file() and not clone.is_file():
        raise Refused(f"no FILE, and no {COMMITTED} here: give a file, or --p 1/2,1/2 --q 1/4,3/4")
    return read_pairs(file or (COMMITTED if COMMITTED.is_file() else clone))


def _run(pairs: Pairs, study: Study, jobs: int) -> list[Row]:
    with progress_bar(len(pairs), "comparing pairs") as advance:
        return compare_rules(pairs, study, jobs, lambda pairs_done: advance(by=pairs_done))


def _write(out: Path, lines: Sequence[Summary], rows: Sequence[Row], pairs: Pairs, study: Study, plot: bool) -> None:
    with (out / "summary.csv").open("w", encoding="utf-8") as stream:
        tables.write_csv(lines, stream)
    with (out / "pairs.csv").open("w", encoding="utf-8") as stream:
        tables.write_csv(rows, stream, pairs)
    with (out / "compare.json").open("w", encoding="utf-8") as stream:
        tables.write_json(lines, rows, pairs, study, stream)
    if plot:
        from ..pairs.plotting import save_plot

        save_plot(lines, out / "acceptance")


def _print(lines: Sequence[Summary], rows: Sequence[Row], pairs: Pairs, study: Study, form: str) -> None:
    if form == "csv":
        click.echo(tables.csv_text(lines), nl=False)
        return
    if form == "json":
        tables.write_json(lines, rows, pairs, study, sys.stdout)
        return
    console = table_console(140)
    for group, (distance, error) in total_variation(pairs).items():
        count = pairs.group.count(group)
        heading = f"temperature {group}: " if group else ""
        spread = f" ± {error:.4f}" if error == error else ""
        lossy = f", for {study.target.name} in the place of p (NOT lossless)" if study.target else ""
        title = f"{heading}{count} pair{'s' * (count > 1)}{lossy}, n = {pairs.p.shape[-1]}, TV {float(distance):.4f}{spread}"
        here = [line for line in lines if line.group == group]
        console.print(tables.table(here, title, errors=console.width >= tables.WIDE))
    console.print(tables.notes(study, len(pairs) == 1), style="dim")
