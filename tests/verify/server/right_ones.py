"""Right samplers of many kinds, as their owners would audit them: none may be called biased.

    PYTHONPATH=tests python -m audit.right_ones --runs 1000

Not part of the tests as a whole, which run a few: minutes. What came out stands in docs/audit.md.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np

import ot_draft as otd
from ot_draft.arrays import Array
from ot_draft.verify.server import Audit, CannotAudit, Token

from .chains import inverse, random_pair, right, run, softmax

SIZES = (2, 3, 8, 24, 100, 500, 2000)
RULES = (otd.rules.SpeculativeSampling(), otd.rules.RecursiveRejection(), otd.rules.KSeq(), otd.rules.Optimal())


def reported(p: Array, kind: int) -> Array:
    """The law as an engine would hand it over: 64, 32 or 16 bits, or few decimals."""
    half = ((p.astype(np.float32).view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)
    return (p, p.astype(np.float32), p.astype(np.float16), half, np.round(p, 3), np.round(p, 5))[kind]


def emitted(p: Array, q: Array, way: int, generator: np.random.Generator) -> Array:
    """One token of every law p (T, n): by inverse transform, by exponential noise, by a lossless rule with draft law q."""
    if way == 0:
        return inverse(p, generator.random(len(p)))
    if way == 1:
        return (generator.exponential(size=p.shape) / np.maximum(p, 1e-300)).argmin(1)
    rule, k = RULES[way % len(RULES)], 1 if way % len(RULES) == 0 else 3
    drafts = otd.draw(otd.IID(), q, k, generator)
    return otd.sample(rule, p, q, drafts, generator)[0]


def drawn(n: int, tokens: int, prompts: int, generator: np.random.Generator) -> tuple[Any, Any, Any]:
    """Laws of target and draft (T, n), those of so many prompts if they come again, and right tokens (T,)."""
    count = min(prompts, 400) if prompts < tokens else tokens
    p = softmax(generator.uniform(0.5, 5, (count, 1)) * generator.normal(size=(count, n)))
    p = p[generator.integers(count, size=tokens)] if prompts < tokens else p
    q = softmax(0.5 * np.log(p + 1e-12) + generator.normal(size=(1, n)))
    return p, q, emitted(p, q, int(generator.integers(7 if n <= 100 else 4)), generator)


def audited(seed: int, tokens: int, level: float) -> Audit:
    """One audit; everything about it is drawn from the seed."""
    generator = np.random.default_rng([seed, 11])
    n, kind, listed = (
        int(generator.choice(SIZES)),
        int(generator.integers(6)),
        int(generator.choice([0, 0, 1, 5, 20, 64])),
    )
    rows, length = int(generator.choice([1, 2, 8, 64])), int(generator.choice([1, 16, 200, 2000]))
    tokens = tokens if n < 500 else tokens // 3
    prompts = int(generator.choice([1, 5, 40, tokens]))  # contexts that come again and again, or once
    audit = Audit(level=level)
    if n == 24 and generator.random() < 0.7:  # whole steps of speculation on a Markov model, with places
        pair = random_pair(seed % 20)
        text = run(pair, right(pair), 0.0, rows, -(-tokens // rows), generator)
        token, last, place = (x.ravel() for x in (text.token, text.last, text.place))
        p, q, request = pair.p[last], pair.q[last], np.repeat(np.arange(rows), text.token.shape[1])
    else:
        p, q, token = drawn(n, tokens, prompts, generator)
        place, request = np.full(tokens, -1), np.arange(tokens) // length
    laws, with_draft = reported(p, kind), generator.random() < 0.5
    batch = request // rows
    many = not listed and generator.random() < 0.5
    if many and kind < 4:
        known = {"draft_probs": q} if with_draft else {}
        audit.add(*Token.of_arrays(token, laws, request=request, batch=batch, step_offset=place, **known))
        return audit
    for i in range(len(token)):
        known = {"request": f"r{request[i]}", "batch": int(batch[i]), "step_offset": int(place[i])}
        try:
            if listed:
                ids = np.argsort(-p[i], kind="stable")[:listed]
                known |= {"draft_probs": q[i][ids]} if with_draft else {}
                audit.add(Token.of_top(int(token[i]), ids, laws[i][ids], float(laws[i][token[i]]), **known))
            else:
                audit.add(Token.of_law(int(token[i]), laws[i], **known | ({"draft_probs": q[i]} if with_draft else {})))
        except CannotAudit as error:
            audit.leave_out(str(error), f"token {i}")
    return audit


@click.command()
@click.option("--first", default=0, help="Seed of the first run.")
@click.option("--runs", default=1000)
@click.option("--tokens", default=3000)
@click.option("--level", default=0.01)
def main(first: int, runs: int, tokens: int, level: float) -> None:
    """Count false alarms at this level, and at 1e-6."""
    largest = np.array(
        [audited(seed, tokens, level).report().evidence.log_largest for seed in range(first, first + runs)]
    )
    alarms = [int((largest >= -np.log(each)).sum()) for each in (level, 1e-6)]
    quantiles = np.exp(np.quantile(largest, [0.5, 0.9, 0.99, 1.0])).round(2)
    click.echo(
        f"{runs} right audits: {alarms[0]} false alarms at the level {level}, {alarms[1]} at 1e-6; largest e-values {quantiles}"
    )
    click.echo(
        f"the five largest: seeds {(first + np.argsort(-largest)[:5]).tolist()}, {np.exp(-np.sort(-largest)[:5]).round(1).tolist()}"
    )


if __name__ == "__main__":
    main()
