"""transformers' assisted generation: which law do the drafts follow, and which is told to the test?

The test is speculative sampling. Ordinary assistants report their scores after the processors that drew the token: lossless. GREEDY.
Between pull 30778 (May 2024) and pull 33534 (September 2024) every assistant drafted greedily, and its likeliest token was tested with q;
reported as issue 32867, seen in 4.44.0. TRUNCATED. Of the generators of 2026, DFlash and MTP drew after top-k or top-p and reported the raw
law, and the single-position one took the argmax with the raw law (issue 47932), until pull 48007 (August 2026).
"""

import ot_draft as ot

from ..by_hand import mode, single, top_two, usual_residual, usual_test
from ..record import SPECULATIVE, TARGET_SAMPLE, TOP, Case, Form, Known, OneToken, Work, biased
from ..rules import DrawnFrom, top
from .llama_cpp import EIGHTH

RULE = ot.rules.SpeculativeSampling()
THIRD = 8 * EIGHTH / 3
TOLD = "not read: as the issue describes it"
WORK = Work(
    "transformers", "transformers", "", "code; issues and pulls as described there", "lossless (Leviathan et al., Algorithm 1)",
    "one pass over the vocabulary a token",
    (Form("ordinary assistant", SPECULATIVE, "speculative sampling; Coq: sampling.v", when="before pull 30778, since pull 33534",
          code="huggingface/transformers src/transformers/generation/candidate_generator.py, _generate_candidates @00a11b6"),
     biased("greedy draft tested with q", OneToken(RULE, (1,), TOP), single(usual_test, usual_residual, mode),
            "the assistant's generation_config.do_sample = False, and its probabilities go into the ratio", TARGET_SAMPLE,
            "sample the draft, as pull 33534 has it, or set q = 1", when="every assistant, pull 30778 (May 2024) to 33534 (September 2024)",
            code="transformers 4.44.0, generate(assistant_model=.., do_sample=True)",
            seen="run: 4.44.0 itself gave one token only in 400 texts; q = (2/3, 1/3): (.74, .26), predicted (3/4, 1/4)",
            mended="pull 33534",
            known=(Known(Case(((4 * EIGHTH,) * 2,), ((2 * THIRD, THIRD),), 1), 2 * EIGHTH),)),
     biased("DFlash, MTP: draft truncated, q not", OneToken(RULE, (1,), DrawnFrom(top(2))),
            single(usual_test, usual_residual, top_two), "candidate_logits are not those that the candidates were drawn from", SPECULATIVE,
            "report the law after the assistant's own processors", when="top-k or top-p, until pull 48007 (August 2026)", seen=TOLD,
            code="issue 47932, as it describes the generators", mended="pull 48007"),
     biased("single-position: argmax tested with raw q", OneToken(RULE, (1,), TOP), single(usual_test, usual_residual, mode),
            "the argmax is drafted and the raw law reported", TARGET_SAMPLE, "set q = 1", when="until pull 48007 (August 2026)", seen=TOLD,
            code="issue 47932, as it describes the generator", mended="pull 48007")),
    "huggingface/transformers src/transformers/generation/utils.py, _speculative_sampling", engine=True,
)  # fmt: skip
