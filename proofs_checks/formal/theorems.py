"""The theorems that Coq has checked: which file, which names, what they say. The order is that of reading."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Theorem:
    """One row: its name in words, what it says, the file without .v, and the names of the theorems in it."""

    title: str
    claim: str
    file: str
    names: tuple[str, ...]


THEOREMS = (
    Theorem(
        "rules are couplings",
        "A rule is lossless exactly if Q(x) row_x(y) is a coupling of Q and p, and every coupling is a rule's.",
        "problem",
        ("rule_is_coupling", "coupling_is_rule"),
    ),
    Theorem(
        "the bound, every law of the drafts",
        "Acceptance of a lossless rule <= 1 + p(H) - Q(all drafts in H) for every H; <= sum min(p(y), Q(y drafted)).",
        "bound",
        ("bound", "accepted_at_most"),
    ),
    Theorem(
        "the maximal coupling",
        "A token of law m taken with probability min(1, p/m), else norm((p - m)+): p comes out, sum min(p, m) is taken.",
        "bound",
        ("maximal_coupling",),
    ),
    Theorem(
        "a selected draft, coupled",
        "A draft selected in any way, its token (law m) taken with min(1, p/m), else norm((p - m)+): lossless, accepts >= sum min(p, m).",
        "couple",
        ("couple_lossless", "couple_acceptance"),
    ),
    Theorem(
        "Hall's theorem for masses",
        "Masses s(S) on sets with s(inside H) <= m(H) for every H can be handed out to tokens of S, at most m(y) to each y.",
        "transport",
        ("transport",),
    ),
    Theorem(
        "the laws of a selected draft",
        "For every law Q of the drafts: exactly those m with m(H) >= Q(all drafts in H) for every H.",
        "hall",
        ("selected_laws",),
    ),
    Theorem(
        "the best acceptance, every law of the drafts",
        "It is max sum min(p, m) over these m = min over H of 1 + p(H) - Q(all drafts in H), both attained, by a selected draft.",
        "hall",
        ("best_selection", "least_cut_is_best"),
    ),
    Theorem(
        "speculative sampling, every p and q",
        "Lossless; accepts sum min(p, q); no lossless rule for one draft accepts more.",
        "sampling",
        ("speculative_sampling_lossless", "speculative_sampling_optimal"),
    ),
    Theorem(
        "recursive rejection, every k",
        "Lossless for i.i.d. drafts, without replacement, and for drafts drawn in sequence from any laws that it is told.",
        "sampling",
        ("recursive_rejection_lossless", "recursive_rejection_iid", "recursive_rejection_without_replacement"),
    ),
    Theorem(
        "naive target sampling, every law",
        "Lossless whatever the law of the drafts.",
        "sampling",
        ("naive_target_lossless",),
    ),
    Theorem(
        "K-SEQ is lossless, every k",
        "Exactly if min(q, p/g) S <= p everywhere; where some token has 0 < p <= g q, exactly if p_acc <= g beta.",
        "k_seq",
        ("k_seq_lossless_iff", "k_seq_lossless", "k_seq_lossless_clamped"),
    ),
    Theorem(
        "gamma* exists, every k",
        "p_acc <= g beta exactly if g >= gamma*, for one gamma* in [1, k] (real closed fields; p and q overlap).",
        "k_seq",
        ("best_factor",),
    ),
    Theorem(
        "K-SEQ's share, every k",
        "Its tests accept at least 1 - (1 - 1/k)^k of what any lossless rule accepts, for every factor in (0, k].",
        "k_seq",
        ("k_seq_share", "k_seq_acceptance"),
    ),
    Theorem(
        "levels exist",
        "Every convex curve >= t^k with its ends is the mixture of chords that the computed tree of levels gives.",
        "levels",
        ("levels_exist",),
    ),
    Theorem(
        "selection by levels is a descent of the tree",
        "The falls of the running minimum of M put on each token what descending the tree of cuts does.",
        "selected",
        ("falls_descend",),
    ),
    Theorem(
        "the draft selected by levels, every k",
        "For k i.i.d. drafts its token has the increments of the mixture as its law.",
        "selected_law",
        ("selected_law",),
    ),
    Theorem(
        "the envelope, every n and k",
        "G is convex, >= t^k, from 0 to 1; its increments m have sum min(p, m) = 1 + p(H) - q(H)^k for a prefix H.",
        "envelope",
        ("G_convex", "overlap"),
    ),
    Theorem(
        "optimal selection, every n and k",
        "For i.i.d. drafts the computed rule is lossless and accepts 1 + p(H) - q(H)^k, H a prefix: no lossless rule more.",
        "optimal",
        ("optimal_selection", "optimal_rule"),
    ),
    Theorem(
        "optimal selection of hybrid drafts, every j",
        "Given tokens first, r >= 1 draws outside them: lossless, accepts 1 + p(H) - Q(all drafts in H) for some H, no lossless rule more.",
        "hybrid",
        ("optimal_hybrid_selection", "optimal_hybrid_rule"),
    ),
    Theorem(
        "block verification, every model and length",
        "Lossless for any target and draft model; accepts the sum of E[w_i] tokens, w_i >= the product of min(1, p/q) on every path.",
        "block",
        ("block_verification_lossless", "block_verification_length", "longer_than_token_wise", "ladder"),
    ),
    Theorem(
        "token-wise selection, every rule, K and L",
        "A rule that is lossless for every number of i.i.d. drafts is lossless along K paths of L tokens, for any models.",
        "joint",
        ("token_wise_lossless",),
    ),
    Theorem(
        "joint selection, every K, L and m",
        "However the living drafts are selected from, m being the selected token's law: lossless, accepts sum E[w_i], any models.",
        "joint",
        ("joint_lossless", "optimal_joint_lossless", "joint_length_weights"),
    ),
    Theorem(
        "Traversal of K paths, every K and L",
        "Path after path by block verification, the root's target handed on: lossless, for any models.",
        "joint",
        ("traversal_lossless",),
    ),
    Theorem(
        "counterexamples to claims on rules",
        "Computed: k independent tests, gamma* literally, SpecTr-GBV, p = q, concavity, rejection against K-SEQ are false as claimed.",
        "refuted",
        (
            "independent_tests_change_the_law",
            "recursive_rejection_below_k_seq",
            "k_seq_valid_below_gamma_star",
            "always_accepted_though_p_is_not_q",
            "above_spectr_gbv",
            "without_replacement_not_concave",
        ),
    ),
    Theorem(
        "counterexamples to claims on lossy targets",
        "Computed: clip(q, a p, b p) with two drafts, ensembles and token-specific cascades are off the frontier.",
        "refuted",
        (
            "clipped_draft_not_best",
            "ensemble_off_the_frontier",
            "ensemble_off_the_frontier_chi_squared",
            "cascade_off_the_frontier",
        ),
    ),
    Theorem(
        "counterexamples to claims on paths",
        "Computed: on two paths Joint can accept less than token-wise K-SEQ and than Traversal.",
        "refuted_paths",
        ("joint_below_k_seq", "joint_below_traversal"),
    ),
    Theorem(
        "the bridge",
        "On 210 small problems the rules computed in Coq give the numbers of ot.evaluate, equal as rationals.",
        "bridge",
        ("bridge",),
    ),
    Theorem(
        "the bridge for paths",
        "On 12 small Markov models the path rules computed in Coq give the laws and lengths of ot.paths.evaluate, equal as rationals.",
        "bridge_paths",
        ("bridge_paths",),
    ),
)
FILES = tuple(dict.fromkeys(theorem.file for theorem in THEOREMS))
