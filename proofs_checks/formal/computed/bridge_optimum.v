(* The bridge for the optimum: the least cut over all sets of tokens, computed over Coq's rationals, beside `otd.optimal_acceptance`, which looks
   at prefixes of one order of the tokens; and the factor that K-SEQ finds for itself.

   THEOREM (bridge_optimum). On every case of bridge_optimum_cases.v the library's best acceptance is `least_cut` (rules.v; hall.v shows that
   no lossless rule accepts more, and that one accepts as much), for i.i.d. drafts and without replacement.
   THEOREM (bridge_gamma). On every case p_acc <= g beta (k_seq.v) at the factor g that is given, and, unless g is 1, not so 2^-40 below it: g
   is gamma* (best_factor of k_seq.v) rounded up. The library's factor is compared with it, and may be 2^-39 larger. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules computed bridge_optimum_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Case.
Variables (ps qs : seq Q) (k : nat).
Let tokens := iota 0 (size ps).
Let p := by_place ps.
Let q := by_place qs.

Definition optima : seq Q :=
  [:: least_cut binary tokens k (iid binary q) p;
      least_cut binary tokens k (in_sequence binary (without_replacement binary tokens q) [::]) p].
(* p_acc <= g beta *)
Definition large_enough (g : Q) : bool :=
  let beta := mass binary tokens (taken binary g p q) in
  Qle_bool (sub binary 1 (pow binary (sub binary 1 beta) k)) (mul binary g beta).
Definition is_gamma (g : Q) : bool := large_enough g && (Qeq_bool g 1 || ~~ large_enough (sub binary g (1 # 2 ^ 40))).
End Case.

Theorem bridge_optimum : every (fun c => let '(ps, qs, k, best, _) := c in same (optima ps qs k) best) optimum_cases.
Proof. computes. Qed.

Theorem bridge_gamma : every (fun c => let '(ps, qs, k, _, g) := c in is_gamma ps qs k g) optimum_cases.
Proof. computes. Qed.

Print Assumptions bridge_optimum.
Print Assumptions bridge_gamma.
