(* The bridge for rules along paths: computed over Coq's rationals, beside what the Python library computes in Fractions.

   THEOREM (bridge_paths). On every case of path_cases (bridge_path_cases.v) the law of the L + 1 tokens that come out and the expected
   number of accepted tokens of each rule of path_rules.v, computed by enumerating all drafts, are equal to those that
   `otd.trees.evaluate` gave in Fractions: token-wise recursive rejection and optimal selection, Traversal, Joint, and for one
   path block verification.
   THEOREM (bridge_path_rows). On every case of path_rows, models without zeros, they agree for all drafted paths one by one: their
   probability, the expected number of accepted tokens and the law, given these paths, of the L + 1 tokens that begin and end with token 0.
   THEOREM (bridge_long). So they do on long_rows, models of order 2, for drafted paths whose last two tokens are equal: one path and two
   of three tokens, where the law after a text is not that after its last token.
   THEOREM (bridge_scaled). So does Joint on scaled_rows, where selecting for p and for w p differ, for paths without token 2, which is as 1. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules path_rules computed bridge_path_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Case.
(* Markov models, by their tables. *)
Variables (ps qs : seq (seq Q)) (K L : nat).
Let tokens := vocabulary ps.
Let p := markov ps.
Let q := markov qs.
Let texts := drafts tokens L.+1.

Definition recursive h (x : seq nat) : selection Q nat :=
  recursive_rejection binary tokens (fun _ => q h) [::] (p h) x.
Definition best h (x : seq nat) : selection Q nat := optimal binary tokens (p h) (q h) (size x) x.

(* In the order of path_rules in proofs_checks/formal/bridge_paths.py. *)
Definition on_average : seq (seq Q * Q) :=
  [:: ([seq token_wise_output binary tokens p q recursive L K z | z <- texts],
        expected_token_wise binary tokens q recursive L K);
      ([seq token_wise_output binary tokens p q best L K z | z <- texts], expected_token_wise binary tokens q best L K);
      ([seq traversal_output binary tokens p q L K z | z <- texts], expected_traversal binary tokens p q L K);
      ([seq optimal_joint_output binary tokens p q L K z | z <- texts], expected_joint binary tokens p q L K)]
  ++ if (K == 1)%N then [:: ([seq block_output binary tokens p q L z | z <- texts], expected_block binary tokens p q L)] else [::].

(* What these are the means of, on paths that are `some`. *)
Section Rows.
Variable some : pred (seq nat).
Definition by_drafts (length : seq (seq nat) -> Q) (emits : seq (seq nat) -> seq nat -> Q) : seq (seq Q * seq Q) :=
  [seq ([:: bundle_law binary q [::] xs; length xs], [seq emits xs z | z <- texts & (head 1%N z == 0%N) && (last 1%N z == 0%N)])
  | xs <- bundles tokens L K & all some xs && occurs (bundle_law binary q [::] xs)].
Definition token_wise rule := by_drafts (token_wise_length binary tokens rule [::] L) (token_wise_emits binary p rule [::] L).
Definition joint :=
  let choice := optimal_choice binary tokens p q in let m := optimal_selected binary tokens p q in
  by_drafts (joint_length binary tokens p choice m [::] 1 L) (joint_emits binary tokens p choice m [::] 1 L).
Definition rows : seq (seq (seq Q * seq Q)) :=
  [:: token_wise recursive; token_wise best;
      by_drafts (traversal_length binary tokens p q (p [::]) 1) (traversal_emits binary tokens p q (p [::]) 1); joint]
  ++ if (K == 1)%N then
       [:: by_drafts (fun xs => block_length binary tokens p q [::] 1 (head [::] xs))
            (fun xs => block_emits binary tokens p q [::] 1 (head [::] xs))]
     else [::].
End Rows.
End Case.

Theorem bridge_paths :
  every (fun c => let '(ps, qs, K, L, given) := c in agree same_average (on_average ps qs K L) given) path_cases.
Proof. computes. Qed.

Theorem bridge_path_rows :
  every (fun c => let '(ps, qs, K, L, given) := c in agree same_rows (rows ps qs K L predT) given) path_rows.
Proof. computes. Qed.

Theorem bridge_long :
  every (fun c => let '(ps, qs, K, L, given) := c in agree same_rows (rows ps qs K L (fun x => nth 0%N x 1 == nth 0%N x 2)) given) long_rows.
Proof. computes. Qed.

Theorem bridge_scaled :
  every (fun c => let '(ps, qs, K, L, given) := c in agree same_rows [:: joint ps qs K L (fun x => 2%N \notin x)] given) scaled_rows.
Proof. computes. Qed.

Print Assumptions bridge_paths.
Print Assumptions bridge_path_rows.
Print Assumptions bridge_long.
Print Assumptions bridge_scaled.
