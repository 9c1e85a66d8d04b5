(* Statements on rules along paths that are false, with a counterexample computed for each.

   K i.i.d. paths of L tokens from Markov models, over Coq's rationals; the rules are those of path_rules.v, shown to be lossless in
   joint.v, and the expected numbers of accepted tokens are computed by enumerating all drafts. The rows of `ot-draft prove`
   are in proofs_checks/paths/path_rules.py.

   THEOREM (joint_below_traversal). Along two paths Joint can accept less than Traversal; along one they accept the same.
   THEOREM (joint_below_k_seq). Along two paths Joint can accept less than token-wise selection by K-SEQ, at valid factors;
       along one it accepts no less. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules path_rules computed.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Local Open Scope Q_scope.

Section Paths.
Variables (ps qs : seq (seq Q)).
Let tokens := vocabulary ps.
Let p := markov ps.
Let q := markov qs.
(* K-SEQ with a factor that is valid, found by halving [1, k]. *)
Fixpoint halved (h : seq nat) (k n : nat) (low high : Q) : Q :=
  if n is n'.+1 then
    let g := Qred ((low + high) / 2) in let beta := mass binary tokens (taken binary g (p h) (q h)) in
    if Qle_bool (1 - pow binary (1 - beta) k) (g * beta) then halved h k n' low g else halved h k n' g high
  else high.
Definition k_seq_at (h x : seq nat) : selection Q nat :=
  k_seq binary tokens (halved h (size x) 5 1 (inject_Z (Z.of_nat (size x)))) (p h) (q h) x.
Definition by_joint K L : Q := expected_joint binary tokens p q L K.
Definition by_traversal K L : Q := expected_traversal binary tokens p q L K.
Definition by_k_seq K L : Q := expected_token_wise binary tokens q k_seq_at L K.
End Paths.

Theorem joint_below_traversal (p := [:: [:: 1#6; 5#6]; [:: 11#12; 1#12]; [:: 1#7; 6#7]])
    (q := [:: [:: 1#4; 3#4]; [:: 1#2; 1#2]; [:: 1; 0]]) :
  less (by_joint p q 2 2) (by_traversal p q 2 2) && Qeq_bool (by_joint p q 1 2) (by_traversal p q 1 2).
Proof. computes. Qed.

Theorem joint_below_k_seq
    (p := [:: [:: 0; 2#5; 3#5]; [:: 0; 0; 1]; [:: 7#10; 0; 3#10]; [:: 1#4; 0; 3#4]])
    (q := [:: [:: 3#10; 3#10; 2#5]; [:: 0; 1#2; 1#2]; [:: 5#12; 1#4; 1#3]; [:: 1#10; 3#5; 3#10]]) :
  less (by_joint p q 2 2) (by_k_seq p q 2 2) && Qle_bool (by_k_seq p q 1 2) (by_joint p q 1 2).
Proof. computes. Qed.

Print Assumptions joint_below_traversal.
Print Assumptions joint_below_k_seq.
