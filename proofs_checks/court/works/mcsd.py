"""Multi-candidate speculative decoding, with and without replacement."""

import ot_draft as ot

from ..defendants import OneToken
from ..record import Form, Work

WORK = Work(
    name="mcsd", title="Multi-candidate speculative decoding", paper="Yang et al. 2401.06706, Algorithms 1 and 2",
    code="NJUNLP/MCSD MCSD/inference/strategies.py@8aadd65, _MCSSwReplacement, _MCSSwoReplacement", read="paper's algorithms, code",
    claim="lossless", cost="one pass over the vocabulary a draft",
    forms=(
        Form("with replacement", OneToken(ot.rules.RecursiveRejection()), "in Coq for every n and k; the code is the same rule"),
        Form("without replacement", OneToken(ot.rules.RecursiveRejectionWithoutReplacement()),
             "in Coq for every n and k; the code is the same rule while q has mass left"),
    ),
)  # fmt: skip
