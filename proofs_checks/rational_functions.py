"""Identities between rational functions of the unknown masses, with every comparison of an algorithm split into its two cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from operator import lt
from typing import Any

from sympy import QQ
from sympy.polys.fields import field

from .random_cases import draw
from .statement import Proof

Less = Callable[[Any, Any], bool]
TRIED = 200  # number of random problems for the search of a numerical counterexample


class Split:
    """Decides `x < y` by a list of answers, False where the list has ended, so that all lists can be gone through."""

    def __init__(self, answers: Sequence[bool]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, x: Any, y: Any) -> bool:
        if self.asked == len(self.answers):
            self.answers.append(False)
        self.asked += 1
        return self.answers[self.asked - 1]


def every_case(run: Callable[[Less], Any]) -> Iterator[Any]:
    """Yield run(less) for every possible outcome of its comparisons."""
    answers: list[bool] = []
    while True:
        split = Split(answers)
        yield run(split)
        answers = split.answers[: split.asked]
        while answers and answers[-1]:
            answers.pop()
        if not answers:
            return
        answers[-1] = True


def unknowns(laws: Iterable[str], n: int, single: Iterable[str] = ()) -> list[Any]:
    """Return the distributions on n tokens with unknown masses, then single unknowns, as rational functions.

    The last mass of a distribution is one minus the others: what comes out equal is equal for all distributions wherever it is defined.
    """
    laws, single = tuple(laws), tuple(single)
    unknown = iter(field([f"{name}{i}" for name in laws for i in range(n - 1)] + list(single), QQ)[1:])
    unknown_laws: list[Any] = []
    for _ in laws:
        masses = [next(unknown) for _ in range(n - 1)]
        unknown_laws.append([*masses, 1 - sum(masses)])
    return [*unknown_laws, *unknown]


def keeps_the_target(
    output: Callable[..., Sequence[Any] | None],
    sizes: Iterable[tuple[int, int]],
    summary: str,
    scale: Sequence[str] = (),
) -> Proof:
    """Return whether output(p, q, k, less) == p for all p, q of each size (n, k); None from it means a case that cannot occur.

    scale names a further unknown, given as the last argument. Where the output is not p as a rational function, a problem in
    numbers shows it, with 1/k for that unknown.
    """
    count = 0
    for n, k in sizes:
        p, q, *more = unknowns("pq", n, scale)
        for law in every_case(lambda less, problem=(p, q, k), more=more: output(*problem, less, *more)):  # type: ignore[misc]
            if law is None:
                continue
            if any(x != y for x, y in zip(law, p, strict=True)):
                counterexample = _in_numbers(output, len(scale))
                return Proof(
                    summary, count, counterexample, "" if counterexample else f"n = {n}, k = {k}: no numbers found"
                )
            count += 1
    return Proof(f"{summary} ({count:,} cases of the comparisons)", count)


def _in_numbers(output: Callable[..., Sequence[Any] | None], scales: int) -> str:
    for case in sorted(map(draw, range(TRIED)), key=lambda case: case.size):
        if min(case.q) == 0:
            continue
        law = output(case.p, case.q, case.k, lt, *[Fraction(1, case.k)] * scales)
        if law is not None and tuple(law) != case.p:
            return f"{case}: output ({', '.join(map(str, law))})"
    return ""


def drafts_of(n: int, k: int) -> Iterator[tuple[int, ...]]:
    """Yield all draft tuples."""
    return product(range(n), repeat=k)
