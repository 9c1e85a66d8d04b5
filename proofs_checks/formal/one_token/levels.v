(* Levels: every convex curve above t^k with its ends is a mixture of the curves that are straight between breakpoints.

   t_i and F_i are the prefix sums of q and p along the order s, g_i = t_i^k, 0 <= i <= N. A *tree* over the interval [a, b]
   is a leaf, or a breakpoint c with a level in [0, 1] and a tree on either side. Its *value* is, at a leaf, the chord of g
   from a to b; at a node, the mixture of that chord, with weight 1 - level, and of the values of its two trees, with weight
   level. Read with one lambda for all nodes: the product of the levels from the root to b is c_b, and the value is the
   integral over lambda of g_B(lambda), B(lambda) = {b : c_b > lambda}.
   THEOREM (levels_exist). If h is convex in t on [a, b], h >= g there and h = g at both ends, then h is the value of a tree,
   the one that `build` computes: cut where (chord - h) / (chord - g) is largest, that largest value is the level, and h,
   stretched away from the chord until it touches g there, is taken apart on both sides in the same way. *)

From Draft Require Import head problem bound.

(* i <= j <= l: the chord of the k-th power lies above it. *)
Lemma power_convex (R : realFieldType) (a i b : R) k : 0 <= a -> a <= i -> i <= b ->
  (b - a) * i ^+ k <= (b - i) * a ^+ k + (i - a) * b ^+ k.
Proof.
move=> a0 ai ib; elim: k => [|k ih]; first by rewrite !expr0; lra.
have i0 : 0 <= i by lra.
have pw : a ^+ k <= b ^+ k by rewrite ler_expn2r // ?nnegrE; lra.
rewrite !exprS; have := ler_wpmul2l i0 ih.
have : 0 <= (b - i) * (i - a) * (b ^+ k - a ^+ k) by rewrite !mulr_ge0 ?subr_ge0.
lra.
Qed.

Section Levels.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (k : nat) (s : seq T) (y0 : T).
Hypotheses (q_pos : forall y, y \in s -> 0 < q y) (s_uniq : uniq s).

Local Notation N := (size s).
Local Notation t := (t_ (real R) q s).
Local Notation g := (g_ (real R) q k s).
Local Notation chord := (chord (real R) q s).
Local Notation drop := (drop_ (real R) q k s).
Local Notation build := (build (real R) q k s).

Lemma tE i : t i = \sum_(y <- take i s) q y. Proof. exact: sumE. Qed.
Lemma gE i : g i = t i ^+ k. Proof. exact: powE. Qed.
Lemma t0 : t 0 = 0. Proof. by rewrite tE take0 big_nil. Qed.
Lemma tS i : (i < N)%N -> t i.+1 = t i + q (nth y0 s i).
Proof. by move=> iN; rewrite !tE (take_nth y0) // -cats1 big_cat big_seq1. Qed.
Lemma t_lt i j : (i < j)%N -> (j <= N)%N -> t i < t j.
Proof.
elim: j => [//|j ih]; rewrite ltnS leq_eqVlt => /orP[/eqP->|ij] jN.
  by rewrite tS // ltr_addl q_pos // mem_nth.
by apply: lt_trans (ih ij (ltnW jN)) _; rewrite tS // ltr_addl q_pos // mem_nth.
Qed.
Lemma t_le i j : (i <= j)%N -> (j <= N)%N -> t i <= t j.
Proof. by rewrite leq_eqVlt => /orP[/eqP->|ij] jN //; exact/ltW/t_lt. Qed.
Lemma t_ge0 i : (i <= N)%N -> 0 <= t i. Proof. by move=> iN; rewrite -t0 t_le. Qed.

(* h is convex in t on [a, b]. *)
Definition convex (h : nat -> R) a b := forall i j l, (a <= i)%N -> (i <= j)%N -> (j <= l)%N -> (l <= b)%N ->
  (t l - t i) * h j <= (t l - t j) * h i + (t j - t i) * h l.

Lemma g_convex a b : (b <= N)%N -> convex g a b.
Proof.
move=> bN i j l ai ij jl lb; rewrite !gE; apply: power_convex; rewrite ?t_ge0 ?t_le //.
- by rewrite (leq_trans ij) // (leq_trans jl) // (leq_trans lb).
- by rewrite (leq_trans jl) // (leq_trans lb).
- by rewrite (leq_trans lb).
Qed.

Lemma chord_left h a b : chord h a b a = h a.
Proof. by rewrite /chord /= subrr mul0r mulr0 addr0. Qed.
Lemma chord_right h a b : (a < b)%N -> (b <= N)%N -> chord h a b b = h b.
Proof. by move=> ab bN; rewrite /chord /= divff ?mulr1 ?[h a + _]addrC ?subrK // subr_eq0 gt_eqF // t_lt. Qed.
Lemma chordE h a b i : (a < b)%N -> (b <= N)%N ->
  (t b - t a) * chord h a b i = (t b - t i) * h a + (t i - t a) * h b.
Proof.
move=> ab bN; have ne : t b - t a != 0 by rewrite subr_eq0 gt_eqF // t_lt.
rewrite /chord /= mulrDr [X in _ + X](_ : _ = (h b - h a) * (t i - t a)); first lra.
by rewrite mulrCA [(t b - t a) * _]mulrCA divff // mulr1.
Qed.
Lemma convex_chord h a b i : convex h a b -> (a < b)%N -> (b <= N)%N -> (a <= i <= b)%N -> h i <= chord h a b i.
Proof.
move=> c ab bN /andP[ai ib]; have pos : 0 < t b - t a by rewrite subr_gt0 t_lt.
by rewrite -(ler_pmul2l pos) chordE //; apply: c.
Qed.
Lemma chord_same h h' a b i : h a = h' a -> h b = h' b -> chord h a b i = chord h' a b i.
Proof. by rewrite /chord => -> ->. Qed.

Fixpoint value (w : tree R) a b i : R :=
  if w is Node level c low high then
    (1 - level) * chord g a b i + level * (if (i <= c)%N then value low a c i else value high c b i)
  else chord g a b i.
Fixpoint well_formed (w : tree R) a b : Prop :=
  if w is Node level c low high then
    [/\ 0 <= level <= 1, (a < c)%N, (c < b)%N, well_formed low a c & well_formed high c b]
  else (a < b)%N.

Lemma well_formed_lt w a b : well_formed w a b -> (a < b)%N.
Proof. by case: w => [|level c low high] //= [_ ac cb _ _]; exact: ltn_trans cb. Qed.
Lemma value_ends w a b : well_formed w a b -> (b <= N)%N -> value w a b a = g a /\ value w a b b = g b.
Proof.
elim: w a b => [|level c low ihl high ihr] a b /= wf bN.
  by rewrite chord_left chord_right.
case: wf => _ ac cb wl wr.
have [l1 _] := ihl _ _ wl (leq_trans (ltnW cb) bN); have [_ r2] := ihr _ _ wr bN.
rewrite chord_left (chord_right _ (ltn_trans ac cb) bN) (ltnW ac) leqNgt cb /= l1 r2.
by split; lra.
Qed.

(* The place of a largest value. *)
Lemma largest_place (f : nat -> R) x l (c := foldr (fun i c => if f c <= f i then i else c) x l) :
  c \in x :: l /\ forall i, i \in x :: l -> f i <= f c.
Proof.
rewrite {}/c; elim: l => [|i l [ih1 ih2]] /=; first by rewrite inE eqxx; split=> // i; rewrite inE => /eqP->.
set c := foldr _ _ _ in ih1 ih2 *; case: (leP (f c) (f i)) => fc; split.
- by rewrite !inE eqxx orbT.
- move=> j; rewrite !inE orbCA => /orP[/eqP->|] //; rewrite -in_cons => /ih2 h; exact: le_trans fc.
- by move: ih1; rewrite !inE orbCA => ->; rewrite orbT.
- move=> j; rewrite !inE orbCA => /orP[/eqP->|]; [exact: ltW | by rewrite -in_cons; exact: ih2].
Qed.

Theorem levels_exist fuel a b h : (b - a <= fuel)%N -> (a < b)%N -> (b <= N)%N -> convex h a b ->
  (forall i, (a <= i <= b)%N -> g i <= h i) -> h a = g a -> h b = g b ->
  well_formed (build fuel a b h) a b /\ forall i, (a <= i <= b)%N -> value (build fuel a b h) a b i = h i.
Proof.
elim: fuel a b h => [|fuel ih] a b h fab ab bN cv above ea eb.
  by move: fab; rewrite leqNgt subn_gt0 ab.
have same i : chord h a b i = chord g a b i by exact: chord_same.
have straight : (forall i, (a < i < b)%N -> chord g a b i = h i) ->
    forall i, (a <= i <= b)%N -> chord g a b i = h i.
  move=> st i /andP[]; rewrite leq_eqVlt => /orP[/eqP<-|ai]; first by rewrite chord_left.
  rewrite leq_eqVlt => /orP[/eqP->|ib]; first by rewrite chord_right.
  by apply: st; rewrite ai ib.
have lh i : (a <= i <= b)%N -> 0 <= chord g a b i - h i.
  by move=> iab; rewrite subr_ge0 -same; exact: convex_chord.
have gh i : (a <= i <= b)%N -> chord g a b i - h i <= chord g a b i - g i.
  by move=> iab; have := above _ iab; lra.
rewrite /= -/(drop h a b).
set c := foldr _ _ _.
have both : (a.+1 < b)%N -> (a < c < b)%N /\ forall i, (a < i < b)%N -> drop h a b i <= drop h a b c.
  move=> a1b; have [c1 c2] := largest_place (drop h a b) a.+1 (iota a.+1 (b - a.+1)).
  have mem i : (i \in a.+1 :: iota a.+1 (b - a.+1)) = (a < i < b)%N.
    rewrite inE mem_iota subnKC //; case: eqP => [->|] //=.
    by rewrite ltnSn a1b.
  by split; [rewrite -mem | move=> i iab; apply: c2; rewrite mem].
have [b1|b1] := leqP b a.+1 => /=.
  by split=> //; apply: straight => i /andP[ai ib]; move: (leq_trans ib b1); rewrite ltnS leqNgt ai.
have [/andP[ac cb] cmax] := both b1; have cab : (a <= c <= b)%N by rewrite (ltnW ac) (ltnW cb).
have [d0|d0] := leP (drop h a b c) 0.
  split=> //; apply: straight => i iab; have iab' : (a <= i <= b)%N by case/andP: iab => /ltnW -> /ltnW ->.
  have := cmax i iab; have := lh _ iab'; have := gh _ iab'; rewrite /drop_ /= same => g1 g2 le.
  have [e|ne] := eqVneq (chord g a b i - g i) 0; first lra.
  have pos : 0 < chord g a b i - g i by rewrite lt_def ne (le_trans g2).
  by have := le_trans le d0; rewrite pmulr_lle0 ?invr_gt0 // => ?; lra.
set level := drop h a b c in d0 *.
have dropE i : drop h a b i = (chord g a b i - h i) / (chord g a b i - g i) by rewrite /drop_ /= same.
have pos_c : 0 < chord g a b c - g c.
  rewrite lt_def (le_trans (lh c cab) (gh c cab)) andbT; apply/eqP => e.
  by move: d0; rewrite /level dropE e invr0 mulr0 ltxx.
have level_c : chord g a b c - h c = level * (chord g a b c - g c) by rewrite /level dropE divfK // gt_eqF.
have level1 : level <= 1 by have := gh c cab; rewrite level_c ger_pmull.
have stretch i : (a <= i <= b)%N -> chord g a b i - h i <= level * (chord g a b i - g i).
  move=> iab; have [e|ne] := eqVneq (chord g a b i - g i) 0; first by rewrite e mulr0; have := gh i iab; lra.
  have pos : 0 < chord g a b i - g i by rewrite lt_def ne (le_trans (lh i iab) (gh i iab)).
  have inside : (a < i < b)%N.
    case/andP: iab; rewrite leq_eqVlt => /orP[/eqP e|->]; first by move: pos; rewrite -e chord_left subrr ltxx.
    by rewrite leq_eqVlt => /orP[/eqP e|->] //; move: pos; rewrite e chord_right // subrr ltxx.
  by have := cmax i inside; rewrite -/level dropE ler_pdivr_mulr.
pose rest i := chord h a b i - (chord h a b i - h i) / level.
have rE i : rest i = chord g a b i - (chord g a b i - h i) / level by rewrite /rest same.
have level_ne : level != 0 by rewrite gt_eqF.
have rest_above i : (a <= i <= b)%N -> g i <= rest i.
  by move=> iab; have := stretch i iab; rewrite rE mulrC -ler_pdivr_mulr // => ?; lra.
have rest_a : rest a = g a by rewrite rE chord_left ea subrr mul0r subr0.
have rest_b : rest b = g b by rewrite rE chord_right // eb subrr mul0r subr0.
have rest_c : rest c = g c by rewrite rE level_c mulrAC divff // mul1r; lra.
have inv1 : 0 <= level^-1 by rewrite invr_ge0 ltW.
have rest_convex : convex rest a b.
  move=> i j l ai ij jl lb; have pos : 0 < t b - t a by rewrite subr_gt0 t_lt.
  rewrite !rE.
  have lin : (t l - t i) * chord g a b j = (t l - t j) * chord g a b i + (t j - t i) * chord g a b l.
    apply: (mulfI (lt0r_neq0 pos)); have := congr1 (fun z => (t l - t i) * z) (chordE g j ab bN).
    have := congr1 (fun z => (t l - t j) * z) (chordE g i ab bN).
    have := congr1 (fun z => (t j - t i) * z) (chordE g l ab bN) => /=; lra.
  have := ler_wpmul2l inv1 (cv i j l ai ij jl lb).
  set u := level^-1; have := congr1 (fun z => u * z) lin => /=; lra.
have sub a' b' : (a <= a')%N -> (b' <= b)%N -> convex rest a' b'.
  by move=> aa bb i j l ai ij jl lb; apply: rest_convex => //; [exact: leq_trans ai | exact: leq_trans bb].
have f1 : (c - a <= fuel)%N.
  by rewrite leq_subLR -ltnS -addnS; move: fab; rewrite leq_subLR; exact: leq_trans.
have f2 : (b - c <= fuel)%N.
  by rewrite leq_subLR; move: fab; rewrite leq_subLR => /leq_trans -> //; rewrite addnS -addSn leq_add2r.
have above1 i : (a <= i <= c)%N -> g i <= rest i.
  by move=> /andP[ai ic]; apply: rest_above; rewrite ai (leq_trans ic) // ltnW.
have above2 i : (c <= i <= b)%N -> g i <= rest i.
  by move=> /andP[ci ib]; apply: rest_above; rewrite ib andbT (leq_trans (ltnW ac)).
have [wl vl] := ih a c rest f1 ac (leq_trans (ltnW cb) bN) (sub a c (leqnn _) (ltnW cb)) above1 rest_a rest_c.
have [wr vr] := ih c b rest f2 cb bN (sub c b (ltnW ac) (leqnn _)) above2 rest_c rest_b.
split=> [|i iab].
  by split=> //; rewrite level1 ltW.
have v : (if (i <= c)%N then value (build fuel a c rest) a c i else value (build fuel c b rest) c b i) = rest i.
  case/andP: iab => ai ib; case: leqP => ic; first by rewrite vl // ai ic.
  by rewrite vr // ib (ltnW ic).
have done : (1 - level) * chord g a b i
    + level * (if (i <= c)%N then value (build fuel a c rest) a c i else value (build fuel c b rest) c b i) = h i.
  by rewrite v rE mulrBr [level * (_ / _)]mulrC divfK //; lra.
exact: done.
Qed.

End Levels.

Print Assumptions levels_exist.
