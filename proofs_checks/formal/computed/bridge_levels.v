(* The bridge for the sweep: levels computed over Coq's rationals, beside those that optimal selection computes.

   THEOREM (bridge_levels). On every case of bridge_level_cases.v the levels of `sweep_levels` (sweep_rules.v; the theorems about it are
   those of sweep.v) are the library's, and the law of its slopes is the library's law of the selected token.
   THEOREM (bridge_few_tokens). So they are on the problems of bridge_cases.v; there the token that the library's levels select, over all tuples of
   drafts, has the law of the envelope's increments, which is what any_levels.v asks of levels (selected_levels_optimal). *)

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
Proof. computes. Qed.

(* What the given levels select, over all drafts, and the increments of the envelope. *)
Definition by_levels (ps qs : seq Q) (k : nat) (level : seq Q) : seq Q * seq Q :=
  let tokens := iota 0 (size ps) in let p := by_place ps in let q := by_place qs in let s := by_ratio binary tokens p q in
  let l := zip (iota 1 (size level)) level in
  let chosen x y := sum_of binary (zip x (choose binary l [seq index z s | z <- x])) (fun a => if a.1 == y then a.2 else zero binary) in
  let m := optimal_law binary tokens p q k s in
  ([seq sum_of binary (drafts tokens k) (fun x => mul binary (iid binary q x) (chosen x y)) | y <- tokens], [seq m y | y <- tokens]).

Theorem bridge_few_tokens :
  every (fun c => let '(ps, qs, k, level, law) := c in
    let swept := computed ps qs k in let selected := by_levels ps qs k level in
    [&& same swept.1 level, same swept.2 law, same selected.1 law & same selected.2 law]) few_tokens.
Proof. computes. Qed.

Print Assumptions bridge_levels.
Print Assumptions bridge_few_tokens.
