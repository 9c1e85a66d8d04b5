(* Which levels have the envelope's law: those of the lower hull of G - lambda g.

   Along an order of the tokens let t, g = t^k and a curve G >= g with its ends be given (levels.v, envelope.v), and write
       gap h a i b = (t_b - t_i) h_a + (t_i - t_a) h_b - (t_b - t_a) h_i,
   (t_b - t_a) times the height of the chord of h from a to b above h at i.
   CHORD LEVELS. c_i is the largest number <= 1 with c_i gap g a i b <= gap G a i b for all a < i < b; where g and G are both straight,
   any number in [0, 1]. It is the largest lambda <= 1 up to which i stays on the lower hull of G - lambda g.
   THEOREM (chord_levels_exist). Every convex G has chord levels.
   THEOREM (chord_levels). The tree of such levels (any_levels.v) has G as its value.
   THEOREM (chord_levels_law). Selection by them gives the selected token the increments of G as its law, for k i.i.d. drafts.
   THEOREM (chord_levels_optimal). If G is the envelope, no lossless rule accepts more, however these levels were found. *)

From Draft Require Import head problem bound couple levels selected selected_law envelope optimal any_levels.

Section Chords.
Variables (R : realFieldType) (T : finType) (q : T -> R) (k : nat) (s : seq T) (y0 : T).
Hypothesis q_pos : forall y, y \in s -> 0 < q y.
Implicit Types (h c : nat -> R) (u v : R) (a b i j : nat).
Local Notation N := (size s).
Local Notation t := (t_ (real R) q s).
Local Notation g := (g_ (real R) q k s).
Local Notation value := (value q k s).
Let t_lt i j : (i < j)%N -> (j <= N)%N -> t i < t j. Proof. exact: (t_lt y0 q_pos). Qed.

Definition gap h a i b := (t b - t i) * h a + (t i - t a) * h b - (t b - t a) * h i.
Lemma g_gap a i b : (a <= i)%N -> (i <= b)%N -> (b <= N)%N -> 0 <= gap g a i b.
Proof. by move=> ai ib bN; have := @g_convex _ _ q k s y0 q_pos 0 N (leqnn N) _ _ _ (leq0n a) ai ib bN; rewrite /gap; lra. Qed.
Lemma gap_sub h h' v a i b : gap (fun j => h j - v * h' j) a i b = gap h a i b - v * gap h' a i b.
Proof. by rewrite /gap; ring. Qed.
Lemma gap_left h a b : gap h a a b = 0. Proof. by rewrite /gap; ring. Qed.
Lemma gap_right h a b : gap h a b b = 0. Proof. by rewrite /gap; ring. Qed.

(* What chords over i say of those over a shorter way. *)
Lemma shorter_left h a' a i b : (a' < a)%N -> (a < i)%N -> (i < b)%N -> (b <= N)%N ->
  gap h a' i b <= 0 -> 0 <= gap h a' a i -> gap h a i b <= 0.
Proof.
move=> aa ai ib bN le ge; have iN := ltnW (leq_trans ib bN).
have pos : 0 < t i - t a' by rewrite subr_gt0 t_lt // (ltn_trans aa).
rewrite -(pmulr_rle0 _ pos).
have -> : (t i - t a') * gap h a i b = (t i - t a) * gap h a' i b - (t b - t i) * gap h a' a i by rewrite /gap; ring.
have p1 : 0 <= (t i - t a) * - gap h a' i b by rewrite mulr_ge0 ?oppr_ge0 // subr_ge0 ltW // t_lt.
have p2 : 0 <= (t b - t i) * gap h a' a i by rewrite mulr_ge0 // subr_ge0 ltW // t_lt.
lra.
Qed.
Lemma shorter_right h a i b b' : (a < i)%N -> (i < b)%N -> (b < b')%N -> (b' <= N)%N ->
  gap h a i b' <= 0 -> 0 <= gap h i b b' -> gap h a i b <= 0.
Proof.
move=> ai ib bb bN le ge; have bN' := ltnW (leq_trans bb bN).
have pos : 0 < t b' - t i by rewrite subr_gt0 t_lt // (ltn_trans ib).
rewrite -(pmulr_rle0 _ pos).
have -> : (t b' - t i) * gap h a i b = (t b - t i) * gap h a i b' - (t i - t a) * gap h i b b' by rewrite /gap; ring.
have p1 : 0 <= (t b - t i) * - gap h a i b' by rewrite mulr_ge0 ?oppr_ge0 // subr_ge0 ltW // t_lt.
have p2 : 0 <= (t i - t a) * gap h i b b' by rewrite mulr_ge0 // subr_ge0 ltW // t_lt // ltnW // (leq_trans ib).
lra.
Qed.

(* Where every place has a chord below it, no place is below the chord from end to end. *)
Lemma no_valley h a b : (a < b)%N -> (b <= N)%N ->
  (forall i, (a < i < b)%N -> exists a' b', [/\ (a <= a')%N, (a' < i)%N, (i < b')%N, (b' <= b)%N & gap h a' i b' <= 0]) ->
  forall i, (a <= i <= b)%N -> gap h a i b <= 0.
Proof.
move=> ab bN below j jab; rewrite leNgt; apply/negP => gj; pose E i := - gap h a i b.
pose least i := (a <= i <= b)%N && all (fun l => E i <= E l) (iota a (b - a).+1).
have mem i : (i \in iota a (b - a).+1) = (a <= i <= b)%N by rewrite mem_iota addnS ltnS subnKC // ltnW.
have ex : exists i, least i.
  have [c1 c2] := largest_place (fun i => - E i) a (iota a (b - a).+1); set i := foldr _ _ _ in c1 c2.
  exists i; apply/andP; split.
    by move: c1; rewrite inE mem => /orP[/eqP->|//]; rewrite leqnn ltnW.
  by apply/allP => l lin; have := c2 l; rewrite inE lin orbT => /(_ isT); lra.
have [i /andP[iab /allP low] first] := ex_minnP ex.
have Ei : E i < 0 by have := low j; rewrite mem => /(_ jab); rewrite /E; lra.
have [ai ib] : (a < i)%N /\ (i < b)%N.
  case/andP: iab => ai ib; split; rewrite ltn_neqAle ?ai ?ib andbT; apply/eqP => e; move: Ei.
    by rewrite -e /E gap_left oppr0 ltxx.
  by rewrite e /E gap_right oppr0 ltxx.
have [|a' [b' [aa ai' ib' bb le]]] := below i; first by rewrite ai.
have bN' := leq_trans bb bN.
have a'b : (a' <= b)%N by rewrite ltnW // (ltn_trans ai').
have Ea : E i < E a'.
  rewrite ltNge; apply/negP => le'; have /first : least a'; last by rewrite leqNgt ai'.
  by rewrite /least aa a'b; apply/allP => l /low; exact: le_trans.
have Eb : E i <= E b' by apply: low; rewrite mem bb (leq_trans (ltnW ai) (ltnW ib')).
have p1 : 0 < (t b' - t i) * (E a' - E i) by rewrite mulr_gt0 ?subr_gt0 // t_lt.
have p2 : 0 <= (t i - t a') * (E b' - E i) by rewrite mulr_ge0 ?subr_ge0 // ltW // t_lt // (leq_trans (ltnW ib')).
have same : (t b' - t i) * (E a' - E i) + (t i - t a') * (E b' - E i) = (t b - t a) * gap h a' i b' by rewrite /E /gap; ring.
have pos : 0 < (t b - t a) * gap h a' i b' by rewrite -same; exact: ltr_paddr p2 p1.
have tab : 0 < t b - t a by rewrite subr_gt0 t_lt.
by move: pos; rewrite (pmulr_rgt0 _ tab) ltNge le.
Qed.

(* x is the level of the place i. *)
Definition chord_level h (x : R) i := [/\ 0 <= x <= 1,
  forall a b, (a < i)%N -> (i < b)%N -> (b <= N)%N -> x * gap g a i b <= gap h a i b
  & x = 1 \/ exists a b, [/\ (a < i)%N, (i < b)%N, (b <= N)%N & gap h a i b <= x * gap g a i b]].

Section Curve.
Variables (G c : nat -> R).
Hypotheses (above : forall i, (i <= N)%N -> g i <= G i) (G0 : G 0 = g 0) (GN : G N = g N).
Hypothesis leveled : forall i, (0 < i < N)%N -> chord_level G (c i) i.

Let touch i : (0 < i < N)%N -> exists a b, [/\ (a < i)%N, (i < b)%N, (b <= N)%N & gap G a i b <= c i * gap g a i b].
Proof.
move=> iN; have [_ _ [e|//]] := leveled iN; case/andP: iN => i0 iN; exists 0%N, N; split=> //.
rewrite e mul1r /gap G0 GN; have : 0 <= (t N - t 0) * (G i - g i).
  by rewrite mulr_ge0 // subr_ge0; [apply/ltW/t_lt => //; exact: ltn_trans iN | apply: above; exact: ltnW].
lra.
Qed.

(* At the largest level between a and b, and where a and b live, the chord from a to b is reached. *)
Lemma reached v a b : (a < b)%N -> (b <= N)%N -> (forall j, (a < j < b)%N -> c j <= v) ->
  (a = 0%N \/ v <= c a) -> (b = N \/ v <= c b) -> forall i, (a <= i <= b)%N -> gap G a i b <= v * gap g a i b.
Proof.
move=> ab bN small la lb i iab; rewrite -subr_le0 -gap_sub; move: i iab.
apply: no_valley => // i /andP[ai ib]; have iN := leq_trans ib bN.
have [|a' [b' [ai' ib' bN' le]]] := touch (i := i); first by rewrite iN andbT (leq_ltn_trans (leq0n a)).
pose H j := G j - v * g j.
have low : gap H a' i b' <= 0.
  rewrite gap_sub subr_le0; apply: le_trans le _; apply: ler_wpmul2r; last by rewrite small // ai ib.
  by rewrite g_gap // ltnW.
have lives j : (0 < j < N)%N -> v <= c j -> forall a'' b'', (a'' < j)%N -> (j < b'')%N -> (b'' <= N)%N -> 0 <= gap H a'' j b''.
  move=> jN vj a'' b'' aj jb bN''; rewrite gap_sub subr_ge0; have [_ h _] := leveled jN.
  by apply: le_trans (h _ _ aj jb bN''); apply: ler_wpmul2r vj; rewrite g_gap // ltnW.
have [a1 [aa1 ai1 low1]] : exists a1, [/\ (a <= a1)%N, (a1 < i)%N & gap H a1 i b' <= 0].
  have [aa|aa] := leqP a a'; first by exists a'.
  exists a; split=> //; apply: (shorter_left aa ai ib' bN' low); case: la => [e|la]; first by move: aa; rewrite e.
  by apply: lives => //; [rewrite (leq_ltn_trans _ aa) // (ltn_trans ai) | exact: ltnW].
have [bb|bb] := leqP b' b; first by exists a1, b'.
exists a1, b; split=> //; apply: (shorter_right ai1 ib bb bN' low1); case: lb => [e|lb]; first by move: bb; rewrite e ltnNge bN'.
by apply: lives => //; rewrite (leq_ltn_trans _ ib) // (leq_trans bb).
Qed.

Lemma cartesian_value fuel u a b : (b - a <= fuel)%N -> (a < b)%N -> (b <= N)%N -> (forall j, (a < j < b)%N -> c j <= u) ->
  (a = 0%N \/ u <= c a) -> (b = N \/ u <= c b) ->
  forall j, (a <= j <= b)%N -> u * gap (value (cartesian c fuel u a b) a b) a j b = gap G a j b.
Proof.
have inner x y j : (x < j < y)%N -> (y <= N)%N -> (0 < j < N)%N.
  by move=> /andP[aj jb] bN; rewrite (leq_ltn_trans _ aj) // (leq_trans jb).
elim: fuel u a b => [|fuel ih] u a b fab ab bN small la lb j jab; first by move: fab; rewrite leqNgt subn_gt0 ab.
have c01 i : (a < i < b)%N -> 0 <= c i <= u by move=> iab; have [/andP[-> _] _ _] := leveled (inner a b i iab bN); exact: small.
have [wf _ _] := cartesianP fab ab c01.
have [Va Vb] := @value_ends _ _ q k s y0 q_pos _ _ _ wf bN.
move: wf Va Vb; rewrite /=; case: leqP => b1.
  move=> _ _ _; case/andP: jab; rewrite leq_eqVlt => /orP[/eqP<-|aj]; first by rewrite !gap_left mulr0.
  rewrite leq_eqVlt => /orP[/eqP->|jb]; first by rewrite !gap_right mulr0.
  by move: (leq_trans jb b1); rewrite ltnS leqNgt aj.
set i := foldr _ _ _; have [i1 imax] := largest_place c a.+1 (iota a.+1 (b - a.+1)); rewrite -/i in i1 imax.
have mem l : (l \in a.+1 :: iota a.+1 (b - a.+1)) = (a < l < b)%N.
  by rewrite inE mem_iota subnKC //; case: eqP => [->|] //=; rewrite ltnSn b1.
rewrite mem in i1; have /andP[ai ib] := i1; have /andP[ci0 ciu] := c01 i i1.
have f1 : (i - a <= fuel)%N by rewrite leq_subLR -ltnS -addnS; move: fab; rewrite leq_subLR; exact: leq_trans.
have f2 : (b - i <= fuel)%N.
  by rewrite leq_subLR; move: fab; rewrite leq_subLR => /leq_trans -> //; rewrite addnS -addSn leq_add2r.
set v := c i in ciu ci0 *; set low := cartesian c fuel v a i; set high := cartesian c fuel v i b.
case=> _ _ _ wl wr Va Vb.
have la' : a = 0%N \/ v <= c a by case: la => [->|h]; [left | right; exact: le_trans h].
have lb' : b = N \/ v <= c b by case: lb => [->|h]; [left | right; exact: le_trans h].
have small' l : (a < l < b)%N -> c l <= v by move=> lab; rewrite imax ?mem.
have [l_a l_i] := @value_ends _ _ q k s y0 q_pos _ _ _ wl (leq_trans (ltnW ib) bN).
have [r_i r_b] := @value_ends _ _ q k s y0 q_pos _ _ _ wr bN.
have node : v * gap g a i b = gap G a i b.
  apply/eqP; rewrite eq_le (@reached v a b) // ?(ltnW ai) ?(ltnW ib) // andbT.
  by have [_ h _] := leveled (inner a b i i1 bN); exact: h.
have share : u * (v / u) = v.
  have [e|ne] := eqVneq u 0; last by rewrite mulrC divfK.
  by rewrite e mul0r; apply/eqP; rewrite eq_le ci0 -e ciu.
rewrite -/low -/high in Va Vb *.
pose sub := if (j <= i)%N then value low a i j else value high i b j.
have cE := chordE y0 q_pos g j ab bN.
pose V l := (1 - v / u) * chord (real R) q s g a b l + v / u * (if (l <= i)%N then value low a i l else value high i b l).
have VaE : V a = g a by exact: Va.
have VbE : V b = g b by exact: Vb.
have split_ : u * gap V a j b = v * ((t b - t j) * g a + (t j - t a) * g b - (t b - t a) * sub).
  rewrite /gap VaE VbE /V -/sub -[in RHS]share.
  have := congr1 (fun z => u * z) cE; have := congr1 (fun z => u * (v / u) * z) cE.
  by move=> /=; set x := v / u; clear; lra.
rewrite -[LHS]/(u * gap V a j b) split_.
case/andP: jab => aj jb; rewrite /sub; case: leqP => ji.
  have sm l : (a < l < i)%N -> c l <= v by move=> /andP[al li]; apply: small'; rewrite al (ltn_trans li).
  have := ih v a i f1 ai (leq_trans (ltnW ib) bN) sm la' (or_intror (lexx v)) j; rewrite aj ji => /(_ isT); rewrite -/low => h.
  have pos : t i - t a != 0 by rewrite subr_eq0 gt_eqF // t_lt // (leq_trans (ltnW ib)).
  apply: (mulfI pos); move: h node; rewrite /gap l_a l_i => h n.
  have := congr1 (fun z => (t b - t a) * z) h; have := congr1 (fun z => (t j - t a) * z) n => /= n' h'; clear h n; lra.
have sm l : (i < l < b)%N -> c l <= v by move=> /andP[il lb0]; apply: small'; rewrite lb0 (ltn_trans ai).
have := ih v i b f2 ib bN sm (or_intror (lexx v)) lb' j; rewrite jb (ltnW ji) => /(_ isT); rewrite -/high => h.
have pos : t b - t i != 0 by rewrite subr_eq0 gt_eqF // t_lt.
apply: (mulfI pos); move: h node; rewrite /gap r_i r_b => h n.
have := congr1 (fun z => (t b - t a) * z) h; have := congr1 (fun z => (t b - t j) * z) n => /= n' h'; clear h n; lra.
Qed.

Theorem chord_levels j : (0 < N)%N -> (j <= N)%N -> value (cartesian c N 1 0 N) 0 N j = G j.
Proof.
move=> N0 jN; have small i : (0 < i < N)%N -> c i <= 1 by move=> iN; have [/andP[]] := leveled iN.
have c01 i : (0 < i < N)%N -> 0 <= c i <= 1 by move=> iN; have [] := leveled iN.
have [wf _ _] := cartesianP (leq_subr 0 N) N0 c01.
have [Va Vb] := @value_ends _ _ q k s y0 q_pos _ _ _ wf (leqnn N).
have := cartesian_value (leq_subr 0 N) N0 (leqnn N) small (or_introl erefl) (or_introl erefl) (j := j).
rewrite jN mul1r /gap Va Vb G0 GN => /(_ isT) e.
have pos : t N - t 0 != 0 by rewrite subr_eq0 gt_eqF // t_lt.
by apply: (mulfI pos); lra.
Qed.
End Curve.

(* A convex curve has chord levels. *)
Theorem chord_levels_exist h i : convex q s h 0 N -> exists x, chord_level h x i.
Proof.
move=> cv; have pos (G : nat -> R) a b : convex q s G 0 N -> (a < i)%N -> (i < b)%N -> (b <= N)%N -> 0 <= gap G a i b.
  by move=> cG ai ib bN; have := cG a i b (leq0n a) (ltnW ai) (ltnW ib) bN; rewrite /gap; lra.
have gc := @g_convex _ _ q k s y0 q_pos 0 N (leqnn N).
pose ok (z : nat * nat) := [&& (z.1 < i)%N, (i < z.2)%N & (z.2 <= N)%N].
have [x [x01 le eq]] : exists x, [/\ 0 <= x <= 1,
    forall z, z \in [seq (a, b) | a <- iota 0 i, b <- iota 0 N.+1] -> ok z -> x * gap g z.1 i z.2 <= gap h z.1 i z.2
    & x = 1 \/ exists z, ok z /\ gap h z.1 i z.2 <= x * gap g z.1 i z.2].
  elim: [seq _ | _ <- _, _ <- _] => [|z l [x [/andP[x0 x1] le eq]]]; first by exists 1; split; rewrite ?lexx ?ler01 //; left.
  have [okz|noz] := boolP (ok z); last first.
    exists x; split=> // [|y]; first by rewrite x0.
    by rewrite inE => /orP[/eqP->|yl] oky; [move: noz; rewrite oky | exact: le].
  have [lez|gtz] := leP (x * gap g z.1 i z.2) (gap h z.1 i z.2).
    by exists x; split=> // [|y]; [rewrite x0 | rewrite inE => /orP[/eqP->|yl] oky //; exact: le].
  have /and3P[z1 z2 z3] := okz; have h0 := pos _ _ _ cv z1 z2 z3; have g0 := pos _ _ _ gc z1 z2 z3.
  have gp : 0 < gap g z.1 i z.2.
    by rewrite lt_def g0 andbT; apply/eqP => e; move: gtz; rewrite e mulr0 ltNge h0.
  pose x' := gap h z.1 i z.2 / gap g z.1 i z.2.
  have x'E : x' * gap g z.1 i z.2 = gap h z.1 i z.2 by rewrite /x' divfK // gt_eqF.
  have x'x : x' <= x by rewrite -(ler_pmul2r gp) x'E ltW.
  exists x'; split=> [|y|]; first by rewrite divr_ge0 //= (le_trans x'x).
    rewrite inE => /orP[/eqP->|yl] oky; first by rewrite x'E.
    have /and3P[y1 y2 y3] := oky; apply: le_trans (le y yl oky).
    by apply: ler_wpmul2r x'x; exact: pos.
  by right; exists z; rewrite x'E.
exists x; split=> // [a b ai ib bN|].
  apply: (le (a, b)); last by rewrite /ok /= ai ib bN.
  by apply/allpairsP; exists (a, b); rewrite !mem_iota /= !add0n ltnS ai bN.
by case: eq => [->|[z [/and3P[z1 z2 z3] e]]]; [left | right; exists z.1, z.2].
Qed.
End Chords.

Section Selected.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (k : nat) (s : seq T) (l : seq (nat * R)).
Hypotheses (q_law : law q) (k_pos : (0 < k)%N).
Local Notation N := (size s).
Local Notation g := (g_ (real R) q k s).
(* The level of place b in the list is cut l b.-1 b. *)
Definition leveled_for (G : nat -> R) := forall b, (0 < b < N)%N -> chord_level q k s G (cut (real R) l b.-1 b) b.

Theorem chord_levels_law G : uniq s -> (forall y, (y \in s) = (0 < q y)) ->
  (forall i, (i <= N)%N -> g i <= G i) -> G 0%N = g 0%N -> G N = g N -> leveled_for G ->
  levels_law q k s l =1 increment (real R) s G.
Proof.
move=> us sp above G0 GN lv y; rewrite /levels_law /increment; case: ifPn => // ys.
have q_pos z : z \in s -> 0 < q z by rewrite sp.
have iN : (index y s < N)%N by rewrite index_mem.
have N0 : (0 < N)%N by exact: leq_ltn_trans iN.
by rewrite /levels_value /tree_of !(chord_levels y q_pos above G0 GN lv) // ltnW.
Qed.

Hypotheses (p_law : law p) (s_order : order_of p q s).
Hypothesis l_le1 : forall z, z \in l -> z.2 <= 1.
Let m := optimal_law (real R) (index_enum T) p q k s.

Theorem chord_levels_optimal : leveled_for (G_ (real R) p q k s) -> let rule := optimal_with (real R) (index_enum T) p s l m in
  [/\ proper k (iid q) rule, lossless k (iid q) p rule
    & forall other, proper k (iid q) other -> lossless k (iid q) p other -> acceptance k (iid q) other <= acceptance k (iid q) rule].
Proof.
move=> lv; apply: any_levels_optimal => // y; have [us sp ordered] := s_order; have [y0 _] := a_token q_law.
have q_pos z : z \in s -> 0 < q z by rewrite sp.
have t_one : t_ (real R) q s N = 1 by exact: t_N.
have F_le1 : F_ (real R) p s N <= 1.
  rewrite FE take_size (big_uniq _ us) -(proj2 p_law) [leRHS](bigID (mem s)) /= ler_addl.
  by apply: sumr_ge0 => z _; exact: (proj1 p_law).
have [top top_le top_max] := largest_index (D_ (real R) p q k s) N.
rewrite (@chord_levels_law (G_ (real R) p q k s)) //; first by rewrite /m /optimal_law tableE.
- by move=> i iN; exact: G_above.
- by rewrite (G_zero k_pos top_le top_max) g0.
- by rewrite (G_one t_one top_le top_max) gN.
Qed.
End Selected.

Print Assumptions chord_levels.
Print Assumptions chord_levels_exist.
Print Assumptions chord_levels_law.
Print Assumptions chord_levels_optimal.
