(* Selection by levels: the law of the selected draft.

   The drafts are given by the places of their tokens in the order, 0 .. N-1. Draft l is selected with probability
   min(1, M_1, .., M_(l-1)) - min(1, M_1, .., M_l), where M_l is the largest level c_b over the breakpoints b between its
   place and the highest place drafted (0 if there is none).
   THEOREM (selected_law). For k i.i.d. drafts from q and the levels of any tree, the selected token is the i-th of the
   order with probability G_(i+1) - G_i, where G is the value of the tree (levels.v). The choices sum to 1. *)

From Draft Require Import head problem bound levels.

Section Falls.
Variable R : realFieldType.
Implicit Types (w : tree R) (x : seq nat).
Local Notation falls := (falls (real R)).
Local Notation cut := (cut (real R)).
Local Notation levels := (levels (real R)).
Local Notation choose := (choose (real R)).

(* The first place from a on. *)
Definition first_from a x i : R := if [seq j <- x | (a <= j)%N] is j :: _ then (j == i)%:R else 0.
(* Selection by descending the tree: stop at a node with probability 1 - level and select the first draft drawn in the
   interval; else go on in the upper part if it holds a draft, in the lower one if not. *)
Fixpoint descend w a x i : R :=
  if w is Node level c low high then
    (1 - level) * first_from a x i + level * (if has (leq c) x then descend high c x i else descend low a x i)
  else first_from a x i.

Lemma first_from_support a x i : ~~ ((i \in x) && (a <= i)%N) -> first_from a x i = 0.
Proof.
rewrite /first_from => h; case e: [seq _ <- _ | _] => [//|j l].
have : j \in [seq j <- x | (a <= j)%N] by rewrite e inE eqxx.
rewrite mem_filter => /andP[aj jx]; case: eqP => // ji.
by move: h; rewrite -ji jx aj.
Qed.
Lemma descend_support w a b x i : well_formed w a b -> ~~ ((i \in x) && (a <= i)%N) -> descend w a x i = 0.
Proof.
elim: w a b x => [|level c low ihl high ihr] a b x /= wf h; first exact: first_from_support.
case: wf => _ ac cb wl wr; rewrite first_from_support // mulr0 add0r; case: ifP => _.
  rewrite (ihr _ _ _ wr) ?mulr0 //; apply: contra h => /andP[-> ci].
  exact: leq_trans (ltnW ac) ci.
by rewrite (ihl _ _ _ wl) ?mulr0.
Qed.
Lemma descend_filter w a b d x i : well_formed w a b -> (d <= a)%N ->
  descend w a [seq j <- x | (d <= j)%N] i = descend w a x i.
Proof.
elim: w a b => [|level c low ihl high ihr] a b /= wf da.
  rewrite /first_from -filter_predI (@eq_filter _ _ (leq a)) // => j /=.
  by case: leqP => // aj; rewrite (leq_trans da aj).
case: wf => _ ac cb wl wr; rewrite (ihl _ _ wl) // (ihr _ _ wr) ?(leq_trans da (ltnW ac)) //.
rewrite {1}/first_from -filter_predI (@eq_filter _ _ (leq a)) => [|j /=]; last first.
  by case: leqP => // aj; rewrite (leq_trans da aj).
rewrite -/(first_from a x i); congr (_ + _ * _).
suff -> : has (leq c) [seq j <- x | (d <= j)%N] = has (leq c) x by [].
apply/hasP/hasP => [[j]|[j jx cj]]; first by rewrite mem_filter => /andP[_ jx] cj; exists j.
by exists j => //; rewrite mem_filter jx (leq_trans da) // (leq_trans (ltnW ac)).
Qed.

(* What the falls of a running minimum put on the place i. *)
Definition on_place (now : R) (m : nat -> R) x i : R :=
  \sum_(z <- zip x (falls now (map m x))) (if z.1 == i then z.2 else 0).

Lemma on_place_nil now m i : on_place now m [::] i = 0. Proof. by rewrite /on_place big_nil. Qed.
Lemma on_place_cons now m j x i : on_place now m (j :: x) i =
  (if j == i then now - Num.min now (m j) else 0) + on_place (Num.min now (m j)) m x i.
Proof. by rewrite /on_place /= big_cons /= leastE. Qed.
Lemma on_place_eq now m m' x i : {in x, m =1 m'} -> on_place now m x i = on_place now m' x i.
Proof.
move=> e; rewrite /on_place; congr (\sum_(z <- zip x (falls now _)) _).
by apply/eq_in_map.
Qed.
Lemma on_place_zero x i : on_place 0 (fun=> 0) x i = 0.
Proof. by elim: x => [|j x ih]; rewrite ?on_place_nil // on_place_cons minxx subrr ih addr0; case: ifP. Qed.

Section Step.
Variables (level : R) (P : pred nat) (m m' : nat -> R).
Hypotheses (level0 : 0 <= level) (level1 : level <= 1).
Hypothesis m'1 : forall j, m' j <= 1.

Lemma on_place_scaled x i (u : R) : u <= 1 -> (forall j, j \in x -> m j = if P j then level * m' j else level) ->
  on_place (level * u) m x i = level * on_place u m' [seq j <- x | P j] i.
Proof.
elim: x u => [|j x ih] u u1 e; first by rewrite /= !on_place_nil mulr0.
have ex z : z \in x -> m z = if P z then level * m' z else level by move=> zx; rewrite e // inE zx orbT.
rewrite on_place_cons e ?inE ?eqxx //= ; case: (P j) => /=.
  rewrite on_place_cons -minr_pmulr // ih ?le_minl ?u1 // mulrDr; congr (_ + _).
  by case: ifP => _; rewrite ?mulr0 // mulrBr.
have -> : Num.min (level * u) level = level * u by rewrite min_l // -[leRHS]mulr1 ler_wpmul2l.
by rewrite subrr ih //; case: ifP => _; rewrite add0r.
Qed.

Lemma on_place_step x i : (forall j, j \in x -> m j = if P j then level * m' j else level) ->
  on_place 1 m x i = (1 - level) * (if x is j :: _ then (j == i)%:R else 0) + level * on_place 1 m' [seq j <- x | P j] i.
Proof.
case: x => [|j x] e; first by rewrite /= !on_place_nil !mulr0 addr0.
have ex z : z \in x -> m z = if P z then level * m' z else level by move=> zx; rewrite e // inE zx orbT.
rewrite on_place_cons e ?inE ?eqxx //=; case: (P j) => /=.
  have le1 : level * m' j <= 1.
    by apply: le_trans level1; rewrite -[leRHS]mulr1 ler_wpmul2l.
  rewrite on_place_cons min_r // (min_r (m'1 j)) on_place_scaled // mulrDr; case: eqP => _ /=; lra.
rewrite min_r // -[X in on_place X]mulr1 on_place_scaled //; case: eqP => _ /=; lra.
Qed.
End Step.

(** The levels of a tree *)

Lemma cut_cons z l i top : cut (z :: l) i top = if (i < z.1 <= top)%N then Num.max z.2 (cut l i top) else cut l i top.
Proof. by rewrite /= mostE. Qed.
Lemma cut_ge0 l i top : (forall z, z \in l -> 0 <= z.2) -> 0 <= cut l i top.
Proof.
elim: l => [//|z l ih] h; rewrite cut_cons; have := h z; rewrite inE eqxx => /(_ isT) z0.
have := ih (fun z' hz => h z' (@mem_behead _ (z :: l) z' hz)) => c0.
by case: ifP => // _; rewrite le_maxr z0.
Qed.
Lemma cut_le l i top u : 0 <= u -> (forall z, z \in l -> z.2 <= u) -> cut l i top <= u.
Proof.
move=> u0; elim: l => [//|z l ih] h; rewrite cut_cons; have := h z; rewrite inE eqxx => /(_ isT) z0.
have := ih (fun z' hz => h z' (@mem_behead _ (z :: l) z' hz)) => c0.
by case: ifP => // _; rewrite le_maxl z0.
Qed.
Lemma cut_none l i top : (forall z, z \in l -> ~~ (i < z.1 <= top)%N) -> cut l i top = 0.
Proof.
elim: l => [//|z l ih] h; rewrite cut_cons; have := h z; rewrite inE eqxx => /(_ isT) /negbTE ->.
by apply: ih => z' hz; apply: h; rewrite inE hz orbT.
Qed.
Lemma cut_cat l l' i top : (forall z, z \in l -> 0 <= z.2) -> (forall z, z \in l' -> 0 <= z.2) ->
  cut (l ++ l') i top = Num.max (cut l i top) (cut l' i top).
Proof.
move=> h h'; elim: l h => [|z l ih] h; first by rewrite /= max_r // cut_ge0.
rewrite cat_cons !cut_cons ih => [|z' hz]; last by apply: h; rewrite inE hz orbT.
by case: ifP => // _; rewrite maxA.
Qed.
Lemma cut_scale level l i top : 0 <= level ->
  cut [seq (z.1, mul (real R) level z.2) | z <- l] i top = level * cut l i top.
Proof.
move=> l0; elim: l => [|z l ih]; first by rewrite /= mulr0.
by rewrite map_cons !cut_cons ih /=; case: ifP => // _; rewrite maxr_pmulr.
Qed.

Lemma levels_in w a b z : well_formed w a b -> z \in levels w -> (a < z.1 < b)%N /\ 0 <= z.2 <= 1.
Proof.
elim: w a b z => [|level c low ihl high ihr] a b z //= [/andP[l0 l1] ac cb wl wr].
have scale (u : R) : 0 <= u <= 1 -> 0 <= level * u <= 1.
  by move=> /andP[u0 u1]; rewrite mulr_ge0 //= -[leRHS]mulr1 ler_pmul.
rewrite mem_cat inE => /or3P[/mapP[z' /(ihl _ _ _ wl)[/andP[az zc] u] ->]|/eqP->|/mapP[z' /(ihr _ _ _ wr)[/andP[az zc] u] ->]] /=.
- by rewrite az (ltn_trans zc cb) scale.
- by rewrite ac cb l0.
- by rewrite zc (ltn_trans ac az) scale.
Qed.

Lemma top_ge x j : j \in x -> (j <= foldr maxn 0%N x)%N.
Proof.
elim: x => [//|i x ih]; rewrite inE => /orP[/eqP->|/ih h] /=; first exact: leq_maxl.
exact: leq_trans h (leq_maxr _ _).
Qed.
Lemma top_lt x c : (0 < c)%N -> (forall j, j \in x -> (j < c)%N) -> (foldr maxn 0%N x < c)%N.
Proof.
move=> c0; elim: x => [//|i x ih] h /=; rewrite gtn_max h ?inE ?eqxx // ih // => j jx.
by rewrite h // inE jx orbT.
Qed.
Lemma top_filter x c : has (leq c) x -> foldr maxn 0%N [seq j <- x | (c <= j)%N] = foldr maxn 0%N x.
Proof.
have le0 l : (forall j, j \in l -> (j < c)%N) -> has (leq c) l = false.
  by move=> h; apply/hasPn => j /h; rewrite -ltnNge.
elim: x => [//|i x ih] /=; case: (boolP (has (leq c) x)) => [hx _|nh].
  rewrite -ih //; case: leqP => // ic /=; apply/esym/maxn_idPr.
  have /hasP[j jx cj] := hx; rewrite ih //; exact: leq_trans (ltnW ic) (leq_trans cj (top_ge jx)).
rewrite orbF => ci; rewrite ci /=.
have -> : [seq j <- x | (c <= j)%N] = [::].
  by apply/eqP; rewrite -[_ == _]negbK -has_filter.
rewrite /= maxn0; apply/esym/maxn_idPl.
have [c0|c0] := posnP c; first by case: (x) nh => // j l; rewrite c0.
apply: ltnW; apply: leq_trans ci; apply: top_lt => // j jx.
by move/hasPn: nh => /(_ j jx); rewrite -ltnNge.
Qed.

Theorem falls_descend w a b x i : well_formed w a b -> (forall j, j \in x -> (a <= j)%N) ->
  on_place 1 (fun j => cut (levels w) j (foldr maxn 0%N x)) x i = descend w a x i.
Proof.
elim: w a b x => [|level c low ihl high ihr] a b x wf ax.
  rewrite /= /first_from (all_filterP _); last by apply/allP => j /ax.
  case: x ax => [|j x] _; first by rewrite on_place_nil.
  rewrite on_place_cons /= (min_r ler01) subr0 on_place_zero addr0.
  by case: eqP.
have wf' := wf; case: wf => /andP[l0 l1] ac cb wl wr.
have first : first_from a x i = if x is j :: _ then (j == i)%:R else 0.
  by rewrite /first_from (all_filterP _) //; apply/allP => j /ax.
have lowP z : z \in levels low -> (a < z.1 < c)%N /\ 0 <= z.2 <= 1 by exact: levels_in.
have highP z : z \in levels high -> (c < z.1 < b)%N /\ 0 <= z.2 <= 1 by exact: levels_in.
have cutE j top : cut (levels (Node level c low high)) j top =
    Num.max (level * cut (levels low) j top)
      (if (j < c <= top)%N then Num.max level (level * cut (levels high) j top) else level * cut (levels high) j top).
  rewrite /= cut_cat ?cut_cons ?cut_scale //.
    by move=> z /mapP[z' /lowP[_ /andP[z0 _]] ->]; exact: mulr_ge0.
  by move=> z; rewrite inE => /orP[/eqP->|/mapP[z' /highP[_ /andP[z0 _]] ->]] //; exact: mulr_ge0.
have high0 j top : 0 <= cut (levels high) j top by apply: cut_ge0 => z /highP[_ /andP[]].
have high1 j top : cut (levels high) j top <= 1 by apply: cut_le => // z /highP[_ /andP[]].
have low0 j top : 0 <= cut (levels low) j top by apply: cut_ge0 => z /lowP[_ /andP[]].
have low1 j top : cut (levels low) j top <= 1 by apply: cut_le => // z /lowP[_ /andP[]].
have scaled (u : R) : u <= 1 -> level * u <= level by move=> u1; rewrite -[leRHS]mulr1 ler_wpmul2l.
rewrite [RHS]/= first; case: ifPn => [hc|nc].
  rewrite -(descend_filter _ _ wr (leqnn c)) -(ihr _ _ _ wr) => [|j]; last by rewrite mem_filter => /andP[].
  rewrite top_filter //; apply: on_place_step => // j jx; rewrite cutE.
  have ctop : (c <= foldr maxn 0%N x)%N by case/hasP: hc => j' jx' cj; exact: leq_trans (top_ge jx').
  rewrite ctop andbT; case: leqP => cj.
    rewrite cut_none ?mulr0 ?max_r ?mulr_ge0 // => z /lowP[/andP[_ zc] _].
    by rewrite negb_and -leqNgt (leq_trans (ltnW zc)).
  by rewrite (max_l (scaled _ (high1 _ _))) max_r // scaled.
have nx j : j \in x -> (j < c)%N by move=> jx; move/hasPn: nc => /(_ j jx); rewrite -ltnNge.
rewrite -(ihl _ _ _ wl) // (@on_place_step level predT _ (fun j => cut (levels low) j (foldr maxn 0%N x))) ?filter_predT //.
move=> j jx; rewrite cutE.
have top : (foldr maxn 0%N x < c)%N by apply: top_lt => //; exact: leq_ltn_trans ac.
rewrite (leqNgt c) top andbF (@cut_none (levels high)) ?mulr0 ?max_l ?mulr_ge0 // => z /highP[/andP[cz _] _].
by rewrite negb_and orbC -ltnNge (ltn_trans top cz).
Qed.

Lemma first_from_ge0 a x i : 0 <= first_from a x i.
Proof. by rewrite /first_from; case: [seq _ <- _ | _] => // j l; exact: ler0n. Qed.
Lemma descend_ge0 w a b x i : well_formed w a b -> 0 <= descend w a x i.
Proof.
elim: w a b x => [|level c low ihl high ihr] a b x /= wf; first exact: first_from_ge0.
case: wf => /andP[l0 l1] _ _ wl wr; rewrite addr_ge0 ?mulr_ge0 ?first_from_ge0 ?subr_ge0 //.
by case: ifP => _; [exact: ihr wr | exact: ihl wl].
Qed.
Lemma first_from_sum a x n : has (leq a) x -> (forall j, j \in x -> (j < n)%N) -> \sum_(i < n) first_from a x i = 1.
Proof.
move=> h small; rewrite /first_from; case e: [seq j <- x | (a <= j)%N] => [|j l].
  by move: h; rewrite has_filter -[filter (leq a) x]/[seq j <- x | (a <= j)%N] e.
have : j \in [seq j <- x | (a <= j)%N] by rewrite e inE eqxx.
rewrite mem_filter => /andP[_ /small jn].
rewrite (bigD1 (Ordinal jn)) //= eqxx big1 ?addr0 // => i /eqP ne.
by case: eqP => // ji; case: ne; apply: val_inj.
Qed.
Lemma descend_sum w a b x n : well_formed w a b -> has (leq a) x -> (forall j, j \in x -> (j < n)%N) ->
  \sum_(i < n) descend w a x i = 1.
Proof.
elim: w a b x => [|level c low ihl high ihr] a b x /= wf h small; first exact: first_from_sum.
case: wf => _ ac cb wl wr; rewrite big_split /= -!mulr_sumr first_from_sum //.
by case hc: (has (leq c) x); [have -> := ihr _ _ x wr hc small | have -> := ihl _ _ x wl h small]; lra.
Qed.

End Falls.

Print Assumptions falls_descend.
