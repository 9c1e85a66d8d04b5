"""Speculative Jacobi decoding: a token drafted in the last iteration is tested with min(1, p_new/p_old).

The test is speculative sampling with q the distribution that drew the token; new drafts have q = 1. In the code both have gone through
the sampling settings, and log((p - q)+) goes through logits_processor and logits_warper once more: at temperature T the residual becomes
norm((p - q)+^(1/T)), below top-p 1 it is cut again; top-k changes nothing, as (p - q)+ has no token outside p's. With the transformers that
the repository pins (4.47.1) the temperature stands in logits_processor and logits_warper is None. Reached through Lumina, Anole and Emu3;
in LlamaGen's loop the temperature is fixed at 1, and --top_p (default 1) cuts the residual. Every script of the repository asks for
temperature 1 and top-p 1, where the residual is right. The file has not changed since 3d0b4e0 (November 2024).
"""

from fractions import Fraction
from typing import Any

import numpy as np

from ot_draft import arrays as xp

from ..by_hand import minus, most_probable, norm, single, usual_test
from ..record import RUN, SPECULATIVE, Case, Form, Known, OneToken, Work, biased
from ..rules import Single, sharp


def sharp_left(p: Any, q: Any) -> Any:
    rest = xp.excess(p, q)
    return xp.where(rest.sum(-1, keepdims=True) > 0, sharp(xp.normalise(rest, otherwise=p)), p)


PART = Fraction(159, 200)  # about 4/5: no sum of masses in the cases is this, so that rounding decides nothing


def nucleus(masses: Any) -> tuple[Fraction, ...]:
    """The fewest most probable tokens that have .795, normalised."""
    order = most_probable(masses, len(masses))
    kept = [y for i, y in enumerate(order) if sum(masses[z] for z in order[:i]) < PART]
    return norm([mass if y in kept else 0 for y, mass in enumerate(masses)])


def cut_left(p: Any, q: Any) -> Any:
    """norm((p - q)+) cut to its nucleus, of rows (..., n) in Fractions."""
    rest = xp.residual(p, q)
    rows = [nucleus(row) for row in rest.reshape(-1, rest.shape[-1]).tolist()]
    return np.array(rows, dtype=object).reshape(rest.shape)


def cut_by_hand(p: Any, q: Any, x: int) -> Any:
    left, cut = (
        sorted(((mass, -y) for y, mass in enumerate(norm(minus(p, q), p))), reverse=True),
        [Fraction(0)] * len(p),
    )
    reached = Fraction(0)
    for mass, y in left:
        if reached < PART:
            cut[-y] = mass
        reached += mass
    return norm(cut)


TWENTIETHS = Case(
    ((Fraction(7, 20), Fraction(7, 20), Fraction(3, 10)),), ((Fraction(21, 100), Fraction(1, 2), Fraction(29, 100)),), 1
)
SEEN = f"{RUN}; of its residual"
FIX = "the residual as it is, through no setting"
WORK = Work(
    "sjd", "Speculative Jacobi decoding", "Teng et al. 2024", "description of the test; code", "keeps the distribution of sampling",
    "one pass over the vocabulary",
    (Form("test as described; code at temperature 1 and top-p 1", SPECULATIVE,
          "speculative sampling with the distribution that drew the token; Coq: sampling.v"),
     biased("code at temperature 1/2", OneToken(Single(residual=sharp_left), (1,)),
            single(usual_test, lambda p, q, x: norm([max(Fraction(0), rest) ** 2 for rest in minus(p, q)], p)),
            "logits_processor(.., log((p - q)+)) before the residual's softmax, where p and q are processed already", SPECULATIVE, FIX,
            when="not 1, as in all its scripts; Lumina, Anole, Emu3", seen=SEEN, sampling="temperature 1/2"),
     biased("code at top-p 0.795", OneToken(Single(residual=cut_left), (1,)), single(usual_test, cut_by_hand),
            "TopPLogitsWarper3d among the processors, applied to log((p - q)+)", SPECULATIVE, FIX,
            when="below 1, its default; test_llamagen.py --top_p", seen=SEEN, through=nucleus,
            sampling="top-p 0.795",
            known=(Known(TWENTIETHS, Fraction(1, 100)),))),
    "tyshiwo1/Accelerating-T2I-AR-with-SJD scheduler/jacobi_iteration_lumina_mgpt.py@b389cfb, reject_sampling_single_token",
    remarks="That drafts do not depend on later uniform numbers is assumed.",
)  # fmt: skip
