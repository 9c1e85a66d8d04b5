"""mlx-node: drafts drawn through the sampling settings, and q reported as the raw softmax, on one of its paths.

A review of pull 65 names the path: stochastic MTP where the sparse test is off (penalties, unsupported settings, an environment
variable). It is transformers' issue 47932 again; here temperature 1/2 stands for the settings. Whether a later commit changed it was not
seen.
"""

import ot_draft as otd

from ..by_hand import single, squared, usual_residual, usual_test
from ..record import CHAIN, SPECULATIVE, OneToken, Work, biased, greedy
from ..rules import DrawnFrom, sharp

WORK = Work(
    "mlx-node", "mlx-node", "", "review thread of pull 65, merged", "p/q with residual", "one pass per token",
    (biased("stochastic MTP, legacy path", OneToken(otd.rules.SpeculativeSampling(), (1,), DrawnFrom(sharp)),
            single(usual_test, usual_residual, squared),
            "p_draft is the softmax of raw draft logits, the token comes from sampling::sample()",
            SPECULATIVE, "build q by the settings that drew the token", mode=CHAIN, seen="not read: a review of pull 65 quotes the lines",
            when="temperature not 1, top-p, top-k or min-p set, and the sparse test off"),
     greedy("temperature 0")),
    "mlx-node/mlx-node crates/mlx-core/src/models/qwen3_5/chat_common.rs, in pull 65", engine="mlx-node",
)  # fmt: skip
