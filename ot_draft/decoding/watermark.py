"""Watermarks: a key determines the exponential races whose winners are the draft tokens, and with `RacePath` the emitted tokens.

Tested on CPUs only.

The numbers of a race depend on the key, the row number, the position and the list (one per path), as in Kuditipudi et al. 2023. Positions
have separate numbers, so that over the keys the text has the target distribution. A position that was drafted and not reached is drafted
again from the same numbers; hence `Drafting` rejects rules that look at later draft tokens.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from .. import arrays as xp
from ..errors import CannotDecode, InvalidDrafts
from ..laws import IID
from ..trees import FixedTree, NaivePath, PathRule, TreeShape
from ..trees.drafting.drafter import DraftCounts
from ..trees.drafting.fixed import FixedGrowth
from ..trees.drafting.growing import Growing, TreeDraws
from ..trees.rules.survivors import Draws, Survivors
from .drafting import Drafting


@lru_cache(maxsize=64)
def exponentials(key: str, text: int, place: int, number: int, n: int) -> np.ndarray:
    """Return E ~ Exp(1) of every token, (n,) float64, by Philox with key and text as its key, list and position as its counter."""
    digest = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
    stream = np.random.Philox(key=np.array([digest, text % 2**64], dtype=np.uint64), counter=[0, 0, number, place])
    # -log of a uniform in (0, 1]: numpy may change its own exponential sampler.
    return np.maximum(-np.log1p(-np.random.Generator(stream).random(n)), np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class KeyedNoise:
    """Noise of a key: E of every token, (B, L + 1, K, n), by depth and list, from each sequence's position on."""

    key: str
    paths: int
    length: int

    def __call__(self, rows: Sequence[int], emitted: Sequence[int], n: int, dtype: torch.dtype) -> Tensor:
        depths, lists = range(self.length + 1), range(self.paths)
        noise = [
            [[exponentials(self.key, row, position + depth, number, n) for number in lists] for depth in depths]
            for row, position in zip(rows, emitted, strict=True)
        ]
        return torch.from_numpy(np.array(noise)).to(dtype)


class RaceGrowth(FixedGrowth):
    """Paths whose tokens are winners of separate races: those of least E / q."""

    def _drawn(self, q: Any, places: slice, children: slice, count: int) -> tuple[Any, int]:
        races = (
            cast(Tensor, self._draws.noise).flatten(1, 2)[:, children].reshape(*q.shape[:2], count, -1)
        )  # of nodes by number
        return (races / q[..., None, :]).argmin(-1), 0


@dataclass(frozen=True)
class RaceTree(FixedTree):
    """K paths of independent draws from q by the noise, (B, L + 1, K, n)."""

    def __post_init__(self) -> None:
        if self.shape != TreeShape.chains(max(self.width, 1), self.length) or self.law != IID():
            raise InvalidDrafts(
                f"shape and law must be those of i.i.d. paths for races, got {self.shape!r} and {self.law!r}. Use RaceTree.chains(K, L)."
            )

    @property
    def counts(self) -> DraftCounts:
        return replace(super().counts, n_noise_lists=self.width)

    def growing(self, draws: TreeDraws) -> Growing:
        return RaceGrowth(self, draws)


@dataclass(frozen=True)
class RacePath(NaivePath):
    """Emit the winner of the lists' race at every position, and continue while a draft token equals it.

    The text does not depend on the draft model. The winner has least E / p over all lists at its depth. Over the keys each token has the
    target distribution given those before it.
    Sources: Daliri et al. 2024; Rowan et al. 2025.
    """

    takes_noise: ClassVar[bool] = True

    def _draw(self, survivors: Survivors, draws: Draws, lives: Any) -> Any:
        mass = torch.as_tensor(survivors.target())
        races = cast(Tensor, draws.noise)[:, survivors.depth].amin(1).to(mass.dtype)
        return xp.host_view((races / mass).argmin(-1, keepdim=True))


def watermarked(key: str, paths: int, length: int, rule: PathRule | None = None) -> Drafting:
    """Return a drafting of K paths of length L by the races of a key.

    rule: None for `RacePath`, the watermark of full strength. CannotDecode for a rule that looks ahead.
    """
    if not key:
        raise CannotDecode("the key of the watermark must not be empty. Pass some text.")
    noise = KeyedNoise(key, paths, length)
    return Drafting(RaceTree.chains(paths, length), RacePath() if rule is None else rule, noise=noise)


@dataclass(frozen=True)
class Detected:
    """Evidence of a text for a key. z: z-score of the sum of scores. chance: p-value, without the watermark."""

    tokens: int
    z: float
    chance: float

    def __str__(self) -> str:
        return f"z = {self.z:.1f} after {self.tokens} tokens (chance {self.chance:.1g} without the key)"


def scores(tokens: Sequence[int], key: str, text: int, paths: int, n: int) -> np.ndarray:
    """Return scores (T,) of a text's new tokens: independent Exp(1) without the watermark, larger with it.

    With e = K min over the lists of E, which is Exp(1), the score is -log(1 - exp(-e)). Raises InvalidDrafts for an invalid token.
    """
    wrong = next((place for place, token in enumerate(tokens) if not 0 <= token < n), None)
    if wrong is not None:
        raise InvalidDrafts(
            f"token at position {wrong} must be from 0 to {n - 1}, got {tokens[wrong]}. Pass token ids of the vocabulary."
        )
    least = [
        paths * min(exponentials(key, text, place, number, n)[token] for number in range(paths))
        for place, token in enumerate(tokens)
    ]
    return -np.log(-np.expm1(-np.array(least)))


def sum_chance(total: float, tokens: int) -> float:
    """Return P(the sum of `tokens` scores exceeds the total) without the key: upper tail of a Gamma, P(Poisson(total) < tokens)."""
    if total <= 0:
        return 1.0
    terms = [i * math.log(total) - math.lgamma(i + 1) - total for i in range(tokens)]
    largest = max(terms)
    return math.exp(min(0.0, largest + math.log(sum(math.exp(term - largest) for term in terms))))


def power(found: np.ndarray, tokens: int, false_positive_rate: float) -> float:
    """Return the detection power for texts of this number of tokens, by a normal with mean and variance of these scores."""
    low, high = float(tokens), 4.0 * tokens + 40
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum_chance(middle, tokens) > false_positive_rate else (low, middle)
    spread = float(found.std()) * math.sqrt(tokens)
    return 0.5 * math.erfc((high - tokens * float(found.mean())) / max(spread, 1e-9) / math.sqrt(2))


def detect(tokens: Sequence[int], key: str, text: int, paths: int, n: int) -> Detected:
    """Return the evidence of a text's new tokens for a key. text: its row number. Exact: a sum of T such scores is Gamma(T)."""
    found = scores(tokens, key, text, paths, n)
    total, number = float(found.sum()), len(found)
    if not number:
        return Detected(0, 0.0, 1.0)
    return Detected(number, (total - number) / math.sqrt(number), sum_chance(total, number))
