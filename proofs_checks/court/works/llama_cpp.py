"""llama.cpp: the server's sampler compares with the target's own sample; the example `speculative` tests chosen tokens as if they were drawn.

EXAMPLE. A branch's draft is the likeliest candidate (cur_p->data[is], in falling order), and no draw. It is kept with probability p/q, else the
target becomes norm((p - q)+). With a chosen token, q in that test has to be 1.
"""

import ot_draft as ot

from ..by_hand import mode, single, usual_residual, usual_test
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import TOP

WORK = Work(
    name="llama-cpp", title="llama.cpp's samplers", paper="",
    code="ggml-org/llama.cpp examples/speculative/speculative.cpp@007d713; common_sampler_sample_and_accept_n", read="code of the example",
    claim="stochastic verification", cost="none (server); one pass over the candidates (example)",
    forms=(
        Form("common_sampler_sample_and_accept_n", OneToken(ot.rules.NaiveTarget(law=TOP), (1,)), "the output is the target's sample; exact checks"),
        Form("examples/speculative, one sequence, temperature > 0", OneToken(ot.rules.SpeculativeSampling(), (1,), TOP), "exact enumeration",
             NOT_LOSSLESS, single(usual_test, usual_residual, mode), "r <= p_tgt / p_dft, for the token cur_p->data[is].id, which was not drawn",
             OneToken(ot.rules.NaiveTarget(law=TOP), (1,)), "p_dft = 1 and p_tgt = 0 after a refusal; or draw the draft"),
    ),
    remarks="The residual subtracts candidate by candidate after sorting by id, which fits only if both models kept the same candidates.",
)  # fmt: skip
