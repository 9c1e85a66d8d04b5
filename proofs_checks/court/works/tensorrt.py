"""TensorRT-LLM: relaxed acceptance for the thinking phase."""

from fractions import Fraction

import ot_draft as ot

from ..by_hand import likeliest, mode, single
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work

WORK = Work(
    name="tensorrt", title="TensorRT-LLM's relaxed acceptance", paper="", code="NVIDIA/TensorRT-LLM, mtp_relaxed_acceptance_op", on_purpose=True,
    read="from its description: relaxed_topk 10, relaxed_delta .6", claim="for thinking phases; no claim about the law", cost="the ten likeliest tokens",
    forms=(
        Form("top 10, delta .6", OneToken(ot.rules.lossy.RelaxedAcceptance(), (1,)), "exact enumeration", NOT_LOSSLESS,
             single(lambda p, q, x: 1 if x in likeliest(p, 10) and p[x] > max(p) - Fraction(3, 5) else 0, lambda p, q, x: mode(p)),
             "accept a draft among the top tokens with p > max p - delta", OneToken(ot.rules.NaiveTarget(), (1,)), "compare with the target's sample"),
    ),
)  # fmt: skip
