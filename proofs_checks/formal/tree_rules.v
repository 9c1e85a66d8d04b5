(* Traversal and recursive rejection on trees that are drafted draw by draw, written once for numbers of any kind, as path_rules.v is.

   p h is the target's law of the next token after the tokens h. The children of a node are tested in the order in which they were
   drawn, each by the law that it was drawn by. A drafting is a strategy: it looks at all that was drafted, and at coins of its own,
   and says which node gets one child more, the youngest, and by which law that is drawn; or it stops. *)

From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules path_rules.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* The children of a node, the youngest outside: elder ones, the law that it was drawn by, its token, its own children. *)
Inductive forest (A T : Type) := Bare | Child of forest A T & (T -> A) & T & forest A T.
(* Which node gets the next child; its law; what comes after each of its tokens. With probability t the first, else the second. *)
Inductive drafting (A T : Type) :=
  | Stop
  | Draw of seq nat & (T -> A) & (T -> drafting A T)
  | Coin of A & drafting A T & drafting A T.
Arguments Bare {A T}. Arguments Child {A T}. Arguments Stop {A T}. Arguments Draw {A T}. Arguments Coin {A T}.

(* One child more at the node of an address: at each depth the number of younger siblings on the way. No such node: nothing. *)
Fixpoint add_child (A T : Type) (a : seq nat) (Q : T -> A) (x : T) (f : forest A T) : forest A T :=
  match a, f with
  | [::], _ => Child f Q x Bare
  | _ :: _, Bare => Bare
  | 0%N :: a', Child elder Q' y below => Child elder Q' y (add_child a' Q x below)
  | i.+1 :: a', Child elder Q' y below => Child (add_child (i :: a') Q x elder) Q' y below
  end.

Section Trees.
Variables (A : Type) (N : numbers A) (T : eqType) (tokens : seq T) (p : seq T -> T -> A).
Implicit Types (h z : seq T) (w : A) (r : T -> A) (f : forest A T).
Local Notation "0" := (zero N).
Local Notation "1" := (one N).
Local Infix "+" := (add N).
Local Infix "-" := (sub N).
Local Infix "*" := (mul N).

(* Weight and target of a node when all its children f were refused, and w, r before: after each norm((w r - Q)+), R / (R + 1 - w). *)
Fixpoint state w r f : A * (T -> A) :=
  if f is Child elder Q _ _ then
    let s := state w r elder in
    (test N tokens (fun _ => s.2) [::] s.1 Q, following N tokens (fun _ => s.2) [::] s.1 Q)
  else (w, r).
(* The weight of a child when its turn comes: min(1, w r(y) / Q(y)). *)
Definition entry w r elder (Q : T -> A) (y : T) : A :=
  let s := state w r elder in next_weight N (fun _ => s.2) [::] s.1 Q y.

(* Traversal (true): a child has this weight, and it and all below it are refused with 1 - weight in all. Recursive rejection (false):
   a child is accepted with this probability, and the walk goes on from it with weight 1. *)
Variable traversal : bool.
Definition below w r elder Q y : A := if traversal then entry w r elder Q y else 1.

(* Nothing of f, the children of h, is accepted. *)
Fixpoint refused h w r f : A :=
  if f is Child elder Q y f' then
    let v := entry w r elder Q y in let h' := rcons h y in
    refused h w r elder * (if traversal then refused h' v (p h') f' * (1 - (state v (p h') f').1) else 1 - v)
  else 1.
(* The text after h begins with z when the target goes on by r. *)
Definition goes_on h r z : A := if z is c :: z' then r c * in_sequence N p (rcons h c) z' else 1.
(* Some child of h, or a node below it, is accepted, and the text after h begins with z. *)
Fixpoint accepted h w r f z : A :=
  if f is Child elder Q y f' then
    let v := entry w r elder Q y in let h' := rcons h y in let u := below w r elder Q y in
    let s := state u (p h') f' in
    let text z := accepted h' u (p h') f' z + refused h' u (p h') f' * (s.1 * goes_on h' s.2 z) in
    let through := match z with [::] => text [::] | c :: z' => if c == y then text z' else 0 end in
    accepted h w r elder z + refused h w r elder * (if traversal then through else v * through)
  else 0.
(* h or a node below it is accepted, and the text after h begins with z. *)
Definition text h w r f z : A :=
  let s := state w r f in accepted h w r f z + refused h w r f * (s.1 * goes_on h s.2 z).

(* What is emitted on a tree. *)
Definition tree_text f z : A := text [::] 1 (p [::]) f z.
End Trees.

(* Means over all that is drafted: of a number that every tree has, of what is emitted, and of whether the tree holds the prefix u. *)
Section Means.
Variables (A : Type) (N : numbers A) (T : eqType) (tokens : seq T) (p : seq T -> T -> A).
Fixpoint drafted_mean (value : forest A T -> A) (d : drafting A T) f : A :=
  match d with
  | Stop => value f
  | Draw a Q next => sum_of N tokens (fun x => mul N (Q x) (drafted_mean value (next x) (add_child a Q x f)))
  | Coin t d1 d2 => add N (mul N t (drafted_mean value d1 f)) (mul N (sub N (one N) t) (drafted_mean value d2 f))
  end.
Definition adaptive_output (traversal : bool) d f z : A := drafted_mean (fun f => tree_text N tokens p traversal f z) d f.
Fixpoint holds (f : forest A T) (u : seq T) : bool :=
  if u is c :: u' then if f is Child elder _ y f' then (c == y) && holds f' u' || holds elder u else false else true.
Definition chance_of d u : A := drafted_mean (fun f => if holds f u then one N else zero N) d Bare.
End Means.

(* Several texts, drafted by one schedule that sees what was drafted for all of them: the first number of an address says for which text
   the draw is, p b is the target of text b from its own past on. The probability that they go on with the texts z b. *)
Section Batch.
Variables (A : Type) (N : numbers A) (T : eqType) (tokens : seq T) (p : nat -> seq T -> T -> A) (traversal : bool) (texts : seq nat).
Definition grown (a : seq nat) (Q : T -> A) (x : T) (f : nat -> forest A T) b : forest A T :=
  if b == head 0%N a then add_child (behead a) Q x (f b) else f b.
Definition all_texts (f : nat -> forest A T) (z : nat -> seq T) : A :=
  foldr (fun b acc => mul N (tree_text N tokens (p b) traversal (f b) (z b)) acc) (one N) texts.
Fixpoint scheduled_output (d : drafting A T) f z : A :=
  match d with
  | Stop => all_texts f z
  | Draw a Q next => sum_of N tokens (fun x => mul N (Q x) (scheduled_output (next x) (grown a Q x f) z))
  | Coin t d1 d2 => add N (mul N t (scheduled_output d1 f z)) (mul N (sub N (one N) t) (scheduled_output d2 f z))
  end.
End Batch.

Arguments entry : simpl never. Arguments below : simpl never. Arguments text : simpl never. Arguments goes_on : simpl never.
