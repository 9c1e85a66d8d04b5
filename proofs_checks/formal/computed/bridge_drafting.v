(* The bridge for trees that follow what was drafted: draftings as tree_rules.v has them, beside the library's enumeration of its own.

   THEOREM (bridge_stopped). A path that goes on while it is likely, by the masses drafted, that nothing of it is refused: `StoppedPath`.
   THEOREM (bridge_sampled). Trees without replacement, every draw where it is likeliest to be tried: `SampledTree`.
   THEOREM (bridge_tossed). A coin decides whether the root has a second child, and its token whether that has one.
   On every case of bridge_drafting_cases.v: the probability that the tree holds each prefix, and the bound of the caps (tree_bound.v), are those
   of `every_tree` and `cap_bound`; and for Traversal (of trees without replacement recursive rejection too), every prefix and every text,
   the probability that the tree holds the one and the other comes out is the library's. A coin that is never tossed
   changes no law of a text, and shows in what the trees hold. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules path_rules tree_rules computed bridge_drafting_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Local Open Scope Q_scope.

Section Case.
Variables (ps qs : seq (seq Q)) (L : nat).
Let tokens := vocabulary ps.
Let p := markov ps.
Let q := markov qs.
Let outside h := without_replacement binary tokens (q h).

(* From h on, at the address a, where all so far is accepted with the chance r, as its masses predict: 3/4 from 1/2 on, below 1/4. *)
Fixpoint stopped n h a r : drafting Q nat :=
  if n is n'.+1 then
    if Qle_bool (1 - r) (1#2) then
      Draw a (q h) (fun x => stopped n' (rcons h x) (0%N :: a) (mul binary r (if Qle_bool (1#2) (q h x) then 3#4 else 1#4)))
    else Stop
  else Stop.

(* Three draws. What a draw is worth is the probability that it is tried, as q has it; a node has two children at most. *)
Definition last a (law : nat -> Q) : drafting Q nat := Draw a law (fun _ => Stop).
Definition sampled : drafting Q nat :=
  Draw [::] (q [::]) (fun x => let v := q [::] x in
    if less (1 - v) v then
      Draw [:: 0%N] (q [:: x]) (fun y =>
        if less (v * (1 - q [:: x] y)) (1 - v) then last [::] (outside [::] [:: x]) else last [:: 0%N] (outside [:: x] [:: y]))
    else
      Draw [::] (outside [::] [:: x]) (fun y =>
        if less ((1 - v) * outside [::] [:: x] y) v then last [:: 1%N] (q [:: x]) else last [:: 0%N] (q [:: y]))).

Definition tossed : drafting Q nat :=
  Coin (1#3) (Draw [::] (q [::]) (fun _ => Draw [::] (q [::]) (fun y => if (y == 0)%N then last [:: 0%N] (q [:: y]) else Stop)))
    (last [::] (q [::])).

Let prefixes := flatten [seq drafts tokens n | n <- iota 0 L.+1].
Definition judged (d : drafting Q nat) (rules : seq bool) : seq (seq Q * seq Q) :=
  let chance := chance_of binary tokens d in
  ([seq chance u | u <- prefixes], [:: caps binary tokens p chance L [::] 1])
  :: flatten [seq [seq ([::], [seq drafted_mean binary tokens (fun f => if holds f u then tree_text binary tokens p rule f z else 0) d Bare
      | z <- drafts tokens L.+1]) | u <- prefixes] | rule <- rules].
End Case.

Theorem bridge_stopped :
  every (fun c => let '(ps, qs, L, given) := c in same_rows (judged ps L (stopped qs L [::] [::] 1) [:: true]) given) stopped_cases.
Proof. computes. Qed.

Theorem bridge_sampled :
  every (fun c => let '(ps, qs, L, given) := c in same_rows (judged ps L (sampled ps qs) [:: true; false]) given) sampled_cases.
Proof. computes. Qed.

Theorem bridge_tossed :
  every (fun c => let '(ps, qs, L, given) := c in same_rows (judged ps L (tossed qs) [:: true]) given) tossed_cases.
Proof. computes. Qed.

Print Assumptions bridge_stopped.
Print Assumptions bridge_sampled.
Print Assumptions bridge_tossed.
