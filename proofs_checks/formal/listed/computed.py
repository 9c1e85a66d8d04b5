"""Finite computations: counterexamples, and the bridges to the library."""

from .definitions import HYBRID_ERRORS, LEVEL_ERRORS, ONE_TOKEN_ERRORS, PATH_ERRORS, TREE_ERRORS
from .theorem import Planted, Theorem

BRIDGE = "ot_draft, in Fractions"

COMPUTED = (
    Theorem(
        "counterexamples to claims on rules",
        "k independent tests, gamma* literally, SpecTr-GBV, p = q, concavity, rejection against K-SEQ: false as claimed.",
        "refuted",
        (
            "independent_tests_change_the_law",
            "recursive_rejection_below_k_seq",
            "k_seq_valid_below_gamma_star",
            "always_accepted_though_p_is_not_q",
            "above_spectr_gbv",
            "without_replacement_not_concave",
        ),
        "the rows of the same names say whose claims",
        (Planted("one of them where p = q", "(q := [:: 0; 1])", "(q := [:: 1#2; 1#2])"),),
        computed=True,
    ),
    Theorem(
        "counterexamples to claims on lossy targets",
        "clip(q, a p, b p) with two drafts, ensembles and token-specific cascades are off the frontier.",
        "refuted",
        (
            "clipped_draft_not_best",
            "ensemble_off_the_frontier",
            "ensemble_off_the_frontier_chi_squared",
            "cascade_off_the_frontier",
        ),
        "the rows of the same names say whose claims",
        (
            Planted(
                "with one draft",
                "less (optimum clipped q 2) (optimum other q 2)",
                "less (optimum clipped q 1) (optimum other q 1)",
            ),
        ),
        computed=True,
    ),
    Theorem(
        "counterexamples to claims on chains of models",
        "A draft of q that r drafted for, tested by r, or only where r's own draft was taken: the law is not p.",
        "refuted",
        ("chain_by_the_wrong_law",),
        "this project",
        (Planted("where r is q", "(r := [:: 3#4; 1#4])", "(r := [:: 1#2; 1#2])"),),
        computed=True,
    ),
    Theorem(
        "counterexamples to claims on paths",
        "On two paths Joint can accept less than token-wise K-SEQ and than Traversal.",
        "refuted_paths",
        ("joint_below_traversal", "joint_below_k_seq"),
        "this project",
        (
            Planted(
                "on one path",
                "less (by_joint p q 2 2) (by_traversal p q 2 2)",
                "less (by_joint p q 1 2) (by_traversal p q 1 2)",
            ),
        ),
        computed=True,
    ),
    Theorem(
        "counterexamples to claims on drafting",
        "Traversal on a tree where a draw is taken back for its own token, or tested before a fixed token because of what is below it.",
        "refuted_trees",
        ("own_token", "late_draw"),
        "this project",
        (Planted("where a coin decides", "(kept q x)", "(Child Bare (by_place q) x Bare)"),),
        computed=True,
    ),
    Theorem(
        "counterexamples to claims on scheduled verification",
        "Of two texts the one with the more confident token is verified, the other's token cut: the law is not the target's.",
        "refuted_trees",
        ("peeking_cut",),
        "this project",
        (
            Planted(
                "where the other's token decides",
                "(fun x y => Qle_bool (by_place q y) (by_place q x))",
                "(fun _ y => Qle_bool (by_place q y) (1#2))",
            ),
        ),
        computed=True,
    ),
    Theorem(
        "the bridge",
        "On 210 small problems six rules computed in Coq give what ot.evaluate gives, and accept_i and the row of every tuple of drafts.",
        "bridge",
        ("bridge",),
        BRIDGE,
        ONE_TOKEN_ERRORS,
        computed=True,
    ),
    Theorem(
        "the bridge for hybrid drafts",
        "On 121 small problems optimal selection of hybrid drafts: the output law, the acceptance, the row of every tuple of drafts.",
        "bridge_hybrid",
        ("bridge_hybrid",),
        BRIDGE,
        HYBRID_ERRORS,
        computed=True,
    ),
    Theorem(
        "the bridge for paths",
        "12 small models, laws and lengths of ot.paths.evaluate; 6 without zeros and one where selecting for p and w p differ, by drafts.",
        "bridge_paths",
        ("bridge_paths", "bridge_path_rows", "bridge_scaled"),
        BRIDGE,
        PATH_ERRORS,
        computed=True,
    ),
    Theorem(
        "the bridge for trees",
        "Traversal and recursive rejection on trees of four nodes drawn without replacement, two models, 36 trees each, tree by tree.",
        "bridge_trees",
        ("bridge_trees",),
        BRIDGE,
        TREE_ERRORS,
        computed=True,
    ),
    Theorem(
        "the bridge for the sweep",
        "On 120 small problems, ties and zero masses among them: every level of optimal selection, and the selected token's law.",
        "bridge_levels",
        ("bridge_levels",),
        BRIDGE,
        LEVEL_ERRORS,
        computed=True,
    ),
)
