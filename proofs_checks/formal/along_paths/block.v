(* Block verification, and the ladder of weights.

   THEOREM (ladder). At a node with weight w in [0, 1] let the next token be drawn by any law m. To go on with weight
   min(1, w p/m), and where nothing longer passes to test with R/(R + 1 - w) and draw from norm((w p - m)+), gives every
   token y the mass w p(y).
   THEOREM (block_verification_lossless). Hence block verification is lossless, for every target and draft model and every length
   L: the L + 1 tokens that come out have the target's law.
   THEOREM (block_verification_length). It accepts sum_i E[w_i] tokens on average, at least what token-wise speculative
   sampling does (longer_than_token_wise: on every path w_i is at least the product of the min(1, p/q)).

   Models: any laws of the next token given the tokens so far; Markov models among them. Any finite set of tokens, any
   real field. *)

From Draft Require Import head problem bound sampling path_rules.

Section Ladder.
Variables (R : realFieldType) (T : finType) (p : seq T -> T -> R).
Implicit Types (h x z : seq T) (w : R) (m : T -> R).
Hypothesis p_law : forall h, law (p h).
Notation next_weight := (next_weight (real R) p).
Notation left_over := (left_over (real R) (index_enum T) p).
Notation test := (test (real R) (index_enum T) p).
Notation following := (following (real R) (index_enum T) p).

Lemma next_weightE h w m y : 0 <= w -> law m -> m y * next_weight h w m y = Num.min (w * p h y) (m y).
Proof.
move=> w0 [m0 _]; rewrite /path_rules.next_weight leastE /=; have [->|ne] := eqVneq (m y) 0.
  by rewrite mul0r min_r // mulr_ge0 //; case: (p_law h).
have m_gt : 0 < m y by rewrite lt_def ne m0.
by rewrite minr_pmulr ?m0 // mulr1 mulrC divfK // minC.
Qed.
Lemma next_weight01 h w m y : 0 <= w -> law m -> 0 <= next_weight h w m y <= 1.
Proof.
move=> w0 [m0 _]; rewrite /path_rules.next_weight leastE /= le_minl lexx /= le_minr ler01 divr_ge0 // mulr_ge0 //.
by case: (p_law h).
Qed.

Lemma left_overE h w m y : left_over h w m y = w * p h y - Num.min (w * p h y) (m y).
Proof. by rewrite /path_rules.left_over excess_min. Qed.
Lemma left_over_ge0 h w m y : 0 <= left_over h w m y.
Proof. exact: excess_ge0. Qed.
Lemma left_over_sum h w m : \sum_y left_over h w m y = w - \sum_y Num.min (w * p h y) (m y).
Proof. by under eq_bigr do rewrite left_overE; rewrite sumrB -mulr_sumr (proj2 (p_law h)) mulr1. Qed.

(* What is tested is what is missing. *)
Lemma tested h w m : w <= 1 -> law m ->
  (1 - \sum_y Num.min (w * p h y) (m y)) * test h w m = w - \sum_y Num.min (w * p h y) (m y).
Proof.
move=> w1 [m0 m1]; rewrite /path_rules.test massE left_over_sum /=.
set S := \sum_y _; have -> : w - S + (1 - w) = 1 - S by lra.
have S1 : S <= 1 by rewrite -m1; apply: ler_sum => y _; rewrite le_minl lexx orbT.
have R0 : 0 <= w - S by rewrite -left_over_sum sumr_ge0 // => y _; exact: left_over_ge0.
case: ifPn => [le|]; first by lra.
by rewrite -ltNge => gt; rewrite mulrC divfK // gt_eqF.
Qed.

Lemma test01 h w m : 0 <= w -> w <= 1 -> law m -> 0 <= test h w m <= 1.
Proof.
move=> w0 w1 ml; rewrite /path_rules.test massE /=; have : 0 <= \sum_y left_over h w m y.
  by apply: sumr_ge0 => y _; exact: left_over_ge0.
move: (\sum_y _) => rest r0; case: ifPn => [_|]; first by rewrite ler01 lexx.
rewrite -ltNge => gt; rewrite divr_ge0 ?(ltW gt) //= ler_pdivr_mulr // mul1r; lra.
Qed.

Theorem ladder h w m y : w <= 1 -> law m ->
  Num.min (w * p h y) (m y) + (1 - \sum_z Num.min (w * p h z) (m z)) * (test h w m * following h w m y) = w * p h y.
Proof.
move=> w1 ml; rewrite mulrA tested // -left_over_sum norm_mass ?left_overE; last exact: left_over_ge0.
lra.
Qed.
(* Over the next token, drawn by m: some longer beginning passes or this one does; the token c comes out, then something of probability a. *)
Lemma ladder_passes h w m : 0 <= w -> w <= 1 -> law m ->
  \sum_y m y * (next_weight h w m y + (1 - next_weight h w m y) * test h w m) = w.
Proof.
move=> w0 w1 ml; have e := tested h w1 ml; under eq_bigr do rewrite mulrDr mulrA mulrBr mulr1 next_weightE //.
by rewrite big_split /= -mulr_suml sumrB (proj2 ml) e; lra.
Qed.
Lemma ladder_emits h w m c (a : R) : 0 <= w -> w <= 1 -> law m ->
  \sum_y m y * ((if c == y then next_weight h w m y * a else 0)
    + (1 - next_weight h w m y) * (test h w m * following h w m c * a)) = w * (p h c * a).
Proof.
move=> w0 w1 ml; rewrite [RHS]mulrA -(ladder h c w1 ml) [RHS]mulrDl -[X in _ = _ + X]mulrA.
under eq_bigr do rewrite mulrDr mulrA mulrBr mulr1 next_weightE //.
rewrite big_split /= -mulr_suml sumrB (proj2 ml); congr (_ + _).
rewrite (bigD1 c) //= eqxx big1 ?addr0 => [|y /negbTE yc]; first by rewrite mulrA next_weightE.
by rewrite eq_sym yc mulr0.
Qed.
End Ladder.

Section Block.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R).
Implicit Types (h x z : seq T) (w v : R).
Hypotheses (p_law : forall h, law (p h)) (q_law : forall h, law (q h)).
Notation next_weight := (next_weight (real R) p).
Notation passes := (block_passes (real R) (index_enum T) p q).
Notation emits := (block_emits (real R) (index_enum T) p q).
Notation length := (block_length (real R) (index_enum T) p q).
Notation weights := (weights (real R) p q).
Notation token_weights := (token_weights (real R) p q).

Let total k h : \sum_(x <- drafts k) in_sequence q h x = 1. Proof. by case: (in_sequence_law k h q_law). Qed.
Let expect k h y (f : seq T -> R) :
  \sum_(x <- drafts k) in_sequence q h (y :: x) * f x = q h y * \sum_(x <- drafts k) in_sequence q (rcons h y) x * f x.
Proof. by rewrite mulr_sumr; apply: eq_bigr => x _; rewrite /= mulrA. Qed.

Lemma block_passes_sum k h w : 0 <= w -> w <= 1 -> \sum_(x <- drafts k) in_sequence q h x * passes h w x = w.
Proof.
elim: k h w => [|k ih] h w w0 w1; first by rewrite sum_drafts0 /= mul1r.
rewrite sum_drafts -[RHS](ladder_passes p_law h w0 w1 (q_law h)); apply: eq_bigr => y _; rewrite expect; congr (_ * _).
have /andP[v0 v1] := next_weight01 p_law h y w0 (q_law h); rewrite /=; move: (next_weight h w (q h) y) v0 v1 => v v0 v1.
under eq_bigr do rewrite mulrDr mulrBl mul1r mulrBr mulrA.
by rewrite big_split sumrB /= -!mulr_suml ih // total; lra.
Qed.

Lemma block_emits_sum k h w z : 0 <= w -> w <= 1 -> size z = k.+1 ->
  \sum_(x <- drafts k) in_sequence q h x * emits h w x z = w * in_sequence p h z.
Proof.
elim: k h w z => [|k ih] h w [|c z] //= w0 w1 => [_|[sz]]; first by rewrite sum_drafts0 /= mul1r.
rewrite sum_drafts -[RHS](ladder_emits p_law h c _ w0 w1 (q_law h)); apply: eq_bigr => y _; rewrite expect /=; congr (_ * _).
have /andP[v0 v1] := next_weight01 p_law h y w0 (q_law h); move: (next_weight h w (q h) y) v0 v1 => v v0 v1.
under eq_bigr do rewrite mulrDr mulrBl mul1r mulrBr [in_sequence _ _ _ * (passes _ _ _ * _)]mulrA.
rewrite big_split sumrB /= -!mulr_suml total block_passes_sum // mul1r mulrBl mul1r; congr (_ + _).
case: eqP => [->|_]; first exact: ih.
by rewrite big1 // => x _; rewrite mulr0.
Qed.

Theorem block_verification_lossless k z : size z = k.+1 ->
  block_output (real R) (index_enum T) p q k z = in_sequence p [::] z.
Proof. by move=> sz; rewrite /block_output sumE block_emits_sum ?mul1r ?ler01. Qed.

Theorem block_verification_length k h w : 0 <= w -> w <= 1 ->
  \sum_(x <- drafts k) in_sequence q h x * length h w x = \sum_(x <- drafts k) in_sequence q h x * weights h w x.
Proof.
elim: k h w => [|k ih] h w w0 w1; first by rewrite !sum_drafts0.
rewrite !sum_drafts; apply: eq_bigr => y _; rewrite !expect /=; congr (_ * _).
have /andP[v0 v1] := next_weight01 p_law h y w0 (q_law h); move: (next_weight h w (q h) y) v0 v1 => v v0 v1.
under eq_bigr do rewrite mulrDr; under [RHS]eq_bigr do rewrite mulrDr.
by rewrite !big_split /= ih // block_passes_sum // -mulr_suml total mul1r.
Qed.

Theorem longer_than_token_wise h w v x : 0 <= v -> v <= w -> w <= 1 -> token_weights h v x <= weights h w x.
Proof.
elim: x h w v => [|y x ih] h w v v0 vw w1 //=.
have w0 := le_trans v0 vw; have /andP[n0 n1] := next_weight01 p_law h y w0 (q_law h).
have r0 : 0 <= p h y / q h y by rewrite divr_ge0 //; [case: (p_law h) | case: (q_law h)].
have u0 : 0 <= v * least (real R) 1 (p h y / q h y) by rewrite mulr_ge0 // leastE le_minr ler01.
suff step : v * least (real R) 1 (p h y / q h y) <= next_weight h w (q h) y by rewrite ler_add // ih.
rewrite /path_rules.next_weight !leastE /= minr_pmulr // mulr1 -mulrA le_minr !le_minl (le_trans vw w1) /=.
by rewrite ler_wpmul2r ?orbT.
Qed.

End Block.

Print Assumptions ladder.
Print Assumptions block_verification_lossless.
Print Assumptions block_verification_length.
Print Assumptions longer_than_token_wise.
