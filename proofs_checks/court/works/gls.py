"""GLS: a list of drafts races with the output by shared exponentials."""

from dataclasses import dataclass

from ...races import list_race
from ...random_cases import Case
from ..defendants import Coupled
from ..record import Form, Work


@dataclass(frozen=True)
class Race:
    """The race's output law and P(output is drafted). swapped: the output races for the draft's law, which must be found out."""

    swapped: bool = False

    def __call__(self, p, q, k):  # type: ignore[no-untyped-def]
        case = Case(q, p, k, 0) if self.swapped else Case(p, q, k, 0)
        output = [sum(column) for column in zip(*list_race.joint(case), strict=True)]
        return output, sum(list_race.match(case, y) for y in range(len(p)))


PLANTED = (("the output races for q", Race(True)),)
WORK = Work(
    name="gls", title="Gumbel-max list sampling (GLS)", paper="Rowan et al. 2506.05632, Proposition 1, Theorem 1", read="paper's statements",
    claim="lossless; drafter-invariant; a list matching lemma", cost="k exponentials a token",
    forms=(Form("list-level race", Coupled(Race(), (1, 2), PLANTED), "`prove list_race`: the joint law, exactly"),),
)  # fmt: skip
