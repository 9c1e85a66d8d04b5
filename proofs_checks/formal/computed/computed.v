(* What the files that compute share: equality of lists of rationals, and Markov models.

   No statement is proved here. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* Lists of one length whose entries agree one by one; nothing is computed beyond the first that do not. *)
Fixpoint agree (X Y : Type) (e : X -> Y -> bool) (a : seq X) (b : seq Y) : bool :=
  match a, b with
  | x :: a', y :: b' => if e x y then agree e a' b' else false
  | [::], [::] => true
  | _, _ => false
  end.
Definition same : seq Q -> seq Q -> bool := agree Qeq_bool.
(* (law, number) *)
Definition same_average (a b : seq Q * Q) : bool := same a.1 b.1 && Qeq_bool a.2 b.2.
(* (list, list) for every row *)
Definition same_rows : seq (seq Q * seq Q) -> seq (seq Q * seq Q) -> bool :=
  agree (fun x y => same x.1 y.1 && same x.2 y.2).
(* A statement about every case; nothing is computed beyond the first in which it is false. *)
Fixpoint every (X : Type) (f : X -> bool) (s : seq X) : bool :=
  if s is x :: s' then if f x then every f s' else false else true.

Definition less (a b : Q) : bool := ~~ Qle_bool b a.
Definition occurs (a : Q) : bool := ~~ Qeq_bool a (Qmake Z0 1).
Definition by_place (masses : seq Q) (y : nat) : Q := nth (Qmake Z0 1) masses y.
(* The law of the next token: the first one of the table at the beginning, then those after token 0, 1, .. *)
Definition markov (table : seq (seq Q)) (h : seq nat) : nat -> Q :=
  by_place (nth [::] table (if h is x :: h' then (last x h').+1 else 0)).
