"""Draft laws: the joint law of the k drafts given q.

Mixing laws up is the commonest bug of the field, hence a law is an object, and a rule says which law it is valid under. A law
knows the probability of a draft tuple, how to draw one from given uniforms, the probability that all drafts lie in a token
set, and the family of token sets among which a minimum cut is found (alpha* = 1 + min_H p(H) - Q(all drafts in H)).

Where q has no mass left to draw from, every law draws uniformly from the tokens not drafted yet (Sequoia's rule); when no
token is left, the draft is absent (-1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ..arrays import (
    Array,
    argsort,
    as_number,
    batch_shape,
    broadcast,
    cleared,
    divide,
    full,
    gather,
    inverse_cdf,
    is_exact,
    members,
    namespace,
    one,
    positions,
    prefix_sums,
    ratio,
    settled,
    take,
    top_tokens,
    total,
    where,
    zero,
)
from ..errors import InvalidDrafts
from .top_number import top_by_stand_in


class DraftLaw(ABC):
    """Joint law of k drafts given q. Shapes: q (..., n), drafts (..., k), token sets bool (..., n)."""

    merges: ClassVar[bool] = False  # whether tokens taken for one are drafted by the same law from their summed mass

    @abstractmethod
    def probability(self, q: Array, drafts: Array) -> Array:
        """Probability of each draft tuple, in drawing order: (..., n), (..., k) -> (...)."""

    @abstractmethod
    def draw(self, q: Array, uniforms: Array) -> Array:
        """Drafts made from k independent uniforms in [0, 1): (..., n), (..., k) -> int (..., k)."""

    @abstractmethod
    def inside(self, q: Array, token_set: Array, k: int) -> Array:
        """Probability that all k drafts lie in the set: (..., n), bool (..., n) -> (...)."""

    @abstractmethod
    def order(self, p: Array, q: Array, k: int) -> Array:
        """An order of the tokens among whose prefixes is a token set that attains the minimum cut: int (..., n)."""

    @abstractmethod
    def along(self, q: Array, order: Array, k: int) -> Array:
        """P(all drafts among the first i tokens of an order), for every i: (..., n), int (..., n) -> (..., n + 1)."""

    def check(self, k: int) -> None:
        """Raise InvalidDrafts where the law is not defined for k drafts."""

    def is_defined(self, k: int) -> bool:
        """Whether the law exists for k drafts (SpecHub's: k = 2 only)."""
        try:
            self.check(k)
        except InvalidDrafts:
            return False
        return True

    def count(self, n: int, k: int) -> int:
        """Number of drafts that are really drawn from n tokens; the other k - count are absent (-1)."""
        return k

    @property
    def name(self) -> str:
        """Name in tables."""
        return type(self).__name__


@dataclass(frozen=True)
class IID(DraftLaw):
    """k independent draws from q (SpecTr)."""

    merges = True

    def probability(self, q: Array, drafts: Array) -> Array:
        return gather(q, drafts).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        return inverse_cdf(q, uniforms)

    def inside(self, q: Array, token_set: Array, k: int) -> Array:
        return total(where(token_set, q, zero(q)))[..., 0] ** k

    def order(self, p: Array, q: Array, k: int) -> Array:
        return argsort(ratio(p, q))

    def along(self, q: Array, order: Array, k: int) -> Array:
        return _share(prefix_sums(take(q, order))) ** k


@dataclass(frozen=True)
class WithoutReplacement(DraftLaw):
    """k draws from q without replacement (multi-candidate speculative decoding; Sequoia)."""

    def count(self, n: int, k: int) -> int:
        return min(n, k)

    def probability(self, q: Array, drafts: Array) -> Array:
        probability = full(batch_shape(q, drafts), 1, q)
        for i in range(drafts.shape[-1]):
            token, left = drafts[..., i : i + 1], outside(q, drafts[..., :i])
            here = gather(left, token)[..., 0]
            probability = probability * where(total(left)[..., 0] > 0, here, as_number(token[..., 0] == -1, q))
        return probability

    def draw(self, q: Array, uniforms: Array) -> Array:
        n, k = q.shape[-1], uniforms.shape[-1]
        drafts = broadcast(positions(0, q), (*batch_shape(q, uniforms), 0))
        for i in range(min(n, k)):
            token = inverse_cdf(outside(q, drafts), uniforms[..., i : i + 1])
            drafts = namespace(q).concatenate((drafts, token), -1)
        return _beside(drafts, drafts[..., :0], k)

    def inside(self, q: Array, token_set: Array, k: int) -> Array:
        from .prefix_probability import inside

        return inside(q, token_set, k)

    def order(self, p: Array, q: Array, k: int) -> Array:
        # Tokens with q = 0 come last. Among them the fallback draws uniformly, so the lightest under p come first.
        by_target = argsort(p)
        return take(by_target, argsort(take(ratio(p, q), by_target), stable=True))

    def along(self, q: Array, order: Array, k: int) -> Array:
        from .prefix_probability import prefixes

        return prefixes(take(q, order), k)


@dataclass(frozen=True)
class Hybrid(DraftLaw):
    """The first `top` drafts are the draft model's top tokens, in falling order; the others are i.i.d. outside them.

    top = 0 is i.i.d. drafting; top = -1 stands for k - 1, the greedy drafting of Hu et al. (2025); top = "auto" chooses the
    number for every row from q and k alone (`hybrid.top_by_stand_in`). Equal masses are ranked by token id. With
    k <= top the top k tokens are drafted, and nothing else.
    """

    top: int | str

    def check(self, k: int) -> None:
        whole = isinstance(self.top, int) and not isinstance(self.top, bool) and self.top >= -1
        if not whole and self.top != "auto":
            raise InvalidDrafts(
                f"Hybrid(top={self.top!r}): give the number of top tokens, -1 for greedy drafting, or 'auto'"
            )

    def count(self, n: int, k: int) -> int:
        return k if self.top == "auto" or self._number(k) < n else min(n, k)

    def top_drafts(self, q: Array, k: int) -> Array:
        """The fixed drafts, -1 at the positions that are drawn: (..., n) -> int (..., k)."""
        n = q.shape[-1]
        ranked = top_tokens(q, min(k, n))
        number = top_by_stand_in(q, k) if self.top == "auto" else min(self._number(k), k, n)
        fixed = where(positions(min(k, n), q) < number, ranked, -1)
        return _beside(fixed, fixed[..., :0], k)

    def probability(self, q: Array, drafts: Array) -> Array:
        fixed = self.top_drafts(q, drafts.shape[-1])
        free = outside(q, fixed)
        drawn = where(total(free) > 0, gather(free, drafts), as_number(drafts == -1, q))
        return where(fixed >= 0, as_number(drafts == fixed, q), drawn).prod(-1)

    def draw(self, q: Array, uniforms: Array) -> Array:
        fixed = self.top_drafts(q, uniforms.shape[-1])
        free = outside(q, fixed)
        drawn = where(total(free) > 0, inverse_cdf(free, uniforms), -1)
        return where(fixed >= 0, fixed, drawn)

    def inside(self, q: Array, token_set: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        top = members(fixed, q.shape[-1], q)
        mass = total(where(token_set, outside(q, fixed), zero(q)))
        draws = where(top.all(-1)[..., None], zero(q), total(as_number(fixed < 0, q)))
        return as_number((token_set | ~top).all(-1), q) * (mass**draws)[..., 0]

    def order(self, p: Array, q: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        # A set without all top tokens holds no draft tuple.
        return argsort(where(members(fixed, q.shape[-1], q), -one(q), ratio(p, outside(q, fixed))))

    def along(self, q: Array, order: Array, k: int) -> Array:
        fixed = self.top_drafts(q, k)
        top = members(fixed, q.shape[-1], q)
        draws = where(top.all(-1)[..., None], zero(q), total(as_number(fixed < 0, q)))
        sums = prefix_sums(take(outside(q, fixed), order))
        share = sums / where(sums[..., -1:] == 0, one(q), sums[..., -1:])
        topped = prefix_sums(take(as_number(top, q), order))
        return where(topped < topped[..., -1:], zero(q), share**draws)

    def _number(self, k: int) -> int:
        return max(k - 1, 0) if self.top == -1 else int(self.top)


@dataclass(frozen=True)
class Hub(DraftLaw):
    """SpecHub's joint law of two drafts, with a = argmax q: (i, a) has mass q(i), (a, i) mass q(a) q(i) / (1 - q(a)).

    In words: draw from q; whatever is drawn, the pair also holds a; after a comes a draw from q outside a (Sun et al. 2024).
    """

    def check(self, k: int) -> None:
        if k != 2:
            raise InvalidDrafts(f"the hub law has k = 2 drafts, not {k}: take Hybrid(top={k} - 1) for more")

    def count(self, n: int, k: int) -> int:
        return min(n, k)

    def probability(self, q: Array, drafts: Array) -> Array:
        hub, rest = self._parts(q)
        first, second = drafts[..., :1], drafts[..., 1:]
        hub_first = (
            as_number((first == hub) & (second == -1), q)
            if q.shape[-1] == 1
            else as_number(first == hub, q) * gather(rest, second)
        )
        hub_second = as_number((second == hub) & (first != hub), q) * gather(q, first)
        return (gather(q, hub) * hub_first + hub_second)[..., 0]

    def draw(self, q: Array, uniforms: Array) -> Array:
        hub, rest = self._parts(q)
        first = inverse_cdf(q, uniforms[..., :1])
        other = inverse_cdf(rest, uniforms[..., 1:]) if q.shape[-1] > 1 else -1 + 0 * first
        return namespace(q).concatenate((first, where(first == hub, other, hub)), -1)

    def inside(self, q: Array, token_set: Array, k: int) -> Array:
        return Hybrid(top=1).inside(q, token_set, k)  # the same pairs, in another order

    def order(self, p: Array, q: Array, k: int) -> Array:
        return Hybrid(top=1).order(p, q, k)

    def along(self, q: Array, order: Array, k: int) -> Array:
        return Hybrid(top=1).along(q, order, k)

    def _parts(self, q: Array) -> tuple[Array, Array]:
        hub = top_tokens(q, 1)
        return hub, outside(q, hub)


def outside(q: Array, drawn: Array) -> Array:
    """Law of the next draw without replacement: q outside the drawn tokens, normalised. (..., n), int (..., i) -> (..., n).

    Absent ones (-1) count for nothing. Uniform outside them where q has no mass left there; all zeros where no token is left.
    """
    left = cleared(q, drawn)
    mass = total(left)
    if settled(mass > 0):
        return left / mass
    fresh = cleared(0 * q + one(q), drawn)
    return divide(left, mass, divide(fresh, total(fresh), zero(q)))


def _beside(first: Array, second: Array, k: int) -> Array:
    """Two groups of drafts in one array of k columns, the missing ones absent."""
    batch = batch_shape(first, second)
    parts = [broadcast(part, (*batch, part.shape[-1])) for part in (first, second)]
    missing = k - first.shape[-1] - second.shape[-1]
    # Not from a list: a CUDA graph takes nothing from the host.
    absent = broadcast(0 * positions(1, first) - 1, (*batch, 1))
    return namespace(first).concatenate((*parts, *[absent] * missing), -1)


def _share(sums: Array) -> Array:
    """Prefix sums as shares of the whole: the last is exactly 1, also after rounding."""
    return sums if is_exact(sums) else sums / sums[..., -1:]
