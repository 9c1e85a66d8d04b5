(* The bridge: the rules computed over Coq's rationals, beside what the Python library computes in Fractions.

   THEOREM (bridge). On every case of bridge_cases.v, for each rule of rules.v: the output law and the acceptance, computed by
   enumerating all drafts, are those that `otd.evaluate` gave in Fractions; and for every tuple of drafts that can occur, its
   probability, accept_i for each draft and the law of what is emitted are those of the library's rule. The terms computed are the
   definitions of rules.v, the same that the theorems of the other files are about, with binary rationals in the place of a real field. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import rules computed bridge_cases.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Case.
Variables (ps qs : seq Q) (k : nat) (factor : Q).
Let tokens := iota 0 (size ps).
Let p := by_place ps.
Let q := by_place qs.

(* What the rule decides for every tuple of drafts is computed once. *)
Definition judged (law : seq nat -> Q) (any_rule : seq nat -> selection Q nat) : seq (seq Q * seq Q) :=
  let rule := cached any_rule (drafts tokens k) in
  ([seq output binary tokens k law rule y | y <- tokens], [:: acceptance binary tokens k law rule])
  :: [seq let s := rule x in (law x :: accept s, [seq row binary x s y | y <- tokens]) | x <- drafts tokens k & occurs (law x)].

(* In the order of `rules` in proofs_checks/formal/bridge.py. *)
Definition computed : seq (seq (seq Q * seq Q)) :=
  let independent := iid binary q in
  let next := without_replacement binary tokens q in
  [:: judged independent (naive_target binary tokens p);
      judged independent (speculative_sampling binary tokens p q);
      judged independent (recursive_rejection binary tokens (fun _ => q) [::] p);
      judged (in_sequence binary next [::]) (recursive_rejection binary tokens next [::] p);
      judged independent (k_seq binary tokens factor p q);
      judged independent (optimal binary tokens p q k)].
End Case.

Theorem bridge : every (fun c => let '(ps, qs, k, factor, given) := c in agree same_rows (computed ps qs k factor) given) cases.
Proof. computes. Qed.

Print Assumptions bridge.
