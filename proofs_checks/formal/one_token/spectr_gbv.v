(* What SpecTr-GBV calls the largest acceptance of K i.i.d. drafts errs on one side only.

   THEOREM (spectr_gbv_below). For every K >= 1 and every set H of tokens
       sum over y of p(y) (1 - (1 - min(1, q(y)/p(y)))^K) <= 1 + p(H) - q(H)^K,
   so that the claimed optimum is at most the optimum; refuted.v has a case in which it is less.
   THEOREM (power_mean). Jensen's inequality for powers: (sum p v)^K <= sum p v^K for a law p and v >= 0.

   Any finite set of tokens, any real field. *)

From Draft Require Import head problem bound k_seq_sharp.

Section Mean.
Variables (R : realFieldType) (T : finType) (p q : T -> R).
Hypotheses (pl : law p) (ql : law q).

Theorem power_mean (v : T -> R) n : (forall y, 0 <= v y) -> (\sum_y p y * v y) ^+ n.+1 <= \sum_y p y * v y ^+ n.+1.
Proof.
move=> v0; have [p0 p1] := pl; set b := \sum_y p y * v y.
have b0 : 0 <= b by rewrite sumr_ge0 // => y _; rewrite mulr_ge0.
have le : \sum_y p y * (n.+1%:R * v y * b ^+ n) <= \sum_y p y * (v y ^+ n.+1 + n%:R * b ^+ n.+1).
  by apply: ler_sum => y _; rewrite ler_wpmul2l // power_tangent.
move: le; have -> : \sum_y p y * (n.+1%:R * v y * b ^+ n) = n.+1%:R * b ^+ n.+1.
  by rewrite exprS /b mulr_suml mulr_sumr; apply: eq_bigr => y _; ring.
have -> : \sum_y p y * (v y ^+ n.+1 + n%:R * b ^+ n.+1) = \sum_y p y * v y ^+ n.+1 + n%:R * b ^+ n.+1.
  by under eq_bigr do rewrite mulrDr; rewrite big_split /= -mulr_suml p1 mul1r.
by rewrite -[n.+1]addn1 natrD; lra.
Qed.

Definition missed y := 1 - Num.min 1 (q y / p y).

Lemma missed01 y : 0 <= missed y <= 1.
Proof.
rewrite /missed subr_ge0 le_minl lexx /= ler_subl_addr ler_addl le_minr ler01 divr_ge0 //.
  by case: ql.
by case: pl.
Qed.
Lemma missedE y : p y * missed y = p y - Num.min (p y) (q y).
Proof.
have [p0 _] := pl; have [q0 _] := ql; rewrite /missed mulrBr mulr1; congr (_ - _).
have [->|ne] := eqVneq (p y) 0; first by rewrite mul0r min_l.
by rewrite minr_pmulr // mulr1 mulrC divfK.
Qed.

Theorem spectr_gbv_below n (H : pred T) :
  \sum_y p y * (1 - missed y ^+ n.+1) <= 1 + mass_of p H - mass_of q H ^+ n.+1.
Proof.
have [p0 p1] := pl; have [q0 q1] := ql; pose v y := if H y then 1 else missed y.
have v0 y : 0 <= v y by rewrite /v; case: ifP => // _; case/andP: (missed01 y).
have mean : mass_of q H <= \sum_y p y * v y.
  have -> : mass_of q H = \sum_(y | H y) p y + \sum_(y | ~~ H y) (p y - q y).
    by have := p1; have := q1; rewrite sumrB (bigID H) [in X in _ -> X](bigID H) /= /mass_of; lra.
  rewrite [leRHS](bigID H) /=; apply: ler_add; first by apply: ler_sum => y Hy; rewrite /v Hy mulr1.
  by apply: ler_sum => y /negbTE Hy; rewrite /v Hy missedE ler_add2l ler_opp2 le_minl lexx orbT.
have power : mass_of q H ^+ n.+1 <= \sum_y p y * v y ^+ n.+1.
  apply: le_trans (power_mean n v0); rewrite ler_expn2r // nnegrE; first by rewrite sumr_ge0.
  by rewrite sumr_ge0 // => y _; rewrite mulr_ge0.
have split : \sum_y p y * v y ^+ n.+1 <= mass_of p H + \sum_y p y * missed y ^+ n.+1.
  rewrite (bigID H) /= [X in _ <= _ + X](bigID H) /=; apply: ler_add.
    by apply: ler_sum => y Hy; rewrite /v Hy expr1n mulr1.
  rewrite ler_paddl ?sumr_ge0 // => [y _|]; first by rewrite mulr_ge0 // exprn_ge0 //; case/andP: (missed01 y).
  by apply: ler_sum => y /negbTE Hy; rewrite /v Hy.
under eq_bigr do rewrite mulrBr mulr1; rewrite sumrB p1; lra.
Qed.
End Mean.

Print Assumptions power_mean.
Print Assumptions spectr_gbv_below.
