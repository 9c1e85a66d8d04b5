(* Decoding with Joint, from the first token to the stop token.

   After the text s the loop drafts K paths of L s tokens, i.i.d. from q, verifies them by joint selection (joint.v, with optimal selection
   for the scaled target at every node), and appends what is emitted. The past decides the length. The loop ends at a stop token, and
   what was emitted behind it is dropped.
   THEOREM (joint_decodes). For every z that holds no stop token but perhaps as its last, what is decoded begins with z with the target's
   own probability, for any models, lengths and stop tokens. An instance of rounds.v for a rule that path_rules.v defines. *)

From Draft Require Import head problem bound sampling optimal path_rules block joint.
From Draft Require Import block_optimal proper rounds.

Section JointLoop.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R) (K : nat) (L : seq T -> nat) (stop : pred T).
Hypotheses (p_law : forall h, law (p h)) (q_law : forall h, law (q h)) (K_pos : (0 < K)%N).
Implicit Types (s u z : seq T) (xs : seq (seq T)).
Let P s u := p (s ++ u).
Let D s u := q (s ++ u).
Definition joint_drafted s : seq (seq (seq T)) := bundles (index_enum T) (L s) K.
Definition joint_chance s xs : R := bundle_law (real R) (D s) [::] xs.
Definition joint_decide s xs : seq T -> T -> R :=
  joint_rule (P s) (optimal_choice (real R) (index_enum T) (P s) (D s)) (optimal_selected (real R) (index_enum T) (P s) (D s))
    [::] 1 (L s) xs.
Definition joint_next s (o : seq (seq T) * (seq T * T)) : seq T := s ++ rcons o.2.1 o.2.2.

Theorem joint_decodes n s z : (size z <= n)%N -> clean stop z ->
  stopped (path_outcomes T joint_drafted L) (path_chance joint_chance joint_decide) (path_emitted (W := _))
    joint_next stop n s z = in_sequence p s z.
Proof.
move=> zn cl; apply: (@stopped_lossless _ _ p _ _ id) => // [s' o|s'].
  by rewrite /path_emitted size_rcons.
apply: (path_round p_law (so_far := id)) => s0 y sy.
have Pl h : law (target p id s0 h) by exact: p_law.
have Dl h : law (D s0 h) by exact: q_law.
rewrite -[RHS](optimal_joint_lossless (q := D s0) Pl Dl K_pos sy) /optimal_joint_output /joint_output sumE.
transitivity (\sum_(xs <- joint_drafted s0) joint_chance s0 xs * joint_emits (real R) (index_enum T) (P s0)
  (optimal_choice (real R) (index_enum T) (P s0) (D s0)) (optimal_selected (real R) (index_enum T) (P s0) (D s0))
  [::] 1 (L s0) xs y); last by [].
rewrite big_seq [RHS]big_seq; apply: eq_bigr => xs xk.
have [->|ne] := eqVneq (joint_chance s0 xs) 0; first by rewrite !mul0r.
by have [_ _ _ e] := optimal_joint_proper Pl Dl K_pos xk ne; rewrite (e y sy).
Qed.
End JointLoop.

Print Assumptions joint_decodes.
