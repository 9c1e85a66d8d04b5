(* K-SEQ.

   With the factor g let beta = sum_y min(q, p/g), S = 1 + (1 - beta) + ... + (1 - beta)^(k-1), so that p_acc = beta S =
   1 - (1 - beta)^k is the probability that some draft passes its test.
   THEOREM (k_seq_lossless_iff). For g > 0 K-SEQ is lossless for k i.i.d. drafts if and only if min(q, p/g) S <= p at every
   token. So it is if p_acc <= g beta (k_seq_lossless).
   THEOREM (k_seq_lossless_clamped). Where some token has 0 < p <= g q (its test is not clamped to 1) K-SEQ is lossless if and
   only if p_acc <= g beta. Where no token has, every test passes on the support of p, and a smaller g may be lossless.
   THEOREM (best_factor). Over a real closed field, if p and q have a token in common and k >= 1, there is gamma* in [1, k] such
   that p_acc <= g beta exactly if g >= gamma*, with equality at gamma*.
   THEOREM (k_seq_share). For 0 < g <= k the acceptance of K-SEQ's tests is at least 1 - (1 - 1/k)^k of the acceptance of
   any lossless rule (SpecTr, Theorem 1); so is that of K-SEQ where it is lossless.
   THEOREM (k_seq_proper, k_seq_bounded). For g > 0 it decides by probabilities, so that where it is lossless the bound of bound.v is one of
   its own: 1 - (1 - beta)^k <= acceptance <= 1 + p(H) - q(H)^k for every H.

   Any finite set of tokens, any real field (best_factor: any real closed field), any k >= 1. *)

From Draft Require Import head problem bound.

Section KSeq.
Variables (R : realFieldType) (T : finType).
Implicit Types (p q m : T -> R) (x : seq T) (g : R).

Notation taken := (taken (real R)).
Notation tries := (tries (real R)).
Notation k_seq := (k_seq (real R) tokens).

Definition beta g p q := \sum_y taken g p q y.
Definition p_acc g p q k := 1 - (1 - beta g p q) ^+ k.

Lemma triesE b k : tries b k = \sum_(i < k) (1 - b) ^+ i.
Proof.
have e : iota 0 k = index_iota 0 k by rewrite /index_iota subn0.
rewrite /tries sumE e big_mkord.
by apply: eq_bigr => i _; rewrite powE.
Qed.
Lemma triesS b k : tries b k.+1 = 1 + (1 - b) * tries b k.
Proof.
rewrite !triesE big_ord_recl expr0 mulr_sumr; congr (_ + _).
by apply: eq_bigr => i _; rewrite -exprS.
Qed.
Lemma tries_acc b k : b * tries b k = 1 - (1 - b) ^+ k.
Proof. by elim: k => [|k ih]; [rewrite triesE big_ord0 expr0 mulr0 subrr | rewrite triesS exprS mulrDr mulr1 mulrCA ih; lra]. Qed.

Lemma takenE g p q y : taken g p q y = Num.min (q y) (p y / g).
Proof. exact: leastE. Qed.
Lemma taken_ge0 g p q y : 0 < g -> law p -> law q -> 0 <= taken g p q y.
Proof. by move=> g0 [p0 _] [q0 _]; rewrite takenE le_minr q0 divr_ge0 // ltW. Qed.
Lemma beta_le1 g p q : law q -> beta g p q <= 1.
Proof. by move=> [_ <-]; apply: ler_sum => y _; rewrite takenE le_minl lexx. Qed.
Lemma beta_ge0 g p q : 0 < g -> law p -> law q -> 0 <= beta g p q.
Proof. by move=> *; apply: sumr_ge0 => y _; exact: taken_ge0. Qed.
Lemma test_taken g p q y : 0 < g -> law p -> law q -> q y * Num.min 1 (p y / (g * q y)) = taken g p q y.
Proof.
move=> g0 [p0 _] [q0 _]; rewrite takenE; have [->|ne] := eqVneq (q y) 0.
  by rewrite mul0r min_l // divr_ge0 // ltW.
rewrite minr_pmulr // mulr1; congr (Num.min _ _).
by rewrite mulrC -mulrA invfM -mulrA mulVf // mulr1.
Qed.

(* The law of the output, whatever the residual. *)
Lemma tests_output k p q g r (y : T) : 0 < g -> law p -> law q ->
  \sum_(x <- drafts k) iid q x * row x (Selection (in_turn (real R) [seq least (real R) 1 (p z / (g * q z)) | z <- x]) r) y
  = taken g p q y * tries (beta g p q) k + (1 - beta g p q) ^+ k * r y.
Proof.
move=> g0 pl ql; elim: k => [|k ih].
  by rewrite sum_drafts0 row_nil //= triesE big_ord0 expr0 mulr0 add0r !mul1r.
have [Q0 Q1] := iid_law k ql.
rewrite sum_drafts.
have step z : \sum_(x <- drafts k) iid q (z :: x) * row (z :: x)
    (Selection (in_turn (real R) [seq least (real R) 1 (p z0 / (g * q z0)) | z0 <- z :: x]) r) y
  = (if z == y then taken g p q z else 0)
    + (q z - taken g p q z) * (taken g p q y * tries (beta g p q) k + (1 - beta g p q) ^+ k * r y).
  rewrite -ih mulr_sumr.
  have -> : (if z == y then taken g p q z else 0) = \sum_(x <- drafts k) iid q x * (if z == y then taken g p q z else 0).
    by rewrite -mulr_suml Q1 mul1r.
  rewrite -big_split; apply: eq_bigr => x _ /=.
  rewrite (row_cons _ _ (s := Selection _ r)) /= ?leastE; last first.
    by elim: (x) => [|a l] //= ->; rewrite size_map.
  by rewrite -!test_taken //; case: (z == y); lra.
under eq_bigr do rewrite step.
rewrite big_split /= -mulr_suml sumrB (proj2 ql) -big_mkcond big_pred1_eq triesS exprS /beta.
by set b := \sum_z _; lra.
Qed.

Theorem k_seq_output k p q g (y : T) : 0 < g -> law p -> law q ->
  output k (iid q) (k_seq g p q) y
  = taken g p q y * tries (beta g p q) k
    + (1 - beta g p q) ^+ k * norm (excess p (fun z => taken g p q z * tries (beta g p q) k)) p y.
Proof.
move=> g0 pl ql; rewrite outputE -tests_output // big_seq [RHS]big_seq; apply: eq_bigr => x.
by rewrite mem_drafts => /eqP <-; rewrite /k_seq massE.
Qed.

Theorem k_seq_lossless_iff k p q g : 0 < g -> law p -> law q ->
  lossless k (iid q) p (k_seq g p q) <-> (forall y, taken g p q y * tries (beta g p q) k <= p y).
Proof.
move=> g0 pl ql; have b1 := beta_le1 g p ql; split=> [out y|le y].
  rewrite -(out y) k_seq_output // ler_addl mulr_ge0 //.
    by rewrite exprn_ge0 // subr_ge0.
  by case: (excess_law (fun z => taken g p q z * tries (beta g p q) k) pl).
rewrite k_seq_output //.
have e z : excess p (fun z => taken g p q z * tries (beta g p q) k) z = p z - taken g p q z * tries (beta g p q) k.
  by rewrite excess_min min_r.
have -> : (1 - beta g p q) ^+ k = \sum_z excess p (fun z => taken g p q z * tries (beta g p q) k) z.
  under eq_bigr do rewrite e.
  by rewrite sumrB (proj2 pl) -mulr_suml -/(beta g p q) tries_acc; lra.
by rewrite norm_mass ?e; [lra | exact: excess_ge0].
Qed.

Lemma acc_tries g p q k : 0 < beta g p q -> (p_acc g p q k <= g * beta g p q) = (tries (beta g p q) k <= g).
Proof. by move=> b0; rewrite /p_acc -tries_acc mulrC ler_pmul2r. Qed.

Lemma tries_ge0 b k : b <= 1 -> 0 <= tries b k.
Proof. by move=> b1; rewrite triesE sumr_ge0 // => i _; rewrite exprn_ge0 // subr_ge0. Qed.

Theorem k_seq_lossless k p q g : 0 < g -> law p -> law q -> p_acc g p q k <= g * beta g p q ->
  lossless k (iid q) p (k_seq g p q).
Proof.
move=> g0 pl ql acc; apply/k_seq_lossless_iff => // y.
have t0 := taken_ge0 y g0 pl ql.
have [b0|b0] := ltP 0 (beta g p q).
  rewrite acc_tries // in acc; apply: le_trans (_ : taken g p q y * g <= _); first exact: ler_wpmul2l.
  by rewrite -ler_pdivl_mulr // takenE le_minl lexx orbT.
suff -> : taken g p q y = 0 by rewrite mul0r; case: pl.
have /psumr_eq0P h : beta g p q = 0 by apply/eqP; rewrite eq_le b0 beta_ge0.
by apply: h => // z _; exact: taken_ge0.
Qed.

Theorem k_seq_lossless_clamped k p q g y0 : 0 < g -> law p -> law q -> 0 < p y0 -> p y0 <= g * q y0 ->
  lossless k (iid q) p (k_seq g p q) <-> p_acc g p q k <= g * beta g p q.
Proof.
move=> g0 pl ql p0 pq; split=> [/k_seq_lossless_iff h|]; last exact: k_seq_lossless.
have t : taken g p q y0 = p y0 / g by rewrite takenE min_r // ler_pdivr_mulr // mulrC.
have t0 : 0 < taken g p q y0 by rewrite t divr_gt0.
have b0 : 0 < beta g p q.
  by rewrite /beta (bigD1 y0) //= ltr_paddr // sumr_ge0 // => z _; exact: taken_ge0.
rewrite acc_tries //; have := h g0 pl ql y0; rewrite t -mulrA mulrC -ler_pdivl_mulr // divff ?gt_eqF //.
by rewrite mulrC ler_pdivr_mulr // mul1r.
Qed.

(** The share of the optimum *)

Lemma chord_power (c v : R) k : 0 <= c -> c <= 1 -> 0 <= v -> v <= 1 ->
  (1 - v * (1 - c)) ^+ k <= 1 - v * (1 - c ^+ k).
Proof.
move=> c0 c1 v0 v1; elim: k => [|k ih]; first by rewrite !expr0; lra.
rewrite !exprS.
have a0 : 0 <= 1 - v * (1 - c) by have := mulr_ge0 v0 c0; lra.
apply: le_trans (ler_wpmul2l a0 ih) _.
have ck1 : c ^+ k <= 1 by rewrite exprn_ile1.
have := mulr_ge0 (mulr_ge0 v0 (_ : 0 <= 1 - v)) (mulr_ge0 (_ : 0 <= 1 - c) (_ : 0 <= 1 - c ^+ k)).
by rewrite !subr_ge0 => /(_ v1 c1 ck1); lra.
Qed.

Lemma beta_decreases g g' p q : 0 < g -> g <= g' -> law p -> law q -> beta g' p q <= beta g p q.
Proof.
move=> g0 gg [p0 _] [q0 _]; apply: ler_sum => y _; rewrite !takenE le_minr !le_minl lexx /=.
by rewrite ler_wpmul2l ?orbT // lef_pinv // posrE // (lt_le_trans g0).
Qed.

Lemma p_acc_decreases g g' p q k : 0 < g -> g <= g' -> law p -> law q -> p_acc g' p q k <= p_acc g p q k.
Proof.
move=> g0 gg pl ql; rewrite /p_acc; have := beta_decreases g0 gg pl ql.
have := beta_le1 g p ql; have := beta_le1 g' p ql => *.
by rewrite ler_add2l ler_opp2 ler_expn2r // ?nnegrE; lra.
Qed.

Lemma scaled_beta g p q : 0 < g -> g * beta g p q = \sum_y Num.min (g * q y) (p y).
Proof.
move=> g0; rewrite /beta mulr_sumr; apply: eq_bigr => y _.
by rewrite takenE minr_pmulr ?(ltW g0) // [g * (_ / _)]mulrC divfK // gt_eqF.
Qed.
Lemma scaled_beta_increases g g' p q : 0 < g -> g <= g' -> law p -> law q -> g * beta g p q <= g' * beta g' p q.
Proof.
move=> g0 gg [p0 _] [q0 _]; rewrite !scaled_beta // ?(lt_le_trans g0) //; apply: ler_sum => y _.
by rewrite le_minr !le_minl lexx orbT andbT ler_wpmul2r.
Qed.

Theorem k_seq_share k p q g rule : (0 < k)%N -> 0 < g -> g <= k%:R -> law p -> law q ->
  proper k (iid q) rule -> lossless k (iid q) p rule ->
  (1 - (1 - k%:R^-1) ^+ k) * acceptance k (iid q) rule <= p_acc g p q k.
Proof.
move=> k0 g0 gk pl ql ok out; apply: le_trans (p_acc_decreases k g0 gk pl ql).
have K0 : 0 < k%:R :> R by rewrite ltr0n.
have c1 : k%:R^-1 <= 1 :> R by rewrite invf_le1 // ler1n.
have c0 : 0 <= k%:R^-1 :> R by rewrite invr_ge0 ltW.
have ck : 0 <= 1 - (1 - k%:R^-1) ^+ k :> R by rewrite subr_ge0 exprn_ile1 //; lra.
set v := k%:R * beta k%:R p q.
have a : acceptance k (iid q) rule <= v.
  apply: le_trans (accepted_at_most (iid_law k ql) ok out) _.
  rewrite /v scaled_beta //; apply: ler_sum => y _.
  by rewrite minC le_minr !le_minl (iid_drafted k y ql) lexx orbT.
have v1 : v <= 1 by rewrite /v scaled_beta // -(proj2 pl); apply: ler_sum => y _; rewrite le_minl lexx orbT.
have v0 : 0 <= v by rewrite mulr_ge0 ?(ltW K0) ?beta_ge0.
apply: le_trans (ler_wpmul2l ck a) _.
have -> : p_acc k%:R p q k = 1 - (1 - v * (1 - (1 - k%:R^-1))) ^+ k.
  by rewrite /p_acc /v; congr (1 - (1 - _) ^+ k); rewrite opprB addrC subrK mulrAC divff ?mul1r ?gt_eqF.
have := chord_power k (_ : 0 <= 1 - k%:R^-1) (_ : 1 - k%:R^-1 <= 1) v0 v1.
by rewrite subr_ge0 ler_subl_addr ler_addl => /(_ c1 c0); lra.
Qed.

Lemma mem_zip_fst x (b : seq R) z a : (z, a) \in zip x b -> z \in x.
Proof.
elim: x b => [|y x ih] [|c b] //=; rewrite !inE => /orP[/eqP[-> _]|/ih ->]; by rewrite ?eqxx ?orbT.
Qed.

(* Tests are probabilities, and so is what they leave. *)
Lemma tests_in_turn p q g x : 0 < g -> law p -> law q -> let b := in_turn (real R) [seq least (real R) 1 (p z / (g * q z)) | z <- x] in
  (forall a, a \in b -> 0 <= a) /\ \sum_(a <- b) a <= 1.
Proof.
move=> g0 pl ql; elim: x => [|z l [ih0 ih1]] /=; first by rewrite big_nil ler01.
have /andP[u0 u1] : 0 <= least (real R) 1 (p z / (g * q z)) <= 1.
  rewrite leastE le_minl lexx le_minr ler01 /= divr_ge0 ?mulr_ge0 ?(ltW g0) //; by [case: pl | case: ql].
rewrite big_cons big_map -mulr_sumr; split=> [a|].
  by rewrite inE => /orP[/eqP->|/mapP[a' /ih0 a0 ->]] //; rewrite mulr_ge0 // subr_ge0.
have : 0 <= (1 - least (real R) 1 (p z / (g * q z))) * (1 - \sum_(a <- in_turn (real R)
  [seq least (real R) 1 (p z0 / (g * q z0)) | z0 <- l]) a) by rewrite mulr_ge0 ?subr_ge0.
by rewrite /=; set S := \sum_(a <- _) _; lra.
Qed.
Lemma zip_ge0 x (b : seq R) (y : T) : (forall a, a \in b -> 0 <= a) -> 0 <= \sum_(z <- zip x b) (if z.1 == y then z.2 else 0).
Proof.
elim: x b => [|z x ih] [|a b] h; rewrite ?big_nil // big_cons addr_ge0 ?ih // => [|c cb]; last by rewrite h // inE cb orbT.
by case: ifP => // _; rewrite h // inE eqxx.
Qed.

Theorem k_seq_proper k p q g : 0 < g -> law p -> law q -> proper k (iid q) (k_seq g p q).
Proof.
move=> g0 pl ql x _ _; have [b0 b1] := tests_in_turn x g0 pl ql.
have [r0 r1] := excess_law (fun z => taken g p q z * tries (mass (taken g p q)) (size x)) pl.
split=> [y|]; first by rewrite rowE addr_ge0 ?zip_ge0 // mulr_ge0 ?subr_ge0 //; exact: r0.
under eq_bigr do rewrite rowE; rewrite big_split /= -mulr_sumr [\sum_y norm _ _ y]r1 mulr1 exchange_big /=.
set b := in_turn _ _; have -> : \sum_(z <- zip x b) \sum_y (if z.1 == y then z.2 else 0) = \sum_(a <- b) a.
  have one (z : T * R) : \sum_y (if z.1 == y then z.2 else 0) = z.2 by rewrite -big_mkcond (big_pred1 z.1) // => y; rewrite eq_sym.
  under eq_bigr do rewrite one.
  have : size b = size x by rewrite /b; elim: (x) => [|z l ih] //=; rewrite size_map ih.
  by elim: (x) b => [|z l ih] [|a b] //=; rewrite ?big_nil // !big_cons => -[/ih->].
by rewrite addrC subrK.
Qed.

(* The drafts that pass count as accepted. *)
Theorem k_seq_acceptance k p q g : 0 < g -> law p -> law q -> p_acc g p q k <= acceptance k (iid q) (k_seq g p q).
Proof.
move=> g0 pl ql.
have -> : p_acc g p q k = \sum_y (taken g p q y * tries (beta g p q) k + (1 - beta g p q) ^+ k * 0).
  by rewrite /p_acc -tries_acc big_split /= -mulr_suml -/(beta _ _ _) mulr0 sumr_const mul0rn; lra.
under eq_bigr => y _ do rewrite -(@tests_output k p q g (fun=> 0) y) //.
rewrite exchange_big acceptanceE /= !big_seq; apply: ler_sum => x xk.
rewrite -mulr_sumr ler_wpmul2l ?(proj1 (iid_law k ql)) // [leRHS]big_mkcond; apply: ler_sum => y _.
rewrite !rowE /= mulr0 addr0; have [b0 b1] := tests_in_turn x g0 pl ql.
case: ifPn => [yx|yx].
  rewrite ler_addl mulr_ge0 ?subr_ge0 //.
  by case: (excess_law (fun z => taken g p q z * tries (mass (taken g p q)) (size x)) pl).
rewrite big1_seq // => -[z a] /= /mem_zip_fst zx.
by case: eqP => // e; rewrite -e zx in yx.
Qed.

Theorem k_seq_bounded k p q g H : 0 < g -> law p -> law q -> p_acc g p q k <= g * beta g p q ->
  p_acc g p q k <= acceptance k (iid q) (k_seq g p q) <= 1 + mass_of p H - mass_of q H ^+ k.
Proof.
move=> g0 pl ql acc; rewrite k_seq_acceptance //= -iid_inside.
exact: (bound (iid_law k ql) (k_seq_proper g0 pl ql) (k_seq_lossless g0 pl ql acc)).
Qed.

Lemma sign_at_one p q k : (0 < k)%N -> law p -> law q -> 0 <= p_acc 1 p q k - 1 * beta 1 p q.
Proof.
move=> k0 pl ql; rewrite /p_acc mul1r.
have := beta_le1 1 p ql; have := beta_ge0 ltr01 pl ql; move: (beta 1 p q) => b b0 b1.
have c0 : 0 <= 1 - b by lra.
have c1 : (1 - b) ^+ k.-1 <= 1 by rewrite exprn_ile1 //; lra.
rewrite -(prednK k0) exprS; have : 0 <= (1 - b) * (1 - (1 - b) ^+ k.-1) by rewrite mulr_ge0 // subr_ge0.
lra.
Qed.

End KSeq.

(** gamma* *)
Section BestFactor.
Variables (R : rcfType) (T : finType) (p q : T -> R) (k : nat).
Hypotheses (pl : law p) (ql : law q) (k0 : (0 < k)%N).

Let f g := p_acc g p q k - g * beta g p q.

(* Between neighbouring points of a finite list f changes its sign. *)
Lemma between (s : seq R) (a b : R) : a <= b -> 0 <= f a -> f b <= 0 ->
  exists a' b', [/\ a <= a', a' <= b', b' <= b, 0 <= f a' & f b' <= 0 /\ forall c, c \in s -> ~~ (a' < c < b')].
Proof.
move=> ab fa fb; elim: s => [|c s [a' [b' [h1 h2 h3 h4 [h5 h6]]]]].
  by exists a, b; split=> //; rewrite lexx.
have [/andP[ac cb]|out] := boolP (a' < c < b'); last first.
  by exists a', b'; split=> //; split=> // d; rewrite inE => /orP[/eqP->|/h6].
have [fc|fc] := leP 0 (f c).
  exists c, b'; split=> //; rewrite ?(ltW cb) ?(le_trans h1 (ltW ac)) //; split=> // d; rewrite inE => /orP[/eqP->|/h6].
    by rewrite ltxx.
  by apply: contra => /andP[cd ->]; rewrite (lt_trans ac).
exists a', c; split=> //; rewrite ?(ltW ac) ?(le_trans (ltW cb)) //; split=> [|d]; first exact: ltW.
rewrite inE => /orP[/eqP->|/h6]; first by rewrite ltxx andbF.
by apply: contra => /andP[-> dc]; rewrite (lt_trans dc).
Qed.

Lemma root_exists : exists2 g, 1 <= g <= k%:R & p_acc g p q k = g * beta g p q.
Proof.
have K1 : 1 <= k%:R :> R by rewrite ler1n.
have f1 : 0 <= f 1 by exact: sign_at_one.
have fk : f k%:R <= 0.
  rewrite /f /p_acc -tries_acc subr_le0 mulrC ler_wpmul2r ?beta_ge0 ?(lt_le_trans ltr01) // triesE.
  have := beta_le1 k%:R p ql; have := beta_ge0 (lt_le_trans ltr01 K1) pl ql; move: (beta _ _ _) => b b0 b1.
  rewrite -[k in k%:R]card_ord -sum1_card natr_sum; apply: ler_sum => i _.
  by rewrite exprn_ile1 ?subr_ge0 // ler_subl_addr ler_addl.
have [a [b [a1 ab bk fa [fb none]]]] := between [seq p y / q y | y <- enum T] K1 f1 fk.
have a0 : 0 < a by exact: lt_le_trans ltr01 a1.
pose low y := p y <= a * q y.
pose A := \sum_(y | ~~ low y) q y; pose B := \sum_(y | low y) p y.
have scaled g : a <= g <= b -> g * beta g p q = A * g + B.
  move=> /andP[ag gb]; have g0 : 0 < g by exact: lt_le_trans a0 ag.
  rewrite scaled_beta // (bigID low) /= addrC mulrC /A /B mulr_sumr; congr (_ + _).
    apply: eq_bigr => y nlow; rewrite min_l // leNgt; apply/negP => lt; move: nlow; rewrite /low -ltNge => alt.
    have qy : 0 < q y.
      rewrite lt_def (proj1 ql) andbT; apply/eqP => e; move: lt; rewrite e mulr0 ltNge.
      by rewrite (proj1 pl).
    have /none : p y / q y \in [seq p y / q y | y <- enum T] by apply/mapP; exists y; rewrite ?mem_enum.
    by rewrite ltr_pdivl_mulr // alt ltr_pdivr_mulr // (lt_le_trans lt) // ler_wpmul2r // ltW.
  by apply: eq_bigr => y lo; rewrite min_r // (le_trans lo) // ler_wpmul2r // (proj1 ql).
pose P : {poly R} := 'X^k - ('X - (A *: 'X + B%:P)) ^+ k - 'X^k * (A *: 'X + B%:P).
have PE g : a <= g <= b -> P.[g] = g ^+ k * f g.
  move=> gab; have g0 : g != 0 by rewrite gt_eqF // (lt_le_trans a0) //; case/andP: gab.
  rewrite /P !(hornerE, hornerXn, horner_exp) /f mulrBr (scaled g gab); congr (_ - _).
  rewrite /p_acc mulrBr mulr1 -exprMn mulrBr mulr1; congr (_ - (_ - _) ^+ k).
  by rewrite scaled.
have pab g : a <= g -> 0 <= g ^+ k by move=> ag; rewrite exprn_ge0 // (le_trans (ltW a0)).
have [g gab /eqP] : exists2 g, a <= g <= b & root (- P) g.
  apply: poly_ivt => //; rewrite !hornerN !PE ?lexx ?ab //.
  by rewrite oppr_le0 oppr_ge0 mulr_ge0 ?pab //= mulr_ge0_le0 ?pab.
rewrite hornerN => /eqP; rewrite oppr_eq0 PE // mulf_eq0 expf_eq0 k0 /=.
have /andP[ag gb] := gab.
rewrite gt_eqF /= ?(lt_le_trans a0) // subr_eq0 => /eqP e.
by exists g; rewrite ?(le_trans a1 ag) ?(le_trans gb bk).
Qed.

Theorem best_factor y0 : 0 < p y0 -> 0 < q y0 ->
  exists gamma, [/\ 1 <= gamma <= k%:R, p_acc gamma p q k = gamma * beta gamma p q
    & forall g, 0 < g -> (p_acc g p q k <= g * beta g p q) = (gamma <= g)].
Proof.
move=> py qy; have [gamma gk e] := root_exists.
have gamma0 : 0 < gamma by rewrite (lt_le_trans ltr01) //; case/andP: gk.
have b0 g : 0 < g -> 0 < beta g p q.
  move=> g0; rewrite /beta (bigD1 y0) //= ltr_paddr ?sumr_ge0 // => [z _|]; first exact: taken_ge0.
  by rewrite takenE lt_minr qy divr_gt0.
exists gamma; split=> // g g0; apply/idP/idP => [h|gg]; last first.
  by apply: le_trans (p_acc_decreases k gamma0 gg pl ql) _; rewrite e scaled_beta_increases.
rewrite leNgt; apply/negP => lt.
have h1 := p_acc_decreases k g0 (ltW lt) pl ql; have h2 := scaled_beta_increases g0 (ltW lt) pl ql.
have e1 : p_acc g p q k = p_acc gamma p q k by apply/eqP; rewrite eq_le h1 andbT e (le_trans h).
have e2 : g * beta g p q = gamma * beta gamma p q by apply/eqP; rewrite eq_le h2 -e (le_trans h1).
have e3 : beta g p q = beta gamma p q.
  move: e1; rewrite /p_acc => /addrI /oppr_inj /eqP; rewrite eqr_expn2 // ?subr_ge0 ?beta_le1 //.
  by move/eqP/addrI/oppr_inj.
by move: e2; rewrite e3 => /mulIf; rewrite gt_eqF ?b0 // => /(_ isT) e4; move: lt; rewrite e4 ltxx.
Qed.
End BestFactor.

Print Assumptions k_seq_lossless_iff.
Print Assumptions k_seq_lossless.
Print Assumptions k_seq_lossless_clamped.
Print Assumptions k_seq_share.
Print Assumptions k_seq_acceptance.
Print Assumptions k_seq_proper.
Print Assumptions k_seq_bounded.
Print Assumptions best_factor.
