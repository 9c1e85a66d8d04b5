(* The bridge for hybrid drafts: optimal selection computed over Coq's rationals, beside the library's.

   THEOREM (bridge_hybrid). On every case of bridge_hybrid_cases.v the output law and the acceptance of optimal selection of hybrid drafts
   (hybrid.v), and for every tuple of drafts that can occur its probability and the law of what is emitted, are the library's. What
   accept_i is may differ where a given token is emitted: rules.v puts it into the residual, the library into accept_i. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules computed bridge_hybrid_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Case.
Variables (ps qs : seq Q) (tops : seq nat) (r : nat).
Let tokens := iota 0 (size ps).
Let p := by_place ps.
Let next := outside binary tokens (by_place qs) tops.
Let k := (size tops + r)%N.

Definition computed : seq (seq Q * seq Q) :=
  let rule := optimal_hybrid binary tokens p next tops r in let law := hybrid binary next tops in
  ([seq output binary tokens k law rule y | y <- tokens], [:: acceptance binary tokens k law rule])
  :: [seq let s := rule x in ([:: law x], [seq row binary x s y | y <- tokens]) | x <- drafts tokens k & occurs (law x)].
End Case.

(* Without the library's accept_i. *)
Definition emitted (given : seq (seq Q * seq Q)) : seq (seq Q * seq Q) :=
  if given is average :: rows then average :: [seq (take 1 z.1, z.2) | z <- rows] else [::].

Theorem bridge_hybrid :
  every (fun c => let '(ps, qs, tops, r, given) := c in same_rows (computed ps qs tops r) (emitted given)) hybrid_cases.
Proof. computes. Qed.

Print Assumptions bridge_hybrid.
