"""Theorems about paths, trees and the decoding loop."""

from .theorem import OURS, Planted, Theorem

BLOCK = "Sun et al. 2024 (block verification)"

ALONG_PATHS = (
    Theorem(
        "block verification, every model and length",
        "Lossless for any target and draft model; accepts sum E[w_i] tokens, w_i >= the product of min(1, p/q) on every path.",
        "block",
        ("ladder", "block_verification_lossless", "block_verification_length", "longer_than_token_wise"),
        BLOCK,
        (Planted("for any w", "one token, w = 2: 1 in the place of 2", "w <= 1 -> law m ->", "law m ->"),),
    ),
    Theorem(
        "Traversal and Joint of one path",
        "With K = 1 both are block verification: the output distribution on every path and the accepted length (Traversal).",
        "one_path",
        (
            "traversal_of_one_path",
            "traversal_output_one",
            "traversal_length_one",
            "joint_of_one_path",
            "joint_output_one",
            "optimal_joint_output_one",
        ),
        OURS,
        (
            Planted(
                "of the text without its first token",
                "p = q, a path of one token and the text that it is: 1 and 0",
                "p q [::] 1 x (c :: z)",
                "p q [::] 1 x z",
            ),
        ),
    ),
    Theorem(
        "block verification accepts what token-wise selection does, or more",
        "E[block verification] >= E[token-wise speculative sampling], as path_rules.v defines it for any rule: every model and length.",
        "one_path",
        ("block_at_least_token_wise", "token_wise_of_one_path"),
        BLOCK,
        (
            Planted(
                "it accepts no more",
                "p = (1/3, 2/3), q = (2/3, 1/3) everywhere, L = 2: 11/9 tokens, token-wise 10/9",
                "sampling L 1 <= expected_block",
                "sampling L 1 >= expected_block",
            ),
        ),
    ),
    Theorem(
        "block verification is best, one path",
        "No lossless rule for one drafted path, with any knowledge, accepts more tokens on average.",
        "block_optimal",
        ("block_verification_optimal", "block_rule_emits", "block_rule_accepted", "block_rule_decides"),
        f"{BLOCK}, Theorem 2; proof: this project",
        (
            Planted(
                "all are accepted",
                "a rule that accepts nothing and emits a token of p, p = q",
                "(rule x) L\n  <= ",
                "(rule x) L\n  = ",
            ),
        ),
    ),
    Theorem(
        "one step of a lossless rule",
        "B(u c) = p(c|u) B(u) - D(u, c). B(u): the accepted path begins with u. D(u, c): it is u and c follows. Any drafts.",
        "block_optimal",
        ("reach_step",),
        OURS,
        (
            Planted(
                "D left out",
                "one token, nothing accepted: B(0) = 0, p(0) B(root) = 1",
                "p h c * reach n.+1 h - D h c.",
                "p h c * reach n.+1 h.",
            ),
        ),
    ),
    Theorem(
        "token-wise selection, every rule, K and L",
        "A rule that is lossless for every number of i.i.d. drafts is lossless along K paths of L tokens, for any models.",
        "joint",
        ("token_wise_lossless",),
        "Sun et al. 2023 (SpecTr), Theorem 2",
        (
            Planted(
                "a rule that is lossless for one draft",
                "K = 2, independent tests, which change the law of two drafts (refuted.v)",
                "(forall h k, (0 < k)%N -> lossless k",
                "(forall h k, (k == 1)%N -> lossless k",
            ),
        ),
    ),
    Theorem(
        "joint selection, every K, L and m",
        "For any selection among the surviving drafts, m its distribution: lossless, accepts sum E[w_i], for any models.",
        "joint",
        ("joint_lossless", "optimal_joint_lossless", "joint_length_weights"),
        OURS,
        (
            Planted(
                "without any path",
                "K = 0, L = 1: nothing is selected, and no text comes out",
                "(0 < K)%N -> size z = L.+1 ->",
                "size z = L.+1 ->",
            ),
        ),
    ),
    Theorem(
        "Traversal of K paths, every K and L",
        "Block verification path by path, passing on the target of the root: lossless, for any models.",
        "joint",
        ("traversal_lossless",),
        "Weng et al. 2025 (traversal verification); proof: this project",
        (
            Planted(
                "texts of another length",
                "L = 1, p = q: a text of one token ends before the path does, and what passes is not counted",
                "size z = L.+2 ->",
                "size z = L ->",
            ),
        ),
    ),
    Theorem(
        "Traversal on trees that follow what was drafted",
        "Each sample adds the last child of a node; node and distribution depend on what was drafted before: lossless.",
        "adaptive_trees",
        ("traversal_adaptive_lossless", "one_more_child", "adaptive_lossless", "traversal_of_paths"),
        OURS,
        (Planted("by any masses", "a draw by masses of sum 0 leaves no text any probability", "by_laws d ->\n", "\n"),),
    ),
    Theorem(
        "recursive rejection on trees that follow what was drafted",
        "Tests at every node in the order of sampling, each with the distribution of its sample, on the same trees: lossless.",
        "adaptive_trees",
        ("recursive_rejection_adaptive_lossless",),
        "Yang et al. 2024 (multi-candidate), fixed trees; this project",
        (
            Planted(
                "every text has probability 1",
                "two tokens: a text of one has p",
                "p false d Bare z = in_sequence p [::] z",
                "p false d Bare z = 1",
            ),
        ),
    ),
    Theorem(
        "Traversal and recursive rejection below the caps, trees that follow the draft",
        "On such trees both decide by probabilities, accept only what was drafted, and on average at most the sum of the caps.",
        "adaptive_bounded",
        ("adaptive_bounded", "tree_proper"),
        OURS,
        (
            Planted(
                "caps from 0 on",
                "one token, one draft: it is accepted, and these caps are 0",
                "(index_enum T) d) L [::] 1.",
                "(index_enum T) d) L [::] 0.",
            ),
            Planted(
                "a tree holds its youngest branch only",
                "p = (1/2, 1/2), tokens 0 and 1 drafted for certain: 1 is accepted, the caps are 0 and 1/2",
                " || holds elder u else",
                " else",
                "tree_rules",
            ),
        ),
    ),
    Theorem(
        "path rules decide by probabilities",
        "Token-wise, Traversal, Joint, block: probabilities >= 0 of sum 1, no undrafted token accepted, the output is a distribution.",
        "proper",
        ("block_proper", "token_wise_proper", "traversal_proper", "joint_proper", "emitted_law"),
        OURS,
        (
            Planted(
                "nothing was drafted",
                "p = q, one token: it is accepted, and no path holds it",
                "(size x) [:: x]",
                "(size x) [::]",
            ),
        ),
    ),
    Theorem(
        "a bound for all trees",
        "For any drafting: E[accepted] <= sum of cap(u), cap(root) = 1, cap(u c) = min(P(u c drafted), p(c|u) cap(u)).",
        "tree_bound",
        ("tree_bound",),
        OURS,
        (
            Planted(
                "caps by the target alone",
                "p = q = (1/2, 1/2), one draft: 1 is accepted, these caps sum to 1/2",
                "let w' := least N (drafted (rcons h c)) (w * p h c) in",
                "let w' := w * p h c * drafted (rcons h c) in",
                "path_rules",
            ),
        ),
    ),
    Theorem(
        "the path program is the optimum, all trees",
        "Its feasible points are the lossless rules that know both models, its objective is what they accept.",
        "program_optimum",
        ("program_rule", "rule_feasible", "program_optimum"),
        OURS,
        (
            Planted(
                "without p(c|u)",
                "p = (0, 1), token 0 is drafted and accepted: no lossless rule does that",
                "mean a (rcons u c) <= p u c * mean a u]",
                "mean a (rcons u c) <= mean a u]",
                "program_optimum",
            ),
        ),
    ),
    Theorem(
        "the path program's optimum is attained",
        "A feasible, bounded linear program over any real field has an optimum: some lossless rule attains it, all trees.",
        "attained",
        ("best_rule_exists", "linear_program_attained", "path_program_attained"),
        f"{OURS} (Fourier 1826, Motzkin 1936: elimination)",
        (
            Planted(
                "the best rule need not be lossless",
                "who accepts every draft, p = (1, 0), q = (0, 1): it accepts more than 0",
                "forall s', lossless_rule p Q node L s' ->",
                "forall s',",
            ),
        ),
    ),
    Theorem(
        "prices bound the path program, all trees",
        "For prices mu >= 0: no lossless rule accepts more than sum p(y) mu(y) + E[the most a path down the tree collects, or 0].",
        "prices",
        ("price_bound", "certificate_bound", "certificate_optimal"),
        f"{OURS} (weak duality)",
        (
            Planted(
                "without what a tree collects",
                "one token, L = 1, p = q, mu = 0: one token is accepted, and the root opens nothing",
                r"opened [::] + \sum_w Q w * y w [::]",
                "opened [::]",
            ),
        ),
    ),
    Theorem(
        "path rules are points of the path program",
        "Token-wise, Traversal and Joint on K paths accept at most the sum of the caps, for any selection of drafts.",
        "path_rules_bounded",
        ("paths_feasible", "paths_bounded", "token_wise_bounded", "traversal_bounded", "joint_bounded"),
        OURS,
        (
            Planted(
                "the objective is less",
                "it is the same, by the theorem itself",
                "more (rule xs) L [::] = objective",
                "more (rule xs) L [::] + 1 = objective",
            ),
        ),
    ),
    Theorem(
        "values computed along paths hold over every real field",
        "Output distribution and mean accepted length of five path rules computed in Coq's rationals are those of the theorems.",
        "carried_paths",
        (
            "paths_everywhere",
            "carried_token_wise",
            "carried_block",
            "carried_traversal",
            "carried_joint",
            "carried_optimal_joint",
        ),
        OURS,
        (
            Planted(
                "the draft is p",
                "p = (1, 0), q = (0, 1), L = 1: block verification accepts 0 tokens, of drafts from p 1",
                "= expected_block N' s' p' q' L].",
                "= expected_block N' s' p' p' L].",
            ),
        ),
    ),
    Theorem(
        "the decoding loop",
        "If every step is lossless given the past (path rules are), the first N tokens have the target distribution, with stop tokens.",
        "rounds",
        ("rounds_lossless", "stopped_lossless", "one_length_enough", "path_rounds_lossless"),
        OURS,
        (
            Planted(
                "fewer rounds than tokens",
                "no round decodes no token, and a text of one token may have probability 1",
                "(size z <= n)%N -> decoded",
                "(size z <= n.+1)%N -> decoded",
            ),
        ),
    ),
    Theorem(
        "sequences that a stop token ends",
        "The loop is compared on the sequences in which no stop token comes before the last token.",
        "rounds",
        ("clean_rcons",),
        OURS,
        (
            Planted(
                "they hold no stop token",
                "a text of one token, which stops",
                "Definition clean z := (size z <= (find stop z).+1)%N.",
                "Definition clean z := ~~ has stop z.",
                "rounds",
            ),
        ),
    ),
    Theorem(
        "decoding by Joint, stop tokens too",
        "Steps of K paths, of a length that depends on the past, with joint selection: every sequence has the target's probability.",
        "joint_loop",
        ("joint_decodes",),
        OURS,
        (
            Planted(
                "fewer rounds than tokens",
                "no round decodes no token, and a text of one token may have probability 1",
                "(size z <= n)%N -> clean",
                "(size z <= n.+1)%N -> clean",
            ),
            Planted(
                "texts that go on behind a stop token",
                "where every token stops, no text of two tokens is decoded",
                "(size z <= n)%N -> clean stop z ->",
                "(size z <= n)%N ->",
            ),
        ),
    ),
    Theorem(
        "fixed tokens and draws, and what follows them",
        "Fixed tokens, then one sample outside them, then any samples; or k samples without replacement: Traversal is lossless.",
        "tops_and_draws",
        ("traversal_of_tops_and_draws", "tops_and_draw_laws", "distinct_laws"),
        f"{OURS}; RheoSampling, DySpec (their trees)",
        (
            Planted(
                "by any masses",
                "a next draw by masses of sum 0 leaves no text any probability",
                "(forall x, by_laws (next x)) ->\n",
                "\n",
            ),
        ),
    ),
    Theorem(
        "scheduled verification",
        "The batch's drafts so far and random numbers decide which sequence drafts next, if any: lossless, sequences independent.",
        "scheduled",
        ("scheduled_lossless", "one_more_draw"),
        OURS,
        (Planted("by any masses", "a draw by masses of sum 0 leaves no text any probability", "by_laws d ->\n", "\n"),),
    ),
    Theorem(
        "chains of models, paths",
        "A path decoded losslessly for q is a path of q: its block verification against p is lossless, for any past.",
        "chains",
        ("chain_block", "chain_of_loops"),
        f"Spector and Re 2023, Sun et al. 2024 (TriForce), in use; {OURS}",
        (
            Planted(
                "in fewer rounds than tokens",
                "no round, L = 1: no path is decoded, and no text comes out",
                "(L <= n)%N -> size z",
                "(L <= n.+1)%N -> size z",
            ),
        ),
    ),
)
