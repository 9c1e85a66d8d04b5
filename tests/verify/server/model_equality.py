"""Tests that others compare endpoints with beside the two audits, at equal tokens, on the samplers of `language`.

    PYTHONPATH=tests python -m audit.model_equality --tokens 4000 residual_is_target

Of texts alone, beside `audit servers`: Model Equality Testing (Gao, Liang, Guestrin 2024, arXiv 2410.20247). With the law at hand, beside
`audit URL`: the rank-based uniformity test (Zhu et al. 2025, arXiv 2506.06975).

Model Equality Testing: the maximum mean discrepancy with the Hamming kernel, within prompts, of samples whose size is fixed beforehand; its
law under permutations of the sides within each prompt. A millionth cannot be reached by permutations: their third moments give a
Pearson III law, whose tail is used. One token an answer.

Rank-based uniformity: where the token's rank by mass falls in the law of ranks is uniform if the law is right, which Cramér and von Mises
test. They estimate that place from 100 samples of a reference; here it is exact. One token an answer; the audit has 16.
"""

from __future__ import annotations

import click
import numpy as np
from scipy import stats

from ot_draft.arrays import Array
from ot_draft.verify.server import Audit, Token
from ot_draft.verify.server.against import Setting, TwoServerTest

from .language import SAMPLERS, Spoken, language

PROMPTS, PERMUTATIONS, LENGTH = 16, 400, 16


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


def rank_uniformity(p: Array, tokens: Array, generator: np.random.Generator) -> float:
    """p-value of draws from p, from the places of their ranks; p (m, n), tokens (m,)."""
    mass = p[np.arange(len(p)), tokens]
    above = np.where(p > mass[:, None], p, 0).sum(1)
    return float(stats.cramervonmises(above + mass * generator.random(len(p)), "uniform").pvalue)


def by_law(name: str, laws: tuple[Array, Array], tokens: int, level: float, seed: int, with_draft: bool) -> bool:
    """Whether the audit of laws finds the sampler in so many tokens, answers of 16; with_draft: the draft's law is known, too."""
    audit, spoken = Audit(level), Spoken(name, laws, [seed, 6])
    for wave in range(tokens // (LENGTH * PROMPTS)):
        answers = np.array(spoken.ask([("plain", [i]) for i in range(PROMPTS)], LENGTH))
        contexts = spoken.contexts(np.arange(PROMPTS), answers).ravel()
        request = np.repeat(wave * PROMPTS + np.arange(PROMPTS), LENGTH)
        place = np.tile(np.arange(LENGTH), PROMPTS)
        known = {"draft": laws[1][contexts]} if with_draft else {}
        audit.add(*Token.of_arrays(answers.ravel(), laws[0][contexts], request=request, position=place, **known))
        if audit.biased:
            break
    return audit.biased


@click.command()
@click.option("--tokens", default=4000, help="Of both sides, or of the one whose law is known.")
@click.option("--first", default=10, help="Seed of the first language.")
@click.option("--seeds", default=7)
@click.option("--level", default=1e-6)
@click.argument("names", nargs=-1, type=click.Choice(list(SAMPLERS)))
def main(tokens: int, first: int, seeds: int, level: float, names: tuple[str, ...]) -> None:
    """In how many languages each test tells a wrong sampler from a right one after so many tokens."""
    tests = ("discrepancy", "bets on texts", "rank uniformity", "bets on laws", "with the draft's")
    for name in names or SAMPLERS:
        found = np.zeros(len(tests), dtype=int)
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
            prompts = np.arange(tokens) % PROMPTS
            drawn = np.array(Spoken(name, laws, [seed, 7]).ask([("plain", [i]) for i in prompts], 1))[:, 0]
            found[2] += rank_uniformity(laws[0][prompts], drawn, generator) <= level
            for column, with_draft in ((3, False), (4, True)):
                found[column] += by_law(name, laws, tokens, level, seed, with_draft)
        said = ", ".join(f"{test} {count}" for test, count in zip(tests, found, strict=True))
        click.echo(f"{name:20s} {tokens:,} tokens, level {level:g}, of {seeds}: {said}")


if __name__ == "__main__":
    main()
