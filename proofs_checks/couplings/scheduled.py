"""Verification that is scheduled: engines verify a prefix of the drafts of each sequence, chosen from the state of the whole batch.

A sequence's cut is the number of its draft tokens that are verified. The budget of a step is shared, so that the cut of one text depends on
others.

THEOREM. A cut keeps the distribution of every text if the event that it is at least i depends only on what does not involve the text's own
drafts from position i on, nor the numbers that verify them: on other texts, on confidences before position i, on q at position i, on
clocks and noise. PROOF. Draft i is then a draw from q given everything on which the decision to admit i depends, and so are those after
it: the tree is one that grows position by position, each drafted after at most once (`paths.adapted_trees`), and what other texts drew
is randomness of their own. QED

THEOREM. Of what a lossless rule emits after verifying all drafts, the tokens after the i-th may be dropped by a decision that reads the
first i emitted tokens, other texts and noise of its own. PROOF. Where more than i tokens are emitted, the next one follows the target
given the first i: by losslessness the distribution of i + 1 tokens is the target's, texts that end at i are completed by the target, so
those that go on do as well. What is dropped is drawn again, from the target or by the next cycle, which is lossless. QED A token drawn from
the target instead of the dropped one, where the correction of a rejected draft would have stayed, is lossy: the test of the dropped draft
then decides which of the two is emitted. Counterexample: p = (1/2, 1/2), q = (1/3, 2/3), total variation 7/144 over three tokens (survey,
scheduler-cuts).

That a *drafted token's own* probability decides is the usual bug: q(x_i), which engines call the confidence of draft i, is a function
of the draft i. A cut before i by q(x_i) verifies likely tokens only and leaves unlikely ones to the target; the distribution of the text
moves.

BUDGET. Let text b pass position i with probability a_{b,i}, decreasing in i. Verifying c_b positions accepts the sum of a_{b,i} for i <=
c_b, so the best cuts of one budget take the largest a_{b,i} of all: prefixes by themselves. Equal lengths are never better. `means` says by
how much on the real pair: for texts that pass every position with one probability per text, which a scheduler may count; and for positions
whose overlaps, the sum of min(p, q), are known in advance, which is not possible.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

import ot_draft as otd
from ot_draft import trees
from ot_draft.data import read_pairs

from ..checking import check
from ..random_cases import Case, draw
from ..statement import Statement

__all__ = ["STATEMENTS", "check"]

OWN_TOKEN, ONE_AHEAD = "by the probability of the draft itself", "by the next draft"
FRESH = "a fresh token of the target where a draft passed"
NOT_SORTED = "passing chances that do not fall"
SMALLEST = "the smallest chances first"
ZERO = Fraction(0)
DATA = Path(__file__).parents[2] / "figures" / "data"


def verified(case: Case, cut: str) -> dict[tuple[int, ...], Fraction]:
    """Return the distribution of two tokens of a text without memory, whose two drafts are cut to one or none; block verification."""
    p, q = (np.array(masses, dtype=object) for masses in (case.p, case.q))
    model, rule = trees.MarkovModel({(): p}, {(): q}, 0), trees.BlockVerification()
    law: dict[tuple[int, ...], Fraction] = {}
    tokens = range(len(case.p))
    for other in (0, 1):  # another text leaves room for one or two, with equal probabilities
        for drafts in product([z for z in tokens if case.q[z]], repeat=2):
            mass = case.q[drafts[0]] * case.q[drafts[1]] / 2
            kept = 1 + other
            if cut == OWN_TOKEN and case.q[drafts[0]] < max(case.q):
                kept = 0
            if cut == ONE_AHEAD and case.q[drafts[1]] < max(case.q):
                kept = 1
            if not cut and kept == 2 and case.q[drafts[0]] < max(case.q):
                kept = 1  # position 1 decides about position 2
            for emitted, chance in (rule(model, (drafts[:kept],)) if kept else alone(case)).items():
                _fill(law, emitted, mass * chance, case)
    return law


def alone(case: Case) -> dict[tuple[int, ...], Fraction]:
    """Sample one token of the target."""
    return {(token,): mass for token, mass in enumerate(case.p) if mass}


def _fill(law: dict[tuple[int, ...], Fraction], emitted: tuple[int, ...], mass: Fraction, case: Case) -> None:
    """Return two tokens: the emitted ones, completed by the target."""
    if len(emitted) >= 2:
        law[emitted[:2]] = law.get(emitted[:2], ZERO) + mass
        return
    for token, chance in enumerate(case.p):
        if chance:
            law[*emitted, token] = law.get((*emitted, token), ZERO) + mass * chance


def kept(case: Case, error: str) -> bool:
    """Return whether the two tokens follow the target."""
    target = {(a, b): x * y for a, x in enumerate(case.p) for b, y in enumerate(case.p) if x and y}
    return {pair: mass for pair, mass in verified(case, error).items() if mass} == target


def shortened(case: Case, error: str) -> bool:
    """Return whether two tokens follow the target, where two drafts are verified and what is emitted is shortened to one token or more."""
    p, q = (np.array(masses, dtype=object) for masses in (case.p, case.q))
    model, rule = trees.MarkovModel({(): p}, {(): q}, 0), trees.TokenWise(otd.rules.SpeculativeSampling())
    law: dict[tuple[int, ...], Fraction] = {}
    tokens = [z for z in range(len(case.p)) if case.q[z]]
    for drafts in product(tokens, repeat=2):
        mass = case.q[drafts[0]] * case.q[drafts[1]]
        read = drafts[1] if error == ONE_AHEAD else drafts[0]
        kept = 1 if case.q[read] == max(case.q) else 0
        for emitted, chance in rule(model, (drafts,)).items():
            fresh = error == FRESH and len(emitted) > kept + 1
            _fill(law, emitted[: kept if fresh else kept + 1], mass * chance, case)
    target = {(a, b): x * y for a, x in enumerate(case.p) for b, y in enumerate(case.p) if x and y}
    return {pair: mass for pair, mass in law.items() if mass} == target


@dataclass(frozen=True)
class BatchCase:
    """Decreasing probabilities that each text passes its positions, and a budget of positions."""

    chances: tuple[tuple[Fraction, ...], ...]
    budget: int

    def __str__(self) -> str:
        rows = "; ".join(", ".join(map(str, row)) for row in self.chances)
        return f"chances {rows}, {self.budget} places"


def draw_batch(seed: int) -> BatchCase:
    """Return the case of this number: two or three sequences of three positions each."""
    generator = np.random.default_rng([seed, 6])
    rows = []
    for _ in range(2 + seed % 2):
        passed, row = Fraction(1), []
        for count in generator.integers(1, 8, 3):
            passed *= Fraction(int(count), 8)
            row.append(passed)
        rows.append(tuple(row))
    return BatchCase(tuple(rows), int(generator.integers(1, 3 * len(rows))))


def budget(case: BatchCase, error: str) -> bool:
    """Return whether the largest probabilities give the best cuts, at least as good as equal lengths."""
    chances = tuple(row[::-1] for row in case.chances) if error == NOT_SORTED else case.chances
    every = sorted((chance for row in chances for chance in row), reverse=error != SMALLEST)
    greedy = sum(every[: case.budget], ZERO)
    cuts = product(*(range(len(row) + 1) for row in chances))
    best = max(
        sum((sum(row[:cut], ZERO) for row, cut in zip(chances, each, strict=True)), ZERO)
        for each in cuts
        if sum(each) <= case.budget
    )
    equal = sum((sum(row[: case.budget // len(chances)], ZERO) for row in chances), ZERO)
    return greedy == best and equal <= best


def draw_text(seed: int) -> Case:
    """Return the case of this number, of few tokens."""
    return next(case for number in range(seed * 3, seed * 3 + 300) if 1 < len((case := draw(number)).p) <= 4)


STATEMENTS = (
    Statement(
        "what a scheduler's cut may depend on",
        "Verifying fewer draft tokens is lossless if the decision on draft i depends only on other sequences and on drafts before i.",
        "this project; proof in the module; vLLM's adaptive verification, D-cut, DSpark",
        "Fractions, two drafts, all decisions of block verification enumerated",
        kept,
        (OWN_TOKEN, ONE_AHEAD),
        draw=draw_text,
        limit=100,
    ),
    Statement(
        "what may be dropped after verification",
        "Dropping emitted tokens is lossless if the decision reads only the tokens before them.",
        "this project; proof in the module; SGLang's DSpark, cutoff_verify_lens",
        "Fractions, two drafts, all decisions of token-wise verification enumerated",
        shortened,
        (ONE_AHEAD, FRESH),
        draw=draw_text,
        limit=100,
    ),
    Statement(
        "a budget of places over a batch",
        "If probabilities decrease along each sequence, taking the largest of all is the best cut, never below equal lengths.",
        "TETRIS (2502.15197); exchange argument",
        "Fractions, all cuts of the budget",
        budget,
        (NOT_SORTED, SMALLEST),
        draw=draw_batch,
        limit=200,
    ),
)


def by_text(batch: int, most: int) -> np.ndarray:
    """Return probabilities (batches, batch, most) of consecutive texts in the real pair's table; all positions of a text have one
    probability a.

    a is the solution of a + a^2 + a^3 + a^4 = accepted tokens of four.
    """
    with (DATA / "real_block_efficiency.csv").open(encoding="utf-8", newline="") as stream:
        lengths = [float(row["TokenWise(SpeculativeSampling) 1x4"]) for row in csv.DictReader(stream)]
    grid = np.linspace(0, 1, 10_001)
    rates = np.interp(lengths, sum(grid**i for i in range(1, 5)), grid)
    batches = rates[: len(rates) // batch * batch].reshape(-1, batch, 1)
    return np.asarray(batches ** np.arange(1, 1 + most))


def by_place(batch: int, most: int) -> np.ndarray:
    """Return the same for texts whose positions have the overlaps of random positions of the real pair, which no scheduler can know."""
    pairs = read_pairs(DATA / "smollm2_pairs.npz").at_temperature(1.0)
    overlaps = np.minimum(pairs.p, pairs.q).sum(-1)
    return np.random.default_rng(38).choice(overlaps, (1000, batch, most)).cumprod(-1)


def means(batch: int = 8) -> list[tuple[float, ...]]:
    """Return positions per text, and the ratio of accepted tokens with the best cuts to equal lengths, by text and by position."""
    found: list[tuple[float, ...]] = []
    for each in (1, 2, 4, 8):
        gains = []
        for chances in (by_text(batch, each * batch), by_place(batch, each * batch)):
            best = np.sort(chances.reshape(len(chances), -1))[:, -each * batch :]
            gains.append(float(best.sum() / chances[..., :each].sum()))
        found.append((each, *gains))
    return found


if __name__ == "__main__":
    for each, text, place in means():
        print(
            f"{each} places a text: {text:.3f} of equal lengths by the text's mean, {place:.3f} by the overlap of every place"
        )
