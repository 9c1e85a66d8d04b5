(* The sweep finds the levels.

   Over places 0 = t_0 < .. < t_N = 1 let g <= G be convex, with the same ends. `swept` (sweep_rules.v) is what the library runs: every place
   begins with its kink of G, loses at the rate of the kink of g over its living neighbours, and dies when nothing is left. Its level is then.
   INVARIANT (shape, die_good). At lambda the living places are the corners of the lower hull of G - lambda g: what is dead lies above the chord
   of its living neighbours, and what is left at a living place is the bend of G - lambda g there. A death keeps that, and keeps the booking.
   THEOREM (swept_levels). So each level is a chord level (chord_levels.v), for every g and G; who lives to the end has the level 1.
   THEOREM (sweep_finds_levels). In particular for the envelope of p and q, any order by p/q and k >= 1 drafts.
   THEOREM (sweep_optimal). Selection by these levels is lossless, and no lossless rule accepts more. *)

From Draft Require Import head problem bound levels selected_law envelope optimal any_levels chord_levels sweep_rules.

Section Shape.
Variables (R : realFieldType) (t : nat -> R) (N : nat).
Hypothesis t_lt : forall i j, (i < j)%N -> (j <= N)%N -> t i < t j.
Implicit Types (h : nat -> R) (st : state R) (v w : R) (a b i j l x : nat).
Local Notation steep := (steep (real R) t).
Arguments sweep_rules.steep : simpl never.

Definition gap h a i b := (t b - t i) * h a + (t i - t a) * h b - (t b - t a) * h i.
Definition bent h a i b := steep h i b - steep h a i.

Lemma steepE h x y : (x < y)%N -> (y <= N)%N -> h y = h x + steep h x y * (t y - t x).
Proof. by move=> xy yN; rewrite /sweep_rules.steep /= divfK ?subr_eq0 ?gt_eqF ?t_lt //; lra. Qed.
Lemma steep_sub h h' v x y : steep (fun j => h j - v * h' j) x y = steep h x y - v * steep h' x y.
Proof. by rewrite /sweep_rules.steep /=; set d := (_ - _)^-1; ring. Qed.
Lemma t_mono i j : (i < j)%N -> (j <= N)%N -> 0 < t j - t i. Proof. by move=> ij jN; rewrite subr_gt0 t_lt. Qed.
Lemma gap_bent h a i b : (a < i)%N -> (i < b)%N -> (b <= N)%N -> gap h a i b = (t b - t i) * (t i - t a) * bent h a i b.
Proof.
move=> ai ib bN; have e1 := steepE h ib bN; have e2 := steepE h ai (ltnW (leq_trans ib bN)).
by rewrite /gap /bent e1 e2; ring.
Qed.

(* The curve h over the living places: what lies between two of them is above their chord, and at each of them the chords bend upwards. *)
Record shape h st : Prop := Shape {
  first_lives : alive st 0; last_lives : alive st N; none_beyond : forall x, alive st x -> (x <= N)%N;
  next : forall x, alive st x -> (x < N)%N -> [/\ (x < after st x)%N, (after st x <= N)%N, alive st (after st x), before st (after st x) = x
    & forall j, (x < j < after st x)%N -> ~~ alive st j /\ h x + steep h x (after st x) * (t j - t x) <= h j];
  previous : forall x, alive st x -> (0 < x)%N -> [/\ (before st x < x)%N, alive st (before st x) & after st (before st x) = x];
  upwards : forall x, alive st x -> (0 < x < N)%N -> steep h (before st x) x <= steep h x (after st x) }.

Lemma to_the_right h st : shape h st -> forall n x j, (j - x <= n)%N -> alive st x -> (x < N)%N -> (x <= j)%N -> (j <= N)%N ->
  h x + steep h x (after st x) * (t j - t x) <= h j.
Proof.
move=> sh; elim=> [|n ih] x j jx ax xN xj jN.
  have -> : j = x by apply/eqP; rewrite eqn_leq xj andbT -subn_eq0 -leqn0.
  by rewrite subrr mulr0 addr0.
have [xr rN ar br between] := next sh ax xN; set r := after st x in xr rN ar br between *.
have [jr|rj] := leqP j r.
  move: xj; rewrite leq_eqVlt => /orP[/eqP<-|xj]; first by rewrite subrr mulr0 addr0.
  move: jr; rewrite leq_eqVlt => /orP[/eqP->|jr]; first by rewrite -steepE.
  by have [] := between j; rewrite ?xj.
have rN' : (r < N)%N by exact: leq_trans jN.
have short : (j - r <= n)%N.
  by rewrite leq_subLR; move: jx; rewrite leq_subLR addnS -addSn => /leq_trans; apply; rewrite leq_add2r.
have far := ih r j short ar rN' (ltnW rj) jN.
have := upwards sh ar; rewrite br rN' (leq_ltn_trans (leq0n x) xr) => /(_ isT) up.
have e := steepE h xr rN; have p : 0 <= (steep h r (after st r) - steep h x r) * (t j - t r).
  by rewrite mulr_ge0 ?subr_ge0 // ltW // t_lt.
lra.
Qed.

Lemma to_the_left h st : shape h st -> forall n x j, (x - j <= n)%N -> alive st x -> (0 < x)%N -> (x <= N)%N -> (j <= x)%N ->
  h x + steep h (before st x) x * (t j - t x) <= h j.
Proof.
move=> sh; elim=> [|n ih] x j jx ax x0 xN xj.
  have -> : j = x by apply/eqP; rewrite eqn_leq xj -subn_eq0 -leqn0.
  by rewrite subrr mulr0 addr0.
have [lx al rl] := previous sh ax x0; set l := before st x in lx al rl *.
have lN : (l < N)%N by exact: leq_trans xN.
have [_ _ _ _] := next sh al lN; rewrite rl => between; have e := steepE h lx xN.
have [lj|jl] := leqP l j.
  move: xj; rewrite leq_eqVlt => /orP[/eqP->|xj]; first by rewrite subrr mulr0 addr0.
  move: lj; rewrite leq_eqVlt => /orP[/eqP<-|lj]; first by lra.
  by have [|_] := between j; rewrite ?lj //; lra.
have l0 : (0 < l)%N by exact: leq_ltn_trans jl.
have short : (l - j <= n)%N.
  by rewrite leq_subLR; move: jx; rewrite leq_subLR addnS => /(leq_trans lx).
have far := ih l j short al l0 (ltnW lN) (ltnW jl).
have := upwards sh al; rewrite rl lN l0 => /(_ isT) up.
have p : 0 <= (steep h l x - steep h (before st l) l) * (t l - t j).
  by rewrite mulr_ge0 ?subr_ge0 // ltW // t_lt // ltnW.
lra.
Qed.

Lemma on_the_hull h st i : shape h st -> alive st i -> (0 < i < N)%N ->
  forall a b, (a < i)%N -> (i < b)%N -> (b <= N)%N -> 0 <= gap h a i b.
Proof.
move=> sh ai /andP[i0 iN] a b ia ib bN.
have left := to_the_left sh (leqnn _) ai i0 (ltnW iN) (ltnW ia).
have right := to_the_right sh (leqnn _) ai iN (ltnW ib) bN.
have := upwards sh ai; rewrite i0 iN => /(_ isT) up.
have ta := t_mono ia (ltnW iN); have tb := t_mono ib bN.
rewrite -subr_ge0 in left; rewrite -subr_ge0 in right; rewrite -subr_ge0 in up.
have p1 := mulr_ge0 (ltW tb) left; have p2 := mulr_ge0 (ltW ta) right; have p3 := mulr_ge0 (mulr_ge0 (ltW ta) (ltW tb)) up.
rewrite /gap; lra.
Qed.

(* A living place at which h does not bend may go. *)
Section Unlink.
Variables (h : nat -> R) (st : state R) (i : nat).
Hypotheses (sh : shape h st) (ai : alive st i) (iN : (0 < i < N)%N).
Hypothesis straight : steep h (before st i) i = steep h i (after st i).
Local Notation st' := (unlink st i).
Local Notation a := (before st i).
Local Notation b := (after st i).
Let i0 : (0 < i)%N. Proof. by case/andP: iN. Qed.
Let iN' : (i < N)%N. Proof. by case/andP: iN. Qed.

Lemma neighbours : [/\ (a < i < b)%N, (b <= N)%N, alive st a, alive st b & after st a = i /\ before st b = i].
Proof.
have [ib bN ab bb _] := next sh ai iN'; have [la al ra] := previous sh ai i0.
by split=> //; rewrite la.
Qed.
Lemma steep_across : steep h a b = steep h a i.
Proof.
have [/andP[la ib] bN _ _ _] := neighbours.
have e1 := steepE h la (ltnW iN'); have e2 := steepE h ib bN; have pos := t_mono (ltn_trans la ib) bN.
have e3 := steepE h (ltn_trans la ib) bN.
rewrite -straight e1 in e2; apply: (mulIf (lt0r_neq0 pos)); apply: (addrI (h a)); rewrite -e3 e2; ring.
Qed.

Lemma unlinked_steep x : alive st' x -> (x < N)%N -> steep h x (after st' x) = steep h x (after st x).
Proof.
move=> _ xN; have [_ _ _ _ [ra _]] := neighbours; rewrite /= /put; case: eqP => // ->.
by rewrite ra; exact: steep_across.
Qed.
Lemma unlinked_before x : alive st' x -> (0 < x <= N)%N -> steep h (before st' x) x = steep h (before st x) x.
Proof.
move=> _ xN; have [/andP[la ib] bN _ _ [_ bb]] := neighbours; rewrite /= /put; case: eqP => // ->.
by rewrite bb; exact: etrans steep_across straight.
Qed.

Lemma unlink_shape : shape h st'.
Proof.
have [/andP[la ib] bN al ab [ra bb]] := neighbours.
have [first last beyond nx pv up] := sh; have ab' := ltn_trans la ib.
have alive' x : alive st' x -> alive st x /\ x != i by rewrite /= /put; case: eqP.
have lives x : alive st x -> x != i -> alive st' x by rewrite /= /put => ? /negbTE->.
have anot : a != i by rewrite ltn_eqF. have bnot : b != i by rewrite gtn_eqF.
split.
- by apply: lives => //; rewrite ltn_eqF.
- by apply: lives => //; rewrite gtn_eqF.
- by move=> x /alive'[/beyond].
- move=> x ax xN; have [ax0 xi] := alive' x ax; have [xr rN ar br between] := nx x ax0 xN.
  rewrite (unlinked_steep ax xN) (_ : after st' x = if x == a then b else after st x) //.
  case: (eqVneq x a) => [xa|xa]; last first.
    have ri : after st x != i by apply: contra xa => /eqP ri; rewrite -br ri.
    have rb : after st x != b by apply: contra xi => /eqP rb; rewrite -br rb bb.
    split=> // [||j jr]; first exact: lives.
      by rewrite /= /put (negbTE rb).
    by have [dead ?] := between j jr; split=> //; rewrite /= /put; case: eqP.
  rewrite xa ra in between *; split=> // [||j /andP[aj jb]]; first exact: lives.
    by rewrite /= /put eqxx.
  have [_ _ _ _ between'] := nx i ai iN'.
  have ei := steepE h la (ltnW iN').
  have [->|ij] := eqVneq j i; first by rewrite /= /put eqxx -ei.
  rewrite /= /put (negbTE ij); case: (ltngtP j i) ij => // ij _; first by apply: between; rewrite aj.
  have [|dead above] := between' j; first by rewrite ij.
  split=> //; apply: le_trans above; rewrite -straight.
  by rewrite [leRHS](_ : _ = h a + steep h a i * (t j - t a)) // ei; ring.
- move=> x ax x0; have [ax0 xi] := alive' x ax; have [lx al0 rl] := pv x ax0 x0.
  rewrite (_ : before st' x = if x == b then a else before st x) //; case: (eqVneq x b) => [xb|xb].
    by rewrite /= /put eqxx xb; split=> //; exact: lives.
  have li : before st x != i by apply: contra xb => /eqP li; rewrite -rl li.
  have la' : before st x != a by apply: contra xi => /eqP la'; rewrite -rl la' ra.
  by split=> //; [exact: lives | rewrite /= /put (negbTE la')].
- move=> x ax x0N; have [ax0 xi] := alive' x ax; case/andP: (x0N) => x0 xN.
  by rewrite unlinked_steep // unlinked_before ?x0 ?(ltnW xN) //; exact: up.
Qed.
End Unlink.
End Shape.

Section Moves.
Variables (R : realFieldType) (t g G kinks : nat -> R) (N : nat).
Hypothesis t_lt : forall i j, (i < j)%N -> (j <= N)%N -> t i < t j.
Hypothesis t_one : t N = 1.
Implicit Types (h : nat -> R) (st : state R) (v w : R) (a b i j l x : nat).
Local Notation steep := (steep (real R) t).
Local Notation loss := (loss (real R) t g).
Local Notation inner := (inner N).
Local Notation death := (death (real R)).
Local Notation due := (due (real R) N).
Local Notation die := (die (real R) t g N).
Local Notation run := (run (real R) t g N).
Local Notation gap := (gap t).
Definition convex_on h := forall i j l, (i <= j)%N -> (j <= l)%N -> (l <= N)%N ->
  (t l - t i) * h j <= (t l - t j) * h i + (t j - t i) * h l.
Hypotheses (g_convex : convex_on g) (G_convex : convex_on G).
Hypothesis kinks_of_G : forall i, inner i -> kinks i = steep G i i.+1 - steep G i.-1 i.

Definition left_of v : nat -> R := fun j => G j - v * g j.
Definition bends h st x := steep h x (after st x) - steep h (before st x) x.
Definition chordal (c : R) i := [/\ 0 <= c <= 1,
  forall a b, (a < i)%N -> (i < b)%N -> (b <= N)%N -> c * gap g a i b <= gap G a i b
  & c = 1 \/ exists a b, [/\ (a < i)%N, (i < b)%N, (b <= N)%N & gap G a i b <= c * gap g a i b]].

Lemma gap_convex h a i b : convex_on h -> (a <= i)%N -> (i <= b)%N -> (b <= N)%N -> 0 <= gap h a i b.
Proof. by move=> cv ai ib bN; rewrite /sweep.gap subr_ge0; exact: cv. Qed.
Lemma bent_convex h a i b : convex_on h -> (a < i)%N -> (i < b)%N -> (b <= N)%N -> steep h a i <= steep h i b.
Proof.
move=> cv ai ib bN; have := gap_convex cv (ltnW ai) (ltnW ib) bN; rewrite (gap_bent t_lt) // /bent.
by rewrite pmulr_rge0 ?subr_ge0 // mulr_gt0 // subr_gt0 t_lt // ltnW // (leq_trans ib).
Qed.
Lemma gap_left_of v a i b : gap (left_of v) a i b = gap G a i b - v * gap g a i b.
Proof. by rewrite /left_of /sweep.gap; ring. Qed.
Lemma bends_left_of v st x : bends (left_of v) st x = bends G st x - v * bends g st x.
Proof. by rewrite /bends !steep_sub; ring. Qed.

Lemma shape_ext h h' st : h =1 h' -> shape t N h st -> shape t N h' st.
Proof.
move=> e [first last beyond nx pv up]; have s x y : steep h' x y = steep h x y by rewrite /sweep_rules.steep !e.
split=> // x ax xN; last by rewrite !s; exact: up.
by have [? ? ? ? between] := nx x ax xN; split=> // j jr; rewrite s -!e; exact: between.
Qed.
Lemma shape_same h st st' : alive st' =1 alive st -> before st' =1 before st -> after st' =1 after st -> shape t N h st -> shape t N h st'.
Proof.
move=> ea eb ec [first last beyond nx pv up]; split=> [||x|x|x|x]; rewrite ?ea ?eb ?ec //; first exact: beyond.
- by move=> ax xN; have [? ? ? ? between] := nx x ax xN; split=> // j jr; rewrite ea; exact: between.
- exact: pv.
- exact: up.
Qed.

Lemma bends_ge0 v st x : shape t N (left_of v) st -> alive st x -> inner x -> v * bends g st x <= bends G st x /\ 0 <= bends g st x.
Proof.
move=> sh ax xN; have up := upwards sh ax xN; rewrite -subr_ge0 in up; split.
  by rewrite -subr_ge0 -bends_left_of; exact: up.
case/andP: xN => x0 xN; have [lx _ _] := previous sh ax x0; have [xr rN _ _ _] := next sh ax xN.
by rewrite subr_ge0; exact: bent_convex.
Qed.

Lemma wait v w st : shape t N (left_of v) st -> v <= w -> (forall x, alive st x -> inner x -> w * bends g st x <= bends G st x) ->
  shape t N (left_of w) st.
Proof.
move=> [first last beyond nx pv up] vw far; split=> // x ax xN; last first.
  by rewrite -subr_ge0 -/(bends (left_of w) st x) bends_left_of subr_ge0; exact: far.
have [xr rN ar br between] := nx x ax xN; split=> // j jr; have [dead low] := between j jr; split=> //.
case/andP: jr => xj jr; have pos := t_mono t_lt xr rN.
have chord : g j <= g x + steep g x (after st x) * (t j - t x).
  rewrite -(ler_pmul2l pos); apply: le_trans (g_convex (ltnW xj) (ltnW jr) rN) _.
  rewrite [X in _ + _ * X <= _](steepE t_lt g xr rN) le_eqVlt; apply/orP; left; apply/eqP; ring.
move: low; rewrite !steep_sub /left_of; rewrite -subr_ge0 in chord; rewrite -subr_ge0 in vw.
have := mulr_ge0 vw chord; move: (steep g x (after st x)) (steep G x (after st x)) => s1 s2; clear; lra.
Qed.

(* What is booked. *)
Record good v st : Prop := Good {
  hull : shape t N (left_of v) st; now01 : 0 <= v <= 1;
  rates : forall x, alive st x -> inner x -> rate st x = bends g st x;
  booked : forall x, alive st x -> inner x -> rest st x + rate st x * seen st x = bends G st x;
  past : forall x, alive st x -> inner x -> seen st x <= v;
  dead_level : forall x, inner x -> ~~ alive st x -> chordal (level st x) x }.

Lemma deathE v st x : good v st -> alive st x -> inner x -> 0 < rate st x -> death st x * rate st x = bends G st x /\ v <= death st x.
Proof.
move=> gd ax xN pos; have [far _] := bends_ge0 (hull gd) ax xN; have e := booked gd ax xN; have p := past gd ax xN.
rewrite -(rates gd ax xN) in far.
have r0 : 0 <= rest st x.
  have := ler_wpmul2r (ltW pos) p; rewrite -e in far; rewrite [seen st x * _]mulrC => p'.
  by move: far; rewrite -ler_subl_addr => /(le_trans _) -> //; rewrite subr_ge0.
have dE : death st x * rate st x = bends G st x.
  by rewrite /sweep_rules.death mostE max_l //= mulrDl divfK ?gt_eqF // addrC [seen st x * _]mulrC.
by split=> //; rewrite -(ler_pmul2r pos) dE.
Qed.

Lemma in_places i : (i \in places N) = inner i.
Proof. by rewrite mem_iota /sweep_rules.inner add1n; case: (N) => [|n] //; case: i. Qed.

Lemma dueP st : if due st is Some i then
    [/\ inner i, alive st i, 0 < rate st i & forall j, inner j -> alive st j -> 0 < rate st j -> death st i <= death st j]
  else forall j, inner j -> alive st j -> rate st j <= 0.
Proof.
rewrite /sweep_rules.due; set es := [seq i <- _ | _].
have mem j : (j \in es) = [&& alive st j, 0 < rate st j & inner j] by rewrite mem_filter in_places -ltNge andbA.
suff : if foldr (fun i other => if other is Some j then if death st i <= death st j then Some i else Some j else Some i) None es is Some i
    then i \in es /\ forall j, j \in es -> death st i <= death st j else es = [::].
  case: foldr => [i|e] => [[]|].
    rewrite mem => /and3P[ai pos iN] first; split=> // j jN aj pj; apply: first; by rewrite mem aj pj.
  by move=> j jN aj; rewrite leNgt; apply/negP => pj; have := mem j; rewrite e aj pj jN.
elim: es {mem} => [|x es] //=; case: foldr => [i [ies low]|->]; last first.
  by split=> [|j]; rewrite ?inE ?eqxx // => /eqP->.
case: leP => le; split=> [|j]; rewrite ?inE ?eqxx ?ies ?orbT //.
  by case/orP=> [/eqP->//|/low]; exact: le_trans.
by case/orP=> [/eqP->|/low //]; exact: ltW.
Qed.

Local Notation book := (book (real R) t g N).
Local Notation earn := (earn (real R) t g).
Lemma booking w j st x : inner x -> let near := x == j in
  [/\ rest (book w j st) x = if near then rest st x - rate st x * (w - seen st x) else rest st x,
      seen (book w j st) x = if near then w else seen st x
    & rate (book w j st) x = if near then loss st x else rate st x].
Proof.
move=> xN near; rewrite /sweep_rules.book; case: ifP => jN; rewrite /= /put -/near; last first.
  by rewrite /near; case: eqP => // e; move: jN; rewrite -e xN.
by rewrite /near; case: eqP => // ->.
Qed.

Section Die.
Variables (v : R) (st : state R) (i : nat).
Hypotheses (gd : good v st) (iN : inner i) (ai : alive st i) (pos : 0 < rate st i).
Hypothesis first : forall j, inner j -> alive st j -> 0 < rate st j -> death st i <= death st j.
Hypothesis soon : death st i < 1.
Let w := death st i.
Local Notation a := (before st i).
Local Notation b := (after st i).

Let vw : v <= w. Proof. by have [] := deathE gd ai iN pos. Qed.
Lemma waited : shape t N (left_of w) st.
Proof.
apply: wait (hull gd) vw _ => x ax xN; have [far g0] := bends_ge0 (hull gd) ax xN; have rE := rates gd ax xN.
have [e|ne] := eqVneq (bends g st x) 0; first by move: far; rewrite e !mulr0.
have px : 0 < rate st x by rewrite rE lt_def ne.
by have [<- _] := deathE gd ax xN px; rewrite -rE ler_pmul2r //; exact: first.
Qed.
Lemma straightened : steep (left_of w) a i = steep (left_of w) i b.
Proof.
apply/esym/eqP; rewrite -subr_eq0 -/(bends (left_of w) st i) bends_left_of -(rates gd ai iN).
by have [<- _] := deathE gd ai iN pos; rewrite subrr.
Qed.
Lemma chordal_now : chordal w i.
Proof.
have := now01 gd => /andP[v0 _]; have [ib bN _ _ _] := next waited ai (proj2 (andP iN)).
have [la _ _] := previous waited ai (proj1 (andP iN)).
split=> [|a' b' ia ib' bN'|]; first by rewrite (le_trans v0 vw) ltW.
  by rewrite -subr_ge0 -gap_left_of; exact: (on_the_hull t_lt waited).
right; exists a, b; split=> //; rewrite -subr_le0 -gap_left_of (gap_bent t_lt) // /bent straightened subrr mulr0.
by [].
Qed.

Let apart : a != b.
Proof. by have [/andP[la ib] _ _ _ _] := neighbours waited ai iN; rewrite ltn_eqF // (ltn_trans la). Qed.
Lemma die_places : [/\ alive (die st i) =1 alive (unlink st i), before (die st i) =1 before (unlink st i) & after (die st i) =1 after (unlink st i)].
Proof. by rewrite /sweep_rules.die /sweep_rules.book; case: ifP => _; case: ifP. Qed.
Lemma die_levels : level (die st i) =1 put (level st) i w.
Proof. by rewrite /sweep_rules.die /sweep_rules.book; case: ifP => _; case: ifP. Qed.
Lemma die_books x : inner x -> let near := (x == a) || (x == b) in
  [/\ rest (die st i) x = if near then rest st x - rate st x * (w - seen st x) else rest st x,
      seen (die st i) x = if near then w else seen st x
    & rate (die st i) x = if near then loss (unlink st i) x else rate st x].
Proof.
move=> xN near; have -> : die st i = book w b (book w a (unlink (earn w i b (earn w a i (leveled w i st))) i)) by [].
set u := unlink _ i; have lE : loss (unlink st i) x = loss u x by [].
have [<- <- <-] : [/\ rest u = rest st, seen u = seen st & rate u = rate st] by [].
rewrite lE {lE}; clearbody u; have ab := apart; rewrite /near {near}; move: (before st i) (after st i) ab => c d ab.
have [-> -> ->] := booking w d (book w c u) xN; have [-> -> ->] := booking w c u xN.
have -> : loss (book w c u) x = loss u x by rewrite /sweep_rules.book; case: ifP.
by have [->|xc] := eqVneq x c; rewrite /= ?(negbTE ab).
Qed.

Lemma die_good : good w (die st i).
Proof.
have [ea eb ec] := die_places; have sh := waited; have st0 := straightened.
have [_ _ _ _ [ra bb]] := neighbours sh ai iN.
have old x : alive (die st i) x -> alive st x /\ x != i by rewrite ea /= /put; case: eqP.
have bE h x : bends h (die st i) x = bends h (unlink st i) x by rewrite /bends eb ec.
have same x : alive (die st i) x -> inner x -> bends (left_of w) (unlink st i) x = bends (left_of w) st x.
  move=> ax xN; have ax' : alive (unlink st i) x by rewrite -ea.
  case/andP: xN => x0 xN; rewrite /bends (unlinked_steep t_lt sh ai iN st0 ax' xN).
  by rewrite (unlinked_before t_lt sh ai iN st0 ax') // x0 ltnW.
split.
- by apply: (shape_same ea eb ec); exact: (unlink_shape t_lt).
- by case: chordal_now.
- move=> x ax xN; have [_ _ ->] := die_books xN; have [axo _] := old x ax; rewrite bE.
  case: ifP => [_|/negbT]; first by [].
  by rewrite negb_or => /andP[/negbTE xa /negbTE xb]; rewrite (rates gd axo xN) /bends /= /put xa xb.
- move=> x ax xN; have [-> -> ->] := die_books xN; have [axo _] := old x ax; rewrite bE.
  have e := booked gd axo xN; have r := rates gd axo xN.
  case: ifP => [_|/negbT]; last first.
    by rewrite negb_or => /andP[/negbTE xa /negbTE xb]; rewrite e /bends /= /put xa xb.
  have := same x ax xN; rewrite !bends_left_of -e -r => s; rewrite -[loss _ _]/(bends g (unlink st i) x).
  move: s; set u1 := bends G _ _; set u2 := bends g _ _; clear; lra.
- move=> x ax xN; have [_ -> _] := die_books xN; have [axo _] := old x ax.
  by case: ifP => _; [exact: lexx | apply: le_trans vw; exact: past].
- move=> x xN; rewrite ea die_levels /= /put; have [->|xi] := eqVneq x i => dead; first exact: chordal_now.
  by apply: (dead_level gd).
Qed.

Lemma fewer : (count (alive (die st i)) (places N) < count (alive st) (places N))%N.
Proof.
have [ea _ _] := die_places; rewrite (eq_count ea); have := iN; rewrite -in_places.
elim: (places N) => [|x s ih] //=; rewrite inE => /orP[/eqP<-|/ih lt].
  by rewrite {1}/put eqxx ai add0n add1n ltnS; apply: sub_count => y; rewrite /= /put; case: eqP.
by rewrite {1}/put; case: eqP => [->|_]; [rewrite ai ltnS ltnW | rewrite ltn_add2l].
Qed.
End Die.

Lemma runP fuel v st : good v st -> (count (alive st) (places N) <= fuel)%N ->
  exists v', good v' (run fuel st) /\ forall j, alive (run fuel st) j -> inner j -> bends g (run fuel st) j <= bends G (run fuel st) j.
Proof.
elim: fuel v st => [|fuel ih] v st gd few.
  exists v; split=> // j aj jN; move: few; rewrite leqn0 => /eqP; rewrite -size_filter => /size0nil none.
  by have := mem_filter (alive st) j (places N); rewrite none in_places jN andbT => /esym; rewrite -[alive st j]/(alive (run 0 st) j) aj.
have slow j : alive st j -> inner j -> rate st j <= 0 -> bends g st j <= bends G st j.
  move=> aj jN r0; have [far g0] := bends_ge0 (hull gd) aj jN; rewrite (rates gd aj jN) in r0.
  by have e : bends g st j = 0 by [apply/eqP; rewrite eq_le r0]; rewrite e mulr0 in far *.
rewrite /=; have := dueP st; case: (due st) => [i [iN ai pos first]|none]; last first.
  by exists v; split=> // j aj jN; apply: slow => //; exact: none.
rewrite t_one; case: leP => [late|soon]; last first.
  apply: (ih (death st i)); first exact: (die_good gd).
  by rewrite -ltnS; apply: leq_trans few; exact: fewer.
exists v; split=> // j aj jN; have [r0|pj] := leP (rate st j) 0; first exact: slow.
have [<- _] := deathE gd aj jN pj; rewrite -(rates gd aj jN).
by apply: ler_pemull; [exact: ltW | apply: le_trans late _; exact: first].
Qed.

(* The beginning. *)
Local Notation begun := (begun (real R) kinks N).
Local Notation started := (started (real R) t g kinks N).
Record ready st (l : seq nat) : Prop := Ready {
  hull0 : shape t N G st; rest0 : forall x, alive st x -> inner x -> rest st x = bends G st x;
  seen0 : forall x, seen st x = 0; level0 : forall x, level st x = 0; waiting : forall x, x \in l -> alive st x;
  dead0 : forall x, inner x -> ~~ alive st x -> chordal 0 x }.

Lemma begun_ready : (0 < N)%N -> ready begun (places N).
Proof.
move=> N0; split=> //= [|x xN|x|x xN].
- split=> //= [x _ xN|x xN x0|x xN /andP[x0 xN']].
  + by rewrite ltnSn; split=> // j /andP[xj jx]; move: (leq_trans jx xj); rewrite ltnn.
  + by rewrite prednK ?leqnn ?(leq_trans (leq_pred x)).
  by apply: bent_convex => //; rewrite ?prednK ?ltnSn.
- by move=> xi; rewrite kinks_of_G.
- by rewrite in_places => /andP[_ /ltnW].
by case/andP: xN => _ /ltnW ->.
Qed.

Lemma ready_all (l : seq nat) st : uniq l -> all inner l -> ready st l ->
  ready (foldl (fun st i => if rest st i <= 0 then unlink st i else st) st l) [::].
Proof.
elim: l st => [|i l ih] st //= /andP[il ul] /andP[iN al] [sh re se le wt de]; apply: ih => //.
have ai : alive st i by apply: wt; rewrite inE eqxx.
case: leP => r0; last by split=> // x xl; apply: wt; rewrite inE xl orbT.
have [i0 iN'] := andP iN; have [la _ _] := previous sh ai i0; have [ib bN _ _ _] := next sh ai iN'.
have up := upwards sh ai iN; have straight : steep G (before st i) i = steep G i (after st i).
  by apply/eqP; rewrite eq_le up -subr_le0 -/(bends G st i) -re.
have old x : alive (unlink st i) x -> alive st x /\ x != i by rewrite /= /put; case: eqP.
split=> // [|x ax xN|x xl|x xN].
- exact: (unlink_shape t_lt).
- have [x0 xN'] := andP xN; have [axo _] := old x ax.
  have x0N : (0 < x <= N)%N by rewrite x0 ltnW.
  have e1 := unlinked_steep t_lt sh ai iN straight ax xN'; have e2 := unlinked_before t_lt sh ai iN straight ax x0N.
  by rewrite /bends e1 e2; exact: (re x axo xN).
- rewrite /= /put; case: eqP => [e|_]; first by rewrite -e xl in il.
  by apply: wt; rewrite inE xl orbT.
rewrite /= /put; have [-> _|_] := eqVneq x i; last exact: de.
split=> [|a b ai' ib' bN'|]; first by rewrite lexx ler01.
  by rewrite mul0r; apply: gap_convex => //; exact: ltnW.
right; exists (before st i), (after st i); split=> //.
by rewrite mul0r (gap_bent t_lt) // /bent straight subrr mulr0.
Qed.

Lemma started_good : (0 < N)%N -> good 0 started.
Proof.
move=> N0; have inners : all inner (places N) by apply/allP => x; rewrite in_places.
have := ready_all (iota_uniq _ _) inners (begun_ready N0); rewrite /sweep_rules.started; set st := foldl _ _ _.
rewrite -/st; case=> sh re se le _ de; split=> //= [||x ax xN|x ax xN|x xN ax].
- apply: shape_ext (shape_same _ _ _ sh) => // x; rewrite /left_of; lra.
- by rewrite lexx ler01.
- by rewrite se mulr0 addr0 re.
- by rewrite se.
by rewrite le; exact: de.
Qed.

(* The end. *)
Local Notation swept := (swept (real R) t g kinks N).
Lemma closing st (l : seq nat) i : level (foldl (close (real R) t g N) st l) i = if (i \in l) && inner i then t N else level st i.
Proof.
elim: l st => [|x l ih] st //=; rewrite ih inE; have [[il|il] [iN|iN]] := (boolP (i \in l), boolP (inner i)).
- by rewrite orbT.
- by rewrite !andbF /close; case: ifP => //= xN; rewrite /put; case: eqP => // e; move: iN; rewrite e xN.
- rewrite /close orbF andbT /=; have [<-|ix] := eqVneq i x; first by rewrite iN /= /put eqxx.
  by case: ifP => _; rewrite /= /put ?(negbTE ix).
by rewrite !andbF /close; case: ifP => //= xN; rewrite /put; case: eqP => // e; move: iN; rewrite e xN.
Qed.

Theorem swept_levels i : inner i -> chordal (level swept i) i.
Proof.
move=> iN; have N0 : (0 < N)%N by case/andP: iN => i0 /(ltn_trans i0).
have few : (count (alive started) (places N) <= N)%N.
  by apply: leq_trans (count_size _ _) _; rewrite size_iota leq_pred.
have [v [gd slow]] := runP (started_good N0) few; rewrite /sweep_rules.swept; set st := run N started in gd slow *.
rewrite -/st closing iN andbT mem_filter mem_iota; have /andP[i0 iN'] := iN; rewrite iN' /= andbT.
have [ai|dead] := boolP (alive st i); last exact: (dead_level gd).
have /andP[v0 v1] := now01 gd.
have sh : shape t N (left_of 1) st by apply: (wait (hull gd) v1) => x ax xN; rewrite mul1r; exact: slow.
rewrite t_one; split=> [|a b ia ib bN|]; last by left.
  by rewrite ler01 lexx.
by rewrite -subr_ge0 -gap_left_of; exact: (on_the_hull t_lt sh).
Qed.
End Moves.

(* Optimal selection by the levels that the sweep finds. *)
Section Optimal.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (k : nat) (s : seq T).
Hypotheses (p_law : law p) (q_law : law q) (k_pos : (0 < k)%N) (s_order : order_of p q s).
Local Notation N := (size s).
Local Notation t := (t_ (real R) q s).
Local Notation g := (g_ (real R) q k s).
Local Notation G := (G_ (real R) p q k s).
Let l := sweep_levels (real R) p q k s.

Theorem sweep_finds_levels i : (0 < i < N)%N -> chord_level q k s G (level (sweep (real R) p q k s) i) i.
Proof.
have [us sp ordered] := s_order; have [y0 _] := a_token q_law => iN.
have q_pos z : z \in s -> 0 < q z by rewrite sp.
have t_one : t N = 1 by exact: t_N.
have F_le1 : F_ (real R) p s N <= 1.
  rewrite FE take_size (big_uniq _ us) -(proj2 p_law) [leRHS](bigID (mem s)) /= ler_addl.
  by apply: sumr_ge0 => z _; exact: (proj1 p_law).
have [top top_le top_max] := largest_index (D_ (real R) p q k s) N.
have p_ge0 := proj1 p_law.
have cv (h : nat -> R) : convex q s h 0 N -> convex_on t N h by move=> c x y z; exact: c.
apply: (@swept_levels R t g G (envelope_kink (real R) p q k s) N) => //.
- by move=> x y xy yN; exact: (t_lt y0 q_pos).
- by apply: cv; exact: (g_convex k y0 q_pos).
- by apply: cv; exact: (G_convex q_pos (ordered y0) t_one F_le1 top_le top_max).
Qed.

Let found b : (0 < b < N)%N -> cut (real R) l b.-1 b = level (sweep (real R) p q k s) b.
Proof.
move=> bN; have [/andP[c0 _] _ _] := sweep_finds_levels bN; have b0 := proj1 (andP bN).
apply/eqP; rewrite eq_le; apply/andP; split.
  apply: cut_at_most => // z /mapP[x _ ->] /= /andP[bx xb].
  by have -> : x = b by apply/eqP; rewrite eqn_leq xb /= -(prednK b0).
apply: (@cut_in R (b, level (sweep (real R) p q k s) b)); last by rewrite /= prednK ?leqnn.
by apply/mapP; exists b => //; rewrite in_places.
Qed.

Theorem sweep_optimal : let rule := optimal_with (real R) (index_enum T) p s l (optimal_law (real R) (index_enum T) p q k s) in
  [/\ proper k (iid q) rule, lossless k (iid q) p rule
    & forall other, proper k (iid q) other -> lossless k (iid q) p other -> acceptance k (iid q) other <= acceptance k (iid q) rule].
Proof.
apply: chord_levels_optimal => // [z /mapP[b bs ->]|b bN].
  by rewrite in_places in bs; have [/andP[]] := sweep_finds_levels bs.
by rewrite found //; exact: sweep_finds_levels.
Qed.
End Optimal.

Print Assumptions swept_levels.
Print Assumptions sweep_finds_levels.
Print Assumptions sweep_optimal.
