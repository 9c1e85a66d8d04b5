"""Speculative Jacobi decoding: a token drafted in the last iteration is tested with min(1, p_new/p_old).

The test is speculative sampling with q the law that the token was drawn by. In the code both laws have gone through the sampling
settings, and log((p - q)+) goes through the same settings once more (lines 215 to 232): at a temperature T other than 1 the residual
becomes norm((p - q)+^(1/T)). test_lumina_mgpt.py, test_llamagen.py (its default) and eval_model.py sample at temperature 1, where
the residual is right; top-k changes nothing either, as (p - q)+ has no token outside p's; top-p is not judged. New drafts have q = 1.
"""

from fractions import Fraction
from typing import Any

from ot_draft import arrays as xp

from ..by_hand import minus, norm, single, usual_test
from ..record import SPECULATIVE, Form, OneToken, Work, biased
from ..rules import Single, sharp


def sharp_left(p: Any, q: Any) -> Any:
    rest = xp.excess(p, q)
    return xp.where(xp.total(rest) > 0, sharp(xp.normalise(rest, otherwise=p)), p)


WORK = Work(
    "sjd", "Speculative Jacobi decoding", "Teng et al. 2024", "description of the test; code", "keeps the law of sampling",
    "one pass over the vocabulary",
    (Form("test as described; code at temperature 1", SPECULATIVE,
    "speculative sampling with the law that drew the token; Coq: sampling.v"),
     biased("code, if temperature 1/2 is asked for", OneToken(Single(residual=sharp_left), (1,)),
            single(usual_test, lambda p, q, x: norm([max(Fraction(0), rest) ** 2 for rest in minus(p, q)], p)),
            "logits_warper(.., log((p - q)+)) before the residual's softmax, where p and q are warped already", SPECULATIVE,
            "no warper on the residual")),
    "tyshiwo1/Accelerating-T2I-AR-with-SJD scheduler/jacobi_iteration_lumina_mgpt.py@b389cfb, reject_sampling_single_token",
    remarks="Holds where the caller's logits_warper has a temperature; not run. That drafts do not depend on later coins is assumed.",
)  # fmt: skip
