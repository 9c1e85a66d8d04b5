"""`ot-draft compare`: every rule beside the optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..array_files import atomic_write
from ..data import Study, plotting, tables
from ..data.journal import RESULT, Journal
from ..data.pairs import PairsFound, as_pairs, open_pairs
from ..data.study import Row, affordable, chunk_of, compare_parts
from ..data.summary import Means, Summary, total_variation
from ..data.text_files import as_fraction
from .console import one_line, progress_bar
from .options import DEFAULTS, Place, can_write_into, form_of, parts
from .refused import Refused
from .rule_target import RulesOfUser
from .study import BUDGET, print_summaries, reading_options, study_of, study_options

COMMITTED = Path("figures/data/smollm2_pairs.npz")  # of a clone
FEW = 8  # of its pairs a temperature: some seconds


@click.command(context_settings=DEFAULTS)
@click.argument("file", required=False, type=Place())
@click.argument("draft_file", required=False, type=Place())
@click.option("--p", "target", help="Target law on the command line, exact: 1/2,1/2 (with --q, instead of FILE).")
@click.option("--q", "draft", help="Draft law on the command line, exact: 1/4,3/4.")
@study_options(rules="", ks="1,2,4,8")
@click.option(
    "--temperature",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    help="Temperature by which logits of FILE are divided.",
)
@click.option("--stored-temperature", type=float, help="Only the pairs of this entry of the file's `temperatures`.")
@click.option("--limit", type=click.IntRange(0), help="At most so many pairs a temperature, evenly spaced in the file; 0: all "
              f"[default: all of FILE, {FEW} without FILE].")  # fmt: skip
@reading_options
@click.option("--lp-limit", type=click.FloatRange(0, 100_000), default=Study.lp_limit,
              help="Seconds that the linear programs of one law and k may take on all pairs, by their size (0: none).")  # fmt: skip
@click.option("--out", type=Place(file_okay=False),
              help="Write pairs.csv there, as pairs are done, and at the end summary.csv and compare.json; the same command goes on "
              "where it was stopped.")  # fmt: skip
@click.option("--plot", is_flag=True, help="Write the picture acceptance.* to the folder of --out.")
@click.option("--format", "formats", default="svg,png", help=f"Of the picture: {', '.join(plotting.FORMATS)}.")
@click.option("--width", type=click.Choice(list(plotting.WIDTHS)), default="page",
              help="Of the picture, in a paper of two columns; its text is of 8 and 9 points.")  # fmt: skip
@click.option("--no-caption", is_flag=True, help="Leave the line above the picture out.")
def compare(
    file: Path | None, draft_file: Path | None, target: str | None, draft: str | None, temperature: float,
    stored_temperature: float | None, limit: int | None, normalise: bool,
    pad: bool, jobs: int, out: Path | None, plot: bool, formats: str, width: str, no_caption: bool, **of_study: Any
) -> None:  # fmt: skip
    """Every rule beside the optimum, on the pairs (p, q) of FILE.

    FILE: .npz, .safetensors, .pt, .pth or .bin with p and q of shape (..., n), .npy with both stacked, .json {"p": ..., "q": ...} (exact
    with masses like "1/3"), a list of such objects, or one a line (.jsonl), .csv or .tsv with columns p and q, one token a row, and a
    column `pair` where there are several pairs, or .parquet with lists p and q, one row a pair. Text may be compressed (.gz). target
    and draft may replace p and q. Logits are read under the names target_logits and draft_logits or p_logits and
    q_logits, log-probabilities under target_logprobs and draft_logprobs or p_logprobs and q_logprobs. The file may also hold
    `temperatures`, one for each entry of the first axis, and text, kind, origin and position of each pair. Any other name is an error.
    DRAFT_FILE: .npy of q, where FILE is an .npy of p. Without FILE, --p and --q, or some of the committed real pairs in a clone.
    """
    form = form_of(of_study)
    if plot:  # before the work, not after it
        if out is None:
            raise Refused("--plot needs a folder to write to: add --out DIR")
        if not parts(formats) or not set(parts(formats)) <= set(plotting.FORMATS):
            raise Refused(f"--format {','.join(parts(formats))}: give some of {','.join(plotting.FORMATS)}")
        plotting.pyplot()
    if out is not None:
        can_write_into("--out", out)
        out.mkdir(parents=True, exist_ok=True)
    with one_line():
        study = study_of(**of_study)
        every = _pairs(file, draft_file, target, draft, normalise, pad, temperature)
        every = every if stored_temperature is None else every.at_temperature(stored_temperature)
        limit = FEW if limit is None and file is None else limit
        pairs = (every.first(limit) if limit else every).loaded_if_few()
        rest = f" of {len(every):,} (--limit 0: all)" if len(pairs) < len(every) else ""
        ks = ", ".join(map(str, study.ks))
        click.echo(
            f"{len(pairs):,} pair{'s' * (len(pairs) > 1)}{rest} of {pairs.source}, n = {pairs.n:,}, k = {ks}",
            err=True,
        )
        if pairs.padding:
            click.echo(pairs.padding, err=True)
        if out is None and not of_study["names"]:
            study = _within_budget(pairs, study, jobs)
        with RulesOfUser(of_study["names"]):
            found = _compare(pairs, study, jobs, out, form == "json")
        lines = found.means.summaries()
        if out is not None:
            _write(out, lines, found.rows(), pairs, study)
        if plot and out is not None:
            caption = "" if no_caption else f"Acceptance on {Path(pairs.source).name}; bars are standard errors."
            plotting.save_plot(lines, out / "acceptance", parts(formats), width, caption)
    _print(lines, found, pairs, study, form)


def _pairs(
    file: Path | None, draft_file: Path | None, target: str | None, draft: str | None, normalise: bool, pad: bool,
    temperature: float
) -> PairsFound:  # fmt: skip
    if (target is None) != (draft is None):
        raise Refused("--p and --q belong together: give both")
    if target is not None and draft is not None:
        if file is not None:
            raise Refused("give FILE or --p and --q, not both")
        if temperature != 1:
            raise Refused(f"--temperature must be 1 with --p and --q, got {temperature:g}. Give logits in a file.")
        texts = {"p": target, "q": draft}  # decimals are read as written
        masses = {
            name: np.array([as_fraction(mass, f"--{name}") for mass in text.split(",")], object)
            for name, text in texts.items()
        }
        return as_pairs(masses, "command line", normalise)
    clone = Path(__file__).parents[2] / COMMITTED
    if file is None and not COMMITTED.is_file() and not clone.is_file():
        raise Refused(f"no FILE, and no {COMMITTED} here: give a file, or --p 1/2,1/2 --q 1/4,3/4")
    file = file or (COMMITTED if COMMITTED.is_file() else clone)
    return open_pairs(file, normalise, pad, temperature, draft_file)


def _within_budget(pairs: PairsFound, study: Study, jobs: int) -> Study:
    """The study of those rules that take at most BUDGET seconds together; names the others on standard error."""
    with progress_bar(len(study.rules), "timing each rule on one pair") as advance:
        found = affordable(pairs, study, jobs, BUDGET, advance)
    if not found.rules:
        return study
    if found.left_out:
        slow = ", ".join(f"{rule.name} (at least {seconds:,.0f} s)" for rule, seconds in found.left_out.items())
        click.echo(
            f"left out, so that all rules take at most {BUDGET:g} s: {slow}. Name them to include them, as in --rules"
            f" {','.join(dict.fromkeys(rule.name for rule in found.left_out))}; with --out DIR all rules are compared.",
            err=True,
        )
    return replace(study, rules=found.rules)


@dataclass
class Found:
    """Means over the pairs. rows: gives them, where they were kept; distances: TV(p, q) of each pair."""

    means: Means
    distances: list[Any]
    rows: Callable[[], Iterable[Row]]


def _compare(pairs: PairsFound, study: Study, jobs: int, out: Path | None, keep: bool) -> Found:
    """The means; the rows in a file of the folder, where there is one, from which a comparison that was stopped goes on."""
    journal = None if out is None else Journal(out, pairs, study)
    means, distances, kept = Means(study), [], []
    known = journal.chunks() if journal else iter(())
    if journal and journal.known:
        count = min(journal.known * chunk_of(pairs.n), len(pairs))
        click.echo(f"{out} holds {count:,} of these pairs, which are not computed again", err=True)
    with progress_bar(len(pairs) * len(study.rules), "comparing pairs by rules") as advance:
        for done in compare_parts(pairs, study, jobs, journal.known if journal else 0):
            rows = next(known) if done.rows is None else done.rows
            if journal and done.rows is not None:
                journal.add(done.pairs, rows)
            if keep and not journal:
                kept += rows
            means.add(rows, done.pairs)
            distances += done.distances
            advance(by=len(done.pairs) * len(study.rules))
    return Found(means, distances, journal.rows if journal else lambda: kept)


def _write(out: Path, lines: Sequence[Summary], rows: Iterable[Row], pairs: PairsFound, study: Study) -> None:
    (out / "summary.csv").write_text(tables.csv_text(tables.as_records(lines)), encoding="utf-8")
    with atomic_write(out / RESULT) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.writelines(tables.json_pieces(lines, rows, pairs, study))


def _print(lines: Sequence[Summary], found: Found, pairs: PairsFound, study: Study, form: str) -> None:
    if form == "json":
        for piece in tables.json_pieces(lines, found.rows(), pairs, study):
            click.echo(piece, nl=False)
        return
    titled = []
    for group, (distance, error) in total_variation(pairs, found.distances).items():
        count = pairs.group.count(group)
        heading = f"temperature {group}: " if group else ""
        spread = f" ± {error:.4f}" if error == error else ""
        title = f"{heading}{count} pair{'s' * (count > 1)}, n = {pairs.n}, TV {float(distance):.4f}{spread}"
        titled.append(([line for line in lines if line.group == group], title))
    print_summaries(form, titled, study.target_name, tables.notes(lines, study, len(pairs) == 1))
