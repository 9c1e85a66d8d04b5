"""A pair of models with a large vocabulary, made from a seed: for block efficiency, not for exact work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from ...errors import InvalidDistribution
from ..model import Path

HARDEST = 64.0  # noise at which next to nothing of the target is left in the draft


@dataclass(frozen=True)
class SimulatedModel:
    """Target and draft whose distributions after a prefix are computed from the seed and its last `order` tokens.

    Target logits are a_u E(y), with E exponential, so that the sorted masses fall like rank^-a_u (Zipf); draft logits are
    flatness a_u E(y) + s_u Z(y), with Z normal. Both are divided by the temperature. In every context u the exponent
    a_u is log-normal around `sharpness` and the noise s_u around `noise`, with standard deviations `sharpness_spread`
    and `noise_spread` of their logarithms: contexts differ in entropy and in how well the draft does.

    Defaults: like a small real pair but for a better draft. At n = 32,000 the mean of sum_y min(p, q) is 0.56, its
    standard deviation 0.28, and the mean largest mass of p 0.57; SmolLM2-135M and its two-layer draft: 0.39, 0.26, 0.51.
    `with_acceptance` chooses the noise for another mean.
    The generator is Philox, keyed by a hash: any row can be computed alone, and on every machine it is the same.
    """

    n: int = 32_000
    seed: int = 0
    order: int = 2
    temperature: float = 1.0
    sharpness: float = 1.9
    sharpness_spread: float = 0.4
    flatness: float = 0.85
    noise: float = 1.6
    noise_spread: float = 0.5

    def __post_init__(self) -> None:
        if self.n < 1 or self.order < 0 or not self.temperature > 0 or not 0 <= self.seed < 1 << 64:
            raise InvalidDistribution(
                f"n is {self.n}, order {self.order}, temperature {self.temperature}, seed {self.seed}: a simulated model has"
                " n >= 1 tokens, an order >= 0, a temperature > 0 and a seed of 64 bits"
            )

    def pair(self, prefix: Path) -> tuple[np.ndarray, np.ndarray]:
        """Distributions p and q (n,) of the next token, float64."""
        context = np.asarray(self.context(prefix), dtype="<i8").tobytes()
        key = int.from_bytes(blake2b(context, digest_size=16, salt=self.seed.to_bytes(8, "little")).digest(), "little")
        generator = np.random.Generator(np.random.Philox(key=key))
        sharpness, noise = generator.standard_normal(2)
        target = generator.standard_exponential(self.n, dtype=np.float32)
        target *= np.float32(self.sharpness * np.exp(self.sharpness_spread * sharpness) / self.temperature)
        draft = generator.standard_normal(self.n, dtype=np.float32)
        draft *= np.float32(self.noise * np.exp(self.noise_spread * noise) / self.temperature)
        draft += np.float32(self.flatness) * target
        return _softmax(target), _softmax(draft)

    def target(self, prefix: Path) -> np.ndarray:
        """Distribution p (n,) of the target's next token."""
        return self.pair(prefix)[0]

    def draft(self, prefix: Path) -> np.ndarray:
        """Distribution q (n,) of the draft's next token."""
        return self.pair(prefix)[1]

    def context(self, prefix: Path) -> Path:
        """What the distributions depend on: the last `order` tokens."""
        return prefix[max(len(prefix) - self.order, 0) :]

    def root(self, number: int) -> Path:
        """A prefix to begin at, another one for every number."""
        return (-1 - number,)

    def acceptance(self, contexts: int = 400) -> tuple[float, float]:
        """Mean of sum_y min(p, q), the acceptance of one draft, over so many contexts, and its standard error."""
        found = [np.minimum(*self.pair(self.root(number))).sum() for number in range(contexts)]
        return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(contexts))

    def with_acceptance(self, mean: float, contexts: int = 400) -> SimulatedModel:
        """The same model with the noise at which `acceptance` is the given mean, by bisection to 1e-3 and better."""
        low, high = 0.0, HARDEST  # of the noise: acceptance falls in it
        best, least = (replace(self, noise=noise).acceptance(contexts)[0] for noise in (low, high))
        if not least <= mean <= best:
            raise InvalidDistribution(
                f"mean acceptance {mean} is out of reach: this model has {least:.3f} to {best:.3f} (raise flatness for more)"
            )
        for _ in range(16):
            middle = (low + high) / 2
            low, high = (middle, high) if replace(self, noise=middle).acceptance(contexts)[0] > mean else (low, middle)
        return replace(self, noise=(low + high) / 2)


def _softmax(logits: np.ndarray) -> np.ndarray:
    masses = np.exp(logits - logits.max()).astype(np.float64)
    return np.asarray(masses / masses.sum())
