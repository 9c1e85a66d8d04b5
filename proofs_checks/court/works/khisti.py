"""Khisti et al.: importance-weighted choice of one draft, and the canonical two-step form with the best weights (a linear program)."""

import ot_draft as ot

from ..defendants import OneToken
from ..record import Form, Work

WORK = Work(
    name="khisti", title="Importance-weighted sampling, canonical form", paper="Khisti et al. 2410.18234, Theorems 1 and 2",
    read="paper's theorems", claim="lossless; the two-step form reaches the optimum", cost="an integral a token; the optimum a linear program",
    forms=(
        Form("weights p/q", OneToken(ot.rules.ImportanceWeighted()), "the maximal coupling of the chosen draft's law; exact checks"),
        Form("two steps, best choice", OneToken(ot.rules.FromCoupling(), (1, 2)), "exact checks; certified by its cut"),
    ),
)  # fmt: skip
