"""The independent enumeration: a rule as a program of draws and coin flips, run along all its branches in Fractions.

It shares nothing with the library: no array, no rule, no draft law, no evaluation. A program gets a `Chance`, which it asks for every
random choice, and the two models as functions of the prefix. What it returns are the emitted tokens. Every branch is run once, and its
probability is the product of what was asked for on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import isqrt, prod
from typing import Any

Law = dict[tuple[int, ...], Fraction]
Masses = Sequence[Fraction]
Model = Callable[..., Masses]
Program = Callable[..., Sequence[int]]
Branch = tuple[tuple[int, ...], list[Fraction]]
ZERO, ONE = Fraction(0), Fraction(1)


class Chance:
    """The random choices of one branch: those at its beginning are prescribed, the first option is taken in all later ones."""

    def __init__(self, prescribed: list[int]) -> None:
        self.prescribed = prescribed
        self.taken: list[int] = []
        self.open: list[list[int]] = []
        self.factors: list[Fraction] = []

    @property
    def probability(self) -> Fraction:
        return prod(self.factors, start=ONE)

    def draw(self, masses: Masses) -> int:
        """A token that follows the masses, which sum to 1."""
        options = [token for token, mass in enumerate(masses) if mass]
        place = len(self.taken)
        token = self.prescribed[place] if place < len(self.prescribed) else options[0]
        self.taken.append(token)
        self.open.append([other for other in options if other > token])
        self.factors.append(masses[token])
        return token

    def flip(self, probability: Any) -> bool:
        """True with this probability, cut to [0, 1]."""
        heads = min(ONE, max(ZERO, Fraction(probability)))
        return self.draw((1 - heads, heads)) == 1


def branches(program: Program, p: Model, q: Model, k: int) -> Iterator[Branch]:
    """Every branch of program(chance, p, q, k): the tokens it emits, and the factors of its probability."""
    waiting: list[list[int]] = [[]]
    while waiting:
        chance = Chance(waiting.pop())
        tokens = tuple(program(chance, p, q, k))
        for place in range(len(chance.prescribed), len(chance.taken)):
            waiting += [[*chance.taken[:place], other] for other in chance.open[place]]
        yield tokens, chance.factors


def emitted(program: Program, p: Model, q: Model, k: int, length: int) -> Law:
    """Law of the first `length` tokens: those that the program emits, then the target's own."""
    begun: Law = {}
    for tokens, factors in branches(program, p, q, k):
        begun[tokens[:length]] = begun.get(tokens[:length], ZERO) + prod(factors, start=ONE)
    law: Law = {}
    for tokens, chance in begun.items():
        for text, mass in continued(tokens, p, length).items():
            law[text] = law.get(text, ZERO) + chance * mass
    return {text: mass for text, mass in law.items() if mass}


def continued(tokens: tuple[int, ...], p: Model, length: int) -> Law:
    """The target's law of `length` tokens that begin with these."""
    if len(tokens) == length:
        return {tokens: ONE}
    law: Law = {}
    for token, mass in enumerate(p(tokens)):
        if mass:
            for text, rest in continued((*tokens, token), p, length).items():
                law[text] = mass * rest
    return law


# What programs have in common.


def norm(masses: Sequence[Any], otherwise: Masses = ()) -> tuple[Fraction, ...]:
    """The masses, negative ones as 0, divided by their sum; `otherwise` where that is 0."""
    cut = [max(ZERO, Fraction(mass)) for mass in masses]
    whole = sum(cut, ZERO)
    return tuple(mass / whole for mass in cut) if whole else tuple(otherwise)


def minus(a: Masses, b: Masses) -> list[Fraction]:
    """a - b, token by token."""
    return [x - y for x, y in zip(a, b, strict=True)]


def ratio(a: Fraction, b: Fraction) -> Fraction:
    """a / b, and 0 where b is 0."""
    return a / b if b else ZERO


def without(masses: Masses, tokens: Sequence[int]) -> tuple[Fraction, ...]:
    """The masses without these tokens, normalised; uniform on the others where nothing is left."""
    others = [ZERO if y in tokens else ONE for y in range(len(masses))]
    return norm([ZERO if y in tokens else mass for y, mass in enumerate(masses)], norm(others))


def likeliest(masses: Masses, count: int) -> list[int]:
    """The likeliest tokens in falling order; of equal ones the smaller."""
    return sorted(range(len(masses)), key=lambda y: (-masses[y], y))[:count]


def squared(masses: Masses) -> tuple[Fraction, ...]:
    """The law at half its temperature."""
    return norm([mass * mass for mass in masses], masses)


def rooted(masses: Masses) -> tuple[Fraction, ...]:
    """The law whose `squared` this is; exact, as the ratios of such masses are squares."""
    most = max(masses)
    roots = []
    for mass in masses:
        share = mass / most
        root = Fraction(isqrt(share.numerator), isqrt(share.denominator))
        if root * root != share:
            raise ValueError(f"{share} is no square: give a law that `squared` has made")
        roots.append(root)
    return norm(roots)


def top_two(masses: Masses) -> tuple[Fraction, ...]:
    """The law on its two likeliest tokens, normalised."""
    kept = likeliest(masses, 2)
    return norm([mass if y in kept else ZERO for y, mass in enumerate(masses)])


def single(accept: Callable[..., Any], residual: Model, drafted: Callable[[Masses], Masses] = tuple) -> Program:
    """The program of a rule for one token: draft x from drafted(q), take it with accept(p, q, x), else draw from residual(p, q, x)."""

    def program(chance: Chance, p: Model, q: Model, k: int) -> tuple[int]:
        target, draft = p(), q()
        x = chance.draw(drafted(draft))
        return (x,) if chance.flip(accept(target, draft, x)) else (chance.draw(residual(target, draft, x)),)

    return program


def recursive(chosen: bool, renormalised: bool) -> Program:
    """The program of recursive rejection at one node.

    Children are q's top tokens, or drawn without replacement; tested with q without the refused ones, or with q.
    """

    def program(chance: Chance, p: Model, q: Model, k: int) -> tuple[int]:
        target, taken = p(), list[int]()
        for place in range(min(k, len(target))):
            left = without(q(), taken)
            x = likeliest(q(), k)[place] if chosen else chance.draw(left)
            law = left if renormalised else q()
            if chance.flip(ratio(target[x], law[x])):
                return (x,)
            target = norm(minus(target, law), target)
            taken.append(x)
        return (chance.draw(target),)

    return program


def usual_test(p: Masses, q: Masses, x: int) -> Fraction:
    """p/q, which `flip` cuts at 1."""
    return ratio(p[x], q[x])


def usual_residual(p: Masses, q: Masses, x: int) -> Masses:
    """norm((p - q)+)."""
    return norm(minus(p, q), p)


def mode(p: Masses) -> Masses:
    """All mass on the likeliest token."""
    (best,) = likeliest(p, 1)
    return [ONE if y == best else ZERO for y in range(len(p))]
