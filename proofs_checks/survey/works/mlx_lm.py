"""mlx-lm's speculative_generate_step: the output is the target's sample, and the draft is taken if it is that token."""

import ot_draft as otd

from ..record import Form, OneToken, Work

WORK = Work(
    "mlx-lm", "mlx-lm", "", "code", "same output as without a draft", "none beyond the target's sample",
    (Form("speculative_generate_step", OneToken(otd.rules.NaiveTarget(), (1,)), "the output is the target's sample; Coq: sampling.v"),),
    "ml-explore/mlx-lm mlx_lm/generate.py@d78bf58", engine=True,
    remarks="Lossless, and far below the optimum: it accepts sum p q where sum min(p, q) is possible.",
)  # fmt: skip
