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
                "the rule need not be lossless", "proper k Q rule -> lossless k Q p rule ->\n", "proper k Q rule ->\n"
            ),
        ),
    ),
    Theorem(
        "the bound, every law of the drafts",
        "Acceptance of a lossless rule <= 1 + p(H) - Q(all drafts in H) for every H; <= sum min(p(y), Q(y drafted)).",
        "bound",
        ("bound", "accepted_at_most"),
        HU,
        (Planted("1 left out", "<= 1 + mass_of p H - inside", "<= mass_of p H - inside"),),
    ),
    Theorem(
        "the maximal coupling",
        "A token of law m taken with probability min(1, p/m), else norm((p - m)+): p comes out, sum min(p, m) is taken.",
        "bound",
        ("maximal_coupling",),
        "Leviathan et al. 2023; Chen et al. 2023",
        (Planted("the correction draws from p", "norm (excess p m) p y = p y", "p y = p y"),),
    ),
    Theorem(
        "a selected draft, coupled",
        "A draft selected in any way, its token (law m) taken with min(1, p/m), else norm((p - m)+): lossless, accepts >= sum min(p, m).",
        "couple",
        ("couple_acceptance", "couple_lossless"),
        f"{KHISTI} (the selected draft)",
        (Planted("it accepts sum max(p, m)", r"\sum_y Num.min (p y) (m y)", r"\sum_y Num.max (p y) (m y)"),),
    ),
    Theorem(
        "Hall's theorem for masses",
        "Masses s(S) on sets with s(inside H) <= m(H) for every H can be handed out to tokens of S, at most m(y) to each y.",
        "transport",
        ("transport",),
        "Hall 1935; Gale 1957 (masses)",
        (Planted("for any masses", "fits s m -> handed_out", "handed_out"),),
    ),
    Theorem(
        "the laws of a selected draft",
        "For every law Q of the drafts: exactly those m with m(H) >= Q(all drafts in H) for every H.",
        "hall",
        ("selected_laws",),
        f"{KHISTI} (two drafts); this project (any law)",
        (Planted("every law m is one", r"law m /\ core m <->", "law m <->"),),
    ),
    Theorem(
        "the best acceptance, every law of the drafts",
        "It is max sum min(p, m) over these m = min over H of 1 + p(H) - Q(all drafts in H), both attained, by a selected draft.",
        "hall",
        ("least_cut_is_best", "best_selection"),
        f"{HU}; {KHISTI} (a selected draft suffices)",
        (
            Planted(
                "no rule at all accepts more",
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
        (Planted("the drafts are i.i.d. from p", "lossless 1 (iid q) p", "lossless 1 (iid p) p"),),
    ),
    Theorem(
        "recursive rejection, every k",
        "Lossless for i.i.d. drafts, without replacement, and for drafts drawn in sequence from any laws that it is told.",
        "sampling",
        ("recursive_rejection_lossless", "recursive_rejection_iid", "recursive_rejection_without_replacement"),
        "Miao et al. 2024 (SpecInfer); Yang et al. 2024 (multi-candidate)",
        (
            Planted(
                "whatever laws it is told",
                "p (recursive_rejection next h p)",
                "p (recursive_rejection (fun _ => p) h p)",
            ),
        ),
    ),
    Theorem(
        "naive target sampling, every law",
        "Lossless whatever the law of the drafts.",
        "sampling",
        ("naive_target_lossless",),
        "Miao et al. 2024 (SpecInfer)",
        (
            Planted(
                "lossless for another target",
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
        (Planted("for every factor", "p_acc g p q k <= g * beta g p q ->\n  lossless", "\n  lossless"),),
    ),
    Theorem(
        "gamma* exists, every k",
        "p_acc <= g beta exactly if g >= gamma*, for one gamma* in [1, k] (real closed fields; p and q overlap).",
        "k_seq",
        ("best_factor",),
        f"{SPECTR}, Theorem 1",
        (Planted("gamma* <= 1", "1 <= gamma <= k%:R", "gamma <= 1"),),
    ),
    Theorem(
        "K-SEQ's share, every k",
        "Its tests accept at least 1 - (1 - 1/k)^k of what any lossless rule accepts, for every factor in (0, k].",
        "k_seq",
        ("k_seq_share", "k_seq_acceptance"),
        f"{SPECTR}, Theorem 1",
        (Planted("all of it", "(1 - (1 - k%:R^-1) ^+ k) * acceptance", "acceptance"),),
    ),
    Theorem(
        "K-SEQ's sharp share, every k",
        "Up to gamma* the tests accept >= rho_k = 1 - x^k of what any lossless rule does, k^k x^(k-1) = (k-1)^(k-1) (1 + .. + x^(k-1)).",
        "k_seq_sharp",
        ("k_seq_sharp_share", "k_seq_best_share", "rho_exists", "sharp_unique", "rho_two"),
        OURS,
        (Planted("the share 1 - x^(k+1)", "(1 - x ^+ n.+1) * acceptance", "(1 - x ^+ n.+2) * acceptance"),),
    ),
    Theorem(
        "rho_k is reached, so that SpecTr's factor is not tight",
        "Two tokens on which all can be accepted and K-SEQ at gamma* accepts rho_k; rho_k > 1 - (1 - 1/k)^k for every k >= 2.",
        "k_seq_sharp",
        ("sharp_larger", "k_seq_share_tight"),
        f"{OURS}; refutes the tightness in {SPECTR}",
        (Planted("rho_k is SpecTr's factor", "^+ n.+1 < 1 - x", "^+ n.+1 = 1 - x"),),
    ),
    Theorem(
        "levels exist",
        "Every convex curve >= t^k with its ends is the mixture of chords that the computed tree of levels gives.",
        "levels",
        ("levels_exist",),
        OURS,
        (Planted("every curve", "convex h a b ->\n", "\n"),),
    ),
    Theorem(
        "selection by levels is a descent of the tree",
        "The falls of the running minimum of M put on each token what descending the tree of cuts does.",
        "selected",
        ("falls_descend",),
        OURS,
        (Planted("the falls start at 2", "on_place 1 (fun j", "on_place 2%:R (fun j"),),
    ),
    Theorem(
        "the draft selected by levels, every k",
        "For k i.i.d. drafts its token has the increments of the mixture as its law.",
        "selected_law",
        ("selected_law",),
        OURS,
        (
            Planted(
                "of the next token",
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
        (Planted("the sum is 1", "(dG i) = 1 - D top", "(dG i) = 1"),),
    ),
    Theorem(
        "optimal selection, every n and k",
        "For i.i.d. drafts the computed rule is lossless and accepts 1 + p(H) - q(H)^k, H a prefix: no lossless rule more.",
        "optimal",
        ("optimal_rule", "optimal_selection"),
        OURS,
        (
            Planted(
                "no rule at all accepts more",
                "lossless k (iid q) p other ->\n        acceptance",
                "\n        acceptance",
            ),
        ),
    ),
    Theorem(
        "optimal selection of hybrid drafts, every j",
        "Given tokens first, r >= 1 draws outside them: lossless, accepts 1 + p(H) - Q(all drafts in H) for some H, no lossless rule more.",
        "hybrid",
        ("optimal_hybrid_rule", "optimal_hybrid_selection"),
        f"{OURS}; {HU} (all but one given)",
        (Planted("the draws are from q", "let next := outside (real R) (index_enum T) q tops in", "let next := q in"),),
    ),
    Theorem(
        "selection by any levels, every k",
        "Any order, any levels <= 1: the selected token's law has m(H) >= q(H)^k; coupled with p: lossless, accepts >= sum min(p, m).",
        "any_levels",
        ("any_levels_law", "cartesian_levels", "any_levels_lossless", "any_levels_enough"),
        OURS,
        (Planted("m(H) >= q(H)", "mass_of q H ^+ k <=", "mass_of q H <="),),
    ),
    Theorem(
        "what an algorithm for levels must meet",
        "Order by p/q, levels whose law is the envelope's: no lossless rule accepts more. Any levels at every node: Joint is lossless.",
        "any_levels",
        ("any_levels_optimal", "any_levels_joint"),
        OURS,
        (
            Planted(
                "no rule at all accepts more",
                "proper k (iid q) other -> lossless k (iid q) p other -> acceptance",
                "proper k (iid q) other -> acceptance",
            ),
        ),
    ),
    Theorem(
        "SpecTr-GBV's value is never too large",
        "sum p (1 - (1 - min(1, q/p))^K) <= 1 + p(H) - q(H)^K for every H, every n and K: the claimed optimum errs on one side only.",
        "spectr_gbv",
        ("spectr_gbv_below", "power_mean"),
        f"{OURS} (Jensen)",
        (Planted("it is never too small", "<= 1 + mass_of p H", ">= 1 + mass_of p H"),),
    ),
    Theorem(
        "the frontier under total variation, every law",
        "Output law r: at most min(1, alpha(p) + TV(r, p)) is accepted, and for every eps >= 0 some r with TV <= eps reaches it.",
        "lossy_frontier",
        ("frontier_bound", "frontier_reached"),
        f"Yin et al. 2024 (one draft); {OURS}",
        (Planted("without the distance", "(least_cut p + total_variation r p)", "(least_cut p)"),),
    ),
)
