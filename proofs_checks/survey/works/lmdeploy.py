"""LMDeploy: its drafters take the argmax, and its sampler tests that token with q = 1.

SETTINGS. The logits that are verified have gone through the temperature, penalties and bad words, but not through top-k, top-p and min-p:
these are in `sampling`, which only the bonus token goes through. A draft token outside the top-p set is kept with p(x), and a rejected one
is replaced by a token of the whole distribution. BATCH. Until 0.16.0 the flags of greedy requests (top-k 1) were repeated once per draft
token and then read by the number of the request. With two draft tokens or more a sampled request reads the flag of an earlier one, and is
verified with the argmax if that is greedy. Uniform numbers and exponentials are fresh in every cycle. One exponential per token serves the
residuals of all positions of a cycle, of which one is used. The bonus token has a number of its own, whose offset grows by one per cycle.
"""

import ot_draft as otd

from ..by_hand import mode, most_probable, single, without
from ..record import CHAIN, SPECULATIVE, TARGET_SAMPLE, TOP, Form, OneToken, Work, biased, greedy
from ..rules import Single, best
from .fastdeploy import MATCH
from .mlc_llm import nucleus

FILE = "lmdeploy 0.18.0 pytorch/spec_decode/reject_sampler.py"
WORK = Work(
    "lmdeploy", "LMDeploy", "",
    "code of the sampler, of logits_process.py, of the proposers and of spec_agent.py at 12c877c and 1263d5c, wheels of 0.15.0 to 0.18.0",
    "Leviathan et al. (its docstring)", "one pass over the vocabulary",
    (Form("no distribution given (MTP, EAGLE-3: argmax drafts)", TARGET_SAMPLE, "q set to 1; Coq: sampling.v", mode=CHAIN,
          when="neither top-k nor top-p nor min-p set"),
     biased("no distribution given; top-k, top-p or min-p",
            OneToken(otd.rules.NaiveTarget(law=TOP), (1,), expected=nucleus),
            single(lambda p, q, x: p[x], lambda p, q, x: without(p, (x,)), mode),
            "FusedLogitsProcessor.__call__ divides by the temperature; top-k, top-p and min-p are in sampling(), for the bonus token",
            MATCH, "apply top-k, top-p and min-p to the logits of every position", mode=CHAIN,
            when="top-k, top-p or min-p set; 0.18.0 still", sampling="top-p 7/10",
            code=f"{FILE}; pytorch/engine/logits_process.py, FusedLogitsProcessor",
            seen="run: 0.18.0's processor and sampler: p = (1/4, 3/4) with top-p .7 gave token 0 in .251 of 100,000 rounds, 0 due"),
     biased("sampled request in a batch with a greedy one", OneToken(Single(lambda p, q: best(p), lambda p, q: best(p), TOP), (1,)),
            single(lambda p, q, x: int([x] == most_probable(p, 1)), lambda p, q, x: mode(p), mode),
            "is_greedy = top_k == 1, of batch_size * num_spec_tokens entries, and tl.load(is_greedy_ptr + req_idx)",
            TARGET_SAMPLE, "one flag per request", mode=CHAIN,
            when="two draft tokens or more, an earlier request of the batch has top-k 1; 0.12.3 to 0.16.0", fixed="0.17.0",
            code="InternLM/lmdeploy lmdeploy/pytorch/spec_decode/reject_sampler.py@12c877c, rejection_sample",
            seen="run: its kernels, in an interpreter: of two requests with top-k 1 and 50, the second gave its argmax in 200 of 200 "
                 "rounds"),
     Form("draft's distribution given", SPECULATIVE, "speculative sampling; Coq: sampling.v", mode=CHAIN,
          when="no caller gives one, 0.18.0 included"),
     greedy("top-k 1")),
    FILE, engine="LMDeploy",
)  # fmt: skip
