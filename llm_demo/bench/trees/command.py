"""Comparison of drafting methods with N draft nodes, on real models: `python -m llm_demo.bench.trees`.

The CSV file has a row for every prompt, temperature, draft and number of nodes: the expected accepted length of every method, given the
tree that it drafted. A stopped run resumes with the same command. `--summary` prints the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch

from llm_demo.bench.trees import summary
from llm_demo.bench.trees.calibration import Calibration, found, models_of
from llm_demo.bench.trees.measure import Behind, Models, measure
from llm_demo.bench.trees.methods import WAYS, Way
from llm_demo.bench.trees.root_acceptance import COLUMNS, root_rows
from llm_demo.bench.trees.summary import ABOUT, LOOKUP
from llm_demo.bench.trees.texts import TOGETHER, Context, all_prompts, contexts
from llm_demo.models.load import DRAFTS, load_pair
from llm_demo.prompts import Prompt
from llm_demo.rows import append, read
from ot_draft.decoding import CannotDecode, Pair
from ot_draft.decoding.load import DTYPES

OUT = Path("figures/data/real_trees.csv")
BUDGETS = (8, 16, 32, 64)
TEMPERATURES = (0.0, 0.3, 0.6, 1.0)
# Returns the models, the prompts of the table, and held-out prompts.
Load = Callable[[], tuple[Pair, list[Prompt], list[Prompt]]]


def files_beside(out: Path) -> tuple[Path, Path]:
    """Return the paths of the plans, and of the acceptance at the roots."""
    return out.with_name(f"{out.stem}_plans.json"), out.with_name(f"{out.stem}_acceptance.csv")


def table(
    pair: Pair,
    prompts: Sequence[Prompt],
    known: Calibration,
    out: Path,
    budgets: Sequence[int] = BUDGETS,
    temperatures: Sequence[float] = TEMPERATURES,
    drafts: Sequence[str] | None = None,
    ways: Sequence[str] = tuple(WAYS),
    seconds: float = 1e9,
) -> int:
    """Append the missing rows to OUT, and return the number of contexts measured.

    seconds: time limit; the context during which it passes is completed.
    """
    start, done, chosen = time.monotonic(), _done(out), {name: WAYS[name] for name in ways}
    models = models_of(pair, known.layers, pair.n)
    names = tuple(models.drafts) if drafts is None else tuple(drafts)
    count = 0
    for context in _contexts(pair, prompts, temperatures, names, done):
        wanted = [name for name in names if (context.text, context.temperature, name) not in done]
        _one(context, models, known, out, budgets, wanted, chosen)
        count += 1
        if time.monotonic() - start > seconds:
            break
    return count


def _one(
    context: Context,
    models: Models,
    known: Calibration,
    out: Path,
    budgets: Sequence[int],
    drafts: Sequence[str],
    ways: dict[str, Way],
) -> None:
    behind = Behind(context, models)
    _, roots = files_beside(out)
    for name in drafts:
        rows = measure(behind, name, known.at(context.temperature), budgets, ways)
        if name != LOOKUP:
            for row in root_rows(behind, name):
                append(row, roots, [*ABOUT, "k", "overlap", *COLUMNS])
        behind.drop(name)
        for row in rows:
            append(row, out, [*ABOUT, "nodes", *ways, LOOKUP])


def _contexts(
    pair: Pair,
    prompts: Sequence[Prompt],
    temperatures: Sequence[float],
    names: Sequence[str],
    done: set[Any],
) -> Iterator[Context]:
    """Yield the contexts with missing rows, prompt by prompt."""
    for group in range(group_count(prompts)):
        numbers = range(group * TOGETHER, min((group + 1) * TOGETHER, len(prompts)))
        left = [t for t in temperatures if any((n, t, name) not in done for n in numbers for name in names)]
        found = {t: {c.text: c for c in contexts(pair, prompts, group, t)} for t in left}
        for number in numbers:
            for t in left:
                if any((number, t, name) not in done for name in names):
                    yield found[t][number]


def group_count(prompts: Sequence[Prompt]) -> int:
    """Return the number of groups of `TOGETHER` prompts."""
    return -(-len(prompts) // TOGETHER)


def _done(out: Path) -> set[tuple[int, float, str]]:
    """Return prompt, temperature and draft of the rows in OUT."""
    rows = read(out) if out.exists() else []
    return {(int(row["text"]), float(row["temperature"]), row["draft"]) for row in rows}


def numbers(kind: Any) -> Any:
    """Return an option's callback that reads values of one type, separated by commas."""
    return lambda context, option, value: tuple(kind(part) for part in value.split(",")) if value else None


@click.command()
@click.option("--out", default=OUT, show_default=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--texts", default=60, show_default=True, help="Number of prompts; kinds of prompts alternate.")
@click.option(
    "--draft", default="tokens", show_default=True, type=click.Choice(list(DRAFTS)), help="Embedded draft model."
)
@click.option("--drafts", callback=numbers(str), help="Names of drafts, separated by commas [default: all].")
@click.option("--nodes", default="8,16,32,64", show_default=True, callback=numbers(int))
@click.option("--temperatures", default="0,.3,.6,1", show_default=True, callback=numbers(float))
@click.option(
    "--ways",
    default=None,
    callback=lambda c, o, v: tuple(v.split(";")) if v else tuple(WAYS),
    help="Names of methods, separated by ';', for a new OUT [default: all].",
)
@click.option("--minutes", default=1e9, help="Time limit in minutes; the current context is completed.")
@click.option("--threads", default=1, show_default=True, help="Number of torch threads on the CPU.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(list(DTYPES)))
@click.option("--summary", "summary_only", is_flag=True, help="Print the table in OUT without new measurements.")
def main(out: Path, texts: int, minutes: float, summary_only: bool, **options: Any) -> None:
    """Compare all methods on the same contexts, and append the rows to OUT."""
    if not summary_only:
        chosen = {"drafts": options["drafts"], "ways": options["ways"], "budgets": options["nodes"]}
        chosen |= {"temperatures": options["temperatures"]}
        models = Loading(options["device"], options["dtype"], options["threads"], options["draft"])
        try:
            run(models, texts, out, 60 * minutes, **chosen)
        except CannotDecode as error:
            raise click.UsageError(str(error)) from None
    click.echo(summary.as_markdown(summary.cells(read(out))))


@dataclass(frozen=True)
class Loading:
    """Settings for loading the models."""

    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    draft: str = "tokens"

    def __call__(self) -> tuple[Pair, list[Prompt], list[Prompt]]:
        """Return the embedded pair, the prompts of the table and the held-out prompts."""
        torch.set_num_threads(self.threads)
        pair = load_pair(None, self.draft, dtype=self.dtype, device=self.device, backend="torch")
        return pair, *all_prompts(pair.tokenizer)


def run(load: Load, texts: int, out: Path, seconds: float, **chosen: Any) -> None:
    """Calibrate if there is no file of plans for OUT yet, then append the missing rows of the table."""
    start, (plans, _) = time.monotonic(), files_beside(out)
    pair, prompts, held_out = load()
    if not plans.exists():
        of = chosen.get("temperatures", TEMPERATURES), pair.n, chosen.get("drafts")
        found(pair, held_out, *of).write(plans)
    table(pair, prompts[:texts], Calibration.read(plans), out, seconds=seconds - (time.monotonic() - start), **chosen)
