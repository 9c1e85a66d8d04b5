(* The language of the proofs: Mathematical Components, `ring`, `lra` for inequalities, and the definitions of rules.v over a
   real field and a finite set of tokens, written without either.

   No statement of the toolkit is proved here; a file that requires this one needs no other line before its first section. *)

From mathcomp Require Export all_ssreflect all_algebra ring.
From Draft Require Export lra rules.
Export Order.TTheory GRing.Theory Num.Theory.

#[export] Set Implicit Arguments.
#[export] Unset Strict Implicit.
#[export] Unset Printing Implicit Defensive.
Global Open Scope ring_scope.

Notation tokens := (index_enum _).
Notation drafts := (rules.drafts (index_enum _)).
Notation row := (rules.row (real _)).
Notation output := (rules.output (real _) (index_enum _)).
Notation acceptance := (rules.acceptance (real _) (index_enum _)).
Notation mass := (rules.mass (real _) (index_enum _)).
Notation norm := (rules.norm (real _) (index_enum _)).
Notation excess := (rules.excess (real _) (index_enum _)).
Notation iid := (rules.iid (real _)).
Notation in_sequence := (rules.in_sequence (real _)).
Notation couple := (rules.couple (real _) (index_enum _)).
