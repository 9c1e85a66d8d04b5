"""Speculative Jacobi decoding: a token drafted in the last iteration is tested with min(1, p_new/p_old).

The paper's test is speculative sampling with q the law that the token was drawn by. The code draws p_new and p_old through the sampling settings,
and passes log((p - q)+) through the same settings once more: at a temperature T other than 1 the residual becomes norm((p - q)+^(1/T)).
"""

import ot_draft as ot
from ot_draft import arrays as xp

from ..by_hand import minus, norm, single, usual_test
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import Single, sharp

RULE = OneToken(ot.rules.SpeculativeSampling(), (1,))


def squared(p, q, x):  # type: ignore[no-untyped-def]
    return norm([max(0, rest) ** 2 for rest in minus(p, q)], p)


WORK = Work(
    name="sjd", title="Speculative Jacobi decoding", paper="Teng et al. 2410.01699, Algorithm 1",
    code="tyshiwo1/Accelerating-T2I-AR-with-SJD scheduler/jacobi_iteration_lumina_mgpt.py@b389cfb, reject_sampling_single_token",
    read="description of the test; code", claim="keeps the law of sampling", cost="one pass over the vocabulary",
    forms=(
        Form("paper; code at temperature 1", RULE, "speculative sampling with the law that drew the token; in Coq"),
        Form("code at temperature 1/2", OneToken(Single(residual=lambda p, q: sharp_left(p, q)), (1,)), "exact enumeration", NOT_LOSSLESS,
             single(usual_test, squared), "logits_warper(all_collected_input_ids, log((p - q)+)) before the residual's softmax",
             RULE, "no warper on the residual: p and q went through it already"),
    ),
    remarks="A temperature among the warpers is needed; top-k and top-p on the residual may cut it, too.",
)  # fmt: skip


def sharp_left(p, q):  # type: ignore[no-untyped-def]
    return xp.where(xp.total(xp.excess(p, q)) > 0, sharp(xp.normalise(xp.excess(p, q), otherwise=p)), p)
