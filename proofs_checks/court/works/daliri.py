"""Drafter-invariant speculative decoding: draft and output race with the same exponentials."""

from dataclasses import dataclass

import numpy as np

from ...races import exponential_race
from ...random_cases import Case
from ..defendants import Coupled
from ..record import Form, Work


@dataclass(frozen=True)
class Race:
    """The race's output law and match probability; an error of `exponential_race` may be planted."""

    error: str = ""

    def __call__(self, p, q, k):  # type: ignore[no-untyped-def]
        law = exponential_race.joint(Case(p, q, 1, 0), self.error)
        return [sum(column) for column in zip(*law, strict=True)], sum(law[y][y] for y in range(len(p)))


def match(p, q):  # type: ignore[no-untyped-def]
    """Match probability in floats, (n,), (n,): sum_j 1 / sum_i max(p_i/p_j, q_i/q_j)."""
    both = (p > 0) & (q > 0)
    return sum(1 / np.maximum(p / a, q / b).sum() for a, b in zip(p[both], q[both], strict=True))


PLANTED = tuple((error, Race(error)) for error in (exponential_race.SMALLEST, exponential_race.ONE_RACE))
WORK = Work(
    name="daliri", title="Drafter-invariant coupling", paper="Daliri et al. 2408.07978, Algorithm 1", read="paper's algorithm",
    claim="lossless; the output does not depend on the drafter; match at least (1 - TV)/(1 + TV)", cost="one pass a token, no residual",
    forms=(Form("Gumbel coupling", Coupled(Race(), planted=PLANTED, in_floats=match), "`prove exponential_race`: both marginals, exactly"),),
)  # fmt: skip
