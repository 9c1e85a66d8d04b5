(* The selected-draft form: select a draft, and couple its token with the target.

   THEOREM (couple_lossless, couple_acceptance). Let one of the drafts be selected in any way that may depend on all of them,
   and let m be the law of its token. Take the token y with probability min(1, p(y)/m(y)), else draw from norm((p - m)+).
   This rule is lossless, and accepts at least sum_y min(p(y), m(y)).

   Any law of the drafts, any finite set of tokens, any real field, any k. *)

From Draft Require Import head problem bound.

Section Couple.
Variables (R : realFieldType) (T : finType).

(* The probability that the token y is chosen. *)
Definition chosen (choice : seq R) (x : seq T) (y : T) : R :=
  \sum_(z <- zip x choice) (if z.1 == y then z.2 else 0).

Variables (k : nat) (Q : seq T -> R) (p m : T -> R) (choice : seq T -> seq R).
Hypotheses (Q_law : draft_law k Q) (p_law : law p).
Hypothesis size_choice : forall x, size (choice x) = size x.
Hypothesis chosen_ge0 : forall x y, x \in drafts k -> Q x != 0 -> 0 <= chosen (choice x) x y.
Hypothesis chosen_sum : forall x, x \in drafts k -> Q x != 0 -> \sum_y chosen (choice x) x y = 1.
Hypothesis chosen_law : forall y, \sum_(x <- drafts k) Q x * chosen (choice x) x y = m y.

Let rule x := couple p m (choice x) x.
Let keep y := Num.min 1 (p y / m y).

Lemma chosen_outside (x : seq T) y : y \notin x -> chosen (choice x) x y = 0.
Proof.
move=> yx; rewrite /chosen big1_seq // => -[z a] /= zin; case: eqP => // e; case/negP: yx; rewrite -e.
elim: x (choice x) zin => [|b x ih] [|c l] //=; rewrite !inE => /orP[/eqP[-> _]|/ih ->]; by rewrite ?eqxx ?orbT.
Qed.

Lemma m_law : law m.
Proof.
split=> [y|].
  rewrite -chosen_law big_seq sumr_ge0 // => x xk; have [->|ne] := eqVneq (Q x) 0; first by rewrite mul0r.
  by rewrite mulr_ge0 ?chosen_ge0 //; case: Q_law.
under eq_bigr do rewrite -chosen_law.
rewrite exchange_big /= -(proj2 Q_law) !big_seq; apply: eq_bigr => x xk; rewrite -mulr_sumr.
by have [->|ne] := eqVneq (Q x) 0; [rewrite mul0r | rewrite chosen_sum ?mulr1].
Qed.

Lemma couple_row x y : row x (rule x) y = chosen (choice x) x y * keep y
  + (1 - \sum_z chosen (choice x) x z * keep z) * norm (excess p m) p y.
Proof.
rewrite rowE /rule /couple /=; congr (_ + (1 - _) * _).
  rewrite /chosen mulr_suml; elim: x (choice x) => [|a x ih] [|c l]; rewrite /= ?big_nil // !big_cons ih /= leastE.
  by case: eqP => [->|_]; rewrite ?mul0r.
rewrite /chosen; elim: x (choice x) => [|a x ih] [|c l] /=;
  try by rewrite big_nil big1 // => z _; rewrite big_nil mul0r.
rewrite big_cons ih leastE; under [RHS]eq_bigr do rewrite big_cons mulrDl /=.
rewrite big_split /=; congr (_ + _).
by rewrite (bigD1 a) //= eqxx big1 ?addr0 // => z /negbTE; rewrite eq_sym => ->; rewrite mul0r.
Qed.

Let keep01 y : 0 <= keep y <= 1.
Proof. by apply: kept_le1; [case: p_law | case: m_law]. Qed.
Let kept : \sum_(x <- drafts k) Q x * (\sum_z chosen (choice x) x z * keep z) = \sum_z Num.min (p z) (m z).
Proof.
under eq_bigr do rewrite mulr_sumr.
rewrite exchange_big; apply: eq_bigr => z _.
under eq_bigr do rewrite mulrA.
by rewrite -mulr_suml chosen_law taken_min //; [case: p_law | case: m_law].
Qed.
Let left_ge0 x : x \in drafts k -> Q x != 0 -> 0 <= 1 - \sum_z chosen (choice x) x z * keep z.
Proof.
move=> xk ne; rewrite subr_ge0 -(chosen_sum xk ne); apply: ler_sum => z _.
by rewrite ler_pimulr ?chosen_ge0 //; case/andP: (keep01 z).
Qed.

Theorem couple_proper : proper k Q rule.
Proof.
move=> x xk ne; have [e0 e1] := excess_law m p_law; split=> [y|].
  rewrite couple_row addr_ge0 // mulr_ge0 ?chosen_ge0 ?left_ge0 //; by case/andP: (keep01 y).
by under eq_bigr do rewrite couple_row; rewrite big_split /= -mulr_sumr e1; lra.
Qed.

Theorem couple_lossless : lossless k Q p rule.
Proof.
move=> y; rewrite outputE; under eq_bigr do rewrite couple_row mulrDr !mulrA mulrBr mulr1.
rewrite big_split /= -!mulr_suml chosen_law sumrB (proj2 Q_law) kept.
by rewrite taken_min; [exact: maximal_coupling m_law | case: p_law | case: m_law].
Qed.

Theorem couple_acceptance : \sum_y Num.min (p y) (m y) <= acceptance k Q rule.
Proof.
rewrite acceptanceE -kept !big_seq; apply: ler_sum => x xk.
have [->|ne] := eqVneq (Q x) 0; first by rewrite !mul0r.
rewrite ler_wpmul2l ?(proj1 Q_law) // [leRHS]big_mkcond; apply: ler_sum => z _.
have [e0 e1] := excess_law m p_law.
case: ifPn => zx; last by rewrite chosen_outside ?mul0r.
by rewrite couple_row ler_addl mulr_ge0 ?left_ge0.
Qed.
End Couple.

Print Assumptions couple_lossless.
Print Assumptions couple_acceptance.
