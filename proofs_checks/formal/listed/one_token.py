"""Theorems about one token."""

from .theorem import OURS, Planted, Theorem

HU = "Hu et al. 2025 (dual of the linear program)"
KHISTI = "Khisti et al. 2024"
SPECTR = "Sun et al. 2023 (SpecTr)"

ONE_TOKEN = (
    Theorem(
        "rules are couplings",
        "A rule is lossless exactly if Q(x) row_x(y) is a coupling of Q and p, and every coupling is a rule's.",
        "problem",
        ("rule_is_coupling", "coupling_is_rule"),
        SPECTR,
        (
            Planted(
                "the rule need not be lossless",
                "it emits token 0 always, and p is another law",
                "proper k Q rule -> lossless k Q p rule ->\n",
                "proper k Q rule ->\n",
            ),
        ),
    ),
    Theorem(
        "the bound, every draft law",
        "Acceptance of a lossless rule <= 1 + p(H) - Q(all drafts in H) for every H; <= sum min(p(y), Q(y drafted)).",
        "bound",
        ("bound", "accepted_at_most"),
        HU,
        (
            Planted(
                "1 left out",
                "one token: 1 is accepted, and p(H) - Q(H) = 0",
                "<= 1 + mass_of p H - inside",
                "<= mass_of p H - inside",
            ),
        ),
    ),
    Theorem(
        "the maximal coupling",
        "Accept a token from m with probability min(1, p/m), else sample norm((p - m)+): the output is p, acceptance sum min(p, m).",
        "bound",
        ("maximal_coupling",),
        "Leviathan et al. 2023; Chen et al. 2023",
        (
            Planted(
                "the correction draws from p",
                "p = (1/2, 1/2), m = (1, 0): 3/4 comes out at token 0",
                "norm (excess p m) p y = p y",
                "p y = p y",
            ),
        ),
    ),
    Theorem(
        "a selected draft, coupled",
        "Select a draft in any way (distribution m), accept by min(1, p/m), else norm((p - m)+): lossless, accepts >= sum min(p, m).",
        "couple",
        ("couple_acceptance", "couple_lossless"),
        f"{KHISTI} (the selected draft)",
        (
            Planted(
                "it accepts sum max(p, m)",
                "p = (1, 0), q = (0, 1): the sum is 2",
                r"\sum_y Num.min (p y) (m y)",
                r"\sum_y Num.max (p y) (m y)",
            ),
        ),
    ),
    Theorem(
        "Hall's theorem for masses",
        "Masses s(S) on sets with s(inside H) <= m(H) for every H can be distributed to tokens of S, at most m(y) to each y.",
        "transport",
        ("transport",),
        "Hall 1935; Gale 1957 (masses)",
        (Planted("for any masses", "s = 1 on one set, m = 0", "fits s m -> handed_out", "handed_out"),),
    ),
    Theorem(
        "the distributions of a selected draft",
        "For every draft law Q: exactly those m with m(H) >= Q(all drafts in H) for every H.",
        "hall",
        ("selected_laws",),
        f"{KHISTI} (two drafts); this project (any law)",
        (Planted("every law m is one", "one draft: its law is q, and no other", r"law m /\ core m <->", "law m <->"),),
    ),
    Theorem(
        "the best acceptance, every draft law",
        "max sum min(p, m) over these m = min over H of 1 + p(H) - Q(all drafts in H); a selected draft attains it.",
        "hall",
        ("least_cut_is_best", "best_selection"),
        f"{HU}; {KHISTI} (a selected draft suffices)",
        (
            Planted(
                "no rule at all accepts more",
                "p = (1, 0), q = (0, 1): who emits the draft accepts 1, and alpha* = 0",
                "proper k Q rule -> lossless k Q p rule -> acceptance",
                "proper k Q rule -> acceptance",
            ),
        ),
    ),
    Theorem(
        "speculative sampling, every p and q",
        "Lossless; accepts sum min(p, q); no lossless rule for one draft accepts more.",
        "sampling",
        ("speculative_sampling_lossless", "speculative_sampling_optimal"),
        "Leviathan et al. 2023, Theorem 1; Chen et al. 2023, Theorem 1",
        (
            Planted(
                "the drafts are i.i.d. from p",
                "p = (1/2, 1/2), q = (1/4, 3/4): token 0 comes out with 2/3",
                "lossless 1 (iid q) p",
                "lossless 1 (iid p) p",
            ),
        ),
    ),
    Theorem(
        "recursive rejection, every k",
        "Lossless for i.i.d. drafts, without replacement, and for drafts sampled in sequence from any given distributions.",
        "sampling",
        ("recursive_rejection_lossless", "recursive_rejection_iid", "recursive_rejection_without_replacement"),
        "Miao et al. 2024 (SpecInfer); Yang et al. 2024 (multi-candidate)",
        (
            Planted(
                "whatever laws it is told",
                "told p it takes the first draft, whose law is another",
                "p (recursive_rejection next h p)",
                "p (recursive_rejection (fun _ => p) h p)",
            ),
        ),
    ),
    Theorem(
        "naive target sampling, every draft law",
        "Lossless for every draft law.",
        "sampling",
        ("naive_target_lossless",),
        "Miao et al. 2024 (SpecInfer)",
        (
            Planted(
                "lossless for another target",
                "p comes out, and p/2 is not p",
                "lossless k Q p (naive_target p)",
                "lossless k Q (fun y => p y / 2%:R) (naive_target p)",
            ),
        ),
    ),
    Theorem(
        "K-SEQ is lossless, every k",
        "Exactly if min(q, p/g) S <= p everywhere; where some token has 0 < p <= g q, exactly if p_acc <= g beta.",
        "k_seq",
        ("k_seq_lossless", "k_seq_lossless_iff", "k_seq_lossless_clamped"),
        f"{SPECTR}, Theorem 1; this project (exactly when)",
        (
            Planted(
                "for every factor",
                "p = (1/2, 1/2), q = (1, 0), k = 1, g = 1/10: token 0 comes out always",
                "p_acc g p q k <= g * beta g p q ->\n  lossless",
                "\n  lossless",
            ),
        ),
    ),
    Theorem(
        "K-SEQ under the bound",
        "For g > 0 it decides by probabilities; where lossless, 1 - (1 - beta)^k <= acceptance <= 1 + p(H) - q(H)^k for every H.",
        "k_seq",
        ("k_seq_bounded", "k_seq_proper"),
        f"{OURS}; {HU} (the bound)",
        (
            Planted(
                "for every factor",
                "p = (1/2, 1/2), q = (1, 0), k = 1, g = 1/10: it accepts 1, the bound of H = {0} is 1/2",
                "p_acc g p q k <= g * beta g p q ->\n",
                "\n",
            ),
        ),
    ),
    Theorem(
        "gamma* exists, every k",
        "p_acc <= g beta exactly if g >= gamma*, for one gamma* in [1, k] (real closed fields; p and q overlap).",
        "k_seq",
        ("best_factor",),
        f"{SPECTR}, Theorem 1",
        (
            Planted(
                "gamma* <= 1",
                "p = (0, 1), q = (1/2, 1/2), k = 2: from 3/2 on, and from nowhere else",
                "1 <= gamma <= k%:R",
                "gamma <= 1",
            ),
        ),
    ),
    Theorem(
        "K-SEQ's share, every k",
        "Its tests accept at least 1 - (1 - 1/k)^k of what any lossless rule accepts, for every factor in (0, k].",
        "k_seq",
        ("k_seq_share", "k_seq_acceptance"),
        f"{SPECTR}, Theorem 1",
        (
            Planted(
                "all of it",
                "one token, k = g = 2: the tests accept 3/4, naive target sampling 1",
                "(1 - (1 - k%:R^-1) ^+ k) * acceptance",
                "acceptance",
            ),
        ),
    ),
    Theorem(
        "K-SEQ's sharp share, every k",
        "Up to gamma* the tests accept >= rho_k = 1 - x^k of what any lossless rule does, k^k x^(k-1) = (k-1)^(k-1) (1 + .. + x^(k-1)).",
        "k_seq_sharp",
        ("k_seq_sharp_share", "k_seq_best_share", "rho_exists", "sharp_unique", "rho_two"),
        OURS,
        (
            Planted(
                "the share 1 - x^(k+1)",
                "k_seq_share_tight: 1 - x^k is reached, and 0 < x < 1",
                "(1 - x ^+ n.+1) * acceptance",
                "(1 - x ^+ n.+2) * acceptance",
            ),
        ),
    ),
    Theorem(
        "rho_k is reached, so that SpecTr's factor is not tight",
        "Two tokens on which all can be accepted and K-SEQ at gamma* accepts rho_k; rho_k > 1 - (1 - 1/k)^k for every k >= 2.",
        "k_seq_sharp",
        ("sharp_larger", "k_seq_share_tight"),
        f"{OURS}; refutes the tightness in {SPECTR}",
        (
            Planted(
                "rho_k is SpecTr's factor",
                "the theorem itself: rho_2 = 8/9, the factor is 3/4",
                "^+ n.+1 < 1 - x",
                "^+ n.+1 = 1 - x",
            ),
        ),
    ),
    Theorem(
        "K-SEQ between its share and the optimum",
        "For 0 < g <= k, where p_acc <= g beta: (1 - (1 - 1/k)^k) alpha* <= the acceptance of K-SEQ itself <= alpha*.",
        "k_seq_rule",
        ("k_seq_between",),
        f"{SPECTR}, Theorem 1; {HU} (alpha*)",
        (
            Planted(
                "it accepts the optimum",
                "two tokens with alpha* = 1 on which it accepts 8/9 (k_seq_rule_share_tight, k = 2)",
                "(1 - (1 - k%:R^-1) ^+ k) * least_cut",
                "least_cut",
            ),
            Planted(
                "by its tests alone",
                "one token, k = g = 2: the tests accept 3/4, and the residual emits the drafted token",
                "<= acceptance k (iid q) (rule_at g p q) <= least_cut (real R) (index_enum T) k (iid q) p",
                "<= acceptance k (iid q) (rule_at g p q) <= p_acc g p q k",
            ),
        ),
    ),
    Theorem(
        "K-SEQ's share of the optimum is rho_k exactly",
        "At gamma* K-SEQ accepts what its tests do: >= rho_k of any lossless rule, and rho_k where another one accepts everything.",
        "k_seq_rule",
        ("k_seq_accepts_by_tests", "k_seq_rule_share", "k_seq_rule_share_tight"),
        OURS,
        (
            Planted(
                "at every factor",
                "one token, k = 1, g = 2: the tests accept 1/2, and the residual emits the drafted token",
                "0 < beta g p q -> p_acc g p q k = g * beta g p q ->",
                "0 < beta g p q -> p_acc g p q k <= g * beta g p q ->",
            ),
        ),
    ),
    Theorem(
        "K-SEQ accepts what recursive rejection does, or more",
        "k i.i.d. drafts, every factor up to gamma*: recursive rejection <= K-SEQ's tests <= K-SEQ, which at gamma* is lossless.",
        "order_of_rules",
        ("recursive_rejection_at_most_k_seq", "k_seq_at_least_recursive_rejection"),
        OURS,
        (
            Planted(
                "at every factor",
                "p = q = (1/2, 1/2), k = 1, g = 3: K-SEQ's test accepts 1/3, recursive rejection 1",
                "g * beta g p q <= p_acc g p q k ->\n",
                "\n",
            ),
        ),
    ),
    Theorem(
        "what recursive rejection accepts",
        "It accepts 1 - M(S_k), M(s) = sum (p - s q)+, S_0 = 0, S_(i+1) = S_i + M(S_i), for k i.i.d. drafts.",
        "order_of_rules",
        ("recursive_rejection_acceptance",),
        OURS,
        (
            Planted(
                "S_k = k",
                "p = (1, 0), q = (1/2, 1/2), k = 2: it accepts 3/4, and M(2) = 0",
                "beyond p q (walk p q k 0)",
                "beyond p q k%:R",
            ),
        ),
    ),
    Theorem(
        "SpecHub attains the optimum of its draft law",
        "Draft a and one other token, couple the other with p: lossless, accepts p(a) + sum min(p, q') over the others, the optimum.",
        "spec_hub",
        ("spec_hub_optimal", "spec_hub_lossless"),
        "Sun et al. 2024 (SpecHub); proof: this project",
        (
            Planted(
                "what falls on a was not drafted",
                "p = q = (1/2, 1/2): both tokens are drafted, 1 is accepted; the sum over the other is 1/2",
                "Let best := p a + ",
                "Let best := ",
                "spec_hub",
            ),
        ),
    ),
    Theorem(
        "the numbers rho_k",
        "rho_k in four decimals for k = 2, 3, 4, 5, 6, 8, 16, 32, over every real field, by rational numbers around the root.",
        "rho",
        ("rho_numbers", "sharp_between"),
        OURS,
        (
            Planted(
                "rho_3 is .8651",
                "it is .86508.., by the theorem itself",
                "rho 3 - phi (8650#10000)",
                "rho 3 - phi (8651#10000)",
            ),
        ),
    ),
    Theorem(
        "computed values hold over every real field",
        "Output distribution, acceptance, optimum and optimal selection computed in Coq's rationals are those of the theorems.",
        "carried",
        (
            "computed_everywhere",
            "rational_operations",
            "carried_output",
            "carried_acceptance",
            "carried_least_cut",
            "carried_optimal",
        ),
        OURS,
        (
            Planted(
                "the target is q",
                "p = (1, 0), q = (0, 1), k = 1: alpha* is 0, of q it is 1",
                "(iid (real R) q') p'].",
                "(iid (real R) q') q'].",
            ),
        ),
    ),
    Theorem(
        "levels exist",
        "Every convex curve >= t^k with the same ends is the mixture of chords that the computed tree of levels gives.",
        "levels",
        ("levels_exist",),
        OURS,
        (
            Planted(
                "every curve",
                "three places, h high above the chord in the middle: the tree is a leaf, its value the chord",
                "convex h a b ->\n",
                "\n",
            ),
        ),
    ),
    Theorem(
        "selection by levels is a descent of the tree",
        "Decreases of the running minimum of M give each token the probability that descending the tree of cuts gives.",
        "selected",
        ("falls_descend",),
        OURS,
        (
            Planted(
                "the falls start at 2",
                "one draft: it is selected with 1, the fall from 2 is 2",
                "on_place 1 (fun j",
                "on_place 2%:R (fun j",
            ),
        ),
    ),
    Theorem(
        "the draft selected by levels, every k",
        "For k i.i.d. drafts, the distribution of the selected token is the increments of the mixture.",
        "selected_law",
        ("selected_law",),
        OURS,
        (
            Planted(
                "of the next token",
                "one draft, q = (1/3, 2/3), no level: the law is q, not the next token's",
                "value q k s w a b (place y).+1 - value q k s w a b (place y).",
                "value q k s w a b (place y).+2 - value q k s w a b (place y).+1.",
            ),
        ),
    ),
    Theorem(
        "the envelope, every n and k",
        "G is convex, >= t^k, from 0 to 1; its increments m have sum min(p, m) = 1 + p(H) - q(H)^k for a prefix H.",
        "envelope",
        ("overlap", "G_convex"),
        OURS,
        (Planted("the sum is 1", "p = (1, 0), q = (0, 1): it is 0", "(dG i) = 1 - D top", "(dG i) = 1"),),
    ),
    Theorem(
        "optimal selection, every n and k",
        "For i.i.d. drafts the computed rule is lossless and accepts 1 + p(H) - q(H)^k, H a prefix: the optimum.",
        "optimal",
        ("optimal_rule", "optimal_selection"),
        OURS,
        (
            Planted(
                "no rule at all accepts more",
                "p = (1, 0), q = (0, 1): who emits the draft accepts 1, the rule 0",
                "lossless k (iid q) p other ->\n        acceptance",
                "\n        acceptance",
            ),
        ),
    ),
    Theorem(
        "optimal selection of hybrid drafts, every j",
        "Fixed tokens first, r >= 1 samples outside them: lossless, accepts 1 + p(H) - Q(all drafts in H) for some H, the optimum.",
        "hybrid",
        ("optimal_hybrid_rule", "optimal_hybrid_selection"),
        f"{OURS}; {HU} (all but one given)",
        (
            Planted(
                "the draws are from q",
                "given token 0, r = 2, p = (.21, .79, 0), q = (.1, .4, .5): .77 is accepted, who passes over draws of 0 accepts .85",
                "let next := outside (real R) (index_enum T) q tops in",
                "let next := q in",
            ),
        ),
    ),
    Theorem(
        "selection by any levels, every k",
        "Any order, any levels <= 1: the selected token has m(H) >= q(H)^k; coupled with p: lossless, accepts >= sum min(p, m).",
        "any_levels",
        ("any_levels_law", "cartesian_levels", "any_levels_lossless", "any_levels_enough"),
        OURS,
        (
            Planted(
                "m(H) >= q(H)",
                "k = 2, q = (1/2, 1/2), level 1: the lower token is selected with 1/4",
                "mass_of q H ^+ k <=",
                "mass_of q H <=",
            ),
        ),
    ),
    Theorem(
        "what an algorithm for levels must meet",
        "Order by p/q and levels of the envelope: no lossless rule accepts more. Any levels at every node: Joint is lossless.",
        "any_levels",
        ("any_levels_optimal", "selected_levels_optimal", "any_levels_joint"),
        OURS,
        (
            Planted(
                "no rule at all accepts more",
                "p = (1, 0), q = (0, 1): who emits the draft accepts 1, the rule 0",
                "proper k (iid q) other -> lossless k (iid q) p other -> acceptance",
                "proper k (iid q) other -> acceptance",
            ),
        ),
    ),
    Theorem(
        "the levels of the hull, every k",
        "For every convex G >= t^k with its ends they exist and give the selected token G's increments; optimal for the envelope.",
        "chord_levels",
        ("chord_levels_law", "chord_levels", "chord_levels_exist", "chord_levels_optimal"),
        OURS,
        (
            Planted(
                "smaller levels will do",
                "k = 2, no levels: the first draft is selected, of law q, where G is not its chord",
                r"& x = 1 \/ exists a b",
                r"& 0 <= x \/ exists a b",
                "chord_levels",
            ),
        ),
    ),
    Theorem(
        "the sweep finds the levels, every n and k",
        "For every convex G >= g with its ends the sweep's levels are the hull's; for the envelope no lossless rule accepts more.",
        "sweep",
        ("sweep_optimal", "sweep_finds_levels", "swept_levels"),
        OURS,
        (
            Planted(
                "no rule at all accepts more",
                "p = (1, 0), q = (0, 1): who emits the draft accepts 1, the rule 0",
                "proper k (iid q) other -> lossless k (iid q) p other -> acceptance",
                "proper k (iid q) other -> acceptance",
            ),
            Planted(
                "the last death comes first",
                "bridge_levels.v with it: other levels, so that the selected token has another law than the one it is coupled through",
                "then Some i else Some j else",
                "then Some j else Some i else",
                "sweep_rules",
            ),
        ),
    ),
    Theorem(
        "SpecTr-GBV's value is never too large",
        "sum p (1 - (1 - min(1, q/p))^K) <= 1 + p(H) - q(H)^K for every H, every n and K: the claimed optimum errs on one side only.",
        "spectr_gbv",
        ("spectr_gbv_below", "power_mean"),
        f"{OURS} (Jensen)",
        (
            Planted(
                "it is never too small",
                "refuted.v: 7/8 where 15/16 is the least cut",
                "<= 1 + mass_of p H",
                ">= 1 + mass_of p H",
            ),
        ),
    ),
    Theorem(
        "the frontier under total variation, every draft law",
        "Output r: acceptance is at most min(1, alpha(p) + TV(r, p)); for every eps >= 0 some r with TV <= eps reaches it.",
        "lossy_frontier",
        ("frontier_bound", "frontier_reached"),
        f"Yin et al. 2024 (one draft); {OURS}",
        (
            Planted(
                "without the distance",
                "p = (1, 0), r = q = (0, 1): the draft is emitted, 1 is accepted, alpha*(p) = 0",
                "(least_cut p + total_variation r p)",
                "(least_cut p)",
            ),
        ),
    ),
    Theorem(
        "selection for another target, every draft law",
        "alpha* changes by at most TV(p, p'); optimal selection for p', coupled with p: lossless, loses at most 2 TV(p, p').",
        "nearby",
        ("planned_for_another", "best_nearby"),
        OURS,
        (
            Planted(
                "it loses nothing",
                "three tokens, q uniform, k = 2, p' = (1, 0, 0), p = (0, 1/2, 1/2): 6/9 is accepted, alpha* is 8/9",
                "best p - 2%:R * total_variation p p' <=",
                "best p <=",
            ),
        ),
    ),
    Theorem(
        "races with the same noise",
        "(1 - TV)/(1 + TV) <= sum over y of 1 / sum_x max(p_x/p_y, q_x/q_y) <= 1 - TV: how often two races with common noise agree.",
        "race",
        ("race_match",),
        "Daliri et al. 2024",
        (
            Planted(
                "no coupling agrees more",
                "p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): .7 where 1 - TV = .75",
                "(1 - TV) / (1 + TV) <=",
                "1 - TV <=",
            ),
        ),
    ),
    Theorem(
        "chains of models, one token",
        "Only the distribution of the drafts matters, not how they were sampled: chained lossless rules give the last target distribution.",
        "chains",
        ("chain_of_two", "chain_mean", "chain_lossless", "chain_of_any_length"),
        f"Spector and Re 2023, Sun et al. 2024 (TriForce), in use; {OURS}",
        (
            Planted(
                "the inner rule need not be lossless",
                "p = q = (1/2, 1/2): the inner one emits token 0, the outer one takes it",
                "lossless k Q q inner ->",
                "draft_law k Q ->",
            ),
        ),
    ),
)
