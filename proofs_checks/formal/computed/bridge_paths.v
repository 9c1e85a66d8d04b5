(* The bridge for rules along paths: computed over Coq's rationals, beside what the Python library computes in Fractions.

   THEOREM (bridge_paths). On every case of bridge_path_cases.v the law of the L + 1 tokens that come out and the expected number of
   accepted tokens of each rule of path_rules.v, computed by enumerating all drafts, are equal to those that
   `ot.paths.evaluate` gave in Fractions: token-wise recursive rejection and optimal selection, Traversal, Joint, and for one
   path block verification. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules path_rules computed bridge_path_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Case.
(* A Markov model: the first law, then those after token 0, 1, .. *)
Variables (ps qs : seq (seq Q)) (K L : nat).
Let n := (size ps).-1.
Let tokens := iota 0 n.
Let p := markov ps.
Let q := markov qs.
Let emitted := drafts tokens L.+1.

Definition recursive h (x : seq nat) : selection Q nat :=
  recursive_rejection binary tokens (fun _ => q h) [::] (p h) x.
Definition best h (x : seq nat) : selection Q nat := optimal binary tokens (p h) (q h) (size x) x.

(* In the order of path_rules in proofs_checks/formal/bridge.py. *)
Definition computed : seq (seq Q * Q) :=
  [:: ([seq token_wise_output binary tokens p q recursive L K z | z <- emitted],
        expected_token_wise binary tokens q recursive L K);
      ([seq token_wise_output binary tokens p q best L K z | z <- emitted], expected_token_wise binary tokens q best L K);
      ([seq traversal_output binary tokens p q L K z | z <- emitted], expected_traversal binary tokens p q L K);
      ([seq optimal_joint_output binary tokens p q L K z | z <- emitted], expected_joint binary tokens p q L K)]
  ++ if (K == 1)%N then [:: ([seq block_output binary tokens p q L z | z <- emitted], expected_block binary tokens p q L)] else [::].
End Case.

Theorem bridge_paths :
  all (fun c => let '(ps, qs, K, L, given) := c in agrees (computed ps qs K L) given) path_cases.
Proof. by vm_compute. Qed.

Print Assumptions bridge_paths.
