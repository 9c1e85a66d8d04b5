"""Requests of one wave that share what they must not: a speculative engine in steps, its audit, and how soon it is found.

    PYTHONPATH=tests python -m audit.together wrong --runs 7 --tokens 20000
    PYTHONPATH=tests python -m audit.together right --runs 200 --tokens 2000

A step of the engine serves all requests that began together, as vLLM does: the first token is drawn plainly, then three drafts a step are
tested. With --groups the requests of a wave begin in groups of so many on average, those that came first before the others. Waves
are asked as `audit URL` asks them: every second one for one prompt alone. A simulation, no engine.
Not part of the tests as a whole, which run a few: minutes. What came out stands in docs/audit.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import numpy as np

from ot_draft.arrays import Array
from ot_draft.verify.server import Audit, Token
from ot_draft.verify.server.server import RequestPlan

from .chains import LENGTH, Pair, inverse, random_pair, residual

Share = Callable[[Array], Array]  # uniforms of a step's tests (R, LENGTH), one row a request -> those that are used
PROMPTS = 16
LISTED = 20


def apart(u: Array) -> Array:
    return u


def one_for_each_place(u: Array) -> Array:
    """One uniform number for the tests of all requests at a place of the step: each request by itself is right."""
    return np.repeat(u[:1], len(u), axis=0)


def one_for_all(u: Array) -> Array:
    return np.full_like(u, u[0, 0])


def one_for_two(u: Array) -> Array:
    """Requests that stand beside each other share their numbers."""
    return np.repeat(u[::2], 2, axis=0)[: len(u)]


SHARED: dict[str, Share] = {each.__name__: each for each in (apart, one_for_each_place, one_for_all, one_for_two)}


def answers(pair: Pair, start: Array, length: int, share: Share, generator: np.random.Generator) -> tuple[Array, Array]:
    """Tokens, and the tokens before them, of requests that begin with these (R,): (R, length) each."""
    rows = np.arange(len(start))
    emitted = np.empty((len(start), length + LENGTH + 1), dtype=np.int64)
    emitted[:, 0] = inverse(pair.p[start], generator.random(len(start)))
    count = np.ones(len(start), dtype=np.int64)
    while count.min() < length:
        going = count < length
        numbers = share(generator.random((int(going.sum()), LENGTH)))
        at, alive = rows[going], np.ones(int(going.sum()), dtype=bool)
        for place in range(LENGTH + 1):
            last = emitted[at, count[at] - 1]
            if place < LENGTH:
                draft = inverse(pair.q[last], generator.random(len(at)))
                taken = numbers[:, place] < pair.p[last, draft] / pair.q[last, draft]
                token = np.where(taken, draft, inverse(residual(pair.p[last], pair.q[last]), generator.random(len(at))))
            else:
                taken, token = alive, inverse(pair.p[last], generator.random(len(at)))
            emitted[at[alive], count[at[alive]]] = token[alive]
            count[at[alive]] += 1
            alive = alive & taken
    made = emitted[:, :length]
    return made, np.column_stack([start, made[:, :-1]])


def waves(shapes: tuple[tuple[int, int], ...], together: bool = True) -> Iterator[tuple[int, Array, int]]:
    """Number, prompts (R,) and tokens an answer of one wave after the other; together: every second one has one prompt."""
    asked = wave = 0
    while True:
        rows, length = shapes[wave % len(shapes)]
        alike = together and wave % 2
        yield (
            wave,
            np.array([(wave // 2 if alike else i // RequestPlan.copies) % PROMPTS for i in range(asked, asked + rows)]),
            length,
        )
        asked, wave = asked + rows, wave + 1


def audited(
    pair: Pair, share: Share, tokens: int, seed: int, with_draft: bool, shapes: tuple[tuple[int, int], ...] = ((32, 4),),
    together: bool = True, groups: float = 1e6, level: float = 1e-6
) -> Audit:  # fmt: skip
    """An audit of so many tokens, in lists of LISTED, or until it is sure."""
    audit, generator, request = Audit(level), np.random.default_rng([seed, 17]), 0
    for wave, start, length in waves(shapes, together):
        parts = np.split(start, 1 + np.flatnonzero(generator.random(len(start) - 1) < 1 / groups))
        made = [answers(pair, part, length, share, generator) for part in parts]
        token, last = (np.concatenate(side) for side in zip(*made, strict=True))
        for row, (came, before) in enumerate(zip(token.tolist(), last.tolist(), strict=True)):
            for position, (x, state) in enumerate(zip(came, before, strict=True)):
                p = pair.p[state]
                ids = np.argsort(-p)[:LISTED]
                draft = pair.q[state][ids] if with_draft else None
                audit.add(Token.of_top(x, ids, p[ids], float(p[x]), request=request + row, position=position, batch=wave,
                                       draft_probs=draft))  # fmt: skip
        request += len(start)
        if audit.biased or audit.tokens >= tokens:
            return audit
    raise AssertionError("waves go on for ever")


@click.group()
def main() -> None:
    """Measure power and false alarms."""


@main.command()
@click.option("--runs", default=7)
@click.option("--tokens", default=20_000)
@click.option("--rows", default=32)
@click.option("--length", default=4)
@click.option("--groups", default=1e6)
@click.argument("names", nargs=-1, type=click.Choice(list(SHARED)))
def wrong(runs: int, tokens: int, rows: int, length: int, groups: float, names: tuple[str, ...]) -> None:
    """Tokens until each is found, level 1e-6: without the draft's law, with it, and without waves of one prompt; - where it is not."""
    ways = {"without q": (False, True), "with q": (True, True), "without waves of one prompt": (False, False)}
    for name in names or list(SHARED)[1:]:
        for said, (with_draft, together) in ways.items():
            reports = [audited(random_pair(seed), SHARED[name], tokens, seed, with_draft, ((rows, length),), together, groups).report()
                       for seed in range(runs)]  # fmt: skip
            took = [each.evidence.decided_at for each in reports]
            found = ", ".join(f"{each:,}" if each else "-" for each in took)
            best = ", ".join(f"{each.name} e^{each.log_e_value:.1f}" for each in reports[0].evidence.bets[:2])
            click.echo(f"{name}, {said}: {found} ({best})")


@main.command()
@click.option("--runs", default=200)
@click.option("--tokens", default=2000)
@click.option("--first", default=0, help="Seed of the first run.")
def right(runs: int, tokens: int, first: int) -> None:
    """False alarms of requests that share nothing, at the levels .01 and 1e-6."""
    shapes = ((32, 4), (8, 16), (64, 2))
    logs = np.array([audited(random_pair(seed % 20), apart, tokens, seed, bool(seed % 2), shapes, level=1e-6).report().evidence.log_largest
                     for seed in range(first, first + runs)])  # fmt: skip
    alarms = [int((logs >= -np.log(level)).sum()) for level in (0.01, 1e-6)]
    click.echo(
        f"{runs} right runs of {tokens} tokens: {alarms} alarms at .01 and 1e-6, the largest e-value {np.exp(logs.max()):.3g}"
    )


if __name__ == "__main__":
    main()
