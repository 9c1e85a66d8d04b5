"""`ot-draft replay`: tokens a target call from captured logits or from recorded trees, without the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ...errors import DraftSelectionError, MissingPackage
from ...pairs import open_shards
from ...pairs.study import choose_rules
from ..console import one_line, print_csv, print_json, progress_bar, without_nan
from ..options import Numbers, parts
from ..refused import Refused

OF_TEXTS = {
    "names": "KSeq,RecursiveRejection,Optimal",
    "ks": (1, 2, 4),
    "lengths": (2, 4),
    "temperature": 1.0,
    "draws": 4,
}
OPTIONS = {"names": "--rules", "ks": "--paths", "lengths": "--length", "limit": "--limit"}
Rows = list[dict[str, Any]]


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--rules", "names", help="Of a capture, by comma [default: KSeq,RecursiveRejection,Optimal].")
@click.option("--paths", "ks", type=Numbers(), help="Of a capture: numbers of paths K [default: 1,2,4].")
@click.option("--length", "lengths", type=Numbers(), help="Of a capture: path lengths L [default: 2,4].")
@click.option("--temperature", type=float, help="Of a capture: that of its --sample [default: 1].")
@click.option("--draws", type=click.IntRange(1), help="Of a capture: draft tuples a mean is taken over [default: 4].")
@click.option("--limit", type=click.IntRange(1), help="Of a capture: at most so many texts.")
@click.option("--repeats", type=click.IntRange(1), help="Of a trace: selections from every tree [default: 16].")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV; that of captures is for `ot-draft plan --traces`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay(
    folders: tuple[Path, ...], seed: int, as_csv: bool, as_json: bool, repeats: int | None, **of_texts: Any
) -> None:
    """Tokens a target call, from what `ot-draft capture` or `ot-draft decode --trace` wrote into FOLDERS.

    Of a capture: what token-wise rules with K i.i.d. paths of length L would have brought. Exact but for the noise of texts and draws
    where the target wrote the texts at this temperature; along other texts it answers another question: how many tokens of
    that text a call would have passed. Of a trace: what was measured, and what simulation from its recorded trees predicts.
    """
    if as_csv and as_json:
        raise Refused("--csv and --json both print to standard output: give one of them")
    traces = [(folder / "trace.json").exists() for folder in folders]
    if len(set(traces)) > 1:
        raise Refused("captures and traces have different columns: replay them one after the other")
    given = [OPTIONS.get(name, f"--{name}") for name, value in of_texts.items() if value is not None]
    if traces[0] and given:
        raise Refused(f"{given[0]} is for captures, and these are traces of one size and rule: leave it away")
    if not traces[0] and repeats is not None:
        raise Refused("--repeats is for traces, and these are captures: give --draws")
    with one_line((DraftSelectionError, ValueError, OSError)):
        wanted: dict[str, Any] = OF_TEXTS | {name: value for name, value in of_texts.items() if value is not None}
        rows = _of_traces(folders, repeats or 16, seed) if traces[0] else _of_captures(folders, seed, **wanted)
    if as_csv:
        print_csv(rows)
    elif as_json:
        print_json(without_nan(rows))
    else:
        _print(rows, ", ".join(map(str, folders)))


def _of_captures(
    folders: Sequence[Path], seed: int, names: str, ks: Sequence[int], lengths: Sequence[int], temperature: float,
    draws: int, limit: int | None = None
) -> Rows:  # fmt: skip
    from .captured import replay_rules

    sizes, rules = [(K, L) for K in ks for L in lengths], choose_rules(parts(names), ["iid"])
    rows: Rows = []
    for folder in folders:
        shards = open_shards([folder], temperature)[:limit]
        with progress_bar(len(rules) * len(shards), "texts") as advance:
            found = replay_rules(shards, rules, sizes, temperature, draws, seed, advance)
        rows += [({"folder": str(folder)} if len(folders) > 1 else {}) | asdict(row) for row in found]
    return rows


def _of_traces(folders: Sequence[Path], repeats: int, seed: int) -> Rows:
    try:
        from .traced import recorded
        from .traced import replay as again
    except ModuleNotFoundError as error:
        raise Refused(str(MissingPackage(str(error.name), "llm"))) from error
    rows: Rows = []
    for folder in folders:
        method, measured = recorded(folder)
        if not method.drafting.tree.budget:
            continue
        replayed = again(folder, method.drafting.rule, repeats, seed)
        row = {"folder": str(folder), "method": method.label, "drafts": method.drafts, "steps": measured.steps}
        row |= {"measured": measured.block_efficiency, "measured_error": measured.error}
        row |= {"replayed": replayed.block_efficiency, "replayed_error": replayed.error}
        rows.append(row | {"ratio": measured.block_efficiency / replayed.block_efficiency})
    if not rows:
        raise Refused(f"{folders[0]} is a trace without drafts: there is nothing to select from")
    return rows


def _print(rows: Rows, title: str) -> None:
    numbers = {name: f"{name}_error" if f"{name}_error" in rows[0] else "error" for name in rows[0]}
    shown = [name for name in rows[0] if name != "error" and not name.endswith("_error")]
    table = Table(*(name.replace("_", " ") for name in shown), title=f"tokens a target call: {title}")
    for row in rows:
        cells = {name: f"{row[name]:.3f}" if isinstance(row[name], float) else str(row[name]) for name in shown}
        for name in ("block_efficiency", "measured", "replayed"):
            if name in cells:
                cells[name] += f" ± {row[numbers[name]]:.3f}"
        table.add_row(*cells.values())
    Console().print(table)
