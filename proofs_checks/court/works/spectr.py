"""SpecTr: K-SEQ at a node, and the walk along K sequences."""

import ot_draft as ot
from ot_draft import paths

from ..defendants import AlongPath, OneToken
from ..record import Form, Work

WORK = Work(
    name="spectr", title="SpecTr: K-SEQ and its walk", paper="Sun et al. 2310.15141, Algorithms 1 and 2", read="paper's algorithms",
    claim="lossless; at least 1 - 1/e of the optimum", cost="k tests and a few passes for the division factor",
    forms=(
        Form("K-SEQ", OneToken(ot.rules.KSeq()), "SpecTr, Theorem 1; in Coq, with the sharp share of the optimum"),
        Form("walk", AlongPath(paths.TokenWise(ot.rules.KSeq()), (1, 2)), "SpecTr, Theorem 2; exact checks"),
    ),
)  # fmt: skip
