"""Global Resolution: the optimum for i.i.d. drafts, exactly."""

import ot_draft as ot

from ..defendants import OneToken
from ..record import Form, Work

WORK = Work(
    name="global-resolution", title="Global Resolution", paper="2511.15898", read="from the abstract only",
    claim="lossless; solves i.i.d. optimal transport", cost="71 ms a token at (10, 5) by its authors; the rule here O(n log n + k log k)",
    forms=(Form("the optimum, by this library's construction", OneToken(ot.rules.Optimal()), "in Coq for every n and k"),),
)  # fmt: skip
