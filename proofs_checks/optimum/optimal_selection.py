"""Optimal selection: one draft can be selected in near-linear time so that its coupling with p attains the optimum alpha*.

THEOREM. For k >= 1 i.i.d. drafts from q, the rule `otd.rules.Optimal` outputs exactly p, and its acceptance is alpha* = min
over H of 1 + p(H) - q(H)^k, which no valid rule exceeds. So too under `Hybrid(top=j)` for every j.

SETUP. Tokens with q > 0 in the order of p/q, 1 .. N; p are any masses >= 0. Prefix sums t_i of q and F_i of p; g_i = t_i^k;
D = g - F; i* an index at which D is largest. A *curve* is given at the breakpoints t_0 = 0 < ... < t_N = 1 and straight
between them; s_h(i) = (h_i - h_{i-1}) / q_i is the slope of h over step i. F is convex (its slopes are the ratios in
order), g is convex, strictly for k >= 2. For k = 1 g is straight. [ab]h is the chord of h from a to b, h_B the curve that
is straight between the breakpoints of B and the two ends and equals h there. The *kink* of h at i is s_h(i+1) - s_h(i).

1. BOUND. (a) Valid rule, any distribution Q of the drafts, any H: an accepted output lies in H, or outside H and then some draft
   does too. Hence acceptance <= p(H) + 1 - Q(all drafts in H); for i.i.d. drafts this is 1 + p(H) - q(H)^k.
   (b) m the distribution of a selected draft, any H: when all drafts lie in H so does the selected one, m(H) >= q(H)^k. Hence sum
   min(p, m) <= p(H) + 1 - m(H) <= 1 + p(H) - q(H)^k, for any masses p. Prefixes H give 1 - D_i; 2 attains their least value
   1 - D_{i*}, so that this is the least of all H.

2. ENVELOPE. Let L_i = max of D_j over j <= i, R_i = max over j >= i, and G = F + min(L, R). Left of i* R is D_{i*} >= L, so
   G = F + L there; right of it G = F + R. G >= g, because L, R >= D. G_0 = 0, G_N = 1, G_{i*} = g_{i*}.
   *G is convex*: s_G(i) <= s_G(i+1) at each inner i. If G_i = g_i, then s_G(i) <= s_g(i) <= s_g(i+1) <= s_G(i+1), since
   G >= g and g is convex. If G_i > g_i and i < i*: L_i > D_i, so L_{i-1} = L_i and s_G(i) = s_F(i) <= s_F(i+1) <= s_G(i+1),
   as L never falls. If G_i > g_i and i > i*: R_i > D_i, so R_{i+1} = R_i and s_G(i) <= s_F(i) <= s_F(i+1) = s_G(i+1), as R
   never rises. (i = i* has G_i = g_i.)
   *It attains the bound.* Let m be the increments of G: m >= 0 (G is convex, G_0 = 0, G >= 0), sum m = 1, m_i >= p_i for
   i <= i* (L does not fall), m_i <= p_i after (R does not rise). So sum
   min(p, m) = F_{i*} + 1 - G_{i*} = 1 - D_{i*} = alpha*.
   *m <= k q*: s_G(N) <= s_g(N) <= k, as G_N = g_N, G_{N-1} >= g_{N-1} and t^k has slope at most k on [0, 1].
   *What p has above k q does not matter*: let p' = min(p, k q), D' = g - F'. The order remains an order of p'/q. The tokens
   with p > k q come last, say after s; there D and D' do not rise, hence i* <= s can be chosen for both, and R = D, R' = D'
   from s on, G = g = G'. Up to s F = F', D = D', and R_i = max(D_i .. D_s) = R'_i. So G = G'.

3. LEVELS. c_i = the least of 1 and ([ab]G - G)_i / ([ab]g - g)_i over a < i < b, where 0/0 counts as 0. (No x/0 with x > 0
   occurs: g is strictly convex for k >= 2; for k = 1 g and G >= g are convex with the same ends and g is straight, so that
   G = g, and all c = 0.) B(lambda) = {inner i : c_i > lambda}; these sets shrink as lambda grows.
   *Claim*: G = integral of g_{B(lambda)} over [0, 1]. Proof: let V_lambda be the lower convex hull of the points
   G - lambda g. An inner i is a vertex iff it lies strictly below all chords, [ab]G - G > lambda ([ab]g - g) at i for all
   a < i < b: for 0 <= lambda < 1, iff c_i > lambda. So V_lambda = G_B - lambda g_B with B = B(lambda). Hulls of curves that
   differ by at most e differ by at most e, hence V is continuous in lambda; on each of the finitely many stretches where B
   is constant its derivative is -g_B. So V_0 - V_1 = integral of g_{B(lambda)}. V_0 = G, as G is convex; V_1 = 0, as
   G - g >= 0 is 0 at both ends. QED.
   *Straight stretches.* Stretches on which G is straight need no special case: their inner breakpoints are not vertices, c = 0.
   *The sweep finds c.* i is a vertex iff V_lambda has a kink > 0 there. The kinks are continuous in lambda, start as those
   of G, and while B is constant fall at the rate of the kinks of g_B, which for i in B depends on its two neighbours in B
   only. So the first lambda at which the kink of i is 0 is c_i: it leaves B then, for ever, and the others' kinks do not
   jump. What dies at the same lambda may do so in any order. By lambda = 1 all kinks are 0.
   *The polytope is a cube* (another way to see it; k >= 2). Convex curves >= g with g's ends: at each inner i two
   inequalities, kink >= 0 and value >= g_i. Never are both equalities: h straight at i, h_i = g_i and h >= g would make
   ([i-1, i+1]g)_i <= h_i = g_i, against strict convexity. Any choice of one equality at each i is met by one curve, g_B. So
   the vertices are the g_B, each simple, in pairs of opposite facets; G is a mixture of those along one monotone path from
   B(0) down.

4. SELECTION. Draw lambda uniformly from [0, 1), apart from the drafts. B(lambda) cuts the tokens into intervals (a, b]. The
   highest that holds a draft wins; in it the first drawn draft is selected. A token y of (a, b] is selected as draft l iff
   the l - 1 drafts before lie in the first a tokens, draft l is y, the k - l after lie in the first b: sum over l of
   t_a^{l-1} q_y t_b^{k-l} = q_y (t_b^k - t_a^k) / (t_b - t_a), the increment of g_B over y. Average over lambda: the distribution of
   the selected token is m, by 3.
   *The formula.* Given the drafts, let M_l be the largest c_b over breakpoints b between draft l's token and the top
   draft's (0 if none): draft l is in the winning interval iff lambda >= M_l, and selected iff also lambda < M_j for all
   j < l. Its probability is the fall of the running minimum min(1, M_1, .., M_l) at l.

5. COUPLING. Take the selected token y with probability min(1, p/m), else draw from norm((p - m)+). Taken: min(p, m). Not
   taken: probability 1 - sum min(p, m) = sum (p - m)+ as sum p = 1 (tokens with q = 0 have m = 0). Output:
   min(p, m) + (p - m)+ = p. Acceptance >= alpha* by 2, <= alpha* by 1.

6. ANY LEVELS. 4 holds for any order and any c in [0, 1], with m = increments of the integral of g_{B(lambda)}; 5 needs no
   more than that m is the distribution of the selected token. So p is kept exactly, and the acceptance is at least sum min(p, m).

7. SCALED TARGET w p, 0 <= w <= 1. 1(b) to 4 hold for any masses: accepted are min(w p, m), in all min over H of
   1 + w p(H) - q(H)^k, and (w p - m)+ is left, in all w p.

8. HYBRID. The first j drafts are T whatever happens, the r = k - j others i.i.d. from a distribution q' outside T. Run 2 to 4 with
   q', r and the masses p outside T. m = 0 on T, so 5 outputs p, and (p - m)+ on T is p, which was drafted.
   Acceptance >= p(T) + min over H' outside T of 1 + p(H') - q'(H')^r (2, with masses of sum 1 - p(T)) = min over H
   containing T of 1 + p(H) - q'(H - T)^r. Q(all drafts in H) is q'(H - T)^r if H contains T and 0 if not, and then 1(a)
   gives 1 + p(H) >= 1, no less than H = everything gives. So this is the bound 1(a). With r = 0 nothing is selected: output
   p, acceptance p(T). j may depend on q: 1(a) and this hold for each q.

CHECK. Every step on random rational problems in Fractions by ==, all drafts enumerated, each with injected errors that must
come out false.
"""

from __future__ import annotations

from ..random_cases import check_on_random_cases as check
from ..statement import Statement
from .selection_by_levels import lemmas, results

__all__ = ["STATEMENTS", "check"]

OWN = "this project"
LEMMA = "Fractions, definitions taken literally"
ENUMERATED = "Fractions, all drafts enumerated"

STATEMENTS = (
    Statement(
        "the bound",
        "min over H of 1 + p(H) - q(H)^k, over all token sets, is attained by a prefix in the order of p/q.",
        "Hu et al. 2025; proof 1, 2",
        "Fractions, all 2^n token sets",
        lemmas.bound,
        (lemmas.BY_DRAFT,),
    ),
    Statement(
        "the envelope",
        "G is convex, above t^k, from 0 to 1; sum min(p, m) = alpha* for its increments m <= k q; p above k q does not matter.",
        f"{OWN}; proof 2",
        LEMMA,
        lemmas.envelope,
        (lemmas.ONE_SIDE,),
    ),
    Statement(
        "the levels",
        "B(lambda) are the vertices of the hull of G - lambda g; the sweep finds the same levels; G = integral of g_B(lambda).",
        f"{OWN}; proof 3",
        LEMMA,
        lemmas.levels,
        (lemmas.ONE_LEVEL,),
    ),
    Statement(
        "the polytope is a cube",
        "At each breakpoint, of kink >= 0 and value >= t^k, exactly one is an equality in each g_B (k >= 2).",
        f"{OWN}; proof 3",
        "Fractions, all sets B",
        lemmas.cube,
        (lemmas.STRAIGHT,),
    ),
    Statement(
        "the selected draft",
        "Decreases of the running minimum of M equal the choice by intervals; the selected token has distribution m.",
        f"{OWN}; proof 4",
        ENUMERATED,
        lemmas.selection,
        (lemmas.TOP_DRAFT,),
    ),
    Statement(
        "optimal selection, i.i.d. drafts",
        "Optimal outputs exactly p and accepts exactly alpha*; it decides as the proof's construction does.",
        f"{OWN}; proof 5",
        ENUMERATED,
        results.optimal,
        (lemmas.BY_DRAFT,),
    ),
    Statement(
        "any levels are valid",
        "For any order and any levels in [0, 1] the output is exactly p, if m is computed from them; the acceptance is at most alpha*.",
        f"{OWN}; proof 6",
        ENUMERATED,
        results.any_levels,
        (results.ALL_ONE, results.STALE),
    ),
    Statement(
        "optimal selection, scaled target",
        "For w p the accepted probability is min over H of 1 + w p(H) - q(H)^k; with the residual the output is exactly w p.",
        f"{OWN}; proof 7",
        ENUMERATED,
        results.scaled_target,
        (results.UNSCALED,),
    ),
    Statement(
        "optimal selection, hybrid drafts",
        "Optimal under Hybrid(j), every j from 0 to k and 'auto', outputs exactly p and accepts the minimum cut of the draft law.",
        f"{OWN}; proof 8",
        ENUMERATED,
        results.hybrid,
        (results.WRONG_LAW, results.NORMALISED),
    ),
)
