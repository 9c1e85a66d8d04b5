"""K-SEQ's share of the optimum: SpecTr's factor 1 - (1 - 1/k)^k, and the sharp factor, which is larger.

SPECTR'S BOUND. An accepted output y was drafted, with probability at most k q(y), so alpha_k <= sum min(p, k q) = k beta(k).
gamma* <= k and p_acc falls in gamma, so K-SEQ accepts at least p_acc(k) = 1 - (1 - b)^k with b = beta(k) <= 1/k, and there
1 - (1 - b)^k >= (1 - (1 - 1/k)^k) k b.

THEOREM. For all p, q and k >= 2 K-SEQ at gamma* accepts at least rho_k alpha_k, where rho_k = 1 - x^k and x = x_k is the only
root in (0, 1) of k^k x^{k-1} = (k-1)^{k-1} (1 + x + ... + x^{k-1}). This is sharp: p = (c^k, 1 - c^k), q = (c, 1 - c) with
c = k x/(k-1) reaches it. rho_2 = 8/9, rho_3 = .8650, rho_8 = .8397; rho_k falls to .8264 = 1 - e^{-t}, e^t = 1 + e t.
SpecTr's factors .75, .7037, ..., 1 - 1/e = .6321 are not tight.

PROOF. Two tokens are enough: merge the tokens held back at gamma* (p <= gamma* q), with masses a and c under p and q, and the
others, with masses 1 - a and d = 1 - c. beta, gamma* and P = p_acc stay. alpha does not fall: merging turns a coupling into
one, and what was drafted stays drafted. So alpha <= min(1, 1 + a - c^k). At gamma*, gamma* = h(beta) and
beta = a/gamma* + d, hence a = (beta - d) h = P - d h, with P = beta h = 1 - (1 - beta)^k. Let x = 1 - beta.
1. If x <= x_k, then P = 1 - x^k >= rho_k >= rho_k alpha.
2. Where x = x_k, a <= c^k for every c: by c^k >= c_0^k + k c_0^{k-1} (c - c_0) at c_0 = k x_k/(k-1), where k c_0^{k-1} = h by the
   choice of x_k, a - c^k <= P - h + h c_0 - c_0^k = h (beta - 1 + c_0 (1 - 1/k)) = 0, with equality for c = c_0. There
   alpha = 1 and P = rho_k: sharp.
3. If x > x_k: keep c, and let beta run from d, where a = 0 and P = 1 - c^k, to 1 - x_k, where P = rho_k and a <= c^k by 2; our
   problem lies on the way. a grows with beta. P is a concave function of a, since da/dP = 1 - d h'/P' grows with beta, as
   -h'/P' does. At both ends P >= rho_k (1 + a - c^k), which is linear in a. So P >= rho_k (1 + a - c^k) >= rho_k alpha. QED.

CHECK. The univariate lemmas for k = 2 .. 16 by counting real roots; both bounds by z3 for k = 2 and 3; every step on random
problems and on the worst ones; a search with more tokens that finds no worse pair.
"""

from __future__ import annotations

from ..checking import check
from ..statement import Statement
from .sharp import lemmas, search, smallest

__all__ = ["STATEMENTS", "check"]

SPECTR = "Sun et al. 2023 (SpecTr), Theorem 1"
OWN = "this project"

STATEMENTS = (
    Statement(
        "lemmas of K-SEQ's share",
        "1 - (1 - b)^k >= (1 - (1 - 1/k)^k) k b on [0, 1/k]; b <= 1 - (1 - b)^k <= k b; t^k >= 1 + k (t - 1);"
        " x_k is a single root; -h'/P' grows with beta.",
        f"{SPECTR}; {OWN}",
        "sympy, real roots counted (Sturm); limits by sympy",
        planted=(lemmas.MORE, lemmas.CONCAVE, lemmas.LIMIT),
        prove=lemmas.lemmas,
    ),
    Statement(
        "SpecTr's bound for K-SEQ",
        "p_acc at gamma* >= (1 - (1 - 1/k)^k) alpha_k: 3/4 for k = 2, 19/27 for k = 3.",
        f"{SPECTR}; any n by aggregation",
        "z3, s = 1/gamma, every min split, all token sets of alpha",
        planted=(smallest.NINE_TENTHS,),
        prove=smallest.published,
    ),
    Statement(
        "the sharp bound for K-SEQ, small k",
        "p_acc at gamma* >= 8/9 alpha_2 and >= 0.865 alpha_3.",
        f"{OWN}; any n by aggregation",
        "z3, s = 1/gamma, every min split, all token sets of alpha",
        planted=(smallest.LITTLE_MORE,),
        prove=smallest.sharp,
    ),
    Statement(
        "the sharp bound for K-SEQ",
        "K-SEQ accepts at least rho_k alpha_k; merging tokens keeps p_acc and lowers no alpha.",
        OWN,
        "Fractions, the library's rule on all drafts; the worst pairs for k = 2 .. 6 first",
        search.bound,
        (search.THOUSANDTH, search.MERGED_LOWER),
        first=search.WORST,
        limit=300,
    ),
    Statement(
        "worst cases of K-SEQ",
        "The smallest K-SEQ/optimum at each k is rho_k, with two tokens; a search over 2 and 3 tokens finds no smaller one.",
        OWN,
        "scipy's search from random starts, rounded; certified in Fractions",
        planted=(search.ABOVE,),
        prove=search.worst,
    ),
    Statement(
        "SpecTr's factor is tight",
        "For every k some p, q have a share of K-SEQ within 0.01 of 1 - (1 - 1/k)^k.",
        f"{SPECTR} leaves it open",
        "z3, s = 1/gamma, every min split, all token sets of alpha",
        planted=(smallest.OWN_TIGHT,),
        prove=smallest.tight,
        expected="refuted",
    ),
)
