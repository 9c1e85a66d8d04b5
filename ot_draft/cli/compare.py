"""`ot-draft compare`: acceptance of rules compared with the optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..array_files import atomic_write
from ..data import Study, plotting, tables
from ..data.budget import affordable
from ..data.journal import RESULT, Journal
from ..data.pairs import PairsFound, as_pairs, open_pairs
from ..data.study import NoAcceptance, Row, chunk_of, compare_parts
from ..data.summary import Means, Summary, total_variation
from ..data.text_files import as_fraction
from ..selection import with_arguments
from .console import one_line, progress_bar
from .options import DEFAULTS, Place, can_write_into, form_of, parts
from .rule_target import RulesOfUser, refuted_rules
from .study import BUDGET, marked, print_summaries, reading_options, study_of, study_options

FEW = 8  # pairs per temperature of the clone's file: some seconds


@click.command(
    context_settings=DEFAULTS,
    epilog="""\b
Columns of --csv and fields of --json:
group: temperature. accepted: acceptance. optimum: that of the draft law.
error: standard error of accepted over texts, or over pairs without texts.
sampling_error: its part from random draft tuples, 0 if none were drawn.
taken: probability that a draft token is accepted; accepted also counts a
  draft token that is sampled after the rejection of all.
share: accepted / optimum. least_share: least taken / optimum of all pairs.
method: how the value was computed; after "- ", why it is missing.
suffix _exact: fractions. refuted: the rule is known not to be lossless, or
  to overwrite its arguments.""",
)
@click.argument("file", required=False, type=Place())
@click.argument("draft_file", required=False, type=Place())
@click.option(
    "--p", "target", help="Target distribution p as exact numbers, such as 1/2,1/2 (with --q, instead of FILE)."
)
@click.option("--q", "draft", help="Draft distribution q as exact numbers, such as 1/4,3/4.")
@study_options(rules="", ks="1,2,4,8")
@click.option(
    "--temperature",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    help="Temperature by which logits of FILE are divided.",
)
@click.option(
    "--stored-temperature",
    type=float,
    help="Entry of the file's `temperatures` whose pairs are compared [default: all].",
)
@click.option("--limit", type=click.IntRange(0), help="Maximum number of pairs per temperature, evenly spaced in the file (0: all) "
              f"[default: all of FILE, {FEW} without FILE].")  # fmt: skip
@reading_options
@click.option("--lp-limit", type=click.FloatRange(0, 100_000), default=Study.lp_limit,
              help="Maximum estimated time of the linear programs per draft law and k, in seconds (0: solve none).")  # fmt: skip
@click.option("--out", type=Place(file_okay=False),
              help="Output folder of pairs.csv, summary.csv and compare.json. The same command resumes an interrupted run; edited rules "
              "are computed again.")  # fmt: skip
@click.option("--plot", is_flag=True, help="Write the plot acceptance.* to the folder of --out.")
@click.option(
    "--format",
    "formats",
    default="svg,png",
    help=f"Comma-separated formats of the plot: {', '.join(plotting.FORMATS)}.",
)
@click.option("--width", type=click.Choice(list(plotting.WIDTHS)), default="page",
              help="Width of the plot in a two-column paper, with text of 8 and 9 points.")  # fmt: skip
@click.option("--no-caption", is_flag=True, help="Omit the caption of the plot.")
def compare(
    file: Path | None, draft_file: Path | None, target: str | None, draft: str | None, temperature: float,
    stored_temperature: float | None, limit: int | None, normalise: bool,
    pad: bool, logits: bool, jobs: int, out: Path | None, plot: bool, formats: str, width: str, no_caption: bool, **of_study: Any
) -> None:  # fmt: skip
    """Compare the acceptance of rules with the optimum on pairs (p, q).

    p is a target distribution and q a draft distribution. FILE holds p and q: arrays of shape (..., n) in .npz, .safetensors, .pt, .pth or
    .bin; both stacked in .npy; columns p and q in .csv or .tsv, with one token per row and a column `pair` for several pairs; lists p and q
    in .parquet, with one pair per row; or objects {"p": ..., "q": ...} in .json (one, or a list) or .jsonl (one per line). Probabilities
    written as strings, such as "1/3", are exact. Text files may be compressed (.gz). The names target and draft can replace p and q. Logits
    are read under the names target_logits and draft_logits or p_logits and q_logits, or with --logits. Log-probabilities are read under
    target_logprobs and draft_logprobs or p_logprobs and q_logprobs. The file may also hold `temperatures`, one for each entry of the first
    axis, and text, kind, origin and position of each pair. Any other name is an error. DRAFT_FILE is an .npy file of q, if FILE is an .npy
    file of p.
    Without FILE, the pair is given by --p and --q. In a clone, the default is a subset of the pairs measured with real models.
    """
    form = form_of(of_study)
    if plot:  # before the work, not after it
        if out is None:
            raise click.UsageError("--plot requires --out. Add --out DIR.")
        if not parts(formats) or not set(parts(formats)) <= set(plotting.FORMATS):
            raise click.UsageError(
                f"--format must be some of {','.join(plotting.FORMATS)}, got {formats!r}. Separate them by commas."
            )
        plotting.pyplot()
    if out is not None:
        can_write_into("--out", out)
        out.mkdir(parents=True, exist_ok=True)
    with one_line():
        study = study_of(**of_study)
        every = _pairs(file, draft_file, target, draft, normalise, pad, logits, temperature)
        every = every if stored_temperature is None else every.at_temperature(stored_temperature)
        limit = FEW if limit is None and file is None else limit
        pairs = (every.first(limit) if limit else every).loaded_if_few()
        number = "1 pair" if len(every) == 1 else f"{len(every):,} pairs"
        if len(pairs) < len(every):
            number = f"{len(pairs):,} of {number} (--limit 0: all)"
        ks = ", ".join(map(str, study.ks))
        click.echo(f"{number} from {pairs.source}, n = {pairs.n:,}, k = {ks}", err=True)
        if pairs.padding:
            click.echo(pairs.padding, err=True)
        omitted = ""
        if out is None and not of_study["names"]:
            study, omitted = _within_budget(pairs, study)
        with RulesOfUser(of_study["names"]):
            refuted = refuted_rules(of_study["names"], parts(of_study["laws"]), study.ks, pairs)
            found = _compare(pairs, study, jobs, out, form == "json")
        lines = marked(found.means.summaries(), refuted, study.samples)
        if of_study["names"]:
            _name_missing_values(lines, study)
        if out is not None:
            _write(out, lines, found.rows(), pairs, study)
        if plot and out is not None:
            caption = "" if no_caption else f"Acceptance on {Path(pairs.source).name}; bars are standard errors."
            plotting.save_plot(lines, out / "acceptance", parts(formats), width, caption)
    if form:
        click.echo(omitted, err=True, nl=bool(omitted))
    _print(lines, found, pairs, study, form, omitted)


def _name_missing_values(lines: Sequence[Summary], study: Study) -> None:
    missing = {with_arguments(rule) for rule in study.rules} - {
        line.rule for line in lines if line.accepted is not None
    }
    for line in lines:
        if line.rule not in missing and line.method.startswith(NoAcceptance.RAISED):
            click.echo(f"{line.rule} with k = {line.k} {line.method.removeprefix('- ')}", err=True)
    for name in sorted(missing):
        reason = next((line.method.removeprefix("- ") for line in lines if line.rule == name), "no draft law")
        click.echo(f"{name} has no acceptance for any k: {reason}", err=True)


def _pairs(
    file: Path | None, draft_file: Path | None, target: str | None, draft: str | None, normalise: bool, pad: bool, logits: bool,
    temperature: float
) -> PairsFound:  # fmt: skip
    if (target is None) != (draft is None):
        raise click.UsageError("--p and --q must be given together. Add the missing one.")
    if target is not None and draft is not None:
        if file is not None:
            raise click.UsageError("FILE and --p, --q exclude each other. Use one of them.")
        if temperature != 1 or logits:
            raise click.UsageError("--temperature and --logits exclude --p and --q. Give logits in a file.")
        texts = {"p": target, "q": draft}  # decimals are read as written
        masses = {
            name: np.array([as_fraction(mass, f"--{name}") for mass in text.split(",")], object)
            for name, text in texts.items()
        }
        return as_pairs(masses, "--p and --q", normalise)
    committed = Path("figures/data/smollm2_pairs.npz")
    clone = Path(__file__).parents[2] / committed
    if file is None and not committed.is_file() and not clone.is_file():
        raise click.UsageError(
            f"FILE is missing, and {committed} is not in this folder. Pass a file, or --p 1/2,1/2 --q 1/4,3/4."
        )
    file = file or (committed if committed.is_file() else clone)
    return open_pairs(file, normalise, pad, temperature, draft_file, logits)


def _within_budget(pairs: PairsFound, study: Study) -> tuple[Study, str]:
    """The study of the rules within BUDGET, and a note on the others."""
    found = affordable(pairs, study, BUDGET)
    note = ""
    if found.left_out:
        slow = ", ".join(f"{rule.name} (about {seconds:,.0f} s)" for rule, seconds in found.left_out.items())
        note = (
            f"Omitted, because all rules together would take more than about {BUDGET:g} s on one core: {slow}. To include them, use --rules"
            f" {','.join(dict.fromkeys(rule.name for rule in found.left_out))}. With --out DIR, all rules are compared."
        )
    return replace(study, rules=found.rules, lp_limit=found.lp_limit), note


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
        click.echo(f"resuming: {out} holds the results of {count:,} pairs", err=True)
    one_chunk, evaluations = len(pairs) <= chunk_of(pairs.n), len(study.rules) * len(study.ks)
    with progress_bar(len(pairs) * evaluations, "rule evaluations", alike=not one_chunk) as advance:
        known_chunks = journal.known if journal else 0
        for done in compare_parts(pairs, study, jobs, known_chunks, lambda number: advance(by=number)):
            if not one_chunk:
                advance(by=len(done.pairs) * evaluations)
            rows = next(known) if done.rows is None else done.rows
            if journal and done.rows is not None:
                journal.add(done.pairs, rows)
            if keep and not journal:
                kept += rows
            means.add(rows, done.pairs)
            distances += done.distances
    return Found(means, distances, journal.rows if journal else lambda: kept)


def _write(out: Path, lines: Sequence[Summary], rows: Iterable[Row], pairs: PairsFound, study: Study) -> None:
    (out / "summary.csv").write_text(tables.csv_text(tables.as_records(lines)), encoding="utf-8")
    with atomic_write(out / RESULT) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.writelines(tables.json_pieces(lines, rows, pairs, study))


def _print(lines: Sequence[Summary], found: Found, pairs: PairsFound, study: Study, form: str, omitted: str) -> None:
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
    print_summaries(form, titled, study.target_name, f"{tables.notes(lines, study, len(pairs) == 1)} {omitted}")
