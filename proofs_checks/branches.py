"""The independent enumeration: a program of random choices, run along all its branches in Fractions.

It shares no code with the library: no array, no rule, no draft law, no evaluation. A program gets a `Chance`, which makes every
random choice. Every branch is run once, and its probability is the product of those of its choices. A rule as a program gets the
two models as functions of the prefix too, and the number of drafts, and returns the emitted tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import Any

Law = dict[tuple[int, ...], Fraction]
Masses = Sequence[Fraction]
Model = Callable[..., Masses]
Program = Callable[..., Sequence[int]]
Branch = tuple[tuple[int, ...], list[Fraction]]
ZERO, ONE = Fraction(0), Fraction(1)


class Chance:
    """The random choices of one branch: the first ones are prescribed, all later ones use their first option."""

    def __init__(self, prescribed: list[int]) -> None:
        self.prescribed = prescribed
        self.taken: list[int] = []
        self.open: list[list[int]] = []
        self.factors: list[Fraction] = []

    @property
    def probability(self) -> Fraction:
        return prod(self.factors, start=ONE)

    def draw(self, masses: Masses) -> int:
        """Sample a token from the masses, which sum to 1."""
        options = [token for token, mass in enumerate(masses) if mass]
        place = len(self.taken)
        token = self.prescribed[place] if place < len(self.prescribed) else options[0]
        self.taken.append(token)
        self.open.append([other for other in options if other > token])
        self.factors.append(masses[token])
        return token

    def flip(self, probability: Any) -> bool:
        """Return True with this probability, clipped to [0, 1]."""
        heads = min(ONE, max(ZERO, Fraction(probability)))
        return self.draw((1 - heads, heads)) == 1


def ways(program: Callable[[Chance], Any]) -> Iterator[tuple[Any, list[Fraction]]]:
    """Yield every branch of program(chance): its result, and the factors of its probability."""
    waiting: list[list[int]] = [[]]
    while waiting:
        chance = Chance(waiting.pop())
        found = program(chance)
        for place in range(len(chance.prescribed), len(chance.taken)):
            waiting += [[*chance.taken[:place], other] for other in chance.open[place]]
        yield found, chance.factors


def law_of(program: Callable[[Chance], Any]) -> dict[Any, Fraction]:
    """Return the distribution of the results of program(chance), in increasing order."""
    law: dict[Any, Fraction] = {}
    for found, factors in ways(program):
        law[found] = law.get(found, ZERO) + prod(factors, start=ONE)
    return dict(sorted(law.items()))


def branches(program: Program, p: Model, q: Model, k: int) -> Iterator[Branch]:
    """Yield every branch of program(chance, p, q, k): the tokens it emits, and the factors of its probability."""
    return ways(lambda chance: tuple(program(chance, p, q, k)))


def emitted(program: Program, p: Model, q: Model, k: int, length: int) -> Law:
    """Return the distribution of the first `length` tokens: those that the program emits, completed by the target."""
    return extended(law_of(lambda chance: tuple(program(chance, p, q, k))[:length]), p, length)


def extended(begun: Law, p: Model, length: int) -> Law:
    """Return the distribution of `length` tokens that follow this distribution and are completed by the target."""
    law: Law = {}
    for tokens, chance in begun.items():
        for text, mass in continued(tokens, p, length).items():
            law[text] = law.get(text, ZERO) + chance * mass
    return {text: mass for text, mass in law.items() if mass}


def continued(tokens: tuple[int, ...], p: Model, length: int) -> Law:
    """Return the target's distribution of `length` tokens that begin with these."""
    if len(tokens) == length:
        return {tokens: ONE}
    law: Law = {}
    for token, mass in enumerate(p(tokens)):
        if mass:
            for text, rest in continued((*tokens, token), p, length).items():
                law[text] = mass * rest
    return law
