"""Block efficiency from captured logits, for K i.i.d. paths along texts that the target wrote.

Token-wise selection forgets a path as soon as it leaves the text that is emitted. So, given that text, an iteration is a Markov
chain in the number of paths that still agree with it, and all it needs are p and q along the text: with s paths alive where
the text goes on with y, c of them hold y with probability

    Binomial(c; s, q(y)) E[row(y) | c of the s drafts are y] / p(y),

row being the rule's output law given the drafts. These sum to 1 because the rule is valid; the inner mean is over the other
drafts, i.i.d. from q off y, and is estimated from a few draws of them. Rules that judge a whole path need p and q behind
refused drafts as well, which no captured text holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ot_draft as ot

from ...pairs.formats import columns
from ...pairs.shards import Shard
from ..refused import Refused

Floats = NDArray[np.float64]
ABOUT = ("token", "position", "text")  # what a capture says of each row besides its laws


@dataclass(frozen=True)
class Replayed:
    """Block efficiency of a rule with K paths of length L, as `ot-draft plan --traces` reads it."""

    rule: str
    K: int
    L: int
    block_efficiency: float
    error: float


def survivors(
    rule: ot.SelectionRule, p: Floats, q: Floats, token: int, alive: int, draws: int, generator: Any
) -> Floats:
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
            drafts[:, count:] = ot.IID().draw(np.broadcast_to(others / others.sum(), (tuples, len(q))), away)
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


def replay(shards: Sequence[Shard], rule: ot.SelectionRule, sizes: Sequence[tuple[int, int]], temperature: float = 1.0,
           draws: int = 4, seed: int = 0) -> Iterator[list[tuple[float, float]]]:  # fmt: skip
    """Iterations and tokens of each (K, L), for one text after the other."""
    most = max(K for K, _ in sizes)
    for number, shard in enumerate(shards):
        generator = np.random.default_rng([seed, number])
        tokens = following(shard)
        laws: list[list[Floats]] = []
        for row, token in enumerate(tokens.tolist()):
            p, q = (law[0] for law in shard.read(row, row + 1, temperature))
            living = [survivors(rule, p, q, token, alive, draws, generator) for alive in range(1, most + 1)]
            laws.append([np.ones(1), *living])
        yield [chain(laws, K, L) for K, L in sizes]


def following(shard: Shard) -> NDArray[Any]:
    """The token after each row; Refused where rows are not the contexts of one text, one token after the other."""
    found = columns(shard.file)
    about = {name: found[name].whole() for name in ABOUT if name in found}
    if len(about) < 3 or (np.diff(about["position"]) != 1).any() or (np.diff(about["text"]) != 0).any():
        raise Refused(f"{shard.file} holds no run of neighbouring contexts: capture with --sample N, or --positions 0")
    return about["token"]


def efficiency(of_texts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Tokens an iteration over all texts, and its standard error, texts being independent."""
    iterations, tokens = np.array(of_texts).T
    ratio = tokens.sum() / iterations.sum()
    if len(of_texts) < 2:
        return float(ratio), math.nan
    spread = ((tokens - ratio * iterations) ** 2).sum() * len(of_texts) / (len(of_texts) - 1)
    return float(ratio), float(np.sqrt(spread) / iterations.sum())


def replay_rules(
    shards: Sequence[Shard], rules: Sequence[ot.SelectionRule], sizes: Sequence[tuple[int, int]], temperature: float,
    draws: int, seed: int, advance: Callable[[str], object]
) -> list[Replayed]:  # fmt: skip
    """A row for every rule and (K, L). advance: called with the rule's name after every text."""
    rows: list[Replayed] = []
    for rule in rules:
        counts = []  # of every text, iterations and tokens of each size
        for of_text in replay(shards, rule, sizes, temperature, draws, seed):
            counts.append(of_text)
            advance(rule.name)
        rows += [
            Replayed(rule.name, K, L, *efficiency(of_size))
            for (K, L), of_size in zip(sizes, zip(*counts, strict=True), strict=True)
        ]
    return rows
