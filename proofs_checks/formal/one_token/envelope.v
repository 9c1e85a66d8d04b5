(* The envelope.

   Along the order of p/q let t, F be the prefix sums of q and p, g = t^k, D = g - F, and
       G_i = F_i + min(max of D_j over j <= i, max of D_j over j >= i).
   THEOREM (envelope). G is convex in t, G >= g, G_0 = 0, G_N = 1. With i* a place where D is largest and m the increments
   of G: m >= 0, sum m = 1, and sum min(p, m) = 1 - D_(i* ) = 1 + p(H) - q(H)^k for the prefix H of the first i* tokens.
   p are any masses >= 0 of sum at most 1 (a scaled target w p is allowed); k >= 1. *)

From Draft Require Import head problem bound levels.

Section Envelope.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (k : nat) (s : seq T) (y0 : T).
Hypotheses (q_pos : forall y, y \in s -> 0 < q y) (p_ge0 : forall y, 0 <= p y) (s_uniq : uniq s) (k_pos : (0 < k)%N).
(* The tokens stand in the order of p/q. *)
Hypothesis ordered : forall i j, (i < j)%N -> (j < size s)%N ->
  p (nth y0 s i) * q (nth y0 s j) <= p (nth y0 s j) * q (nth y0 s i).

Local Notation N := (size s).
Local Notation t := (t_ (real R) q s).
Local Notation F := (F_ (real R) p s).
Local Notation g := (g_ (real R) q k s).
Local Notation D := (D_ (real R) p q k s).
Local Notation up := (upto (real R) p q k s).
Local Notation dn := (fun i => down (real R) p q k s (size s - i)).
Local Notation G := (G_ (real R) p q k s).
Hypotheses (t_one : t N = 1) (F_le1 : F N <= 1).
Local Notation w i := (q (nth y0 s i)).

Lemma FE i : F i = \sum_(y <- take i s) p y. Proof. exact: sumE. Qed.
Lemma FS i : (i < N)%N -> F i.+1 = F i + p (nth y0 s i).
Proof. by move=> iN; rewrite !FE (take_nth y0) // -cats1 big_cat big_seq1. Qed.
Lemma F0 : F 0 = 0. Proof. by rewrite FE take0 big_nil. Qed.
Lemma DE i : D i = g i - F i. Proof. by []. Qed.
Lemma g0 : g 0 = 0. Proof. by rewrite gE t0 expr0n eqn0Ngt k_pos. Qed.
Lemma D0 : D 0 = 0. Proof. by rewrite DE g0 F0 subr0. Qed.
Lemma gN : g N = 1. Proof. by rewrite gE t_one expr1n. Qed.
Lemma GE i : G i = F i + Num.min (up i) (dn i). Proof. by rewrite /G_ leastE. Qed.
Lemma w_gt0 i : (i < N)%N -> 0 < w i. Proof. by move=> iN; rewrite q_pos // mem_nth. Qed.

Lemma upS i : up i.+1 = Num.max (up i) (D i.+1). Proof. by rewrite /= mostE. Qed.
Lemma dnS i : (i < N)%N -> dn i = Num.max (dn i.+1) (D i).
Proof. by move=> iN /=; rewrite -{1}(subnSK iN) /= mostE subnSK // subKn // ltnW. Qed.
Lemma dnN : dn N = D N. Proof. by rewrite /= subnn. Qed.

Lemma up_ge i j : (j <= i)%N -> D j <= up i.
Proof.
elim: i => [|i ih]; first by rewrite leqn0 => /eqP->; rewrite lexx.
rewrite upS le_maxr leq_eqVlt => /orP[/eqP->|]; first by rewrite lexx orbT.
by rewrite ltnS => /ih ->.
Qed.
Lemma up_is i : exists2 j, (j <= i)%N & up i = D j.
Proof.
elim: i => [|i [j ji e]]; first by exists 0%N.
by rewrite upS; case: leP => _; [exists i.+1 | exists j; rewrite ?leqW].
Qed.
Lemma dn_ge n i j : (n = N - i)%N -> (i <= j)%N -> (j <= N)%N -> D j <= dn i.
Proof.
elim: n i => [|n ih] i e ij jN.
  have iN : i = N by apply/eqP; rewrite eqn_leq (leq_trans ij jN) -subn_eq0 -e.
  have -> : j = N by apply/eqP; rewrite eqn_leq jN -iN.
  by rewrite iN dnN.
have iN : (i < N)%N by rewrite -subn_gt0 -e.
rewrite dnS // le_maxr; move: ij; rewrite leq_eqVlt => /orP[/eqP->|ij]; first by rewrite lexx orbT.
by rewrite ih // subnS -e.
Qed.
Lemma dn_is n i : (n = N - i)%N -> (i <= N)%N -> exists2 j, (i <= j <= N)%N & dn i = D j.
Proof.
elim: n i => [|n ih] i e iN.
  have -> : i = N by apply/eqP; rewrite eqn_leq iN -subn_eq0 -e.
  by exists N; rewrite ?leqnn ?dnN.
have iN' : (i < N)%N by rewrite -subn_gt0 -e.
have [|//|j /andP[ij jN] ej] := ih i.+1; first by rewrite subnS -e.
rewrite dnS //; case: leP => _; last by exists j; rewrite ?(ltnW ij).
by exists i; rewrite ?leqnn.
Qed.

(* A place where D is largest. *)
Variable top : nat.
Hypotheses (top_le : (top <= N)%N) (top_max : forall j, (j <= N)%N -> D j <= D top).

Lemma G_low i : (i <= top)%N -> G i = F i + up i.
Proof.
move=> it; rewrite GE min_l //; have [j ji ->] := up_is i.
by apply: le_trans (dn_ge erefl it top_le); apply: top_max; exact: leq_trans (leq_trans ji it) top_le.
Qed.
Lemma G_high i : (top <= i)%N -> (i <= N)%N -> G i = F i + dn i.
Proof.
move=> ti iN; rewrite GE min_r //; have [j /andP[ij jN] ->] := dn_is erefl iN.
by apply: le_trans (up_ge ti); exact: top_max.
Qed.
Lemma G_above i : (i <= N)%N -> g i <= G i.
Proof.
move=> iN; rewrite GE -ler_subl_addl -[_ - F i]/(D i) le_minr up_ge //=.
exact: (dn_ge erefl).
Qed.
Lemma G_zero : G 0 = 0.
Proof.
by rewrite G_low // F0 add0r /= D0.
Qed.
Lemma G_one : G N = 1.
Proof. by rewrite G_high // dnN DE gN addrC subrK. Qed.
Lemma G_top : G top = g top.
Proof.
rewrite G_low // (_ : up top = D top) ?DE ?[F top + _]addrC ?subrK //; apply/eqP.
by rewrite eq_le up_ge // andbT; have [j jt ->] := up_is top; apply: top_max; exact: leq_trans top_le.
Qed.

(* The slope of G over a step does not fall. *)
Let dG i := G i.+1 - G i.
Let dg i := g i.+1 - g i.

Lemma slope_step i : (i.+1 < N)%N -> dG i * w i.+1 <= dG i.+1 * w i.
Proof.
move=> iN; have iN' := ltn_trans (ltnSn i) iN.
have w0 := w_gt0 iN'; have w1 := w_gt0 iN.
have order := ordered (ltnSn i) iN.
have cg : dg i * w i.+1 <= dg i.+1 * w i.
  have := @g_convex _ _ q k s y0 q_pos 0 N (leqnn N) _ _ _ (leq0n i) (leqnSn i) (leqnSn i.+1) iN.
  by rewrite !(tS q y0) // /dg; lra.
have [touch|lift] := eqVneq (G i.+1) (g i.+1).
  have a0 := G_above (ltnW iN'); have a2 := G_above iN; rewrite /dG touch /dg in cg *.
  have : 0 <= (G i - g i) * w i.+1 by rewrite mulr_ge0 ?subr_ge0 // ltW.
  have : 0 <= (G i.+2 - g i.+2) * w i by rewrite mulr_ge0 ?subr_ge0 // ltW.
  lra.
have above : g i.+1 < G i.+1 by rewrite lt_def lift G_above // ltnW.
have F1 := FS iN'; have F2 := FS iN.
case: (ltngtP i.+1 top) => it.
- (* before the top: the maximum so far stays *)
  have u1 : up i.+1 = up i.
    rewrite upS max_l // leNgt; apply/negP => lt; move: above.
    by rewrite G_low ?(ltnW it) // upS (max_r (ltW lt)) DE addrC subrK ltxx.
  have u2 : up i.+1 <= up i.+2 by rewrite [leRHS]upS le_maxr lexx.
  rewrite /dG !G_low ?(ltnW it) ?(ltnW (ltnW it)) // F2 F1 u1.
  have : 0 <= (up i.+2 - up i.+1) * w i by rewrite mulr_ge0 ?subr_ge0 // ltW.
  by rewrite u1; lra.
- (* after the top: the maximum from here on stays *)
  have ti : (top <= i)%N by rewrite -ltnS.
  have u1 : dn i.+1 = dn i.+2.
    rewrite dnS // max_l // leNgt; apply/negP => lt; move: above.
    by rewrite G_high ?(ltnW it) ?(ltnW iN) // dnS // (max_r (ltW lt)) DE addrC subrK ltxx.
  have u2 : dn i.+1 <= dn i by rewrite [leRHS]dnS // le_maxr lexx.
  rewrite /dG !G_high ?(ltnW it) ?(ltnW (ltnW it)) ?(ltnW iN) ?(ltnW iN') ?(leqW (leqW ti)) ?(leqW ti) // F2 F1 -u1.
  have : 0 <= (dn i - dn i.+1) * w i.+1 by rewrite mulr_ge0 ?subr_ge0 // ltW.
  lra.
by move: above; rewrite it G_top ltxx.
Qed.

Lemma slopes i j : (i <= j)%N -> (j < N)%N -> dG i * w j <= dG j * w i.
Proof.
elim: j => [|j ih]; first by rewrite leqn0 => /eqP->.
rewrite leq_eqVlt => /orP[/eqP->|ij] jN; first by [].
have jN' := ltn_trans (ltnSn j) jN; have iN := ltn_trans ij jN.
have h1 := ih ij jN'; have h2 := slope_step jN.
have wj := w_gt0 jN'; rewrite -(ler_pmul2l wj).
have := ler_wpmul2r (ltW (w_gt0 jN)) h1; have := ler_wpmul2r (ltW (w_gt0 iN)) h2.
lra.
Qed.

Lemma telescope (h : nat -> R) i j : (i <= j)%N -> h j - h i = \sum_(i <= l < j) (h l.+1 - h l).
Proof. by move=> ij; rewrite telescope_sumr. Qed.

Lemma G_convex : convex q s G 0 N.
Proof.
move=> i j l _ ij jl lN.
suff : (G j - G i) * (t l - t j) <= (G l - G j) * (t j - t i) by lra.
rewrite !(telescope _ ij) !(telescope _ jl) !big_distrlr /= exchange_big /=.
rewrite !big_nat; apply: ler_sum => b /andP[jb bl]; rewrite !big_nat; apply: ler_sum => a /andP[ia aj].
have bN := leq_trans bl lN.
have aN : (a < N)%N by exact: leq_trans (leq_trans aj jb) (ltnW bN).
rewrite !(tS q y0) //.
have := slopes (ltnW (leq_trans aj jb)) bN; rewrite /dG; lra.
Qed.

Lemma dG_ge i : (i < top)%N -> p (nth y0 s i) <= dG i.
Proof.
move=> it; have iN := leq_trans it top_le; rewrite /dG !G_low ?(ltnW it) // FS // upS.
have : up i <= Num.max (up i) (D i.+1) by rewrite le_maxr lexx.
lra.
Qed.
Lemma dG_le i : (top <= i)%N -> (i < N)%N -> dG i <= p (nth y0 s i).
Proof.
move=> ti iN; rewrite /dG !G_high ?(leqW ti) ?(ltnW iN) // FS // (dnS iN).
have : dn i.+1 <= Num.max (dn i.+1) (D i) by rewrite le_maxr lexx.
lra.
Qed.
Lemma dG_ge0 i : (i < N)%N -> 0 <= dG i.
Proof.
move=> iN; have [it|ti] := ltnP i top; first exact: le_trans (p_ge0 _) (dG_ge it).
have := slopes (leq0n i) iN; have N0 : (0 < N)%N by exact: leq_ltn_trans iN.
have d0 : 0 <= dG 0.
  by rewrite /dG G_zero subr0; apply: le_trans (G_above N0); rewrite gE exprn_ge0 // (t_ge0 y0 q_pos).
move=> h; rewrite -(pmulr_lge0 _ (w_gt0 N0)); apply: le_trans h.
by rewrite mulr_ge0 // ltW // w_gt0.
Qed.

Lemma overlap : \sum_(0 <= i < N) Num.min (p (nth y0 s i)) (dG i) = 1 - D top.
Proof.
rewrite (big_cat_nat _ (n := top)) //=.
have -> : \sum_(0 <= i < top) Num.min (p (nth y0 s i)) (dG i) = F top.
  rewrite -[RHS]subr0 -[X in _ = _ - X]F0 (telescope _ (leq0n top)); apply: eq_big_nat => i /andP[_ it].
  by rewrite min_l ?dG_ge // FS ?(leq_trans it) // addrAC subrr add0r.
have -> : \sum_(top <= i < N) Num.min (p (nth y0 s i)) (dG i) = G N - G top.
  rewrite (telescope _ top_le); apply: eq_big_nat => i /andP[ti iN].
  by rewrite min_r // dG_le.
by rewrite G_one G_top DE; lra.
Qed.

End Envelope.

Lemma largest_index (R : realFieldType) (f : nat -> R) n : exists2 i, (i <= n)%N & forall j, (j <= n)%N -> f j <= f i.
Proof.
elim: n => [|n [i iN h]]; first by exists 0%N => // j; rewrite leqn0 => /eqP->.
have [le|lt] := leP (f n.+1) (f i).
  by exists i => [|j]; [exact: leqW | rewrite leq_eqVlt => /orP[/eqP->|/h]].
exists n.+1 => // j; rewrite leq_eqVlt => /orP[/eqP->|/h le]; first by rewrite lexx.
exact: le_trans le (ltW lt).
Qed.

Print Assumptions G_convex.
Print Assumptions overlap.
