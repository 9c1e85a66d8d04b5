"""Models for path rules: Markov models with rational tables for exact work, simulated ones for large vocabularies.

`Nodes` gives a model's distributions to path rules in plain form, `Rows` to drafting in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from itertools import product
from typing import Any, Protocol, TypeVar

import numpy as np

from .. import arrays as xp
from ..arrays import Array
from ..errors import InvalidArgument, InvalidDistribution
from ..problem import as_array, check_alike, check_values

__all__ = ["Model", "Nodes", "Path", "Rows", "SimulatedModel"]

Path = tuple[int, ...]
Remembered = TypeVar("Remembered")


class Model(Protocol):
    """A target and a draft model over one vocabulary. A prefix is the tuple of tokens before, () at the root."""

    def target(self, prefix: Path) -> Array:
        """Distribution p (n,) of the target's next token."""

    def draft(self, prefix: Path) -> Array:
        """Distribution q (n,) of the draft's next token."""


@dataclass(frozen=True)
class MarkovModel:
    """Next-token distributions that depend on the last `order` tokens.

    Parameters
    ----------
    targets, drafts : mapping of tuple to array of shape (n,)
        Distributions after every context, a tuple of at most `order` tokens; shorter ones are prefixes of a sequence.
    order : int
        Number of tokens that the distributions depend on.

    Examples
    --------
    >>> import numpy as np
    >>> import ot_draft as otd
    >>> model = otd.trees.MarkovModel({(): np.array([0.5, 0.5])}, {(): np.array([0.75, 0.25])}, 0)
    >>> model.draft((1, 0)).tolist()
    [0.75, 0.25]
    """

    targets: Mapping[Path, Array]
    drafts: Mapping[Path, Array]
    order: int

    def target(self, prefix: Path) -> Array:
        return self.targets[self._context(prefix)]

    def draft(self, prefix: Path) -> Array:
        return self.drafts[self._context(prefix)]

    def in_floats(self) -> MarkovModel:
        """Return the model in float64."""
        targets = {context: row.astype(np.float64) for context, row in self.targets.items()}
        drafts = {context: row.astype(np.float64) for context, row in self.drafts.items()}
        return MarkovModel(targets, drafts, self.order)

    @classmethod
    def random(cls, generator: np.random.Generator, n: int, order: int = 1) -> MarkovModel:
        """Return tables of Fractions over n tokens, with zeros, ties, one-hot distributions and rows with p == q."""
        if n < 1 or order < 0:
            raise InvalidDistribution(f"n must be >= 1 and order >= 0, got {n} and {order}. Pass such numbers.")
        contexts = [context for length in range(order + 1) for context in product(range(n), repeat=length)]
        targets = {context: _random_row(generator, n) for context in contexts}
        drafts = {
            context: targets[context] if generator.integers(8) == 0 else _random_row(generator, n)
            for context in contexts
        }
        return cls(targets, drafts, order)

    def _context(self, prefix: Path) -> Path:
        return prefix[max(len(prefix) - self.order, 0) :]


def _random_row(
    generator: np.random.Generator,
    n: int,
    wholes: tuple[int, ...] = (1, 2, 3, 7, 12, 60),
    spreads: tuple[float, ...] = (0.3, 1.0, 10.0),
) -> Array:
    """Masses (n,), multiples of 1 / whole: 1 makes them one-hot, 2 and 3 make zeros and ties.

    spreads: Dirichlet parameters for a few large masses, any masses, and nearly equal ones.
    """
    whole = int(generator.choice(wholes))
    counts = generator.multinomial(whole, generator.dirichlet(np.full(n, generator.choice(spreads))))
    return np.array([Fraction(int(count), whole) for count in counts], dtype=object)


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
                f"n must be at least 1, order at least 0, temperature above 0 and seed an integer in 0 .. 2^64 - 1, got n={self.n},"
                f" order={self.order}, temperature={self.temperature}, seed={self.seed}. Correct these arguments."
            )

    def pair(self, prefix: Path) -> tuple[np.ndarray, np.ndarray]:
        """Return distributions p and q (n,) of the next token, float64."""
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
        """Return the last `order` tokens, on which the distributions depend."""
        return prefix[max(len(prefix) - self.order, 0) :]

    def root(self, number: int) -> Path:
        """Return a prefix to begin at, a different one for every number."""
        return (-1 - number,)

    def acceptance(self, contexts: int = 400) -> tuple[float, float]:
        """Return the mean over contexts of sum_y min(p, q), the acceptance of one draft, and its standard error."""
        found = [np.minimum(*self.pair(self.root(number))).sum() for number in range(contexts)]
        return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(contexts))

    def with_acceptance(self, mean: float, contexts: int = 400, max_noise: float = 64.0) -> SimulatedModel:
        """Return the model at which `acceptance` is the given mean, by bisection to 1e-3 or better.

        The noise is chosen. Where even a draft without noise accepts less than the mean, the flatness is chosen, too, between its value
        and 1, at which the draft is the target. max_noise: noise at which the draft is nearly independent of the target.
        """

        def acceptance(model: SimulatedModel) -> float:
            return model.acceptance(contexts)[0]

        without_noise, least = replace(self, noise=0.0), acceptance(replace(self, noise=max_noise))
        if not least <= mean < 1:
            raise InvalidDistribution(f"mean acceptance must be from {least:.3f} to below 1, got {mean}. Change it.")
        below, above, change = max_noise, 0.0, lambda noise: replace(self, noise=noise)
        if mean > acceptance(without_noise):
            below, above, change = self.flatness, 1.0, lambda flatness: replace(without_noise, flatness=flatness)
        for _ in range(16):
            middle = (below + above) / 2
            below, above = (below, middle) if acceptance(change(middle)) > mean else (middle, above)
        return change((below + above) / 2)


def _softmax(logits: np.ndarray) -> np.ndarray:
    masses = np.exp(logits - logits.max()).astype(np.float64)
    return np.asarray(masses / masses.sum())


class Nodes:
    """A model's distributions at the nodes of its tree of prefixes, validated once and cached.

    Path rules also cache results per node here, because enumeration visits each node many times.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._targets: dict[Path, Array] = {}
        self._drafts: dict[Path, Array] = {}
        self._kept: dict[int, tuple[object, dict[Hashable, Any]]] = {}
        self.n = len(self.target(()))
        self.one = xp.number(1, self.target(()))  # in the number type of the model

    @staticmethod
    def of(model: Model) -> Nodes:
        """Return the model as Nodes."""
        if not (hasattr(model, "target") and hasattr(model, "draft")):
            raise InvalidArgument(
                f"model must have target(prefix) and draft(prefix), got {model!r}. Pass a model such as otd.trees.MarkovModel."
            )
        return model if isinstance(model, Nodes) else Nodes(model)

    def target(self, prefix: Path) -> Array:
        if prefix not in self._targets:
            self._targets[prefix] = self._validated(prefix, "target", self.model.target(prefix))
        return self._targets[prefix]

    def draft(self, prefix: Path) -> Array:
        if prefix not in self._drafts:
            p = self.target(prefix)
            self._drafts[prefix] = self._validated(prefix, "draft", self.model.draft(prefix), p)
        return self._drafts[prefix]

    def once(self, owner: object, key: Hashable, make: Callable[[], Remembered]) -> Remembered:
        """Return make(), computed once per owner and key."""
        _, kept = self._kept.setdefault(
            id(owner), (owner, {})
        )  # a reference to the owner keeps its id from being used again
        if key not in kept:
            kept[key] = make()
        return kept[key]

    def _validated(self, prefix: Path, name: str, given: Any, p: Array | None = None) -> Array:
        """The target's distribution, or the draft's, given the target's p."""
        try:
            if xp.is_torch(given):
                raise InvalidDistribution("must be Fractions or NumPy floats, got a torch tensor. Convert it.")
            checked = as_array(given, "p" if p is None else "q")
            if p is not None:
                check_alike(p, checked)
            check_values(checked, "p" if p is None else "q")
            root: Array = self._targets.get((), checked)
            if checked.shape != (root.shape[-1],) or checked.dtype != root.dtype:
                raise InvalidDistribution(
                    f"must have shape {root.shape} and dtype {root.dtype}, as the target at the root, got shape {checked.shape} and"
                    f" dtype {checked.dtype}. Return one vector of n probabilities per prefix."
                )
        except InvalidDistribution as error:
            raise InvalidDistribution(f"{name} distribution after prefix {prefix}: {error}") from None
        return checked


class Rows:
    """A model's distributions: p and q computed together if the model can, else validated and cached."""

    def __init__(self, model: Any) -> None:
        self.n = int(model.n) if hasattr(model, "pair") else Nodes.of(model).n
        self._nodes = None if hasattr(model, "pair") else Nodes.of(model)
        self._model = model
        self.root = getattr(model, "root", lambda number: ())

    @staticmethod
    def of(model: Any) -> Rows:
        """Return the model as Rows."""
        return model if isinstance(model, Rows) else Rows(model)

    def pair(self, prefix: Path, known: dict[Path, tuple[Any, Any]]) -> tuple[Any, Any]:
        """Return p and q (n,). known: cache of the pairs of a batch of trees, whose paths share prefixes."""
        if self._nodes is not None:
            return self._nodes.target(prefix), self._nodes.draft(prefix)
        if prefix not in known:
            known[prefix] = self._model.pair(prefix)
        return known[prefix]
