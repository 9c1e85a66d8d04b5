(* The bound, and the coupling that it is met by.

   THEOREM (bound). For every law Q of k drafts, every lossless rule and every set H of tokens,
       acceptance <= 1 + p(H) - Q(all drafts in H);
   for i.i.d. drafts from q that is 1 + p(H) - q(H)^k (iid_inside).
   THEOREM (accepted_at_most). A lossless rule accepts at most sum_y min(p(y), Q(y among the drafts)), for i.i.d. drafts at
   most sum_y min(p(y), k q(y)).
   THEOREM (maximal_coupling). Let a token with law m be taken with probability min(1, p/m), else one be drawn from
   norm((p - m)+): the output has the law p, and the token itself is taken with probability sum_y min(p, m).

   Any finite set of tokens, any real field, any k. *)

From Draft Require Import head problem.

Section Bound.
Variables (R : realFieldType) (T : finType).
Implicit Types (p q m : T -> R) (x : seq T) (Q : seq T -> R) (H : pred T).

Definition mass_of p H := \sum_(y | H y) p y.
(* Q(all drafts in H) *)
Definition inside k Q H := \sum_(x <- drafts k | all H x) Q x.

Section Lossless.
Variables (k : nat) (Q : seq T -> R) (p : T -> R) (rule : seq T -> selection R T).
Hypotheses (Q_law : draft_law k Q) (ok : proper k Q rule) (out : lossless k Q p rule).

Let pi x y := Q x * row x (rule x) y.
Let pi0 x y : x \in drafts k -> 0 <= pi x y.
Proof. by case: (rule_is_coupling Q_law ok out) => h _ _; exact: h. Qed.
Let piQ x : x \in drafts k -> \sum_y pi x y = Q x.
Proof. by case: (rule_is_coupling Q_law ok out) => _ h _; exact: h. Qed.
Let pip y : \sum_(x <- drafts k) pi x y = p y.
Proof. by case: (rule_is_coupling Q_law ok out) => _ _; exact. Qed.
Let accepted : acceptance k Q rule = \sum_(x <- drafts k) \sum_(y | y \in x) pi x y.
Proof. by rewrite acceptanceE; apply: eq_bigr => x _; rewrite mulr_sumr. Qed.

Theorem bound H : acceptance k Q rule <= 1 + mass_of p H - inside k Q H.
Proof.
have <- : \sum_(x <- drafts k | ~~ all H x) Q x + mass_of p H = 1 + mass_of p H - inside k Q H.
  by have := Q_law.2; rewrite (bigID (all H)) /= /inside; lra.
have -> : mass_of p H = \sum_(x <- drafts k) \sum_(y | H y) pi x y.
  by rewrite exchange_big; apply: eq_bigr => y _; rewrite pip.
rewrite big_mkcond -big_split accepted !big_seq; apply: ler_sum => x xk /=.
have sub (P P' : pred T) : (forall y, P y -> P' y) -> \sum_(y | P y) pi x y <= \sum_(y | P' y) pi x y.
  move=> s; rewrite [leRHS](bigID P) /= [X in _ <= X + _](eq_bigl P) ?ler_addl ?sumr_ge0 // => [y _|y].
    exact: pi0.
  by rewrite andbC; case e: (P y) => //=; rewrite s.
case: ifPn => [_|/negPn/allP h]; last by rewrite add0r; apply: sub => y /h.
rewrite -piQ // (le_trans (sub _ predT _)) // ler_addl sumr_ge0 // => y _; exact: pi0.
Qed.

Theorem accepted_at_most :
  acceptance k Q rule <= \sum_y Num.min (p y) (\sum_(x <- drafts k | y \in x) Q x).
Proof.
rewrite accepted; under eq_bigr do rewrite big_mkcond /=.
rewrite exchange_big /=; apply: ler_sum => y _; rewrite le_minr -{1}pip -big_mkcond /=; apply/andP; split.
  rewrite big_mkcond /= !big_seq; apply: ler_sum => x xk; case: ifP => // _; exact: pi0.
rewrite big_seq_cond [leRHS]big_seq_cond; apply: ler_sum => x /andP[xk _]; rewrite -piQ // (bigD1 y) //= ler_addl sumr_ge0 // => z _.
exact: pi0.
Qed.
End Lossless.

(** i.i.d. drafts *)

Lemma iid_law q k : law q -> draft_law k (iid q).
Proof.
move=> [q0 q1]; split=> [x|]; first by elim: x => [|y x ih] /=; rewrite ?ler01 ?mulr_ge0.
elim: k => [|k ih]; first by rewrite sum_drafts0.
rewrite sum_drafts; under eq_bigr do rewrite /= -mulr_sumr ih mulr1.
by [].
Qed.

Lemma iid_inside q k H : inside k (iid q) H = mass_of q H ^+ k.
Proof.
elim: k => [|k ih]; first by rewrite /inside big_mkcond sum_drafts0 expr0.
rewrite /inside big_mkcond sum_drafts exprS {1}/mass_of mulr_suml [RHS]big_mkcond; apply: eq_bigr => y _ /=.
case: (H y) => /=; last by rewrite big1.
by rewrite -ih /inside [in RHS]big_mkcond mulr_sumr; apply: eq_bigr => x _; case: ifP; rewrite ?mulr0.
Qed.

(* A given token is among k i.i.d. drafts with probability at most k q(y). *)
Lemma iid_drafted q k y : law q -> \sum_(x <- drafts k | y \in x) iid q x <= k%:R * q y.
Proof.
move=> ql; elim: k => [|k ih]; first by rewrite big_mkcond sum_drafts0 mul0r.
have [q0 q1] := ql; have [Q0 Q1] := iid_law k ql.
rewrite big_mkcond sum_drafts.
apply: le_trans (_ : \sum_z ((if z == y then q z else 0) + q z * \sum_(x <- drafts k | y \in x) iid q x) <= _).
  apply: ler_sum => z _; rewrite /= [in X in _ <= X]big_mkcond mulr_sumr.
  have -> : (if z == y then q z else 0) = \sum_(x <- drafts k) (if z == y then q z * iid q x else 0).
    by case: ifP => _; [rewrite -mulr_sumr Q1 mulr1 | rewrite big1].
  rewrite -big_split /=; apply: ler_sum => x _; rewrite inE eq_sym.
  have i0 : 0 <= q z * iid q x by rewrite mulr_ge0.
  by case: (z == y); case: (y \in x); rewrite /= ?mulr0; lra.
rewrite big_split /= -big_mkcond big_pred1_eq -mulr_suml q1 mul1r.
by rewrite -[in leRHS]addn1 natrD mulrDl mul1r addrC ler_add2r.
Qed.

(** The maximal coupling *)

Lemma taken_min p m y : (forall y, 0 <= p y) -> (forall y, 0 <= m y) ->
  m y * Num.min 1 (p y / m y) = Num.min (p y) (m y).
Proof.
move=> p0 m0; have [->|ne] := eqVneq (m y) 0; first by rewrite mul0r min_r.
have m_gt : 0 < m y by rewrite lt_def ne m0.
by rewrite minr_pmulr // mulr1 mulrC divfK // minC.
Qed.

Lemma kept_le1 p m y : (forall y, 0 <= p y) -> (forall y, 0 <= m y) -> 0 <= Num.min 1 (p y / m y) <= 1.
Proof. by move=> p0 m0; rewrite le_minl lexx /= le_minr ler01 divr_ge0. Qed.

Theorem maximal_coupling p m y : law p -> law m ->
  Num.min (p y) (m y) + (1 - \sum_z Num.min (p z) (m z)) * norm (excess p m) p y = p y.
Proof.
move=> [p0 p1] [m0 m1].
have -> : 1 - \sum_z Num.min (p z) (m z) = \sum_z excess p m z.
  by rewrite -p1 -sumrB; apply: eq_bigr => z _; rewrite excess_min.
by rewrite norm_mass ?excess_min; [lra | exact: excess_ge0].
Qed.

Lemma excess_law p m : law p -> law (norm (excess p m) p).
Proof. by move=> pl; apply: norm_law => // y; exact: excess_ge0. Qed.

End Bound.

Print Assumptions bound.
Print Assumptions accepted_at_most.
Print Assumptions maximal_coupling.
