(* The sweep that finds the levels of optimal selection, step by step as ot_draft/rules/optimal/levels.py does it, for numbers of any kind.

   Places 0, .., last stand at t_0 < .. < t_last, with a curve g over them; kinks are those of the envelope. Arrays are functions from places.
   The library keeps the times of death in a heap, stale ones too, and takes the least (time, place) that holds: `due` looks for it.
   `sweep_levels` is optimal selection's own call: t and g = t^k along the tokens sorted by p/q, and the envelope.
   The library cuts p at k q before it takes the envelope, and floats into groups that they can tell apart; here neither is done. *)

From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Definition put (X : Type) (f : nat -> X) (i : nat) (v : X) : nat -> X := fun j => if j == i then v else f j.

(* alive: still a place; before, after: its living neighbours; rest: what is left of its kink, booked up to `seen`; rate: its loss per unit of
   lambda; born: since when the interval that starts here is one; slope: the slopes' differences so far. *)
Record state (A : Type) := State {
  alive : nat -> bool; before : nat -> nat; after : nat -> nat;
  rest : nat -> A; seen : nat -> A; rate : nat -> A; level : nat -> A; born : nat -> A; slope : nat -> A }.

Section Sweep.
Variables (A : Type) (N : numbers A) (t g kinks : nat -> A) (last : nat).
Local Notation "0" := (zero N).
Local Infix "+" := (add N).
Local Infix "-" := (sub N).
Local Infix "*" := (mul N).
Local Infix "/" := (div N).
Local Notation "x <=? y" := (leb N x y) (at level 70).
Implicit Types (st : state A) (h : nat -> A) (a b i j : nat).

Definition steep h a b : A := (h b - h a) / (t b - t a).
Definition inner i := (0 < i < last)%N.
Definition places := iota 1 last.-1.
Local Notation all := (t last).

Definition unlink st i : state A :=
  State (put (alive st) i false) (put (before st) (after st i) (before st i)) (put (after st) (before st i) (after st i))
    (rest st) (seen st) (rate st) (level st) (born st) (slope st).
Definition loss st i : A := steep g i (after st i) - steep g (before st i) i.
Definition begun : state A := let none := fun _ => 0 in
  State (fun i => i <= last)%N predn succn kinks none none none none none.
(* Places without a kink are none; the others lose at their rates. *)
Definition started : state A :=
  let st := foldl (fun st i => if rest st i <=? 0 then unlink st i else st) begun places in
  State (alive st) (before st) (after st) (rest st) (seen st) (loss st) (level st) (born st) (slope st).

Definition death st i : A := seen st i + most N (rest st i) 0 / rate st i.
Definition due st : option nat :=
  foldr (fun i other => if other is Some j then if death st i <=? death st j then Some i else Some j else Some i) None
    [seq i <- places | alive st i & ~~ (rate st i <=? 0)].

(* What the interval from a to b has earned since it was born. *)
Definition earn now a b st : state A :=
  let share := steep g a b * (now - born st a) in let slope1 := put (slope st) a (slope st a + share) in
  State (alive st) (before st) (after st) (rest st) (seen st) (rate st) (level st) (put (born st) a now) (put slope1 b (slope1 b - share)).
Definition book now j st : state A :=
  if inner j then
    State (alive st) (before st) (after st) (put (rest st) j (rest st j - rate st j * (now - seen st j))) (put (seen st) j now)
      (put (rate st) j (loss st j)) (level st) (born st) (slope st)
  else st.
Definition leveled now i st : state A :=
  State (alive st) (before st) (after st) (rest st) (seen st) (rate st) (put (level st) i now) (born st) (slope st).
Definition die st i : state A :=
  let now := death st i in let a := before st i in let b := after st i in
  book now b (book now a (unlink (earn now i b (earn now a i (leveled now i st))) i)).

Fixpoint run fuel st : state A :=
  if fuel is fuel'.+1 then
    if due st is Some i then if all <=? death st i then st else run fuel' (die st i) else st
  else st.
(* Who lives to the end has the level 1. *)
Definition close st i : state A := let st := earn all i (after st i) st in if inner i then leveled all i st else st.
Definition swept : state A := let st := run last started in foldl close st [seq i <- iota 0 last | alive st i].
(* The slope over the interval from j to j + 1. *)
Definition total st j : A := foldr (fun i acc => slope st i + acc) 0 (iota 0 j.+1).
End Sweep.

(* The library's call for k drafts, tokens in the order s. *)
Section Optimal.
Variables (A : Type) (N : numbers A) (T : eqType) (p q : T -> A) (k : nat) (s : seq T).
Let G := G_ N p q k s.
Let t := t_ N q s.
Let g := g_ N q k s.
Definition envelope_kink i : A := sub N (steep N t G i i.+1) (steep N t G i.-1 i).
Definition sweep : state A := swept N t g envelope_kink (size s).
Definition sweep_levels : seq (nat * A) := let st := sweep in [seq (i, level st i) | i <- places (size s)].
Definition sweep_law : T -> A := let st := sweep in fun y => if y \in s then mul N (total N st (index y s)) (q y) else zero N.
End Optimal.
