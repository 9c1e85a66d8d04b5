"""`ot-draft replay`: tokens a target call from captured logits or from recorded trees, without the models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import ot_draft as ot

from ..errors import DraftSelectionError, MissingPackage
from ..pairs import open_shards
from ..pairs.formats import columns
from ..pairs.shards import Shard
from ..pairs.study import choose_rules
from .console import one_line, print_csv, print_json, progress_bar, without_nan
from .options import Numbers, parts
from .refused import Refused

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
        from .replay_trace import recorded
        from .replay_trace import replay as again
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


Floats = NDArray[np.float64]
ABOUT = ("token", "position", "text")  # what a capture says of each row besides its laws


@dataclass(frozen=True)
class Replayed:
    """Block efficiency of a rule with K paths of length L, as `ot-draft plan --traces` reads it."""

    rule: str
    K: int
    L: int
    block_efficiency: float
    error: float


def survivors(
    rule: ot.SelectionRule, p: Floats, q: Floats, token: int, alive: int, draws: int, generator: Any
) -> Floats:
    """Law (alive + 1,) of how many of the living paths hold the token, given that it is the rule's output; p, q: (n,)."""
    others = q.copy()
    others[token] = 0.0
    weights = np.zeros(alive + 1)
    for count in range(1, alive + 1):
        chance = math.comb(alive, count) * q[token] ** count * (1 - q[token]) ** (alive - count)
        if chance == 0 or (count < alive and others.sum() == 0):
            continue
        tuples = 1 if count == alive else draws  # where all hold the token, nothing is left to be drawn
        drafts = np.full((tuples, alive), token)
        if count < alive:
            away = generator.random((tuples, alive - count))
            drafts[:, count:] = ot.IID().draw(np.broadcast_to(others / others.sum(), (tuples, len(q))), away)
        drafts = generator.permuted(drafts, axis=1)
        shape = (tuples, len(p))
        rows = rule(np.broadcast_to(p, shape), np.broadcast_to(q, shape), drafts).output(drafts)
        weights[count] = chance * rows[:, token].mean()
    # In all they are p(token), as the rule is valid; what is missing to it is the case that no path holds the token.
    weights[0] = max(p[token] - weights.sum(), 0.0)
    return weights / weights.sum() if weights.any() else np.eye(1, alive + 1)[0]


def chain(laws: list[list[Floats]], K: int, L: int) -> tuple[float, float]:
    """Expected number of iterations and of their tokens along a text; laws[t][s]: (s + 1,), see `survivors`.

    Only iterations that the end of the text cannot cut short are counted.
    """
    starts = np.zeros(len(laws) + 1)
    starts[0] = 1.0
    iterations = tokens = 0.0
    for begin in range(len(laws) - L):
        paths = np.zeros(K + 1)
        paths[K] = 1.0
        for depth in range(L):
            after = np.zeros(K + 1)
            for alive in range(1, K + 1):
                after[: alive + 1] += paths[alive] * laws[begin + depth][alive]
            starts[begin + depth + 1] += starts[begin] * after[0]
            tokens += starts[begin] * after[0] * (depth + 1)
            after[0], paths = 0.0, after
        starts[begin + L + 1] += starts[begin] * paths.sum()
        tokens += starts[begin] * paths.sum() * (L + 1)
        iterations += starts[begin]
    return iterations, tokens


def replay_texts(shards: Sequence[Shard], rule: ot.SelectionRule, sizes: Sequence[tuple[int, int]], temperature: float = 1.0,
           draws: int = 4, seed: int = 0) -> Iterator[list[tuple[float, float]]]:  # fmt: skip
    """Iterations and tokens of each (K, L), for one text after the other."""
    most = max(K for K, _ in sizes)
    for number, shard in enumerate(shards):
        generator = np.random.default_rng([seed, number])
        tokens = following(shard)
        laws: list[list[Floats]] = []
        for row, token in enumerate(tokens.tolist()):
            p, q = (law[0] for law in shard.read(row, row + 1, temperature))
            living = [survivors(rule, p, q, token, alive, draws, generator) for alive in range(1, most + 1)]
            laws.append([np.ones(1), *living])
        yield [chain(laws, K, L) for K, L in sizes]


def following(shard: Shard) -> NDArray[Any]:
    """The token after each row; Refused where rows are not the contexts of one text, one token after the other."""
    found = columns(shard.file)
    about = {name: found[name].whole() for name in ABOUT if name in found}
    if len(about) < 3 or (np.diff(about["position"]) != 1).any() or (np.diff(about["text"]) != 0).any():
        raise Refused(f"{shard.file} holds no run of neighbouring contexts: capture with --sample N, or --positions 0")
    return about["token"]


def efficiency(of_texts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Tokens an iteration over all texts, and its standard error, texts being independent."""
    iterations, tokens = np.array(of_texts).T
    ratio = tokens.sum() / iterations.sum()
    if len(of_texts) < 2:
        return float(ratio), math.nan
    spread = ((tokens - ratio * iterations) ** 2).sum() * len(of_texts) / (len(of_texts) - 1)
    return float(ratio), float(np.sqrt(spread) / iterations.sum())


def replay_rules(
    shards: Sequence[Shard], rules: Sequence[ot.SelectionRule], sizes: Sequence[tuple[int, int]], temperature: float,
    draws: int, seed: int, advance: Callable[[str], object]
) -> list[Replayed]:  # fmt: skip
    """A row for every rule and (K, L). advance: called with the rule's name after every text."""
    rows: list[Replayed] = []
    for rule in rules:
        counts = []  # of every text, iterations and tokens of each size
        for of_text in replay_texts(shards, rule, sizes, temperature, draws, seed):
            counts.append(of_text)
            advance(rule.name)
        rows += [
            Replayed(rule.name, K, L, *efficiency(of_size))
            for (K, L), of_size in zip(sizes, zip(*counts, strict=True), strict=True)
        ]
    return rows
