"""What `compare` and `sweep` have in common: the options that make a study, and the forms in which its means are printed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import click

from ..data import Study, tables
from ..data.study import DEFAULT_RULES, under_laws
from ..data.summary import Summary
from ..laws import names
from ..lossy.frontier import target_within
from .console import table_console
from .options import Numbers, form_options, parts
from .rule_target import rules_at

BUDGET = 30.0  # estimated seconds of one core, of all rules together, for a comparison without --rules


def study_options(rules: str, ks: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that `study_of` reads, --jobs, and the forms; rules, ks: the defaults."""
    options = (
        click.option("--rules", "names", default=rules, show_default=bool(rules),
                     help="Comma-separated list of rules, such as KSeq,my_rule.py:MyRule" + ("." if rules else " [default: the library's "
                     f"fast rules; without --out only those that take at most about {BUDGET:g} s on one core together, by an estimate "
                     "from n, k and the number of pairs].")),
        click.option("--draft-law", "laws", default="", show_default=False, help="Comma-separated list of draft laws: "
                     f"{', '.join(names())} [default: each rule's own draft law]."),
        click.option("--budget", help="Divergence budget, such as tv=0.05, kl=0.02 or ratio=0.3: rules become lossy and use the "
                     "target within this budget of p that has the largest acceptance [default: none]."),
        click.option("--k", "ks", type=Numbers(), default=ks, help="Comma-separated numbers of draft tokens k."),
        click.option("--samples", type=click.IntRange(1, 1_000_000), default=256,
                     help="Number of random draft tuples per pair, for rules without a formula for the acceptance."),
        click.option("--seed", type=click.IntRange(0), default=0, help="Random seed of the draft tuples."),
        click.option("--jobs", type=click.IntRange(1, 1024), default=os.cpu_count() or 1, show_default=False,
                     help="Number of worker processes [default: one per core]."),
        form_options("csv", "json", "latex", "markdown"),
    )  # fmt: skip

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Keywords by which files of pairs are read: `normalise`, `pad` and `logits` of `open_shard`."""
    options = (
        click.option("--normalise", is_flag=True, help="Divide p and q by their sums, for probabilities that were rounded."),
        click.option("--pad", is_flag=True, help="Pad the shorter of p and q at the end: logits with -inf, probabilities "
                     "with 0."),
        click.option("--logits", is_flag=True, help="Read p and q as logits, for files without names for logits, such as .npy."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def study_of(names: str, laws: str, budget: str | None, **numbers: Any) -> Study:
    """The study that was asked for."""
    target = None if budget is None else target_within(budget)
    return Study(
        rules=under_laws(
            tuple(rules_at(names).values()) or DEFAULT_RULES, parts(laws), max(numbers["ks"], default=None)
        ),
        target=target,
        **numbers,
    )


def above_optimum(lines: Sequence[Summary], samples: int) -> dict[tuple[str, str], str]:
    """Messages on rules whose acceptance is above that of all lossless rules, by rule and draft law.

    samples: number of draft tuples per pair of an estimate. The distance allowed is the empirical Bernstein bound (Maurer and Pontil, 2009)
    of probability 1e-6. Values of an estimate, acceptance minus the control variate, are in [-1, 2].
    """
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        if line.accepted is None or (line.rule, line.law) in found:
            continue
        accepted, optimum, within = float(line.accepted), float(line.optimum), 1e-5
        if line.method != "enumerated":  # a sweep calls estimates without variance a formula
            within += 5.4 * line.sampling_error + 3 * 34 / (samples * line.pairs)
        if accepted > optimum + within:
            found[line.rule, line.law] = (
                f"{line.rule} is not lossless: acceptance {accepted:.4f} exceeds the optimum {optimum:.4f} on the pairs, k = {line.k}."
            )
    return found


def marked(lines: Sequence[Summary], refuted: dict[tuple[str, str], str], samples: int) -> list[Summary]:
    """The means with the mark of rules that are not lossless, whose messages go to standard error. refuted: see `refuted_rules`."""
    refuted = above_optimum(lines, samples) | refuted
    for message in refuted.values():
        click.echo(message, err=True)
    return [replace(line, refuted=(line.rule, line.law) in refuted) for line in lines]


def print_summaries(form: str, titled: Sequence[tuple[Sequence[Summary], str]], target: str, notes: str = "") -> None:
    """Means with a title each, one table below the other, of CSV one for all; target: name of the target that replaces p."""
    lossy = f", for the target {target} instead of p (NOT lossless)" if target else ""
    titled = [(lines, title + lossy) for lines, title in titled]
    if form == "csv":
        titled = [([line for lines, _ in titled for line in lines], "")]
    if form:
        click.echo("\n".join(tables.FORMS[form](*each) for each in titled), nl=False)
        return
    console = table_console(80)
    for lines, title in titled:
        console.print(tables.table(lines, title, console.width))
    if notes:
        console.print(notes, style="dim")
