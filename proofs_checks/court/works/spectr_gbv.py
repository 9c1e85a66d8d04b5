"""SpecTr-GBV: what it calls the largest acceptance lies below what a lossless rule reaches."""

import ot_draft as ot

from ..defendants import OneToken
from ..record import Form, Work

WORK = Work(
    name="spectr-gbv", title="SpecTr-GBV", paper="Lin et al. 2604.25925, reconstructed for paths of one token", read="claim and proof step",
    claim="no lossless rule keeps more than sum p (1 - (1 - min(1, q/p))^K)", cost="not judged",
    forms=(Form("a lossless rule that keeps more", OneToken(ot.rules.Optimal(), (2,)), "`prove spectr_gbv`: 15/16 where 7/8 is claimed; Coq"),),
    remarks="The claim is refuted, not the rule: for p = (1/2, 1/2), q = (3/4, 1/4), K = 2 optimal selection keeps 15/16, claimed 7/8.",
)  # fmt: skip
