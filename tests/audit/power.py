"""How soon the wrong samplers are found, and how often right ones are called wrong.

    python -m tests.audit.power wrong --bias .01 --tokens 100000
    python -m tests.audit.power right --runs 1000 --tokens 2000

Not part of the tests: minutes. What came out stands in docs/audit.md.
"""

from __future__ import annotations

import click
import numpy as np

from ot_draft.audit import Audit

from .chains import Emitted, Pair, random_pair, right, run, share_for
from .wrong_samplers import RANDOMNESS, TABLES, share_of_old_numbers

REQUESTS = 50
PIECE = 32  # tokens of each request that are read together


def feed(audit: Audit, pair: Pair, emitted: Emitted, with_draft: bool) -> None:
    """The tokens of a run in pieces, request by request as a server would give them, until the audit is sure."""
    requests, length = emitted.token.shape
    for start in range(0, length, PIECE):
        part = slice(start, start + PIECE)
        token, place, last = (x[:, part].ravel() for x in (emitted.token, emitted.place, emitted.last))
        request = np.repeat(np.arange(requests), emitted.token[:, part].shape[1])
        known = {"draft": pair.q[last]} if with_draft else {}
        audit.add_many(token, pair.p[last], request=request, place=place, **known)
        if audit.biased:
            return


def texts(name: str, pair: Pair, bias: float, tokens: int, generator: np.random.Generator) -> Emitted:
    """Texts of a wrong sampler whose bias is this; ValueError where it can never be so large."""
    length = tokens // REQUESTS
    if name in RANDOMNESS:
        share = share_of_old_numbers(name, pair, bias)
        return RANDOMNESS[name](pair, share, (REQUESTS, length), generator)
    wrong = TABLES[name](pair)
    return run(pair, wrong, share_for(pair, wrong, bias), REQUESTS, length, generator)


@click.group()
def main() -> None:
    """Measure power and false alarms."""


@main.command()
@click.option("--bias", default=0.01)
@click.option("--tokens", default=100_000)
@click.option("--level", default=0.01)
@click.option("--seeds", default=1)
@click.argument("names", nargs=-1)
def wrong(bias: float, tokens: int, level: float, seeds: int, names: tuple[str, ...]) -> None:
    """Tokens until each wrong sampler is found, without the draft model's law and with it; - where it was not."""
    for name in names or (*TABLES, *RANDOMNESS):
        found: dict[bool, list[str]] = {False: [], True: []}
        for seed in range(seeds):
            for with_draft, said in found.items():
                pair, generator = random_pair(seed), np.random.default_rng([seed, 1])
                try:
                    emitted = texts(name, pair, bias, tokens, generator)
                except ValueError:
                    said.append("too weak")
                    continue
                audit = Audit(level=level)
                feed(audit, pair, emitted, with_draft)
                verdict = audit.verdict()
                e = f"(e^{verdict.log_largest:.1f}: {verdict.findings[0].name})"
                said.append(f"{verdict.decided_at or '-'} {e}")
        click.echo(f"{name:40s} without q: {', '.join(found[False])}; with q: {', '.join(found[True])}")


@main.command(name="right")
@click.option("--runs", default=1000)
@click.option("--tokens", default=2000)
@click.option("--level", default=0.01)
def right_ones(runs: int, tokens: int, level: float) -> None:
    """False alarms of a right sampler, looked at after every block."""
    alarms, largest = 0, []
    for seed in range(runs):
        pair, generator = random_pair(seed % 20), np.random.default_rng([seed, 2])
        audit = Audit(level=level)
        feed(
            audit, pair, run(pair, right(pair), 0.0, REQUESTS, tokens // REQUESTS, generator), with_draft=bool(seed % 2)
        )
        alarms += audit.biased
        largest.append(audit.verdict().log_largest)
    quantiles = np.exp(np.quantile(largest, [0.5, 0.9, 0.99, 1.0]))
    click.echo(
        f"{alarms} false alarms in {runs} runs of {tokens} tokens at level {level}; largest e-values: {quantiles.round(2)}"
    )


if __name__ == "__main__":
    main()
