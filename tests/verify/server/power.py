"""How soon the wrong samplers are found, and how often right ones are called wrong.

    PYTHONPATH=tests python -m audit.power wrong --bias .01 --tokens 100000
    PYTHONPATH=tests python -m audit.power right --runs 1000 --tokens 2000
    PYTHONPATH=tests python -m audit.power against
    PYTHONPATH=tests python -m audit.power language greedy lenient

Not part of the tests: minutes. What came out stands in docs/audit.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from mutants.catalogue import TABLES
from mutants.runs import REUSED, share_of_old_numbers

from ot_draft.verify.server import Audit, Token
from ot_draft.verify.server.against import Setting, TwoServerTest
from ot_draft.verify.server.report import ServerReport

from .chains import Emitted, Pair, Tables, distance, random_pair, run, share_for
from .chains import right as right_tables
from .language import SAMPLERS, Spoken, language

REQUESTS = 50
PIECE = 32  # tokens of each request that are read together


def feed(audit: Audit, pair: Pair, emitted: Emitted, with_draft: bool) -> None:
    """The tokens of a run in pieces, request by request as a server would give them, until the audit is sure."""
    requests, length = emitted.token.shape
    for start in range(0, length, PIECE):
        part = slice(start, start + PIECE)
        token, place, last = (x[:, part].ravel() for x in (emitted.token, emitted.place, emitted.last))
        request = np.repeat(np.arange(requests), emitted.token[:, part].shape[1])
        known = {"draft_probs": pair.q[last]} if with_draft else {}
        audit.add(*Token.of_arrays(token, pair.p[last], request=request, step_offset=place, **known))
        if audit.biased:
            return


def texts(name: str, pair: Pair, bias: float, tokens: int, generator: np.random.Generator) -> Emitted:
    """Texts of a wrong sampler whose bias is this; ValueError where it can never be so large."""
    length = tokens // REQUESTS
    if name in REUSED:
        share = share_of_old_numbers(name, pair, bias)
        return REUSED[name](pair, share, (REQUESTS, length), generator)
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
@click.option("--q/--no-q", "draft", default=None, help="Only with the draft model's law, or only without.")
@click.argument("names", nargs=-1)
def wrong(bias: float, tokens: int, level: float, seeds: int, draft: bool | None, names: tuple[str, ...]) -> None:
    """Tokens until each wrong sampler is found, without the draft model's law and with it; - where it was not."""
    for name in names or (*TABLES, *REUSED):
        found: dict[bool, list[str]] = {with_draft: [] for with_draft in (False, True) if draft in (None, with_draft)}
        for seed in range(seeds):
            for with_draft, each in found.items():
                pair, generator = random_pair(seed), np.random.default_rng([seed, 1])
                try:
                    emitted = texts(name, pair, bias, tokens, generator)
                except ValueError:
                    each.append("too weak")
                    continue
                audit = Audit(level=level)
                feed(audit, pair, emitted, with_draft)
                report = audit.report()
                e = f"(e^{report.evidence.log_largest:.1f}: {report.evidence.bets[0].name})"
                each.append(f"{report.evidence.decided_at or '-'} {e}")
        said = [f"{'with' if with_draft else 'without'} q: {', '.join(each)}" for with_draft, each in found.items()]
        click.echo(f"{name:40s} {'; '.join(said)}")


@dataclass
class Texts:
    """A side of a test that writes as a sampler of such tables does; a prompt is the token before."""

    pair: Pair
    tables: Tables
    generator: np.random.Generator

    def ask(self, requests: Sequence[tuple[str, Any]], tokens: int) -> list[Any]:
        start = np.array([prompt[0] * self.pair.n + prompt[0] for _, prompt in requests])
        return list(run(self.pair, self.tables, 1.0, len(start), tokens, self.generator, start).token)


def compare(name: str, seed: int, tokens: int) -> ServerReport:
    """A wrong sampler beside a right one, from texts alone."""
    pair, generator = random_pair(seed), np.random.default_rng([seed, 2])
    sides = Texts(pair, TABLES[name](pair), generator), Texts(pair, right_tables(pair), generator)
    return TwoServerTest(*sides, [Setting("plain", [[i] for i in range(16)], 1.0)], seed=seed).run(tokens)


@main.command()
@click.option("--tokens", default=100_000, help="Of both sides.")
@click.option("--seeds", default=3)
@click.argument("names", nargs=-1)
def against(tokens: int, seeds: int, names: tuple[str, ...]) -> None:
    """Tokens of both sides until a wrong sampler, at its full strength, is told from a right one by texts alone, level 1e-6."""
    for name in names or TABLES:
        far = [distance(random_pair(seed), TABLES[name](random_pair(seed))) for seed in range(seeds)]
        took = [compare(name, seed, tokens).evidence.decided_at for seed in range(seeds)]
        click.echo(f"{name:40s} {np.mean(far):.4f} a token: {', '.join(f'{x:,}' if x else '-' for x in took)}")


@main.command(name="language")
@click.option("--tokens", default=30_000, help="Of both sides.")
@click.option("--first", default=10, help="Seed of the first language.")
@click.option("--seeds", default=7)
@click.option("--plain-first", is_flag=True, help="The first token of an answer is never drafted for, as in vLLM.")
@click.argument("names", nargs=-1, type=click.Choice(list(SAMPLERS)))
def in_language(tokens: int, first: int, seeds: int, plain_first: bool, names: tuple[str, ...]) -> None:
    """The same in a language of a thousand tokens."""
    for name in names or SAMPLERS:
        took = []
        for seed in range(first, first + seeds):
            laws = language(seed)
            sides = Spoken(name, laws, [seed, 1], not plain_first), Spoken("right", laws, [seed, 2], not plain_first)
            test = TwoServerTest(*sides, [Setting("plain", [[i] for i in range(16)], 1.0)], seed=seed)
            took.append(test.run(tokens).evidence.decided_at or np.inf)
        click.echo(f"{name:20s} median {np.median(took):,.0f}; {', '.join(f'{x:,.0f}' for x in sorted(took))}")


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
            audit,
            pair,
            run(pair, right_tables(pair), 0.0, REQUESTS, tokens // REQUESTS, generator),
            with_draft=bool(seed % 2),
        )
        alarms += audit.biased
        largest.append(audit.report().evidence.log_largest)
    quantiles = np.exp(np.quantile(largest, [0.5, 0.9, 0.99, 1.0]))
    click.echo(
        f"{alarms} false alarms in {runs} runs of {tokens} tokens at level {level}; largest e-values: {quantiles.round(2)}"
    )


if __name__ == "__main__":
    main()
