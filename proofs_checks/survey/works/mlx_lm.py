"""mlx-lm's speculative_generate_step: the output is the target's sample, and the draft is taken if it is that token.

Pull 1085, closed without a merge, tests p/q and draws from p itself after a rejection.
"""

import ot_draft as otd

from ..by_hand import single, usual_test
from ..record import CHAIN, SPECULATIVE, Form, OneToken, Work, biased, greedy
from ..rules import Single

WORK = Work(
    "mlx-lm", "mlx-lm", "", "code", "same output as without a draft", "none beyond the target's sample",
    (Form("speculative_generate_step", OneToken(otd.rules.NaiveTarget(), (1,)), "the output is the target's sample; Coq: sampling.v",
          mode=CHAIN),
     biased("MTP, pull 1085: p/q, then a sample of p", OneToken(Single(residual=lambda p, q: p), (1,)),
            single(usual_test, lambda p, q, x: p),
            "accept = log_accept >= 0 or log(random()) < log_accept; else verify_pred, a sample of the target", SPECULATIVE,
            "draw from (p - q)+ after a rejection", mode=CHAIN, when="pull 1085, closed; in no release",
            seen="not read: the thread quotes it",
            code="ml-explore/mlx-lm pull 1085"),
     greedy("temperature 0")),
    "ml-explore/mlx-lm mlx_lm/generate.py@d78bf58", engine="mlx-lm",
    remarks="Lossless, and far below the optimum: it accepts sum p q where sum min(p, q) is possible.",
)  # fmt: skip
