"""SpecHub: two drafts, one of which is the draft model's likeliest token."""

import ot_draft as ot

from ..defendants import OneToken
from ..record import Form, Work

WORK = Work(
    name="spechub", title="SpecHub", paper="Sun et al. 2411.05289, Algorithm 1", read="paper's algorithm",
    claim="lossless; near the optimum of two drafts", cost="linear in the vocabulary",
    forms=(Form("paper", OneToken(ot.rules.SpecHub(), (2,)), "exact checks; the optimum of its own law"),),
)  # fmt: skip
