"""Medusa's typical acceptance: a draft is taken where the target finds it likely enough; q plays no part; here the
draft is its likeliest token, as a head gives it.

The code's default (fast) ends with the target's likeliest token. Lossy by design: the paper gives up matching the law.
"""

from math import exp, log
from typing import Any

import ot_draft as ot

from ..by_hand import mode, single
from ..record import TARGET_SAMPLE, TOP, OneToken, Work, biased


def likely(p: Any, q: Any, x: int) -> int:
    entropy = -sum(float(mass) * log(float(mass) + 1e-5) for mass in p)
    return int(float(p[x]) > min(0.3, 0.09 * exp(-entropy)))


def typical(fallback: str) -> OneToken:
    return OneToken(ot.rules.lossy.TypicalAcceptance(0.3, 0.09, fallback), (1,), TOP)


FIX = "draw the token from p, and take the draft if it is that token"
WORK = Work(
    "medusa", "Medusa's typical acceptance", "Cai et al. 2024, section 3.3.1", "code; the library's rule",
    "plausible text, not the target's law", "an entropy a token",
    (biased("code, fast", typical("greedy"), single(likely, lambda p, q, x: mode(p), mode),
            "posterior_mask = candidates_prob > threshold; the next token is the argmax", TARGET_SAMPLE, FIX),
     biased("rest drawn from the target", typical("sample"), single(likely, lambda p, q, x: p, mode),
            "posterior_mask = candidates_prob > threshold", TARGET_SAMPLE, FIX)),
    "FasterDecoding/Medusa medusa/model/utils.py@e2a5d20, evaluate_posterior", on_purpose=True,
)  # fmt: skip
