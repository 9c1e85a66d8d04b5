"""RheoSampling, as a fork has it: children are the draft's best token and one that is drawn from the rest.

The child drawn from q without its best token is tested with that distribution; after a rejection one draw of norm((p - q~)+) is compared
with the other children, which were chosen. For the building of the tree the drawn child counts with min(q of the best, what is left),
whichever token it is. Evaluated where both children are there; whether equal masses keep the pruning blind to the token was not.
"""

from dataclasses import dataclass
from typing import Any

import ot_draft as otd
from ot_draft import arrays as xp

from ..record import Form, OneToken, Work
from ..rules import among, left
from .several_drafts import WALK, walk


@dataclass(frozen=True)
class Rheo(otd.SelectionRule):
    """The second draft is tested with q without the first; then a draw of what is left is compared with the first."""

    law: otd.DraftLaw = otd.Hybrid(top=1)

    def __call__(self, p: Any, q: Any, drafts: Any) -> otd.Selection:
        best, other = drafts[..., :1], drafts[..., 1:]
        tail = xp.normalise(xp.where(among(best, q), 0 * q, q), otherwise=0 * q)
        there = other >= 0
        first = xp.where(there, xp.minimum(xp.divide(xp.gather(p, other), xp.gather(tail, other), 0), 1), 0)
        rest = xp.where(there, left(p, tail), p)
        accept = xp.concat(((1 - first) * xp.gather(rest, best), first), axis=-1)
        return otd.Selection(accept, xp.normalise(xp.where(among(best, p), 0 * rest, rest), otherwise=rest))


RULE = Rheo()
WORK = Work(
    "rheo", "RheoSampling", "2609.21827", "abstract; a fork's construir_dfs_kernel, aceptar_kernel", "lossless",
    "one pass per node",
    (Form("a fork's test: node", OneToken(RULE, (2,)), "exact checks"),
     Form("a fork's test: tree", walk(RULE), WALK)),
    undecided=(("the authors' own", "their code is not available"),),
)  # fmt: skip
