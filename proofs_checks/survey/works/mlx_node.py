"""mlx-node: drafts drawn through the sampling settings, and q reported as the raw softmax, on one of its paths.

A review of pull 65 names the path: stochastic MTP where the sparse test is off (penalties, unsupported settings, an environment
variable). It is transformers' issue 47932 again; here temperature 1/2 stands for the settings. A copy of the repository at 34c53f4 (3
August 2026) builds q by the function that draws the token, on this path too. Test, residual and bonus token take numbers one after the
other from the generator of the turn, or from MLX's.
"""

import ot_draft as otd

from ..by_hand import single, squared, usual_residual, usual_test
from ..record import CHAIN, SPECULATIVE, Form, OneToken, Work, biased, greedy
from ..rules import DrawnFrom, sharp

WORK = Work(
    "mlx-node", "mlx-node", "", "review thread of pull 65, merged; code of a copy at 34c53f4", "p/q with residual", "one pass per token",
    (biased("stochastic MTP, legacy path", OneToken(otd.rules.SpeculativeSampling(), (1,), DrawnFrom(sharp)),
            single(usual_test, usual_residual, squared),
            "p_draft is the softmax of raw draft logits, the token comes from sampling::sample()",
            SPECULATIVE, "build q by the settings that drew the token", mode=CHAIN, seen="not read: a review of pull 65 quotes the lines",
            when="temperature not 1, top-p, top-k or min-p set, and the sparse test off; pull 65",
            sampling="temperature 1/2, in the draws of draft tokens",
            fixed="sampling_distribution, at the latest in 34c53f4 (3 August 2026)"),
     Form("stochastic MTP, both paths", SPECULATIVE, "speculative sampling; Coq: sampling.v", mode=CHAIN, when="at 34c53f4",
          code="vite-plus-ecosystem-ci/mlx-node (a copy) crates/mlx-core/src/engine/mtp_turn.rs@34c53f4"),
     greedy("temperature 0")),
    "mlx-node/mlx-node crates/mlx-core/src/models/qwen3_5/chat_common.rs, in pull 65", engine="mlx-node",
)  # fmt: skip
