(* What the files that compute share: equality of lists of rationals, Markov models, and how a computation is a proof.

   LEMMA (cachedE). A function whose values at some points are computed once is that function. *)

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
(* A Markov model of any order, by its table: the law at the beginning, those after one token, 0, 1, .., after two, 0 0, 0 1, .., as far as it
   goes. What is known is the longest end of h that the table has. *)
Definition vocabulary (table : seq (seq Q)) : seq nat := iota 0 (size (head [::] table)).
Fixpoint markov (table : seq (seq Q)) (h : seq nat) : nat -> Q :=
  let n := size (head [::] table) in let place := foldl (fun i y => (i * n + y).+1) 0%N h in
  if (place < size table)%N then by_place (nth [::] table place) else if h is _ :: h' then markov table h' else by_place [::].

(* A boolean that is true when it is computed. `by vm_compute` does that twice: in the proof, and when the proof is read. *)
Ltac computes := vm_cast_no_check (erefl true).

(* The same function, its values at the points s computed once. *)
Definition cached (X : eqType) (Y : Type) (f : X -> Y) (s : seq X) : X -> Y :=
  let values := map f s in fun x => if drop (index x s) values is y :: _ then y else f x.
Lemma cachedE (X : eqType) (Y : Type) (f : X -> Y) s : cached f s =1 f.
Proof.
move=> x; rewrite /cached; case: (ltnP (index x s) (size s)) => h; last by rewrite drop_oversize ?size_map.
by rewrite (drop_nth (f x)) ?size_map // (nth_map x) // nth_index // -index_mem.
Qed.
