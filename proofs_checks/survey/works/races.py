"""Draft and output that share exponentials: drafter-invariant coupling, and its list form GLS.

DRAFTER-INVARIANT COUPLING is of one draft token per position; no tree or several paths. GLS, Algorithm 2, has K paths with exponentials
of their own per position: the output is the race of the paths that hold the text so far, and the walk ends where none holds it. It is
evaluated with one pair of distributions for all contexts.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from ...races import exponential_race, list_race
from ...random_cases import Case
from ..record import Coupled, Form, Work


def coupling(p: Any, q: Any, k: int, error: str = "") -> Any:
    """The race's output distribution and match probability."""
    law = exponential_race.joint(Case(p, q, 1, 0), error)
    return [sum(column) for column in zip(*law, strict=True)], sum(law[y][y] for y in range(len(p)))


def lists(p: Any, q: Any, k: int, swapped: bool = False) -> Any:
    """The same for k lists; swapped: the output races for the draft's distribution."""
    case = Case(q, p, k, 0) if swapped else Case(p, q, k, 0)
    output = [sum(column) for column in zip(*list_race.joint(case), strict=True)]
    return output, sum(list_race.match(case, y) for y in range(len(p)))


@cache
def alive(p: Any, q: Any, k: int) -> tuple[list[Any], ...]:
    """Mass of each output that none, one, .. of k <= 2 lists holds."""
    case, tokens = Case(p, q, k, 0), range(len(p))
    output = [sum(column) for column in zip(*list_race.joint(case), strict=True)]
    some, first = [list_race.match(case, y) for y in tokens], [list_race.joint(case)[y][y] for y in tokens]
    none = [output[y] - some[y] for y in tokens]
    if k == 1:
        return none, some
    return none, [2 * (some[y] - first[y]) for y in tokens], [2 * first[y] - some[y] for y in tokens]


def walk(one_level: Callable[..., Any], p: Any, q: Any, k: int, error: str = "") -> Any:
    """Distribution of three tokens, accepted drafts, of k paths of two at one pair of distributions; one_level(p, q, m): m are left."""
    law: dict[tuple[int, ...], Any] = {}
    accepted = Fraction(0)

    def down(text: tuple[int, ...], chance: Any, left: int) -> None:
        nonlocal accepted
        if len(text) == TOKENS:
            law[text] = law.get(text, 0) + chance
            return
        sides = (q, p) if error == SWAPPED and text else (p, q)
        held = one_level(*sides, left) if left else ([*p],)
        if error == AFRESH and left:
            held = ([sum(held[0]) * mass for mass in p], *held[1:])
        for number, masses in enumerate(held):
            for token, mass in enumerate(masses):
                if mass:
                    accepted += chance * mass if number and len(text) < TOKENS - 1 else 0
                    down((*text, token), chance * mass, number)

    down((), Fraction(1), k)
    return law, accepted


def walked(one_level: Callable[..., Any]) -> Coupled:
    """Two paths of two tokens as a walk."""
    down = partial(walk, one_level)
    return Coupled(
        down, (2,), tuple((error, partial(down, error=error)) for error in (SWAPPED, AFRESH)), baseline="", text=TOKENS
    )


def match(p: Any, q: Any) -> Any:
    """Match probability in floats: sum_j 1 / sum_i max(p_i/p_j, q_i/q_j)."""
    both = (p > 0) & (q > 0)
    return sum(1 / np.maximum(p / a, q / b).sum() for a, b in zip(p[both], q[both], strict=True))


TOKENS = 3  # two levels, and the token that follows
SWAPPED, AFRESH = "below the root the output races for q", "a fresh draw where no path holds the output"
INJECTED: tuple[tuple[str, Callable[..., Any]], ...] = tuple(
    (error, partial(coupling, error=error)) for error in (exponential_race.SMALLEST, exponential_race.ONE_RACE)
)
WORKS = (
    Work("daliri", "Drafter-invariant coupling", "Daliri et al. 2408.07978", "the statement in `prove exponential_race`",
         "lossless, whatever the drafter; match at least (1 - TV)/(1 + TV)", "one pass per token, no residual",
         (Form("Gumbel coupling: one position of one path", Coupled(coupling, (1,), INJECTED, match),
               "`prove exponential_race`: both marginals, exactly"),)),
    Work("gls", "Gumbel-max list sampling (GLS)", "Rowan et al. 2506.05632, Propositions 1 and 3, Theorem 1, Algorithm 2",
         "Algorithm 2; the statement in `prove list_race`",
         "lossless; drafter-invariant; a list matching lemma", "k exponentials per token",
         (Form("list-level race: one position", Coupled(lists, (1, 2), (("the output races for q", partial(lists, swapped=True)),)),
               "`prove list_race`: the joint distribution, exactly"),
          Form("two paths, walk", walked(alive), "`prove list_race` at every position, for the paths that are left; its Proposition 3"))),
)  # fmt: skip
