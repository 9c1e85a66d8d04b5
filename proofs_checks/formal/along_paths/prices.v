(* Prices bound the path program: weak duality.

   The program is that of program_optimum.v. Prices mu v >= 0 pay for the constraints E[a(u c)] <= p(c|u) E[a(u)]; taking u then opens
   opened u = sum over c of p(c|u) mu(u c). y w u is any potential >= 0 with y w u >= 1 - mu(u c) + opened(u c) + y w (u c) at every
   child u c of the tree w.
   THEOREM (price_bound). Every feasible point has an objective of at most opened(root) + E[y(root)].
   THEOREM (certificate_bound). So a lossless rule accepts at most opened(root) + E[gain(root)] on average, gain the most that a way down
   the tree collects, or 0: what the library's price_bound computes, and PathCertificate.upper is, for whatever prices mu >= 0.
   THEOREM (certificate_optimal). Where a feasible point has just that value, it is the optimum. *)

From Draft Require Import head problem bound sampling path_rules block.
From Draft Require Import block_optimal tree_bound program_optimum.

Section Prices.
Variables (R : realFieldType) (T : finType) (p : seq T -> T -> R).
Hypothesis p_law : forall h, law (p h).
Variables (W : finType) (Q : W -> R) (node : W -> pred (seq T)) (L : nat).
Hypotheses (Q_ge0 : forall w, 0 <= Q w) (Q_one : \sum_w Q w = 1).
Variables (mu : seq T -> R) (y : W -> seq T -> R).
Definition opened u := \sum_c p u c * mu (rcons u c).
Hypotheses (mu_ge0 : forall v, 0 <= mu v) (y_ge0 : forall w u, 0 <= y w u).
Hypothesis y_step : forall w u c, node w (rcons u c) -> 1 - mu (rcons u c) + opened (rcons u c) + y w (rcons u c) <= y w u.

Fixpoint below (F : seq T -> R) n u := if n is n'.+1 then \sum_c (F (rcons u c) + below F n' (rcons u c)) else 0.
Lemma belowE F n u : below F n u = \sum_(1 <= i < n.+1) \sum_(v <- drafts i) F (u ++ v).
Proof.
elim: n u => [|n ih] u; first by rewrite big_geq.
rewrite [LHS]/= big_split /= big_nat_recl // sum_drafts; congr (_ + _).
  by apply: eq_bigr => c _; rewrite sum_drafts0 cats1.
under eq_bigr do rewrite ih; rewrite exchange_big; apply: eq_bigr => i _.
by rewrite sum_drafts; apply: eq_bigr => c _; apply: eq_bigr => v _; rewrite cat_rcons.
Qed.

Theorem price_bound a : feasible p Q node a -> objective Q L a <= opened [::] + \sum_w Q w * y w [::].
Proof.
move=> [a0 out one le cap].
have o0 u : 0 <= opened u by rewrite sumr_ge0 // => c _; rewrite mulr_ge0 //; case: (p_law u).
have m0 u : 0 <= mean Q a u by rewrite sumr_ge0 // => w _; rewrite mulr_ge0.
suff h n u : below (mean Q a) n u <= opened u * mean Q a u + \sum_w Q w * (a w u * y w u).
  have -> : objective Q L a = below (mean Q a) L [::] by rewrite belowE.
  apply: le_trans (h L [::]) _; have -> : mean Q a [::] = 1 by rewrite /mean -Q_one; apply: eq_bigr => w _; rewrite one mulr1.
  by rewrite mulr1 ler_add2l; apply: ler_sum => w _; rewrite one mul1r.
elim: n u => [|n ih] u /=.
  by rewrite addr_ge0 ?mulr_ge0 // sumr_ge0 // => w _; rewrite !mulr_ge0.
apply: le_trans (_ : \sum_c (mu (rcons u c) * (p u c * mean Q a u)
  + \sum_w Q w * (a w (rcons u c) * (1 - mu (rcons u c) + opened (rcons u c) + y w (rcons u c)))) <= _).
  apply: ler_sum => c _; have := ler_wpmul2l (mu_ge0 (rcons u c)) (cap u c); have := ih (rcons u c).
  have -> : \sum_w Q w * (a w (rcons u c) * (1 - mu (rcons u c) + opened (rcons u c) + y w (rcons u c)))
    = (1 - mu (rcons u c) + opened (rcons u c)) * mean Q a (rcons u c) + \sum_w Q w * (a w (rcons u c) * y w (rcons u c)).
    by rewrite /mean mulr_sumr -big_split; apply: eq_bigr => w _ /=; ring.
  move: (mean _ _ _) (mean _ _ _) (\sum_w _) => x x' s; lra.
rewrite big_split /= /opened mulr_suml; apply: ler_add.
  by apply: ler_sum => c _; rewrite mulrCA mulrA.
rewrite exchange_big; apply: ler_sum => w _; rewrite -mulr_sumr ler_wpmul2l //.
apply: le_trans (_ : \sum_c a w (rcons u c) * y w u <= _); last by rewrite -mulr_suml ler_wpmul2r.
apply: ler_sum => c _; have [inT|outT] := boolP (node w (rcons u c)); last by rewrite out // !mul0r.
by rewrite ler_wpmul2l // y_step.
Qed.
End Prices.

Section Certificate.
Variables (R : realFieldType) (T : finType) (p : seq T -> T -> R).
Hypothesis p_law : forall h, law (p h).
Variables (W : finType) (Q : W -> R) (node : W -> pred (seq T)) (L : nat).
Hypotheses (Q_ge0 : forall w, 0 <= Q w) (Q_one : \sum_w Q w = 1).
Hypotheses (root : forall w, node w [::]) (parents : forall w u c, node w (rcons u c) -> node w u).
Hypothesis depth : forall w u, node w u -> (size u <= L)%N.
Variable mu : seq T -> R.
Hypothesis mu_ge0 : forall v, 0 <= mu v.

Lemma le_largest (f : T -> R) (P : pred T) c0 : P c0 -> f c0 <= \big[Num.max/0]_(c | P c) f c.
Proof.
move=> Pc; have : c0 \in index_enum T by rewrite mem_index_enum.
elim: (index_enum T) => [//|c s ih]; rewrite inE big_cons => /orP[/eqP <-|/ih le]; first by rewrite Pc le_maxr lexx.
by case: ifP => // _; rewrite le_maxr le orbT.
Qed.
Lemma largest_ge0 (f : T -> R) (P : pred T) : 0 <= \big[Num.max/0]_(c | P c) f c.
Proof.
elim: (index_enum T) => [|c s ih]; rewrite ?big_nil // big_cons.
by case: ifP => // _; rewrite le_maxr ih orbT.
Qed.

(* The most that a way of at most n tokens down from u in the tree w collects, or 0. *)
Fixpoint gain n w u : R :=
  if n is n'.+1 then
    \big[Num.max/0]_(c | node w (rcons u c)) (1 - mu (rcons u c) + opened p mu (rcons u c) + gain n' w (rcons u c))
  else 0.
Lemma gain_ge0 n w u : 0 <= gain n w u.
Proof. by case: n => [//|n]; exact: largest_ge0. Qed.

Lemma certificate_feasible a : feasible p Q node a -> objective Q L a <= opened p mu [::] + \sum_w Q w * gain L w [::].
Proof.
move=> ok; have y0 w u : 0 <= gain (L - size u) w u by exact: gain_ge0.
have step w u c : node w (rcons u c) -> 1 - mu (rcons u c) + opened p mu (rcons u c) + gain (L - size (rcons u c)) w (rcons u c)
    <= gain (L - size u) w u.
  move=> inT; have := depth inT; rewrite size_rcons => uL; rewrite -(subnSK uL) /=.
  exact: (le_largest (fun c => 1 - mu (rcons u c) + opened p mu (rcons u c) + gain (L - (size u).+1) w (rcons u c)) inT).
by have := price_bound p_law L Q_ge0 Q_one mu_ge0 y0 step ok; rewrite subn0.
Qed.

Theorem certificate_bound s : lossless_rule p Q node L s -> accepts Q L s <= opened p mu [::] + \sum_w Q w * gain L w [::].
Proof.
move=> los; have [ok ->] : feasible p Q node (reached L s) /\ accepts Q L s = objective Q L (reached L s) by exact: rule_feasible.
exact: certificate_feasible.
Qed.

Theorem certificate_optimal a : feasible p Q node a -> objective Q L a = opened p mu [::] + \sum_w Q w * gain L w [::] ->
  forall a', feasible p Q node a' -> objective Q L a' <= objective Q L a.
Proof. by move=> _ -> a' ok'; exact: certificate_feasible. Qed.
End Certificate.

Print Assumptions price_bound.
Print Assumptions certificate_bound.
Print Assumptions certificate_optimal.
