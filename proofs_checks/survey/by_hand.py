"""Parts of rules as programs; `proofs_checks.branches` runs them. Nothing here is of the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from ..branches import ONE, ZERO, Chance, Masses, Model, Program


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


def most_probable(masses: Masses, count: int) -> list[int]:
    """Return the most probable tokens in falling order; of equal ones the smaller."""
    return sorted(range(len(masses)), key=lambda y: (-masses[y], y))[:count]


def squared(masses: Masses) -> tuple[Fraction, ...]:
    """The distribution at half its temperature."""
    return norm([mass * mass for mass in masses], masses)


def rooted(masses: Masses) -> tuple[Fraction, ...]:
    """The distribution whose `squared` this is; exact, as the ratios of such masses are squares."""
    most = max(masses)
    roots = []
    for mass in masses:
        share = mass / most
        root = Fraction(isqrt(share.numerator), isqrt(share.denominator))
        if root * root != share:
            raise ValueError(f"{share} is not a square: give a distribution that `squared` has made")
        roots.append(root)
    return norm(roots)


def top_two(masses: Masses) -> tuple[Fraction, ...]:
    """The distribution on its two most probable tokens, normalised."""
    kept = most_probable(masses, 2)
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

    Children are q's top tokens, or drawn without replacement; tested with q without the rejected ones, or with q.
    """

    def program(chance: Chance, p: Model, q: Model, k: int) -> tuple[int]:
        target, taken = p(), list[int]()
        for place in range(min(k, len(target))):
            left = without(q(), taken)
            x = most_probable(q(), k)[place] if chosen else chance.draw(left)
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
    """All mass on the most probable token."""
    (best,) = most_probable(p, 1)
    return [ONE if y == best else ZERO for y in range(len(p))]
