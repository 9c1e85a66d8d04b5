"""transformers' assisted generation: which distribution draws the draft tokens, and which one the test uses

The test is speculative sampling. Ordinary assistants report their scores after the processors that drew the token: lossless. GREEDY.
Between pull 30778 (May 2024) and pull 33534 (September 2024) every assistant drafted greedily, and its most probable token was tested
with q; reported as issue 32867, seen in 4.44.0. SETTINGS. DFlash (in 5.15.0) and MTP (5.14 and 5.15.0) drew after the sampling settings
and reported the raw distribution (issue 47932), until pull 48007, which is in 5.15.1. ONE POSITION. Gemma 4's assistant drafts the argmax
and reports its raw distribution, since 5.8.0; the issue names it too, the pull leaves it as it is, and so does 5.24.0.
"""

from fractions import Fraction

import ot_draft as otd

from ..by_hand import mode, single, squared, top_two, usual_residual, usual_test
from ..record import CHAIN, NGRAM, SPECULATIVE, TARGET_SAMPLE, TOP, Case, Form, Known, OneToken, Work, biased, greedy
from ..rules import DrawnFrom, sharp, top
from .llama_cpp import EIGHTH

RULE = otd.rules.SpeculativeSampling()
THIRD = 8 * EIGHTH / 3
HALF, NONE = 4 * EIGHTH, 0 * EIGHTH
TWO = Case(((HALF, HALF, NONE),), ((HALF, THIRD, THIRD / 2),), 1)
GREEDY_DRAFT = single(usual_test, usual_residual, mode)
FIVE_FOUR = Known(Case(((HALF, HALF),), ((2 * THIRD, THIRD),), 1), 2 * EIGHTH)
GENERATOR = "generation/candidate_generator.py"
WORK = Work(
    "transformers", "transformers", "", "code of 4.44.0, 5.8.0 to 5.17.0, 5.24.0; issues and pulls",
    "lossless (Leviathan et al., Algorithm 1)", "one pass over the vocabulary per token",
    (Form("ordinary assistant", SPECULATIVE, "speculative sampling; Coq: sampling.v", mode=CHAIN,
          when="before pull 30778, since pull 33534",
          code="huggingface/transformers src/transformers/generation/candidate_generator.py, _generate_candidates @00a11b6"),
     biased("greedy draft tested with q", OneToken(RULE, (1,), TOP), GREEDY_DRAFT,
            "the assistant's generation_config.do_sample = False, and its probabilities go into the ratio", TARGET_SAMPLE,
            "sample the draft, as pull 33534 has it, or set q = 1", mode=CHAIN,
            when="every assistant, pull 30778 (May 2024) to 33534 (September 2024)",
            code="transformers 4.44.0, generate(assistant_model=.., do_sample=True)",
            seen="run: 4.44.0 itself gave one token only in 400 texts; q = (2/3, 1/3): (.74, .26), predicted (3/4, 1/4)",
            fixed="pull 33534", known=(FIVE_FOUR,)),
     biased("DFlash, MTP: drawn at temperature 1/2, raw q", OneToken(RULE, (1,), DrawnFrom(sharp)),
            single(usual_test, usual_residual, squared), "candidate_logits are those from before the processors that drew the candidates",
            SPECULATIVE, "report the distribution after the processors, as 5.15.1 does",
            mode=CHAIN, when="temperature, top-k or top-p set: MTP in 5.14 and 5.15.0, DFlash in 5.15.0 (August 2026)",
            sampling="temperature 1/2, in the draws of draft tokens",
            seen="run: 5.15.0's own functions, over all their random numbers, have the same distribution",
            code=f"transformers 5.15.0 {GENERATOR}, DFlashTokenCandidateGenerator.get_candidates; modeling_layers.py, MtpModel.forward",
            fixed="pull 48007, in 5.15.1",
            known=(Known(TWO, Fraction(1, 10), "top-k 2 in the temperature's place",
                         OneToken(RULE, (1,), DrawnFrom(top(2))), single(usual_test, usual_residual, top_two)),)),
     biased("Gemma 4's assistant: argmax tested with q", OneToken(RULE, (1,), TOP), GREEDY_DRAFT,
            "last_token_id = outputs.logits.argmax(..), and outputs.logits are returned", TARGET_SAMPLE, "set q = 1, or sample",
            mode=CHAIN, when="do_sample, since 5.8.0 (May 2026); 5.24.0 still",
            seen="run: 5.24.0's own functions, over all their random numbers, have the same distribution",
            code=f"transformers 5.24.0 {GENERATOR}, SinglePositionMultiTokenCandidateGenerator.get_candidates", known=(FIVE_FOUR,)),
     Form("prompt lookup, and any assistant without scores", TARGET_SAMPLE,
          "comparison with the target's sample; Coq: sampling.v", mode=NGRAM,
          code="transformers 5.24.0, generation/utils.py, _assisted_decoding: candidate_logits is None"),
     greedy("do_sample=False", code="transformers 5.24.0, generation/utils.py, _assisted_decoding")),
    "huggingface/transformers src/transformers/generation/utils.py, _speculative_sampling", engine="transformers",
)  # fmt: skip
