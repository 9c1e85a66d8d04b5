"""Recursive rejection as an algorithm on masses of any number type, apart from the library's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import lt
from typing import Any

from ..rational_functions import Less

STALE, TARGET = "target not updated after a rejection", "target instead of the residual"


@dataclass(frozen=True)
class WrittenOut:
    """The algorithm itself: what it emits, draft by draft, for masses of any number type."""

    tests_without: bool = False
    drawn_without: bool = False
    error: str = ""

    def __call__(self, p: Any, q: Any, k: int, less: Less = lt) -> list[Any] | None:
        """Return the output distribution; None where the comparisons contradict each other (p above q at every token)."""
        least = len(p) if self.tests_without or self.drawn_without else k
        return self._from(p, list(p), list(q), list(q), min(k, least), less)

    def _from(self, p: Any, target: list[Any], tested: list[Any], drawn: list[Any], k: int, less: Less) -> Any:
        if k == 0:
            return list(p) if self.error == TARGET else target
        # An expression that is 0 needs no separate case.
        over = [not b or (bool(a) and less(b, a)) for a, b in zip(target, tested, strict=True)]
        if all(over):
            return None if less is not lt else target
        left = [a - b if above else 0 * a for a, b, above in zip(target, tested, over, strict=True)]
        rest = _total(left)
        after = [mass / rest for mass in left] if rest and self.error != STALE else target
        output, later = [0 * mass for mass in target], {}
        for x, mass in enumerate(drawn):
            take = (1 if over[x] else target[x] / tested[x]) if tested[x] else 0
            output[x] += mass * take
            refused = mass * (1 - take)
            if not refused:
                continue
            key = x if self.tests_without or self.drawn_without else 0
            if key not in later:
                more = k > 1
                next_tested = _without(tested, x) if self.tests_without and more else tested
                next_drawn = _without(drawn, x) if self.drawn_without and more else drawn
                later[key] = self._from(p, after, next_tested, next_drawn, k - 1, less)
            if later[key] is None:
                return None
            output = [a + refused * b for a, b in zip(output, later[key], strict=True)]
        return output


def _total(masses: Sequence[Any]) -> Any:
    return sum(masses[1:], masses[0])


def _without(law: list[Any], token: int) -> list[Any]:
    """Return the distribution of the next draw without the token; uniform on the other tokens if these have mass 0."""
    rest = 1 - law[token]
    if rest:
        return [0 * mass if y == token else mass / rest for y, mass in enumerate(law)]
    raise ZeroDivisionError("a draft law on one token has no second draw: give q > 0")
