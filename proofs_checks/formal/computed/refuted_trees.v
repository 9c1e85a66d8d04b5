(* What may not decide whether a child is on the tree: its own token, or what was drawn below a younger child of its node.

   Beside each counterexample stands the drafting near by that is one of adaptive_trees.v, so that the computation is known to be able to
   say yes. Both are about Traversal; the tree is that of the theorem, the laws those written in it, over Coq's rationals.
   THEOREM (own_token). One draw at the root, which is kept or not: where token 0 is taken off after it was drawn, the law of the text is not
   the target's; where a coin decides before, it is.
   THEOREM (late_draw). A fixed token 0 at the root, a draw below it, and one draw more at the root where that was token 0: where it is tested
   before the fixed token, the law of the text is not the target's; where it is tested after it, as the youngest, it is.
   THEOREM (peeking_cut). One token drafted for each of two texts, and one of them is verified, the other cut: where that is the one whose
   token has the larger q, the law of the first text is not the target's; where the token of the second decides, whether it is confident or
   drafted further, both texts have the target's law (scheduled.v). *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules path_rules tree_rules computed.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Local Open Scope Q_scope.

Section Computed.
Variables (ps qs : seq Q) (L : nat).
Let tokens := iota 0 (size ps).
Let p (_ : seq nat) := by_place ps.
Let q := by_place qs.
Let texts := drafts tokens L.+1.

Definition on_tree (f : forest Q nat) : seq Q := [seq tree_text binary tokens p true f z | z <- texts].
Definition on_drafting d : seq Q := [seq adaptive_output binary tokens p true d Bare z | z <- texts].
Definition the_target : seq Q := [seq in_sequence binary p [::] z | z <- texts].
Definition mean (law : nat -> Q) (f : nat -> seq Q) : seq Q :=
  foldr (fun x acc => [seq add binary (mul binary (law x) z.1) z.2 | z <- zip (f x) acc]) (nseq (size texts) 0) tokens.

Definition kept x : forest Q nat := if (x == 0)%N then Bare else Child Bare q x Bare.
Definition coin : drafting Q nat := Coin (1#2) (Draw [::] q (fun _ => Stop)) Stop.

Let fixed (y : nat) : Q := if (y == 0)%N then 1 else 0.
Let outside_fixed := without_replacement binary tokens q [:: 0%N].
Definition looked y : seq Q :=
  let with_elder elder := on_tree (Child elder fixed 0%N (Child Bare q y Bare)) in
  if (y == 0)%N then mean outside_fixed (fun x => with_elder (Child Bare outside_fixed x Bare)) else with_elder Bare.
Definition youngest : drafting Q nat :=
  Draw [::] fixed (fun _ => Draw [:: 0%N] q (fun y => if (y == 0)%N then Draw [::] outside_fixed (fun _ => Stop) else Stop)).

(* The law of the first of two texts, its token x verified if keep x y, y the second's. *)
Definition first_of_two (keep : nat -> nat -> bool) : seq Q :=
  mean q (fun x => mean q (fun y => on_tree (if keep x y then Child Bare q x Bare else Bare))).
(* The second text first; a likely token there gives the next draw to the first text, another one to the place below it. *)
Definition by_confidence : drafting Q nat :=
  Draw [:: 1%N] q (fun y => Draw (if Qle_bool (1#2) (q y) then [:: 0%N] else [:: 1%N; 0%N]) q (fun _ => Stop)).
Definition in_pairs (f : (nat -> seq nat) -> Q) : seq Q := [seq f (fun b => if (b == 0)%N then z.1 else z.2) | z <- allpairs pair texts texts].
Definition both d : seq Q := in_pairs (scheduled_output binary tokens (fun _ => p) true [:: 0%N; 1%N] d (fun _ => Bare)).
Definition the_targets : seq Q := in_pairs (fun z => mul binary (in_sequence binary p [::] (z 0%N)) (in_sequence binary p [::] (z 1%N))).
End Computed.

Theorem own_token (p := [:: 1#2; 1#2]) (q := [:: 1#4; 3#4]) :
  ~~ same (mean p 1 (by_place q) (fun x => on_tree p 1 (kept q x))) (the_target p 1) && same (on_drafting p 1 (coin q)) (the_target p 1).
Proof. computes. Qed.

Theorem late_draw (p := [:: 1#2; 1#4; 1#4]) (q := [:: 1#4; 1#2; 1#4]) :
  ~~ same (mean p 2 (by_place q) (looked p q 2)) (the_target p 2) && same (on_drafting p 2 (youngest p q)) (the_target p 2).
Proof. computes. Qed.

Theorem peeking_cut (p := [:: 1#2; 1#2]) (q := [:: 1#4; 3#4]) :
  [&& ~~ same (first_of_two p q 1 (fun x y => Qle_bool (by_place q y) (by_place q x))) (the_target p 1),
      same (first_of_two p q 1 (fun _ y => Qle_bool (by_place q y) (1#2))) (the_target p 1)
    & same (both p 1 (by_confidence q)) (the_targets p 1)].
Proof. computes. Qed.

Print Assumptions own_token.
Print Assumptions late_draw.
Print Assumptions peeking_cut.
