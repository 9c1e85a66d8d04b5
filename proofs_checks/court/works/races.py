"""Draft and output that share exponentials: drafter-invariant coupling, and its list form GLS."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...races import exponential_race, list_race
from ...random_cases import Case
from ..record import Coupled, Form, Work


def coupling(p: Any, q: Any, k: int, error: str = "") -> Any:
    """The race's output law and match probability."""
    law = exponential_race.joint(Case(p, q, 1, 0), error)
    return [sum(column) for column in zip(*law, strict=True)], sum(law[y][y] for y in range(len(p)))


def lists(p: Any, q: Any, k: int, swapped: bool = False) -> Any:
    """The same for k lists; swapped: the output races for the draft's law."""
    case = Case(q, p, k, 0) if swapped else Case(p, q, k, 0)
    output = [sum(column) for column in zip(*list_race.joint(case), strict=True)]
    return output, sum(list_race.match(case, y) for y in range(len(p)))


def match(p: Any, q: Any) -> Any:
    """Match probability in floats: sum_j 1 / sum_i max(p_i/p_j, q_i/q_j)."""
    both = (p > 0) & (q > 0)
    return sum(1 / np.maximum(p / a, q / b).sum() for a, b in zip(p[both], q[both], strict=True))


PLANTED: tuple[tuple[str, Callable[..., Any]], ...] = tuple(
    (error, partial(coupling, error=error)) for error in (exponential_race.SMALLEST, exponential_race.ONE_RACE)
)
WORKS = (
    Work("daliri", "Drafter-invariant coupling", "Daliri et al. 2408.07978", "the statement in `prove exponential_race`",
         "lossless, whatever the drafter; match at least (1 - TV)/(1 + TV)", "one pass a token, no residual",
         (Form("Gumbel coupling: one position", Coupled(coupling, (1,), PLANTED, match),
               "`prove exponential_race`: both marginals, exactly"),)),
    Work("gls", "Gumbel-max list sampling (GLS)", "Rowan et al. 2506.05632, Proposition 1, Theorem 1", "the statement in `prove list_race`",
         "lossless; drafter-invariant; a list matching lemma", "k exponentials a token",
         (Form("list-level race: one position", Coupled(lists, (1, 2), (("the output races for q", partial(lists, swapped=True)),)),
               "`prove list_race`: the joint law, exactly"),)),
)  # fmt: skip
