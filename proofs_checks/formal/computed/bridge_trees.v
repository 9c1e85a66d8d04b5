(* The bridge for trees: Traversal and recursive rejection computed over Coq's rationals, beside the library's.

   THEOREM (bridge_trees). On every case of bridge_tree_cases.v, for all trees drawn without replacement one by one (two children of the
   root, two of its elder child): their probability, and the law of the three tokens that come out given them, computed by the
   definitions of tree_rules.v, are the library's. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules path_rules tree_rules computed bridge_tree_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Case.
Variables (ps qs : seq (seq Q)).
Let tokens := vocabulary ps.
Let p := markov ps.
Let q := markov qs.
Let texts := drafts tokens 3.
Let next h := without_replacement binary tokens (q h).

(* Two children of h, the elder with its own. *)
Definition two (h : seq nat) (x : seq nat) (below : forest Q nat) : forest Q nat :=
  let elder := nth 0%N x 0 in
  Child (Child Bare (next h [::]) elder below) (next h [:: elder]) (nth 0%N x 1) Bare.
Definition by_tree (traversal : bool) : seq (seq Q * seq Q) :=
  flatten [seq [seq
      ([:: mul binary (in_sequence binary (next [::]) [::] x) (in_sequence binary (next (take 1 x)) [::] y)],
        [seq tree_text binary tokens p traversal (two [::] x (two (take 1 x) y Bare)) z | z <- texts])
    | y <- drafts tokens 2 & occurs (in_sequence binary (next (take 1 x)) [::] y)]
  | x <- drafts tokens 2 & occurs (in_sequence binary (next [::]) [::] x)].
End Case.

Theorem bridge_trees :
  every (fun c => let '(ps, qs, given) := c in agree same_rows [:: by_tree ps qs true; by_tree ps qs false] given) tree_cases.
Proof. computes. Qed.

Print Assumptions bridge_trees.
