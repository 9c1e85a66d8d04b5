"""Watermarks and drafts together: Hu and Huang's two couplings, and MPFR, draws of Poisson processes.

HU AND HUANG. A keyed code turns each distribution into one for that code; over the codes it is the distribution again. To keep the
watermark, draft and target are turned by the same code and tested with the turned distributions: with the delta reweighting both are
inverse distribution functions of one uniform number, and the draft is kept where the two tokens are equal. To keep the efficiency, the
draft is drawn through the code, and tested with p and q themselves. Their code drafts one path, no tree. MPFR. Every token has a Poisson
process of rate q_x in the draft's race and p_x in the target's, with the same noise. The drafts are the tokens of the first k arrivals,
the output is that of the target's first. Its code goes down a tree: a child has as many arrivals as its token had among its parent's, and
the walk ends where none is the output. It keys the noise by the context, so that no two contexts share it; with its labels of a few
tokens it masks contexts that come again. All verdicts are over the key.
"""

from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from ..record import SPECULATIVE, Coupled, Form, Work
from .races import walked


def one_uniform(p: Any, q: Any, k: int, fresh: bool = False) -> Any:
    """Draft and output at one uniform number: distribution of the output, mass where they are equal. fresh: else a draw from p."""
    above, below = ([Fraction(0), *accumulate(side)] for side in (p, q))
    both = [
        [max(Fraction(0), min(above[y + 1], below[x + 1]) - max(above[y], below[x])) for y in range(len(p))]
        for x in range(len(q))
    ]
    kept = [both[y][y] for y in range(len(p))]
    if fresh:
        return [mass + (1 - sum(kept)) * p[y] for y, mass in enumerate(kept)], sum(kept)
    return [sum(column) for column in zip(*both, strict=True)], sum(kept)


def late_or_not(p: Any, q: Any, k: int) -> tuple[list[Any], list[Any]]:
    """Mass of each output of MPFR that is not among the first k arrivals of q's race, and that is.

    Given that y wins the target's race at time t, the arrivals before it in q's race are Poisson, of mean t s with s the sum of
    (q_x/q_y - p_x/p_y)+ over the others; t has density exp(-t/p_y).
    """
    late, among = list[Any](), list[Any]()
    for a, b in zip(p, q, strict=True):
        if a and b:
            s = sum((max(Fraction(0), y / b - x / a) for x, y in zip(p, q, strict=True)), Fraction(0))
            whole = 1 / a + s
            among.append(sum((s**j / whole ** (j + 1) for j in range(k)), Fraction(0)))
            late.append((s / whole) ** k * a)
        else:  # perhaps a token that q never gives
            among.append(Fraction(0))
            late.append(a)
    return late, among


def arrivals(p: Any, q: Any, k: int, swapped: bool = False) -> Any:
    """MPFR's output distribution, and mass where it is among the first k arrivals of q's race; swapped: the two sides change places."""
    late, among = late_or_not(*((q, p) if swapped else (p, q)), k)
    return [a + b for a, b in zip(late, among, strict=True)], sum(among)


def twice(p: Any, q: Any, y: int) -> Fraction:
    """Mass where y is the output and both of the first two arrivals.

    y's own two delays e and r e leave the others behind with chance exp(-e A(r)), A(r) = 1 + r + the sum of max(p_x/p_y, (1 + r) q_x/q_y):
    the mass is the integral of A(r)^-2, and A is linear between the r at which a maximum changes sides.
    """
    if not p[y] or not q[y]:
        return Fraction(0)
    others = [(p[x] / p[y], q[x] / q[y]) for x in range(len(p)) if x != y]

    def rate(r: Fraction) -> Fraction:
        return 1 + r + sum((max(a, (1 + r) * b) for a, b in others), Fraction(0))

    ends = [Fraction(0), *sorted({a / b - 1 for a, b in others if b and a > b})]
    parts = ((high - low) / (rate(low) * rate(high)) for low, high in pairwise(ends))
    return sum(parts, Fraction(0)) + q[y] / rate(ends[-1])  # from there on A has slope 1/q_y


def alive(p: Any, q: Any, k: int) -> tuple[list[Any], ...]:
    """Mass of each output that none, one, .. of the first k <= 2 arrivals are."""
    late, among = late_or_not(p, q, k)
    both = [twice(p, q, y) for y in range(len(p))]
    return (late, among) if k == 1 else (late, [a - b for a, b in zip(among, both, strict=True)], both)


SWAPPED = (("the output races for q", partial(arrivals, swapped=True)),)
WORKS = (
    Work("hu-huang", "Hu and Huang's two couplings", "2410.20418", "code; abstract", "unbiased, over the key",
         "one reweighting per distribution",
         (Form("keeping the watermark: one position of one path", Coupled(one_uniform, (1,), (("a fresh draw after a rejection",
                                                                                       partial(one_uniform, fresh=True)),)),
               "two inverse distribution functions of one number: each token has its own distribution"),
          Form("keeping the efficiency: one position of one path", SPECULATIVE, "over the key the draft follows q; Coq: sampling.v")),
         "xiaoniu-578fa6bff964d005/AcceleratedUnbiasedWatermark accuwm/utils.py@bf5d9c4, mc_sample; accuwm/mc_watermark.py",
         remarks="Its mc_sample, over a grid of uniform numbers, has these distributions. Gumbel reweighting: see daliri."),
    Work("mpfr", "MPFR", "2609.21858", "abstract; code that names it", "unbiased; drafter-invariant", "k exponentials per token",
         (Form("first k arrivals: one position", Coupled(arrivals, (1, 2, 3), SWAPPED),
               "exact integration over the arrivals"),
          Form("tree of two drafts, walk", walked(alive), "the same at every node, whose noise is its own; one pair of distributions")),
         "1WanSicheng/ERSD_Watermark accuwm/multi_draft_pfr.py@9c4db8c, multi_draft_pfr_block"),
)  # fmt: skip
