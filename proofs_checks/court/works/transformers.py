"""transformers: assisted generation; speculative sampling, where the assistant's drafts are draws of the law that it reports."""

import ot_draft as ot

from ..by_hand import likeliest, norm, single, usual_residual, usual_test
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import DrawnFrom, top

RULE = ot.rules.SpeculativeSampling()


def top_two(q):  # type: ignore[no-untyped-def]
    return norm([mass if y in likeliest(q, 2) else 0 for y, mass in enumerate(q)])


WORK = Work(
    name="transformers", title="transformers' assisted generation", paper="",
    code="huggingface/transformers src/transformers/generation/utils.py, _speculative_sampling; issue 47932", read="code; issue's description",
    claim="lossless (Leviathan et al., Algorithm 1)", cost="one pass over the vocabulary a token",
    forms=(
        Form("q as drawn", OneToken(RULE, (1,)), "speculative sampling; in Coq"),
        Form("drafts truncated, q reported without", OneToken(RULE, (1,), DrawnFrom(top(2))), "exact enumeration", NOT_LOSSLESS,
             single(usual_test, usual_residual, top_two), "candidate_logits are not those that the candidate tokens were drawn from (issue 47932)",
             OneToken(RULE, (1,)), "report the law after the assistant's own processors"),
    ),
)  # fmt: skip
