(* The bridge for the sweep: levels computed over Coq's rationals, beside those that optimal selection computes.

   THEOREM (bridge_levels). On every case of bridge_level_cases.v the levels of `sweep_levels` (sweep_rules.v; the theorems about it are
   those of sweep.v) are the library's, and the law of its slopes is the library's law of the selected token. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules sweep_rules computed bridge_level_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Definition computed (ps qs : seq Q) (k : nat) : seq Q * seq Q :=
  let tokens := iota 0 (size ps) in let p := by_place ps in let q := by_place qs in let s := by_ratio binary tokens p q in
  let m := sweep_law binary p q k s in
  ([seq z.2 | z <- sweep_levels binary p q k s], [seq m y | y <- tokens]).

Theorem bridge_levels :
  every (fun c => let '(ps, qs, k, level, law) := c in let given := computed ps qs k in same given.1 level && same given.2 law)
    level_cases.
Proof. by vm_compute. Qed.

Print Assumptions bridge_levels.
