"""Adaptive draft length compared with fixed shapes at given costs: `python -m llm_demo.bench.hindsight --out FILE`.

Prompts are decoded, and every step is charged the costs of its forward passes from a row of the table of backends (`python -m
llm_demo.bench.backends`), including the extra cost of a changed number of positions. No time is measured, so that other load of the machine
does not affect the comparison. `auto` is given the costs, and starts without statistics on every prompt. The table has ratios of tokens per
second to autoregressive decoding; `least` is the smallest ratio of a prompt. The time for measuring costs is not included; `python -m
llm_demo.bench.auto --fresh` includes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import torch

from llm_demo.bench.auto import KINDS
from llm_demo.bench.backends import OUT as TABLE
from llm_demo.bench.backends import POSITIONS, ROWS
from llm_demo.models.load import load_pair
from llm_demo.prompts import Prompt, read_prompts
from llm_demo.rows import Row, read, write
from ot_draft.cli import progress_bar
from ot_draft.decoding import Auto, CannotDecode, DecodeOptions, Drafting, Pair, SamplingParams, decode_steps
from ot_draft.decoding.model import CallSizes
from ot_draft.decoding.tuning.costs import GivenCosts, call_size
from ot_draft.trees import BlockVerification, Costs, Joint

SHAPES = ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (4, 2))
SEED = 17


def costs_in(row: dict[str, str]) -> Costs:
    """Return costs in milliseconds from a row of the table.

    The time of an autoregressive step outside the forward pass is added to all steps. The remaining time of a step with one draft token
    counts as selection, once per step. Raises UsageError if the table lacks whole steps.
    """
    if missing := {"plain_step_ms", "drafted_step_ms", "changed_ms"} - row.keys():
        raise click.UsageError(
            f"--table lacks the columns {', '.join(sorted(missing))}. Create it with llm_demo.bench.backends."
        )
    plain, other = float(row["plain_step_ms"]), float(row["plain_step_ms"]) - float(row["ms_1"])
    verify = {1: plain} | {number: float(row[f"ms_{number}"]) + other for number in POSITIONS if number > 1}
    draft = {number: float(row[f"draft_ms_{number}"]) for number in ROWS}
    selection = max(float(row["drafted_step_ms"]) - verify[2] - draft[1], 0.0)
    return Costs(verify, draft, {"": selection}, max(float(row["changed_ms"]), 0.0))


class Clock:
    """Milliseconds of the steps of one prompt, by the costs that `Auto` uses, including changes of the number of positions.

    sizes: of the target's forward passes, see `call_size`.
    """

    def __init__(self, costs: Costs, sizes: CallSizes) -> None:
        self.costs, self.ms, self._size, self._sizes = GivenCosts(costs), 0.0, 0, sizes

    def charge(self, drafting: Drafting) -> None:
        """Add the cost of one step."""
        before, size = self._size, call_size(drafting, 1, self._sizes)
        self._size = size or before
        self.ms += self.costs.step(drafting) + (self.costs.change() if before not in (0, self._size) else 0.0)


def contenders(costs: Costs) -> dict[str, Any]:
    """Return factories of policies by name: auto, and every fixed shape."""
    made: dict[str, Any] = {"auto": lambda: Auto(costs=costs)}
    for K, L in SHAPES:
        drafting = Drafting.chains(K, L, BlockVerification() if K == 1 else Joint())
        made[f"{K}x{L}"] = lambda drafting=drafting: drafting
    return made


def tokens_and_ms(pair: Pair, policy: Any, prompt: Prompt, options: DecodeOptions, costs: Costs) -> tuple[int, float]:
    """Return the number of new tokens of one prompt, and the cost of its steps in milliseconds."""
    clock, tokens = Clock(costs, pair.target_model.call_sizes), 0
    for step in decode_steps(pair, [prompt.tokens], policy, options):
        clock.charge(step.drafting)
        tokens += len(step.tokens(0))
    return tokens, clock.ms


def rows_of(name: str, found: Sequence[tuple[str, int, float]], plain: float, temperature: float) -> list[Row]:
    """Return a row for every kind and for all. found: kind, tokens and milliseconds of every prompt."""
    rows: list[Row] = []
    for kind in (*dict.fromkeys(kind for kind, *_ in found), "all"):
        chosen = [(tokens, ms) for other, tokens, ms in found if kind in ("all", other)]
        ratio = plain * sum(tokens for tokens, _ in chosen) / sum(ms for _, ms in chosen)
        least = min(plain * tokens / ms for tokens, ms in chosen)
        numbers = {"ratio": f"{ratio:.3f}", "least": f"{least:.3f}"}
        rows.append({"method": name, "temperature": temperature, "kind": kind, "texts": len(chosen)} | numbers)
    return rows


@click.command()
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file of the table.")
@click.option("--table", default=TABLE, show_default=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--backend", default="openvino-float", show_default=True, help="Backend that decodes, and whose costs are charged."
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Number of threads of the costs and of this run.",
)
@click.option(
    "--texts", default=12, show_default=True, type=click.IntRange(1), help="Number of prompts; four kinds alternate."
)
@click.option(
    "--tokens", default=96, show_default=True, type=click.IntRange(2), help="Maximum number of new tokens per prompt."
)
@click.option("--temperature", "temperatures", multiple=True, type=float, default=(1.0, 0.6), show_default=True)
def main(
    out: Path, table: Path, backend: str, threads: int, texts: int, tokens: int, temperatures: tuple[float, ...]
) -> None:
    """Decode all prompts, write OUT and print a line for every method and kind."""
    torch.set_num_threads(threads)
    row = next((row for row in read(table) if (row["backend"], row["threads"]) == (backend, str(threads))), None)
    if row is None:
        raise click.UsageError(
            f"--table must have a row of backend {backend} with {threads} threads, got {table}. Measure it first."
        )
    costs, rows = costs_in(row), list[Row]()
    click.echo(f"costs in ms: {costs}")
    try:
        pair = load_pair(None, "states", assistant=None, backend=backend)
        prompts = read_prompts(pair.tokenizer, texts, KINDS)
        for temperature in temperatures:
            made = contenders(costs)
            with progress_bar(len(made) * texts, f"temperature {temperature}") as advance:
                for name, policy in made.items():
                    found = []
                    for number, prompt in enumerate(prompts):
                        options = DecodeOptions(SamplingParams(temperature), max_tokens=tokens, seed=SEED + number)
                        found.append((prompt.kind, *tokens_and_ms(pair, policy(), prompt, options, costs)))
                        advance()
                    rows += rows_of(name, found, costs.verify[1], temperature)
                    write(rows, out)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None
    for each in rows:
        click.echo("{temperature} {method:6} {kind:14} {ratio}, least {least}".format_map(each))


if __name__ == "__main__":
    main()
