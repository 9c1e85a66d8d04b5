"""MTPLX and mlx-serve: typical and cascade acceptance for multi-token prediction, both lossy if enabled.

TYPICAL keeps a draft with p(x) > min(threshold, delta exp(-entropy)) and otherwise draws from p. CASCADE keeps a draft with p(x) >= (1 -
alpha) max p without a random number and puts every other one to p/q and its residual. Neither is in mlx-serve's commit 9a785b7. Its exact
path drafts the argmax with q = 1, or draws the draft token and keeps the whole of q. The tests read a generator of the request, one number
for each position; the replacements are drawn with keys of their own. A budget of tokens that ends among accepted drafts ends the request,
so that the replacement drawn there is not emitted.
"""

from fractions import Fraction
from math import exp, log
from typing import Any

from ot_draft import arrays as xp
from proofs_checks.lossy import engine_rules

from ..by_hand import mode, ratio, single, usual_residual
from ..record import CHAIN, SPECULATIVE, TARGET_SAMPLE, TOP, TYPICAL, Form, OneToken, Work, biased, greedy
from ..rules import Single, capped_ratio

DELTA, ALPHA, THRESHOLD = 0.09, Fraction(1, 10), 0.3
BAR = engine_rules.TypicalAcceptance(THRESHOLD, DELTA)


def likely(p: Any, q: Any, x: int) -> int:
    entropy = -sum(float(mass) * log(float(mass) + 1e-5) for mass in p)
    return int(float(p[x]) > min(THRESHOLD, DELTA * exp(-entropy)))


def near(p: Any, q: Any) -> Any:
    return xp.where(p >= (1 - ALPHA) * xp.max(p, axis=-1, keepdims=True), 1, capped_ratio(p, q))


def near_by_hand(p: Any, q: Any, x: int) -> Any:
    return 1 if p[x] >= (1 - ALPHA) * max(p) else ratio(p[x], q[x])


def typical(code: str) -> Form:
    return biased("typical, threshold 0.3, delta 0.09", OneToken(BAR, (1,), TOP), single(likely, lambda p, q, x: p, mode),
                  "accept while p(x_k) > min(eps, delta exp(-H(p))); else a sample of p", TARGET_SAMPLE, "compare with the target's sample",
                  on_purpose=True, mode=TYPICAL, when="its flag set; off by default",
                  seen="not read: the thread describes it", code=code)  # fmt: skip


def cascade(code: str) -> Form:
    return biased("cascade (token rule), alpha 0.1", OneToken(Single(near), (1,)), single(near_by_hand, usual_residual),
                  "defer iff p(v) < max p (1 - alpha); a draft that is not deferred is kept", SPECULATIVE,
                  "alpha = 0 and p/q for every draft",
                  on_purpose=True, mode=TYPICAL, when="its flag set; off by default",
                  seen="not read: the thread describes it", code=code)  # fmt: skip


EXACT = "speculative sampling; Coq: sampling.v"
SERVE = "ddalcu/mlx-serve src/generate.zig@9a785b7"
WORKS = (
    Work("mtplx", "MTPLX", "", "threads of pulls 478 and 485", "lossy, and says so", "an entropy, or a maximum",
         (typical("youssofal/MTPLX pull 478"),
          cascade("youssofal/MTPLX pull 485"),
          Form("neither flag", SPECULATIVE, EXACT, mode=CHAIN, when="its default", code="youssofal/MTPLX, as pull 485 describes it")),
         engine="MTPLX"),
    Work("mlx-serve", "mlx-serve", "", "code at 9a785b7; threads of issue 419 and pull 433",
         "lossy if enabled", "as MTPLX",
         (typical("ddalcu/mlx-serve issue 419, a port of MTPLX's pull 478"),
          cascade("ddalcu/mlx-serve issue 419, a port of MTPLX's pull 485"),
          Form("MTP, argmax drafts", TARGET_SAMPLE, "q set to 1; Coq: sampling.v", mode=CHAIN, when="its default",
               code=f"{SERVE}, nextMtp"),
          Form("drawn drafts (MTP, DFlash)", SPECULATIVE, EXACT, mode=CHAIN,
               when="MLX_SERVE_MTP_DRAFT_GREEDY=0; MLX_SERVE_DFLASH_SAMPLED_DRAFTS=1, or DFlash with a selector",
               code=f"{SERVE}, nextMtp, nextDflash"),
          greedy("temperature 0", code=SERVE)), engine="mlx-serve"),
)  # fmt: skip
