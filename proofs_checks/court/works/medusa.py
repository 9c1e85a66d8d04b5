"""Medusa's typical acceptance: a draft is taken where the target finds it likely enough; q plays no part.

The code's default (fast) ends with the target's likeliest token. Lossy by design: the paper gives up matching the law.
"""

from math import exp, log

import ot_draft as ot

from ..by_hand import mode, single
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work


def likely(p, q, x):  # type: ignore[no-untyped-def]
    entropy = -sum(float(mass) * log(float(mass) + 1e-5) for mass in p)
    return 1 if float(p[x]) > min(0.3, 0.09 * exp(-entropy)) else 0


def typical(fallback):  # type: ignore[no-untyped-def]
    return OneToken(ot.rules.lossy.TypicalAcceptance(0.3, 0.09, fallback), (1,))


EXACT = OneToken(ot.rules.NaiveTarget(), (1,))
FIX = "draw the token from p and take the draft if it is that token"
WORK = Work(
    name="medusa", title="Medusa's typical acceptance", paper="Cai et al. 2401.10774, section 3.3.1",
    code="FasterDecoding/Medusa medusa/model/utils.py@e2a5d20, evaluate_posterior", read="paper's section, code", on_purpose=True,
    claim="not the target's law; plausible text", cost="an entropy a token",
    forms=(
        Form("code, fast", typical("greedy"), "exact enumeration", NOT_LOSSLESS, single(likely, lambda p, q, x: mode(p)),
             "posterior_mask = candidates_prob > threshold; the next token is the argmax", EXACT, FIX),
        Form("rest drawn from the target", typical("sample"), "exact enumeration", NOT_LOSSLESS, single(likely, lambda p, q, x: p),
             "posterior_mask = candidates_prob > threshold", EXACT, FIX),
    ),
)  # fmt: skip
