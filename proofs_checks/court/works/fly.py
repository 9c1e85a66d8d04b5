"""FLy: a draft that is not the target's likeliest token is taken where the target's entropy is high and no further mismatch follows.

One position, given that the window after it has no mismatch. Made for greedy decoding; beside sampling its law is far from p.
"""

from math import log

from ot_draft import arrays as xp
from ot_draft.rules import NaiveTarget

from ..by_hand import likeliest, mode, single
from ..defendants import OneToken
from ..record import NOT_LOSSLESS, Form, Work
from ..rules import Single

GATE = 0.3  # of the entropy, as a share of log n


def best(p):  # type: ignore[no-untyped-def]
    return xp.as_number(xp.positions(p.shape[-1], p) == xp.top_tokens(p, 1), p)


def open_gate(p, q):  # type: ignore[no-untyped-def]
    masses = p.astype(float)
    entropy = -xp.total(masses * xp.namespace(masses).log(masses + (masses == 0)))
    return xp.where(entropy >= GATE * log(p.shape[-1]), 1 + 0 * p, best(p))


def gate(p, q, x):  # type: ignore[no-untyped-def]
    entropy = -sum(float(mass) * log(mass) for mass in p if mass)
    return 1 if [x] == likeliest(p, 1) or entropy >= GATE * log(len(p)) else 0


WORK = Work(
    name="fly", title="FLy", paper="Li et al. 2511.22972", read="from its description; the gate's default as described", on_purpose=True,
    claim="at least 99 % of the target's accuracy; no claim about the law", cost="an entropy a token",
    forms=(
        Form("one position, window without mismatch", OneToken(Single(open_gate, lambda p, q: best(p)), (1,)), "exact enumeration", NOT_LOSSLESS,
             single(gate, lambda p, q, x: mode(p)), "accept a mismatch where the normalised entropy is at least theta",
             OneToken(NaiveTarget(), (1,)), "compare with the target's sample, and without a gate"),
    ),
)  # fmt: skip
