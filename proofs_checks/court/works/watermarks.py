"""Watermarks and drafts together: Hu and Huang's two couplings, and MPFR, draws of Poisson processes.

HU AND HUANG. A keyed code turns each law into one for that code; over the codes it is the law again. To keep the watermark, draft and
target are turned by the same code and tested with the turned laws: with the delta reweighting both are inverse distribution functions of
one uniform number, and the draft is kept where the two tokens are equal. To keep the efficiency, the draft is drawn through the code, and
tested with p and q themselves. MPFR. Every token has a Poisson process of rate q_x in the draft's race and p_x in the target's, with the
same noise. The drafts are the tokens of the first k arrivals, the output is that of the target's first. Its code keys the noise by the
context, so that no two contexts share it; with its labels of a few tokens it masks contexts that come again. All verdicts are over the key.
"""

from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

from ..record import SPECULATIVE, Coupled, Form, Work


def one_uniform(p: Any, q: Any, k: int, fresh: bool = False) -> Any:
    """Draft and output at one uniform number: law of the output, mass where they are equal. fresh: else a draw from p."""
    above, below = ([Fraction(0), *accumulate(side)] for side in (p, q))
    both = [
        [max(Fraction(0), min(above[y + 1], below[x + 1]) - max(above[y], below[x])) for y in range(len(p))]
        for x in range(len(q))
    ]
    kept = [both[y][y] for y in range(len(p))]
    if fresh:
        return [mass + (1 - sum(kept)) * p[y] for y, mass in enumerate(kept)], sum(kept)
    return [sum(column) for column in zip(*both, strict=True)], sum(kept)


def arrivals(p: Any, q: Any, k: int, swapped: bool = False) -> Any:
    """MPFR's output law, and mass where it is among the first k arrivals of q's race; swapped: the two sides change places.

    Given that y wins the target's race at time t, the arrivals before it in q's race are Poisson, of mean t s with s the sum of
    (q_x/q_y - p_x/p_y)+ over the others; t has density exp(-t/p_y).
    """
    p, q = (q, p) if swapped else (p, q)
    output, kept = [], Fraction(0)
    for a, b in zip(p, q, strict=True):
        among = late = Fraction(0)
        if a and b:
            s = sum((max(Fraction(0), y / b - x / a) for x, y in zip(p, q, strict=True)), Fraction(0))
            whole = 1 / a + s
            among = sum((s**j / whole ** (j + 1) for j in range(k)), Fraction(0))
            late = (s / whole) ** k * a
        elif a:
            late = a  # a token that q never gives
        output.append(among + late)
        kept += among
    return output, kept


SWAPPED = (("the output races for q", partial(arrivals, swapped=True)),)
WORKS = (
    Work("hu-huang", "Hu and Huang's two couplings", "2410.20418", "code; abstract", "unbiased, over the key", "one reweighting a law",
         (Form("keeping the watermark: one position", Coupled(one_uniform, (1,), (("a fresh draw after a refusal",
                                                                                       partial(one_uniform, fresh=True)),)),
               "two inverse distribution functions of one number: each has its own law"),
          Form("keeping the efficiency: one position", SPECULATIVE, "over the key the draft follows q; Coq: sampling.v")),
         "xiaoniu-578fa6bff964d005/AcceleratedUnbiasedWatermark accuwm/utils.py@bf5d9c4, mc_sample; accuwm/mc_watermark.py",
         remarks="Its mc_sample, over a grid of the uniform number and along all coins, has these laws. Gumbel reweighting: see daliri."),
    Work("mpfr", "MPFR", "2609.21858", "abstract; code that names it", "unbiased; drafter-invariant", "k exponentials a token",
         (Form("first k arrivals: one position", Coupled(arrivals, (1, 2, 3), SWAPPED),
               "exact integration over the arrivals"),),
         "1WanSicheng/ERSD_Watermark accuwm/multi_draft_pfr.py@9c4db8c, multi_draft_pfr_block"),
)  # fmt: skip
