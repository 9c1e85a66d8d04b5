"""`ot-draft plan`: choose rule and paths or tree for given costs."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from math import hypot, isnan
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from .. import trees
from ..boundary import unique_keys
from ..data.study import SEVERAL_DRAFTS
from ..errors import InvalidArgument
from ..laws import IID, WithoutReplacement
from ..rules import RecursiveRejectionWithoutReplacement
from ..trees.evaluation.best_shapes import acceptance_by_child, fastest_tree
from ..trees.evaluation.simulate import simulate, simulate_chains
from ..trees.evaluation.wall_clock import Costs, Efficiency, Planned
from ..trees.evaluation.wall_clock import plan as make_plan
from ..trees.model import SimulatedModel
from .console import one_line, print_csv, print_json, progress_bar, table_console, without_nan
from .options import DEFAULTS, Numbers, Place, form_of, form_options, parts

EXAMPLES = {  # of files of costs, by format
    "json": """\
{"verify": {"1": 1, "17": 1.1, "65": 1.4},
 "draft": {"1": 0.06, "8": 0.08},
 "select": {"": 0.01, "Joint": 0.03}}""",
    "csv": """\
what,at,cost
verify,1,1
verify,65,1.4
draft,1,0.06
draft,8,0.08
select,Joint,0.03""",
}


class _CostsFile(Place):
    """The file of costs; without it the error states how to write one."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        return (
            "FILE holds the times of draft and target calls. Measure them by"
            " `ot-draft decode --compare json > costs.json`, or write them by hand (format: `ot-draft plan --help`)."
        )


@click.command(
    context_settings=DEFAULTS,
    epilog=f"""\b
Costs in a common unit, here one autoregressive step:
verify: one target call, by number of positions (nodes + 1).
draft: one draft model call, by number of paths K or width of a tree.
select: one selection, by rule ("": all other rules).
Costs are interpolated, but not extrapolated.
The output of `ot-draft decode --compare json` is valid, too.

\b
As JSON:
{EXAMPLES["json"]}

\b
As CSV:
{EXAMPLES["csv"]}""",
)
@click.option(
    "--costs", "costs_file", required=True, type=_CostsFile(), help="JSON or CSV file of costs, in the format below."
)
@click.option("--traces", type=Place(),
              help="CSV file of block efficiencies with columns rule,K,L,block_efficiency[,error] [default: simulate them].")  # fmt: skip
@click.option(
    "--acceptance",
    type=float,
    help="Mean of sum min(p, q) over contexts: in `ot-draft compare`, the optimum at k = 1 [default: that of the simulator].",
)
@click.option("--temperature", type=float, default=1.0, help="Temperature of the simulated models.")
@click.option("--rules", "names", default=",".join(["Joint", "Traversal", *(rule.name for rule in reversed(SEVERAL_DRAFTS))]),
              help="Comma-separated list of path rules, or of selection rules for i.i.d. drafts (applied token by token).")  # fmt: skip
@click.option(
    "--paths",
    "ks",
    type=Numbers(1024),
    help="Comma-separated numbers of paths K [default: 1,2,4,8 in the range of --costs].",
)
@click.option(
    "--length",
    "lengths",
    type=Numbers(),
    help="Comma-separated path lengths L, in tokens [default: 1,2,3,4,6,8 in the range of --costs].",
)
@click.option(
    "--nodes",
    type=click.IntRange(0, 256),
    default=48,
    help="Maximum number of nodes of the trees that are planned too, if --rules holds Traversal and --traces is not given; 0: no trees.",
)
@click.option(
    "--iterations", type=click.IntRange(2, 10_000_000), default=200, help="Number of simulated decoding steps."
)
@click.option(
    "--vocabulary",
    type=click.IntRange(2, 1_000_000),
    default=2000,
    help="Vocabulary size of the simulated models, in tokens.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Random seed of the simulation.")
@click.option(
    "--rows", "shown", type=click.IntRange(1), default=12, help="Maximum number of rows in the printed table."
)
@form_options("csv", "json")
def plan(costs_file: Path, traces: Path | None, shown: int, ks: Any, lengths: Any, **options: Any) -> None:
    """Choose the rule and the paths or tree by predicted speed-up.

    K is the number of paths and L their length, with K L nodes. A tree has L levels, and K nodes in its largest level. The tree is
    Sequoia's for the number of levels and nodes that is fastest at these costs; its children are drawn without replacement.

    speed-up = block efficiency * c_target / (c_verify(nodes + 1) + L c_draft(K) + c_select). The block efficiency is read from
    --traces, or simulated with a pair of random models that have the given --acceptance.
    """
    form = form_of(options)
    if traces is not None and options["acceptance"] is not None:
        raise click.UsageError("--traces and --acceptance exclude each other. Use one of them.")
    with one_line():
        costs = read_costs(costs_file)
        if traces is None:
            sizes = _sizes(costs, ks, lengths)
            efficiencies, source = _simulated(sizes, costs, **options)
        else:
            efficiencies, source = read_traces(traces), f"block efficiency of {traces.name}"
            efficiencies = [e for e in efficiencies if (not ks or e.K in ks) and (not lengths or e.L in lengths)]
        rows = make_plan(efficiencies, costs)
    if not rows:
        raise click.UsageError(
            f"--traces must hold a row with the given --paths and --length, got none in {traces}. Use other values."
        )
    if form == "csv":
        print_csv([asdict(row) for row in rows])
    elif form == "json":
        records = [without_nan(asdict(row)) for row in rows]
        print_json({"source": source, "best": records[0], "rows": records})
    else:
        _print(rows, shown, source, options["iterations"] if traces is None else None)


def _sizes(costs: Costs, ks: Sequence[int] | None, lengths: Sequence[int] | None) -> list[tuple[int, int]]:
    """All (K, L) asked for; of those that were not asked for, the ones within the costs."""
    sizes = [(K, L) for K in ks or (1, 2, 4, 8) for L in lengths or (1, 2, 3, 4, 6, 8)]
    if ks and lengths:
        return sizes
    within = [size for size in sizes if costs.reach(*size)]
    if not within:
        raise click.UsageError(
            f"--paths and --length must be in the range of --costs (verify up to {max(costs.verify)}, draft up to {max(costs.draft)})."
            " Reduce them."
        )
    return within


def _simulated(
    sizes: list[tuple[int, int]], costs: Costs, acceptance: float | None, temperature: float, names: str, nodes: int,
    iterations: int, vocabulary: int, seed: int
) -> tuple[list[Efficiency], str]:  # fmt: skip
    model = SimulatedModel(n=vocabulary, temperature=temperature, seed=seed)
    model = model if acceptance is None else model.with_acceptance(acceptance)
    chosen = {name: path_rule(name) for name in dict.fromkeys(parts(names))}
    with progress_bar(iterations, "simulating") as advance:
        found = simulate_chains(list(chosen.values()), model, sizes, iterations, seed, lambda done: advance(by=done))
    name_of = {rule: name for name, rule in chosen.items()}
    mean, _ = model.acceptance()
    source = f"simulated: {iterations} iterations, n = {vocabulary}, temperature {temperature:g}, mean sum min(p, q) = {mean:.3f}"
    taken = {(rule, K) for rule, K, _ in found}
    refused = {
        name: [K for K in sorted({K for K, _ in sizes}) if (rule, K) not in taken] for name, rule in chosen.items()
    }
    left_out = [f"{name} with K = {', '.join(map(str, counts))}" for name, counts in refused.items() if counts]
    source += f"; omitted, because the rule does not support as many paths: {'; '.join(left_out)}" if left_out else ""
    rows = [Efficiency(name_of[rule], K, L, s.block_efficiency, s.error) for (rule, K, L), s in found.items()]
    for rule, name in name_of.items():
        if type(rule) is trees.Traversal and nodes:
            levels = max(L for _, L in sizes)
            tree, row = _simulated_tree(name, model, costs, min(nodes, max(costs.verify) - 1), levels, iterations, seed)
            rows += row
            source += (
                f"; row with {tree.size} nodes: FixedTree(TreeShape({tree.parents}), WithoutReplacement())"
                if row
                else ""
            )
    return rows, source


def _simulated_tree(
    name: str, model: SimulatedModel, costs: Costs, nodes: int, levels: int, iterations: int, seed: int
) -> tuple[trees.TreeShape, list[Efficiency]]:
    """The fastest tree at these costs, and its block efficiency; no row where autoregressive decoding is faster."""
    children = min(nodes, max(costs.draft), model.n)
    acceptance = acceptance_by_child(RecursiveRejectionWithoutReplacement(), model, children, iterations, seed)
    shape = fastest_tree(acceptance, costs, nodes, levels, name).shape
    if not shape.size:
        return shape, []
    found = simulate(trees.Traversal(), model, shape, iterations, seed, WithoutReplacement())
    width = max(map(len, shape.levels))
    return shape, [Efficiency(name, width, shape.length, found.block_efficiency, found.error, shape.size)]


def path_rule(name: str) -> trees.PathRule:
    """A path rule by its name, or token-wise selection by a rule for i.i.d. drafts."""
    path = trees.TreeShape.chains(1, 1)
    fit = [
        rule
        for rule in trees.rules.every()
        if trees.rules.fits(rule, path, IID()) and not trees.rules.solves_program(rule)
    ]
    try:
        return trees.rules.called(name, fit)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from error


def _print(rows: Sequence[Planned], shown: int, source: str, iterations: int | None) -> None:
    """Print a table. iterations: of the simulation; None for traces."""
    console = table_console(80)
    out = Table("", "rule", title=Text(source), title_justify="left", header_style="bold", box=SIMPLE_HEAD, padding=0)
    for name in ("K", "L", "nodes", "block efficiency", "step cost", "speed-up"):
        out.add_column(name, justify="right", no_wrap=True)
    for place, row in enumerate(rows[:shown]):
        spread = "" if row.error != row.error else f" ± {row.error:.3f}"
        alike = "" if is_slower(row, rows[0]) else "alike"
        numbers = (f"{row.block_efficiency:.3f}", f"{row.cost:.3f}", f"{row.speed_up:.3f}{spread}")
        style = "" if place else "bold green"
        rule = row.rule if row.nodes == row.K * row.L else f"{row.rule}, tree"
        out.add_row(alike if place else "best", rule, str(row.K), str(row.L), str(row.nodes), *numbers, style=style)
    console.print(out)
    console.print(
        "K, L: K paths of L tokens; of a tree, L levels of at most K nodes.\n"
        "step cost: in autoregressive steps; speed-up: over autoregressive decoding, ± standard error from the block efficiency.\n"
        "alike: not slower than the best by more than two standard errors of the difference.",
        style="dim",
    )
    if rows[0].speed_up < 1:
        console.print("No speed-up at these costs: autoregressive decoding is fastest.", style="bold")
    for line in findings(rows, iterations):
        console.print(Text(line))


def is_slower(row: Planned, best: Planned, standard_errors: float = 2.0) -> bool:
    """Whether the speed-up is below the best by more than `standard_errors` of the difference; an unknown error counts as 0."""
    errors = [0.0 if isnan(each.error) else each.error for each in (row, best)]
    return best.speed_up - row.speed_up > standard_errors * hypot(*errors)


def _name(row: Planned) -> str:
    if row.nodes != row.K * row.L:
        return f"{row.rule} with a tree of {row.nodes} nodes"
    return f"{row.rule} {row.K} x {row.L}"


def findings(rows: Sequence[Planned], iterations: int | None) -> list[str]:
    """Which differences from the best row are larger than their errors, and the next commands. iterations: of a simulation."""
    best = rows[0]
    by_rule: dict[str, list[Planned]] = {}
    for row in rows[1:]:
        by_rule.setdefault(row.rule, []).append(row)
    slower = [rule for rule, own in by_rule.items() if rule != best.rule and all(is_slower(row, best) for row in own)]
    alike = [_name(row) for row in rows[1:] if not is_slower(row, best)]
    said = [f"Rules slower than {_name(best)} at every size: {', '.join(slower) or 'none'}."]
    if alike:
        shown = ", ".join(alike[:4]) + (f" and {len(alike) - 4} more" if len(alike) > 4 else "")
        more = f" --iterations {4 * iterations} halves the errors." if iterations else ""
        said.append(f"Not separated from the best: {shown}.{more}")
    return [
        *said,
        "Next: ot-draft decode --compare measures rules on your models; ot-draft compare FILE does so per token.",
    ]


def read_costs(file: Path) -> Costs:
    """Return costs from a .json or .csv file. Raises UsageError if they are invalid."""
    tables: dict[str, dict[Any, float]] = {"verify": {}, "draft": {}, "select": {}}
    for what, at, cost in _entries(file):
        if what not in tables:
            raise click.UsageError(f"{file}: cost must be verify, draft or select, got {what!r}. Rename the entry.")
        try:
            if isinstance(cost, bool):
                raise TypeError
            place = at if what == "select" else int(at)
            number = float(cost)
        except (TypeError, ValueError, OverflowError):
            keys = "rules" if what == "select" else "integers"
            raise click.UsageError(
                f"{file}: {what} must map {keys} to numbers, got {cost!r} at {at!r}. Correct the entry."
            ) from None
        if place in tables[what]:
            raise click.UsageError(f"{file}: cost of {what} at {at!r} must be unique. Remove all entries but one.")
        tables[what][place] = number
    return Costs(tables["verify"], tables["draft"], tables["select"])


def _entries(file: Path) -> list[tuple[str, str, Any]]:
    if file.suffix == ".csv":
        rows = _records(file, ("what", "at", "cost"))
        return [(row["what"].strip(), (row["at"] or "").strip(), row["cost"]) for row in rows]
    if file.suffix != ".json":
        raise click.UsageError(f"--costs must be a .json or .csv file, got {str(file)!r}. Convert or rename it.")
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"), object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:  # of json, of characters, of too many digits
        raise click.UsageError(f"{file} must be valid JSON ({error}). Correct the file.") from error
    if not isinstance(found, dict):
        raise click.UsageError(f"{file} must hold one JSON object with verify, draft and select. Correct the file.")
    if isinstance(found.get("costs"), dict):  # the whole of what `ot-draft decode --compare json` prints
        found = found["costs"]
    tables = {what: table if isinstance(table, dict) else {"": table} for what, table in found.items()}
    return [(what, at, cost) for what, table in tables.items() for at, cost in table.items()]


def read_traces(file: Path) -> list[Efficiency]:
    """Return block efficiencies by rule, K and L; raises UsageError for duplicates, as from `replay` of several folders."""
    found, lines = [], dict[tuple[str, int, int], int]()
    for number, row in enumerate(_records(file, ("rule", "K", "L", "block_efficiency")), 2):
        try:
            error = float(row.get("error") or "nan")
            found.append(Efficiency(row["rule"], int(row["K"]), int(row["L"]), float(row["block_efficiency"]), error))
        except (TypeError, ValueError) as problem:
            raise click.UsageError(f"{file}, line {number}: {problem}") from None
        of = found[-1].rule, found[-1].K, found[-1].L
        if of in lines:
            told = f"{of[0]} with K = {of[1]} and L = {of[2]} must be unique, got it in line {lines[of]}, too"
            raise click.UsageError(f"{file}, line {number}: {told}. Keep one row of each, such as those of one folder.")
        lines[of] = number
    return found


def _records(file: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (csv.Error, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file} must be a CSV file in UTF-8 ({error}). Correct the file.") from error
    if not rows or not set(columns) <= rows[0].keys():
        raise click.UsageError(
            f"{file} must be a CSV file with the columns {','.join(columns)} and at least one row. Correct the file."
        )
    return rows
