"""`ot-draft replay`: tokens per target call from captured logits, without the models."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ..data import open_shards
from ..data.shards import Shard
from ..data.study import choose_rules
from ..errors import DraftSelectionError
from ..laws import IID
from ..selection import SelectionRule
from .console import one_line, print_csv, print_json, progress_bar, without_nan
from .options import DEFAULTS, Numbers, form_of, form_options, parts

MANIFEST = "capture.json"  # of the folder of a capture
Rows = list[dict[str, Any]]


@click.command(context_settings=DEFAULTS)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--rules", "names", default="KSeq,RecursiveRejection,Optimal",
              help="Comma-separated list of selection rules.")  # fmt: skip
@click.option("--paths", "ks", type=Numbers(), default="1,2,4", help="Comma-separated numbers of paths K.")
@click.option("--length", "lengths", type=Numbers(), default="2,4", help="Comma-separated path lengths L, in tokens.")
@click.option("--temperature", default=1.0, help="Temperature of both models; use that of the capture.")
@click.option("--draws", type=click.IntRange(1), default=4, help="Number of random draft tuples to average over.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of texts [default: all].")
@click.option("--seed", type=click.IntRange(0), default=0, help="Random seed of the draft tuples.")
@form_options("csv", "json")
def replay(folders: tuple[Path, ...], **of_texts: Any) -> None:
    """Compute tokens per target call from captures in FOLDERS.

    The rules are token-wise, with K i.i.d. paths of length L.

    If the target generated the texts at this temperature (`ot-draft capture --sample`), the only error is that
    of the sampled texts and draft tuples. For other texts, the result is the number of tokens of the given text per target call.
    """
    form = form_of(of_texts)
    with one_line((DraftSelectionError, ValueError, OSError)):
        rows = _of_captures(folders, **of_texts)
    if form == "csv":
        print_csv(rows)
    elif form == "json":
        print_json(without_nan(rows))
    else:
        _print(rows, ", ".join(map(str, folders)))


def _of_captures(
    folders: Sequence[Path], names: str, ks: Sequence[int], lengths: Sequence[int], temperature: float, draws: int,
    limit: int | None, seed: int
) -> Rows:  # fmt: skip
    sizes, rules = [(K, L) for K in ks for L in lengths], choose_rules(parts(names), ["iid"])
    rows: Rows = []
    for folder in folders:
        shards = open_shards([folder], temperature)[:limit]
        captured = _manifest(folder)
        if captured.get("top"):
            raise click.UsageError(f"{folder}: {MERGED}")
        if told := _other_texts(captured, temperature):
            click.echo(f"{folder}: {told}", err=True)
        with progress_bar(len(rules) * len(shards), "texts") as advance:
            for rule in rules:
                counts = []  # of every text, iterations and tokens of each size
                for of_text in replay_texts(shards, rule, sizes, temperature, draws, seed):
                    counts.append(of_text)
                    advance(rule.name)
                for (K, L), of_size in zip(sizes, zip(*counts, strict=True), strict=True):
                    if not any(iterations for iterations, _ in of_size):
                        raise click.UsageError(
                            f"{folder}: --length {L} requires a text with more than {L} contexts. Capture longer texts."
                        )
                    row: dict[str, Any] = {"folder": str(folder)} if len(folders) > 1 else {}
                    mean, error = efficiency(of_size)
                    rows.append(row | {"rule": rule.name, "K": K, "L": L, "block_efficiency": mean, "error": error})
    return rows


def _manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a capture; empty without one."""
    try:
        captured = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return captured if isinstance(captured, dict) else {}


def _other_texts(captured: dict[str, Any], temperature: float) -> str:
    """A line on texts that the target did not write at this temperature, as far as the capture says; else empty."""
    counted = "the result is the number of tokens of the given texts per target call"
    if captured.get("sample") == 0:
        return f"the target did not generate these texts (--sample): {counted}"
    written = captured.get("temperature", temperature)
    if captured.get("store") == "logits" and written != temperature:
        return f"the texts were generated at temperature {written:g}, and --temperature is {temperature:g}: {counted}"
    return ""


def _print(rows: Rows, title: str) -> None:
    shown = [name for name in rows[0] if name != "error"]
    table = Table(*(name.replace("_", " ") for name in shown), title=f"tokens per target call: {title}")
    for row in rows:
        cells = {name: str(row[name]) for name in shown}
        table.add_row(*(cells | {"block_efficiency": f"{row['block_efficiency']:.3f} ± {row['error']:.3f}"}).values())
    Console().print(table)


Floats = NDArray[np.float64]
MERGED = "distributions must be stored for all tokens, got merged ones (--top). Capture without --top."


def survivors(rule: SelectionRule, p: Floats, q: Floats, token: int, alive: int, draws: int, generator: Any) -> Floats:
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
            drafts[:, count:] = IID().draw(np.broadcast_to(others / others.sum(), (tuples, len(q))), away)
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


def replay_texts(
    shards: Sequence[Shard],
    rule: SelectionRule,
    sizes: Sequence[tuple[int, int]],
    temperature: float,
    draws: int,
    seed: int,
) -> Iterator[list[tuple[float, float]]]:
    """Iterations and tokens of each (K, L), for one text after the other."""
    most = max(K for K, _ in sizes)
    for number, shard in enumerate(shards):
        generator = np.random.default_rng([seed, number])
        laws: list[list[Floats]] = []
        for row, token in enumerate(following(shard).tolist()):
            p, q = (law[0] for law in shard.read(row, row + 1, temperature))
            living = [survivors(rule, p, q, token, alive, draws, generator) for alive in range(1, most + 1)]
            laws.append([np.ones(1), *living])
        yield [chain(laws, K, L) for K, L in sizes]


def following(shard: Shard) -> NDArray[Any]:
    """Return the token after each row; raises UsageError unless the rows are consecutive contexts of one sequence."""
    if "slots" in shard.columns:
        raise click.UsageError(f"{shard.file}: {MERGED}")
    about = {name: shard.columns[name].whole() for name in ("token", "position", "text") if name in shard.columns}
    if len(about) < 3 or (np.diff(about["position"]) != 1).any() or (np.diff(about["text"]) != 0).any():
        raise click.UsageError(
            f"{shard.file} must hold consecutive contexts of one text. Capture with --sample N or --positions 0."
        )
    tokens = about["token"]
    wrong = np.flatnonzero(~((tokens >= 0) & (tokens < shard.n))) if tokens.dtype.kind in "iu" else np.arange(1)
    if len(wrong):
        row = int(wrong[0])
        raise click.UsageError(
            f"{shard.file}, row {row}: token must be an integer from 0 to {shard.n - 1}, got {tokens[row]}. Capture again."
        )
    return tokens


def efficiency(of_texts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Tokens an iteration over all texts, and its standard error, texts being independent."""
    iterations, tokens = np.array(of_texts).T
    ratio = tokens.sum() / iterations.sum()
    if len(of_texts) < 2:
        return float(ratio), math.nan
    spread = ((tokens - ratio * iterations) ** 2).sum() * len(of_texts) / (len(of_texts) - 1)
    return float(ratio), float(np.sqrt(spread) / iterations.sum())
