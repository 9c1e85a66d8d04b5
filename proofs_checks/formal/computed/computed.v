(* What the files that compute share: equality of lists of rationals, and Markov models.

   No statement is proved here. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Fixpoint same (a b : seq Q) : bool :=
  match a, b with x :: a', y :: b' => Qeq_bool x y && same a' b' | [::], [::] => true | _, _ => false end.
(* (law, number) for each rule *)
Fixpoint agrees (a b : seq (seq Q * Q)) : bool :=
  match a, b with
  | x :: a', y :: b' => [&& same x.1 y.1, Qeq_bool x.2 y.2 & agrees a' b']
  | [::], [::] => true
  | _, _ => false
  end.
Definition less (a b : Q) : bool := ~~ Qle_bool b a.
Definition by_place (masses : seq Q) (y : nat) : Q := nth (Qmake Z0 1) masses y.
(* The law of the next token: the first one of the table at the beginning, then those after token 0, 1, .. *)
Definition markov (table : seq (seq Q)) (h : seq nat) : nat -> Q :=
  by_place (nth [::] table (if h is x :: h' then (last x h').+1 else 0)).
