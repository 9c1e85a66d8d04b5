"""Model Equality Testing (Gao, Liang, Guestrin 2024, arXiv 2410.20247) beside the audit of two sides, at equal tokens.

    PYTHONPATH=tests python -m audit.model_equality --tokens 4000 'residual is p'

Their statistic: the maximum mean discrepancy with the Hamming kernel, within prompts, of samples whose size is fixed beforehand; its
law under permutations of the sides within each prompt. A millionth cannot be reached by permutations: their third moments give a
Pearson III law, whose tail is used. Both see the samplers of `language`, one token an answer for the discrepancy.
"""

from __future__ import annotations

import click
import numpy as np
from scipy import stats

from ot_draft.arrays import Array
from ot_draft.audit.against import Setting, TwoServerTest

from .language import SAMPLERS, Spoken, language

PROMPTS, PERMUTATIONS = 16, 400


def discrepancy(first: Array, second: Array, generator: np.random.Generator) -> float:
    """p-value of equal laws; answers of both sides (prompts, m, T).

    With one weight 1 / m for each answer of a side, less for the other's, the squared discrepancy of a prompt is the sum over places and
    tokens of the square of the weights' sum there.
    """
    prompts, copies, length = first.shape
    answers = np.concatenate([first, second], axis=1)
    places = np.arange(prompts)[:, None, None] * length + np.arange(length)
    _, cell = np.unique(places * (answers.max() + 1) + answers, return_inverse=True)
    weights = np.repeat([1 / copies, -1 / copies], copies)

    def statistic(order: Array) -> float:
        return float((np.bincount(cell.ravel(), np.repeat(weights[order].ravel(), length)) ** 2).sum())

    seen = statistic(np.tile(np.arange(2 * copies), (prompts, 1)))
    mixed = [
        statistic(generator.permuted(np.tile(np.arange(2 * copies), (prompts, 1)), axis=1)) for _ in range(PERMUTATIONS)
    ]
    return float(stats.pearson3.sf(seen, stats.skew(mixed), np.mean(mixed), np.std(mixed)))


@click.command()
@click.option("--tokens", default=4000, help="Of both sides.")
@click.option("--first", default=10, help="Seed of the first language.")
@click.option("--seeds", default=7)
@click.option("--level", default=1e-6)
@click.argument("names", nargs=-1, type=click.Choice(list(SAMPLERS)))
def main(tokens: int, first: int, seeds: int, level: float, names: tuple[str, ...]) -> None:
    """In how many languages each test tells a wrong sampler from a right one after so many tokens."""
    for name in names or SAMPLERS:
        found = np.zeros(2, dtype=int)
        for seed in range(first, first + seeds):
            laws, generator = language(seed), np.random.default_rng([seed, 3])
            copies = tokens // (2 * PROMPTS)
            asked = [("plain", [i]) for i in range(PROMPTS) for _ in range(copies)]
            sides = [np.array(Spoken(which, laws, [seed, side]).ask(asked, 1)).reshape(PROMPTS, copies, 1)
                     for side, which in ((4, name), (5, "right"))]  # fmt: skip
            found[0] += discrepancy(*sides, generator) <= level
            test = TwoServerTest(Spoken(name, laws, [seed, 1]), Spoken("right", laws, [seed, 2]),
                          [Setting("plain", [[i] for i in range(PROMPTS)], 1.0)], level, seed=seed)  # fmt: skip
            found[1] += test.run(tokens).differs
        click.echo(
            f"{name:20s} {tokens:,} tokens, level {level:g}: discrepancy {found[0]} of {seeds}, bets {found[1]} of {seeds}"
        )


if __name__ == "__main__":
    main()
