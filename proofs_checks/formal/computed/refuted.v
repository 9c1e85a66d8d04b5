(* Statements that are false, with a counterexample computed for each.

   The claims are plausible or published ones, each given as such; the row of `ot-draft prove` of the same name is in
   proofs_checks/<file>.py. All laws are those written in the theorem, over Coq's rationals, and the rules are those of rules.v, evaluated by
   enumerating all drafts. The optimum is `least_cut`, which hall.v shows to be what the best lossless rule accepts.
   Beside each counterexample stands a claim near by that is true of it, so that the computation is known to be able to say yes.

   THEOREM (independent_tests_change_the_law). k tests with min(1, p/q), then norm((p - q)+), are not lossless for k = 2;
       they are for k = 1. p = (1/2, 1/2), q = (0, 1).
   THEOREM (recursive_rejection_below_k_seq). Recursive rejection can accept less than a lossless K-SEQ.
   THEOREM (k_seq_valid_below_gamma_star). K-SEQ can be lossless although p_acc > gamma beta. p = (1, 0), q = (1/2, 1/2).
   THEOREM (always_accepted_though_p_is_not_q). Two drafts can be accepted always though p differs from q; one cannot.
   THEOREM (above_spectr_gbv). A lossless rule accepts 15/16 of two i.i.d. drafts where the value
       c = sum p (1 - (1 - min(1, q/p))^2), said to be the largest, is 7/8.
   THEOREM (without_replacement_not_concave). Without replacement the third draft can add more than the second.
   THEOREM (chain_by_the_wrong_law). A third model r drafts for q, and what comes out for p. A rule that tests it by r, or only where r's
       own draft was taken, does not give p; the one that tests by q does (chains.v).
   THEOREM (clipped_draft_not_best). Of the laws r <= 3/2 p, clip(q, a p, 3/2 p) is the one most accepted with one draft;
       with two it is not.
   THEOREM (ensemble_off_the_frontier, ensemble_off_the_frontier_chi_squared). The ensemble r = (p + q)/2 accepts less than another
       law at the same TV(r, p) with two drafts; with one draft another law accepts as much and is nearer in chi-squared.
   THEOREM (cascade_off_the_frontier). A token-specific cascade accepts less than p itself. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules computed.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Local Open Scope Q_scope.

Section Computed.
Variables (ps qs : seq Q).
Let tokens := iota 0 (size ps).
Let p := by_place ps.
Let q := by_place qs.

Definition independent (x : seq nat) : Q := iid binary q x.
Definition output_distribution k rule : seq Q := [seq output binary tokens k independent rule y | y <- tokens].
Definition accepted k rule : Q := acceptance binary tokens k independent rule.
(* The most that a lossless rule accepts of k drafts, i.i.d. or without replacement. *)
Definition optimum k : Q := least_cut binary tokens k independent p.
Definition optimum_without_replacement k : Q :=
  least_cut binary tokens k (in_sequence binary (without_replacement binary tokens q) [::]) p.

Definition independent_tests (x : seq nat) : selection Q nat :=
  Selection (in_turn binary [seq least binary 1 (p y / q y) | y <- x]) (norm binary tokens (excess binary tokens p q) p).
Definition recursive : seq nat -> selection Q nat := recursive_rejection binary tokens (fun _ => q) [::] p.
Definition k_seq_with (g : Q) : seq nat -> selection Q nat := k_seq binary tokens g p q.
Definition optimal_for k : seq nat -> selection Q nat := optimal binary tokens p q k.
(* beta, p_acc and what SpecTr-GBV calls the largest acceptance *)
Definition some_test (g : Q) : Q := mass binary tokens (taken binary g p q).
Definition p_acc (g : Q) (k : nat) : Q := 1 - pow binary (1 - some_test g) k.
Definition claimed k : Q := mass binary tokens (fun y => p y * (1 - pow binary (1 - least binary 1 (q y / p y)) k)).
End Computed.

Definition is_law (a : seq Q) : bool := all (Qle_bool 0) a && Qeq_bool (sum_of binary a id) 1.
Definition pairs (f : Q -> Q -> Q) (a b : seq Q) : seq Q := [seq f z.1 z.2 | z <- zip a b].
Definition total_variation (r p : seq Q) : Q := sum_of binary (pairs (fun a b => most binary (a - b) 0) r p) id.
Definition chi_squared (r p : seq Q) : Q := sum_of binary (pairs (fun a b => (a - b) * (a - b) / b) r p) id.
Definition clip (q low high : seq Q) : seq Q := pairs (most binary) (pairs (least binary) q high) low.
Definition times (a : Q) (p : seq Q) : seq Q := [seq a * b | b <- p].
Definition below (a b : seq Q) : bool := all id [seq Qle_bool z.1 z.2 | z <- zip a b].

(* proofs_checks/rules/recursive_rejection.py *)
Theorem independent_tests_change_the_law (p := [:: 1#2; 1#2]) (q := [:: 0; 1]) :
  [&& ~~ same (output_distribution p q 2 (independent_tests p q)) p, same (output_distribution p q 1 (independent_tests p q)) p
    & same (output_distribution p q 2 (recursive p q)) p].
Proof. computes. Qed.

(* proofs_checks/rules/order_of_rules.py *)
Theorem recursive_rejection_below_k_seq (p := [:: 1#2; 1#2]) (q := [:: 1#4; 3#4]) (k_seq := k_seq_with p q (3#2)) :
  [&& same (output_distribution p q 2 k_seq) p, less (accepted p q 2 (recursive p q)) (accepted p q 2 k_seq)
    & Qeq_bool (accepted p q 1 (recursive p q)) (accepted p q 1 (k_seq_with p q 1))].
Proof. computes. Qed.

(* proofs_checks/k_seq/k_seq_valid.py *)
Theorem k_seq_valid_below_gamma_star (p := [:: 1; 0]) (q := [:: 1#2; 1#2]) :
  [&& same (output_distribution p q 2 (k_seq_with p q 1)) p, less (1 * some_test p q 1) (p_acc p q 1 2)
    & Qle_bool (p_acc p q 2 2) (2 * some_test p q 2)].
Proof. computes. Qed.

(* proofs_checks/optimum/two_drafts.py *)
Theorem always_accepted_though_p_is_not_q (p := [:: 1#4; 3#4]) (q := [:: 1#2; 1#2]) :
  [&& same (output_distribution p q 2 (optimal_for p q 2)) p, Qeq_bool (accepted p q 2 (optimal_for p q 2)) 1
    & less (optimum p q 1) 1].
Proof. computes. Qed.

(* proofs_checks/optimum/spectr_gbv.py *)
Theorem above_spectr_gbv (p := [:: 1#2; 1#2]) (q := [:: 3#4; 1#4]) :
  [&& same (output_distribution p q 2 (optimal_for p q 2)) p, Qeq_bool (accepted p q 2 (optimal_for p q 2)) (15#16),
      Qeq_bool (claimed p q 2) (7#8) & Qeq_bool (claimed p q 1) (optimum p q 1)].
Proof. computes. Qed.

(* proofs_checks/optimum/more_drafts.py *)
Theorem without_replacement_not_concave (p := [:: 0; 0; 1]) (q := [:: 1#4; 1#2; 1#4])
    (alpha := optimum_without_replacement p q) :
  less (alpha 2%nat - alpha 1%nat) (alpha 3%nat - alpha 2%nat)
  && Qle_bool (optimum p q 3 - optimum p q 2) (optimum p q 2 - optimum p q 1).
Proof. computes. Qed.

(* One draft x of r, tested for q; with `last` what is tested for p when c came out. *)
Definition chain (rs qs : seq Q) (last : nat -> nat -> selection Q nat) : seq Q :=
  let tokens := iota 0 (size qs) in let inner := speculative_sampling binary tokens (by_place qs) (by_place rs) in
  [seq sum_of binary tokens (fun x => by_place rs x * sum_of binary tokens (fun c =>
    row binary [:: x] (inner [:: x]) c * row binary [:: c] (last x c) y)) | y <- tokens].
Theorem chain_by_the_wrong_law (p := [:: 3#4; 1#4]) (q := [:: 1#2; 1#2]) (r := [:: 3#4; 1#4])
    (tested_by := fun law c => speculative_sampling binary (iota 0 2) (by_place p) (by_place law) [:: c])
    (untested := fun c => Selection [:: 1] (by_place p)) :
  [&& ~~ same (chain r q (fun _ c => tested_by r c)) p, ~~ same (chain r q (fun x c => if x == c then tested_by q c else untested c)) p
    & same (chain r q (fun _ c => tested_by q c)) p].
Proof. computes. Qed.

(* proofs_checks/lossy/lossy_claims.py, from here on. *)
Theorem clipped_draft_not_best (p := [:: 0; 1#2; 1#2]) (q := [:: 1#2; 0; 1#2]) (other := [:: 0; 1#4; 3#4])
    (clipped := clip q (times 1 p) (times (3#2) p)) :
  [&& is_law clipped, is_law other && below other (times (3#2) p), less (optimum clipped q 2) (optimum other q 2)
    & Qle_bool (optimum other q 1) (optimum clipped q 1)].
Proof. computes. Qed.

Theorem ensemble_off_the_frontier (p := [:: 0; 1#3; 2#3]) (q := [:: 2#3; 0; 1#3]) (other := [:: 1#3; 1#9; 5#9])
    (ensemble := times (1#2) (pairs Qplus p q)) :
  [&& is_law ensemble && is_law other, Qeq_bool (total_variation other p) (total_variation ensemble p),
      less (optimum ensemble q 2) (optimum other q 2)
    & Qeq_bool (optimum ensemble q 1) (optimum p q 1 + total_variation ensemble p)].
Proof. computes. Qed.

Theorem ensemble_off_the_frontier_chi_squared (p := [:: 1#4; 1#4; 1#2]) (q := [:: 0; 3#4; 1#4]) (other := [:: 1#6; 1#2; 1#3])
    (ensemble := times (1#2) (pairs Qplus p q)) :
  [&& is_law ensemble && is_law other, Qle_bool (optimum ensemble q 1) (optimum other q 1),
      less (chi_squared other p) (chi_squared ensemble p)
    & Qeq_bool (total_variation other p) (total_variation ensemble p)].
Proof. computes. Qed.

(* q on the tokens with p >= 4/5 max p, and their rest of mass by p everywhere. *)
Theorem cascade_off_the_frontier (p := [:: 1#6; 5#6]) (q := [:: 5#6; 1#6])
    (trusted := pairs (fun a b => if Qle_bool ((4#5) * (5#6)) a then b else 0) p q)
    (cascade := pairs (fun t a => t + (1 - sum_of binary trusted id) * a) trusted p) :
  [&& is_law cascade, less 0 (total_variation cascade p) & less (optimum cascade q 1) (optimum p q 1)].
Proof. computes. Qed.

Print Assumptions independent_tests_change_the_law.
Print Assumptions recursive_rejection_below_k_seq.
Print Assumptions k_seq_valid_below_gamma_star.
Print Assumptions always_accepted_though_p_is_not_q.
Print Assumptions above_spectr_gbv.
Print Assumptions without_replacement_not_concave.
Print Assumptions chain_by_the_wrong_law.
Print Assumptions clipped_draft_not_best.
Print Assumptions ensemble_off_the_frontier.
Print Assumptions ensemble_off_the_frontier_chi_squared.
Print Assumptions cascade_off_the_frontier.
