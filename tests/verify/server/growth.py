"""How few tokens could tell an error at all, and how many the audit takes, on real laws: SmolLM2-135M and its embedded draft.

    PYTHONPATH=tests python -m audit.growth least
    PYTHONPATH=tests python -m audit.growth taken --runs 5 lenient

A bet that knows the wrong law b beside the right one p earns the relative entropy of b to p a token, and no bet earns more; bets on texts
of two sides at most the Jensen-Shannon divergence a token of either. So -log(level) over it is the least number of tokens, on average,
whoever bets. Contexts are those of figures/data/smollm2_pairs.npz; every token of `taken` has one of them, and token ids of its own, so
that nothing can be learned from laws that come again. Not part of the tests. What came out stands in docs/audit.md.
"""

from __future__ import annotations

from math import log
from pathlib import Path

import click
import numpy as np

from ot_draft.arrays import Array
from ot_draft.verify.server import Audit, Token

from .language import SAMPLERS

FILE = Path("figures/data/smollm2_pairs.npz")
LENGTH, LISTED, LEVEL = 3, 20, 1e-6
ERRORS = ("lenient", "noise_again", "residual_is_target", "target_without_draft", "draft_forced")


def pairs(temperature: float) -> tuple[Array, Array]:
    """p and q (C, n) of the stored contexts."""
    with np.load(FILE) as stored:
        row = int(np.flatnonzero(stored["temperatures"] == temperature)[0])
        laws = [stored[name][row].astype(float) for name in ("p", "q")]
    p, q = (law / law.sum(1, keepdims=True) for law in laws)
    return p, q


def emitted(error: str, p: Array, q: Array) -> Array:
    """The law of a token that was drafted for, or came in a refused draft's place: (C, n)."""
    taken, refused, _ = SAMPLERS[error](p, q)
    law = np.maximum(taken + (1 - taken.sum(1, keepdims=True)) * refused, 0)
    return law / law.sum(1, keepdims=True)


def drafted(p: Array, q: Array) -> float:
    """The share of such tokens, where steps have LENGTH drafts: all but those behind a whole path."""
    lengths = np.minimum(p, q).sum(1).mean() ** np.arange(LENGTH + 1)
    return float(lengths[:-1].sum() / lengths.sum())


def entropy_to(b: Array, p: Array) -> Array:
    """Relative entropy of b to p, in nats: (C,)."""
    there = b > 0
    return np.where(there, b * np.log(np.where(there, b, 1.0) / np.where(there, np.maximum(p, 1e-300), 1.0)), 0).sum(1)


def listed_alone(law: Array, p: Array) -> Array:
    """The masses of p's LISTED heaviest tokens, and of the rest: (C, LISTED + 1)."""
    top = np.take_along_axis(law, np.argsort(-p, axis=1)[:, :LISTED], axis=1)
    return np.column_stack([top, np.maximum(1 - top.sum(1), 0)])


@click.group()
def main() -> None:
    """Measure what can be reached, and what is."""


@main.command()
def least() -> None:
    """Least tokens, on average, to 1e-6: by whole laws, by lists of 20, by texts (of both sides)."""
    for temperature in (1.0, 0.6):
        p, q = pairs(temperature)
        share = drafted(p, q)
        click.echo(f"temperature {temperature}, acceptance {np.minimum(p, q).sum(1).mean():.2f}, drafted {share:.2f}")
        for error in ERRORS:
            b = emitted(error, p, q)
            middle = (b + p) / 2
            rates = (
                entropy_to(b, p),
                entropy_to(listed_alone(b, p), listed_alone(p, p)),
                (entropy_to(b, middle) + entropy_to(p, middle)) / 2,
            )
            need = (-log(LEVEL) / (share * rate.mean()) for rate in rates)
            click.echo(
                f"{error:22s} distance {np.abs(b - p).sum(1).mean() / 2:.3f}: {', '.join(f'{x:,.0f}' for x in need)}"
            )


@main.command()
@click.option("--tokens", default=40_000)
@click.option("--runs", default=3)
@click.option("--temperature", default=1.0)
@click.argument("names", nargs=-1, type=click.Choice(["right", *ERRORS]))
def taken(tokens: int, runs: int, temperature: float, names: tuple[str, ...]) -> None:
    """Tokens until the audit finds an error in lists of 20, without the draft's law and with it; - where it does not."""
    p, q = pairs(temperature)
    share = drafted(p, q)
    for name in names or ERRORS:
        found: dict[bool, list[str]] = {False: [], True: []}
        for seed in range(runs):
            for with_draft, each in found.items():
                audit, generator = Audit(LEVEL), np.random.default_rng([seed, 3])
                sources = np.stack([p, emitted(name, p, q)]).cumsum(2)
                while audit.tokens < tokens and not audit.biased:
                    for _ in range(512):
                        audit.add(_token(p, q if with_draft else None, sources, share, generator))
                each.append(f"{audit.report().evidence.decided_at or '-'}")
        click.echo(f"{name:22s} without q: {', '.join(found[False])}; with q: {', '.join(found[True])}")


def _token(p: Array, q: Array | None, sources: Array, share: float, generator: np.random.Generator) -> Token:
    context = int(generator.integers(len(p)))
    source = sources[int(generator.random() < share), context]
    token = int(np.searchsorted(source, generator.random() * source[-1], "right"))
    top, names = np.argsort(-p[context])[:LISTED], generator.integers(2**60, size=p.shape[1])
    return Token.of_top(int(names[token]), names[top], p[context, top], float(p[context, token]),
                        draft_probs=None if q is None else q[context, top])  # fmt: skip


if __name__ == "__main__":
    main()
