"""FastDeploy: drafts inside the target's top-p set are kept, or drafts that are the target's sample.

TOPP keeps every draft that lies in the target's top-p set, without a random number, and draws the next token from that set. A draft that is
the second most probable token is kept too where a window of most probable tokens follows; that window is not evaluated here. TARGET_MATCH
compares with the target's sample; it is the default since pull 7467 (April 2026), TOPP before.
"""

from typing import Any

import ot_draft as otd

from ..by_hand import mode
from ..record import CHAIN, NGRAM, TARGET_SAMPLE, TOP, Form, OneToken, Work, biased, greedy
from ..rules import Single
from .mlc_llm import cut, nucleus


def in_set(chance: Any, p: Any, q: Any, k: int) -> tuple[int]:
    x = chance.draw(mode(q()))
    return (x,) if nucleus(p())[x] else (chance.draw(nucleus(p())),)


KEPT = Single(lambda p, q: 0 * p + (cut(p) > 0), lambda p, q: cut(p), TOP)
KERNEL = "PaddlePaddle/FastDeploy custom_ops/gpu_ops/speculate_decoding/verify_draft_tokens.cu@1fd9bc9"
MATCH = OneToken(
    otd.lossy.Toward(lambda p, q, k=1, law=None: cut(p), otd.rules.NaiveTarget(law=TOP)), (1,), expected=nucleus
)
WORK = Work(
    "fastdeploy", "FastDeploy", "", "code of the kernel; pulls 7467, 7468", "none about the distribution", "none beyond the top-p set",
    (biased("topp", OneToken(KEPT, (1,), expected=nucleus), in_set, "accepted = verify_one_topp(..): is_in(candidates, draft_token)", MATCH,
            'verify_strategy "target_match"', on_purpose=True, mode=CHAIN,
            when="verify_strategy topp, the default until pull 7467 (April 2026)", sampling="top-p 7/10", seen="read, not run"),
     Form("target_match: a draft model or MTP", TARGET_SAMPLE, "comparison with the target's sample; Coq: sampling.v", mode=CHAIN,
          when="the default since pull 7467 (April 2026)"),
     Form("target_match: n-gram", TARGET_SAMPLE, "comparison with the target's sample; Coq: sampling.v", mode=NGRAM,
          when="the default since pull 7467 (April 2026)"),
     greedy("greedy", when="verify_strategy greedy")),
    KERNEL, engine="FastDeploy", undecided=(("verify_window of topp", "a window of later tokens decides; it was not reimplemented"),),
    remarks="What topp emits is compared with the distribution after top-p. Its documentation does not call it lossy.",
)  # fmt: skip
