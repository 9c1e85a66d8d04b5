(* Two draftings that are used, as instances of adaptive_trees.v.

   THEOREM (tops_and_draw_laws, traversal_of_tops_and_draws). At a node: fixed tokens, each certain, then one draw outside them, and then
   whatever is drafted by laws, which may look at all of these. Traversal of it is lossless (RheoSampling's trees).
   THEOREM (distinct_laws). At a node: k children without replacement, and then whatever is drafted by laws (DySpec's trees).

   Any finite set of tokens, any real field, any models. *)

From Draft Require Import head problem bound sampling path_rules block tree_rules adaptive_trees.

Section TopsAndDraws.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R).
Hypotheses (p_law : forall h, law (p h)) (q_law : forall h, law (q h)).
Implicit Types (a : seq nat) (h : seq T).
Definition point (x : T) : T -> R := fun y => (y == x)%:R.
Lemma point_law x : law (point x).
Proof.
split=> [y|]; first by rewrite ler0n.
by rewrite (bigD1 x) //= /point eqxx big1 ?addr0 // => y /negbTE->.
Qed.

(* At the node a, after the tokens h: the tokens tops, each certain, then one draw outside them, then `next` of its token. *)
Fixpoint tops_and_draw a h (tops drawn : seq T) (next : T -> drafting R T) : drafting R T :=
  if tops is x :: tops' then Draw a (point x) (fun _ => tops_and_draw a h tops' (x :: drawn) next)
  else Draw a (without_replacement (real R) (index_enum T) (q h) drawn) next.
Lemma tops_and_draw_laws a h tops drawn next : (forall x, by_laws (next x)) -> by_laws (tops_and_draw a h tops drawn next).
Proof.
move=> ok; elim: tops drawn => [|x tops ih] drawn /=; first by split=> //; exact: without_replacement_law.
by split=> //; exact: point_law.
Qed.

(* k children of the node a, without replacement, after those drawn. *)
Fixpoint distinct a h k drawn (next : seq T -> drafting R T) : drafting R T :=
  if k is k'.+1 then Draw a (without_replacement (real R) (index_enum T) (q h) drawn) (fun x => distinct a h k' (rcons drawn x) next)
  else next drawn.
Lemma distinct_laws a h k drawn next : (forall xs, by_laws (next xs)) -> by_laws (distinct a h k drawn next).
Proof. by move=> ok; elim: k drawn => [|k ih] drawn //=; split=> [|x]; [exact: without_replacement_law | exact: ih]. Qed.

Theorem traversal_of_tops_and_draws a h tops next z : (forall x, by_laws (next x)) ->
  adaptive_output (real R) (index_enum T) p true (tops_and_draw a h tops [::] next) Bare z = in_sequence p [::] z.
Proof. by move=> ok; apply: traversal_adaptive_lossless => //; exact: tops_and_draw_laws. Qed.
End TopsAndDraws.

Print Assumptions traversal_of_tops_and_draws.
Print Assumptions tops_and_draw_laws.
Print Assumptions distinct_laws.
