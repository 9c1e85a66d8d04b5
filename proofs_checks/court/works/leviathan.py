"""Speculative sampling: the maximal coupling of one draft with the target."""

import ot_draft as ot
from ot_draft import paths

from ..defendants import AlongPath, OneToken
from ..record import Form, Work

RULE = ot.rules.SpeculativeSampling()
WORK = Work(
    name="leviathan", title="Speculative sampling",
    paper="Leviathan et al. 2211.17192, Algorithm 1; Chen et al. 2302.01318, Algorithm 2", read="papers' algorithms",
    claim="lossless", cost="one pass over the vocabulary a token",
    forms=(
        Form("token", OneToken(RULE, (1,)), "Leviathan et al., Theorem 1; in Coq for every n"),
        Form("path", AlongPath(paths.TokenWise(RULE)), "the token's rule at every node; in Coq for every length"),
    ),
)  # fmt: skip
