"""Hu et al.: the greedy rule for k - 1 top tokens and one draw."""

import ot_draft as ot

from ..defendants import OneToken
from ..record import Form, Work

WORK = Work(
    name="hu", title="Towards optimal multi-draft speculative decoding", paper="Hu et al. 2502.18779, section 5", read="paper's description",
    claim="lossless; greedy drafting reaches its own optimum", cost="linear in the vocabulary",
    forms=(Form("greedy", OneToken(ot.rules.Greedy()), "exact checks; `prove top_tokens`"),),
)  # fmt: skip
