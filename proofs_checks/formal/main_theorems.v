(* The headline theorems once more, each in full: what is given, what is claimed, whose theorem it is.

   R is any real field, T any finite set of tokens; p is the target, q the draft. law p: p >= 0 and of sum 1. For one token a rule is a
   function from k drafts to a `selection`, `row` is the law of what it emits given them, `output` that law's mean over the drafts,
   `acceptance` the probability that what it emits was drafted. proper: every row is a law; lossless: the output is p (problem.v).
   Along paths p h and q h are the laws of the next token after the tokens h, and `in_sequence p [::] z` is the target's own
   probability of the text z. The rules themselves are defined, in a few lines each, in rules.v and path_rules.v.
   The proofs are one line each: they name the theorem that is said again. *)

From Draft Require Import head problem bound hall sampling k_seq k_seq_sharp k_seq_rule optimal path_rules block joint.
From Draft Require Import tree_rules adaptive_trees scheduled chains block_optimal tree_bound lossy_frontier sweep_rules sweep.
From Draft Require Import rounds joint_loop.

Section One_token.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (k : nat).
Hypotheses (p_law : law p) (q_law : law q) (k_pos : (0 < k)%N).

(* Leviathan, Kalman, Matias 2023; Chen et al. 2023: one draft is taken with probability min(1, p/q), else norm((p - q)+). *)
Theorem speculative_sampling_is_best : let rule := speculative_sampling (real R) (index_enum T) p q in
  lossless 1 (iid q) p rule /\
  forall other, proper 1 (iid q) other -> lossless 1 (iid q) p other -> acceptance 1 (iid q) other <= acceptance 1 (iid q) rule.
Proof. by split=> [|other]; [exact: speculative_sampling_lossless | exact: speculative_sampling_optimal]. Qed.

(* Miao et al. 2024 (SpecInfer); Yang et al. 2024: draft after draft against norm((p - q)+), any number of i.i.d. drafts. *)
Theorem recursive_rejection_is_lossless :
  lossless k (iid q) p (recursive_rejection (real R) (index_enum T) (fun _ => q) [::] p).
Proof. exact: recursive_rejection_iid. Qed.

(* Sun et al. 2023 (SpecTr), Theorem 1: K-SEQ with a factor g that is large enough is lossless, ... *)
Theorem k_seq_is_lossless g : 0 < g -> p_acc g p q k <= g * beta g p q ->
  lossless k (iid q) p (rules.k_seq (real R) (index_enum T) g p q).
Proof. by move=> g0; exact: k_seq_lossless. Qed.
(* ... and for g <= k it accepts at least 1 - (1 - 1/k)^k of what any lossless rule accepts. *)
Theorem k_seq_accepts g rule : 0 < g -> g <= k%:R -> proper k (iid q) rule -> lossless k (iid q) p rule ->
  (1 - (1 - k%:R^-1) ^+ k) * acceptance k (iid q) rule <= acceptance k (iid q) (rules.k_seq (real R) (index_enum T) g p q).
Proof. by move=> g0 gk ok out; apply: le_trans (k_seq_acceptance k g0 p_law q_law); exact: k_seq_share. Qed.
(* ... and where it is lossless it lies between that share and the optimum itself, which the next theorem is about. *)
Theorem k_seq_is_between g : 0 < g -> g <= k%:R -> p_acc g p q k <= g * beta g p q ->
  (1 - (1 - k%:R^-1) ^+ k) * least_cut (real R) (index_enum T) k (iid q) p
  <= acceptance k (iid q) (rules.k_seq (real R) (index_enum T) g p q) <= least_cut (real R) (index_enum T) k (iid q) p.
Proof. by move=> g0 gk; exact: k_seq_between. Qed.

(* Hu et al. 2025 (the value, as the dual of SpecTr's program), Khisti et al. 2024 (a selected draft suffices); here for every law Q of
   the drafts: the best acceptance is the least 1 + p(H) - Q(all drafts in H) over all sets H of tokens. *)
Theorem best_acceptance Q : draft_law k Q ->
  (exists rule, [/\ proper k Q rule, lossless k Q p rule & acceptance k Q rule = least_cut (real R) (index_enum T) k Q p]) /\
  forall rule, proper k Q rule -> lossless k Q p rule -> acceptance k Q rule <= least_cut (real R) (index_enum T) k Q p.
Proof.
move=> Ql; have [[w _ [ok out e]] upper] := least_cut_is_best Ql k_pos p_law.
by split=> //; exists (selecting k Q p w).
Qed.

(* This project: for i.i.d. drafts the rule of rules.v, computed without a linear program, reaches it. *)
Theorem optimal_selection_is_optimal : let rule := optimal (real R) (index_enum T) p q k in
  [/\ lossless k (iid q) p rule, proper k (iid q) rule
    & forall other, proper k (iid q) other -> lossless k (iid q) p other -> acceptance k (iid q) other <= acceptance k (iid q) rule].
Proof. exact: optimal_rule. Qed.

(* This project: so does selection by the levels that the library's sweep finds (sweep_rules.v), along any order s by p/q. *)
Theorem selection_by_the_sweep_is_optimal s : order_of p q s ->
  let rule := optimal_with (real R) (index_enum T) p s (sweep_levels (real R) p q k s) (optimal_law (real R) (index_enum T) p q k s) in
  [/\ proper k (iid q) rule, lossless k (iid q) p rule
    & forall other, proper k (iid q) other -> lossless k (iid q) p other -> acceptance k (iid q) other <= acceptance k (iid q) rule].
Proof. exact: sweep_optimal. Qed.

(* Yin et al. 2024 (one draft), this project (any law): emitting some r with TV(r, p) <= eps in the place of p buys eps of acceptance. *)
Theorem frontier Q eps : draft_law k Q -> 0 <= eps -> exists r rule,
  [/\ law r, total_variation r p <= eps, proper k Q rule, lossless k Q r rule
    & acceptance k Q rule = Num.min 1 (least_cut (real R) (index_enum T) k Q p + eps)].
Proof. by move=> Ql; exact: frontier_reached. Qed.
End One_token.

(* This project: at gamma*, where p_acc = g beta, K-SEQ's share of the optimum is rho = 1 - x^k exactly, x in (0, 1) the root of
   k^k x^(k-1) = (k-1)^(k-1) (1 + x + ... + x^(k-1)), k = n + 1 (`sharp n x`): no p, q gives less, some give just that. *)
Theorem k_seq_shares (R : realFieldType) n (x : R) : (0 < n)%N -> 0 < x -> x < 1 -> sharp n x ->
  (forall (T : finType) (p q : T -> R) g other, law p -> law q -> 0 < g -> p_acc g p q n.+1 = g * beta g p q ->
    proper n.+1 (iid q) other -> lossless n.+1 (iid q) p other ->
    (1 - x ^+ n.+1) * acceptance n.+1 (iid q) other <= acceptance n.+1 (iid q) (rules.k_seq (real R) (index_enum T) g p q)) /\
  exists p : bool -> R, exists q : bool -> R, exists g other, let rule := rules.k_seq (real R) (index_enum _) g p q in
    [/\ law p /\ law q, 0 < g /\ p_acc g p q n.+1 = g * beta g p q,
        lossless n.+1 (iid q) p rule /\ acceptance n.+1 (iid q) rule = 1 - x ^+ n.+1
      & [/\ proper n.+1 (iid q) other, lossless n.+1 (iid q) p other & acceptance n.+1 (iid q) other = 1]].
Proof.
move=> n0 x0 x1 e; split=> [T p q g other pl ql g0 at_g ok out|]; last exact: k_seq_rule_share_tight.
by apply: k_seq_rule_share => //; exact: ltW.
Qed.

Section Along_paths.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R) (L K : nat).
Hypotheses (p_law : forall h, law (p h)) (q_law : forall h, law (q h)) (K_pos : (0 < K)%N).

(* Sun et al. 2024: block verification of one path of L tokens is lossless, ... *)
Theorem block_verification_is_lossless z : size z = L.+1 ->
  block_output (real R) (index_enum T) p q L z = in_sequence p [::] z.
Proof. exact: block_verification_lossless. Qed.
(* ... and no lossless rule for one path accepts more: rule x i c, the first i tokens of x are accepted and c follows. *)
Theorem block_verification_is_best (rule : seq T -> nat -> T -> R) : (forall x, x \in drafts L -> decides (rule x) L) ->
  (forall z, size z = L.+1 -> \sum_(x <- drafts L) in_sequence q [::] x * emits p (rule x) [::] x z = in_sequence p [::] z) ->
  \sum_(x <- drafts L) in_sequence q [::] x * accepted (rule x) L
  <= \sum_(x <- drafts L) in_sequence q [::] x * block_length (real R) (index_enum T) p q [::] 1 x.
Proof. exact: block_verification_optimal. Qed.

(* Sun et al. 2023 (SpecTr), Theorem 2: a lossless rule for one token, at every node of K paths. *)
Theorem token_wise_is_lossless (rule : seq T -> seq T -> selection R T) z :
  (forall h k, (0 < k)%N -> lossless k (iid (q h)) (p h) (rule h)) -> size z = L.+1 ->
  token_wise_output (real R) (index_enum T) p q rule L K z = in_sequence p [::] z.
Proof. by move=> out; exact: token_wise_lossless. Qed.
(* Weng et al. 2025: Traversal of K paths of L + 1 tokens. *)
Theorem traversal_is_lossless z : size z = L.+2 ->
  traversal_output (real R) (index_enum T) p q L.+1 K z = in_sequence p [::] z.
Proof. exact: traversal_lossless. Qed.
(* This project: joint selection of K paths, with optimal selection for the scaled target w p at every node. *)
Theorem joint_is_lossless z : size z = L.+1 ->
  optimal_joint_output (real R) (index_enum T) p q L K z = in_sequence p [::] z.
Proof. exact: optimal_joint_lossless. Qed.

(* This project: decoding is lossless. Round after round K paths of len s tokens are drafted after the text s and verified by Joint, until a
   stop token; the text begins with the tokens z and then c, a stop token or not, with the target's probability, for all z without one. *)
Theorem decoding_is_lossless (len : seq T -> nat) (stop : pred T) n z c : (size z < n)%N -> ~~ has stop z ->
  stopped (path_outcomes T (joint_drafted K len) len) (path_chance (joint_chance q) (joint_decide p q len)) (path_emitted (W := _))
    (@joint_next T) stop n [::] (rcons z c) = in_sequence p [::] (rcons z c).
Proof. by move=> zn go; apply: joint_decodes; rewrite ?size_rcons ?clean_rcons. Qed.

(* Weng et al. 2025 (fixed trees), this project (any drafting): d says, from all that was drafted and from coins, which node gets the next
   child, the youngest of its node, and by which law, or stops; the text of Traversal on the tree has the target's law. *)
Theorem traversal_may_follow_the_draft (d : drafting R T) z : by_laws d ->
  adaptive_output (real R) (index_enum T) p true d Bare z = in_sequence p [::] z.
Proof. exact: traversal_adaptive_lossless. Qed.
(* Yang et al. 2024 (fixed trees), this project (any drafting): the same for recursive rejection, without replacement or by any laws. *)
Theorem recursive_rejection_may_follow_the_draft (d : drafting R T) z : by_laws d ->
  adaptive_output (real R) (index_enum T) p false d Bare z = in_sequence p [::] z.
Proof. exact: recursive_rejection_adaptive_lossless. Qed.

(* This project: a batch of texts, b the place of each; what all of them drafted so far may decide which gets the next draw. *)
Theorem drafts_may_be_scheduled (target : nat -> seq T -> T -> R) texts (d : drafting R T) z : (forall b h, law (target b h)) ->
  uniq texts -> by_laws d ->
  scheduled_output (real R) (index_enum T) target true texts d (fun _ => Bare) z = \prod_(b <- texts) in_sequence (target b) [::] (z b).
Proof. by move=> target_law uniq_texts; exact: (scheduled_lossless true target_law uniq_texts). Qed.
(* Sun et al. 2024 (TriForce; in practice), this project (the composition): a token of q made from drafts of a third model of law Q. *)
Theorem drafts_may_be_drafted_for k Q (a b : T -> R) inner outer (y : T) : lossless k Q b inner -> lossless 1 (iid b) a outer ->
  \sum_(x <- drafts k) Q x * (\sum_c row x (inner x) c * row [:: c] (outer [:: c]) y) = a y.
Proof. exact: chain_of_two. Qed.

(* This project: trees drafted in any way. w is an outcome of the drafting, of probability Q w; node w u: the tree holds the prefix u;
   s w u c: u is accepted and c follows. A lossless rule accepts at most the sum of the caps: cap(root) = 1,
   cap(u c) = min(P(u c is drafted), p(c|u) cap(u)). *)
Theorem no_rule_accepts_more (W : finType) (Q : W -> R) (node : W -> pred (seq T)) (s : W -> seq T -> T -> R) :
  (forall w, 0 <= Q w) -> \sum_w Q w = 1 -> (forall w u c, node w (rcons u c) -> node w u) -> (forall w u c, 0 <= s w u c) ->
  (forall w u c, ~~ node w u -> s w u c = 0) -> (forall w, reach (s w) L [::] = 1) ->
  (forall z, size z = L.+1 -> \sum_w Q w * text p (s w) L [::] z = in_sequence p [::] z) ->
  \sum_w Q w * more (s w) L [::] <= caps p (drafted Q node) L [::] 1.
Proof. by move=> Q0 _; exact: tree_bound. Qed.
End Along_paths.

Print Assumptions speculative_sampling_is_best.
Print Assumptions recursive_rejection_is_lossless.
Print Assumptions k_seq_is_lossless.
Print Assumptions k_seq_accepts.
Print Assumptions k_seq_is_between.
Print Assumptions best_acceptance.
Print Assumptions optimal_selection_is_optimal.
Print Assumptions selection_by_the_sweep_is_optimal.
Print Assumptions frontier.
Print Assumptions k_seq_shares.
Print Assumptions block_verification_is_lossless.
Print Assumptions block_verification_is_best.
Print Assumptions token_wise_is_lossless.
Print Assumptions traversal_is_lossless.
Print Assumptions joint_is_lossless.
Print Assumptions decoding_is_lossless.
Print Assumptions traversal_may_follow_the_draft.
Print Assumptions recursive_rejection_may_follow_the_draft.
Print Assumptions drafts_may_be_scheduled.
Print Assumptions drafts_may_be_drafted_for.
Print Assumptions no_rule_accepts_more.
