"""mlx-lm: the target's own sample is compared with the draft."""

import ot_draft as ot

from ..defendants import OneToken
from ..record import Form, Work

WORK = Work(
    name="mlx-lm", title="mlx-lm's speculative_generate_step", paper="", code="ml-explore/mlx-lm mlx_lm/generate.py@d78bf58", read="code",
    claim="same output as without a draft", cost="none beyond the target's sample",
    forms=(Form("code", OneToken(ot.rules.NaiveTarget(), (1,)), "the output is the target's sample; exact checks"),),
    remarks="Lossless, and far below the optimum: it accepts sum p q where sum min(p, q) is possible.",
)  # fmt: skip
