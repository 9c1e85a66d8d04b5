(* The law of a draft selected by levels, for i.i.d. drafts.

   THEOREM (selected_law). Let s be an order of the tokens with q > 0, and w a tree over [0, N]. For k i.i.d. drafts from q
   descending the tree selects the i-th token with probability v_(i+1) - v_i, where v is the value of the tree (levels.v).
   By falls_descend (selected.v) that is the law of the draft selected by the levels of the tree. *)

From Draft Require Import head problem bound levels selected.

Section Law.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (s : seq T) (y0 : T).
Hypotheses (q_law : law q) (s_uniq : uniq s) (s_pos : forall y, (y \in s) = (0 < q y)).

Local Notation N := (size s).
Local Notation t := (t_ (real R) q s).
Local Notation g k := (g_ (real R) q k s).
Local Notation place := (fun y : T => index y s).
Local Notation places := (fun x : seq T => [seq index y s | y <- x]).

Lemma s_q y : y \in s -> 0 < q y. Proof. by rewrite s_pos. Qed.
Let Q0 k := proj1 (iid_law k q_law).
Let Q1 k := proj2 (iid_law k q_law).

(* The mass of the first b tokens. *)
Lemma mass_below b : (b <= N)%N -> mass_of q (fun y => (place y < b)%N) = t b.
Proof.
move=> bN; rewrite tE (big_uniq _ (take_uniq b s_uniq)) /mass_of /=.
by apply: eq_bigl => y; rewrite in_take_leq.
Qed.
Lemma t_N : t N = 1.
Proof.
rewrite tE take_size -(proj2 q_law) (big_uniq _ s_uniq) /= [RHS](bigID (mem s)) /= [X in _ + X]big1 ?addr0 // => y.
by rewrite s_pos lt_def (proj1 q_law) andbT negbK => /eqP.
Qed.

(* Selected with probability E(w, b, k, y) when all drafts lie below b. *)
Definition below w a b k (y : T) : R :=
  \sum_(x <- drafts k) iid q x * (if all (fun z => (place z < b)%N) x then descend w a (places x) (place y) else 0).

Lemma below_leaf a b k y : (a < b)%N -> (b <= N)%N -> (a <= place y < b)%N ->
  (t b - t a) * below (@Leaf R) a b k y = q y * (t b ^+ k - t a ^+ k).
Proof.
move=> ab bN /andP[ay yb]; have ys : y \in s by rewrite -index_mem (leq_trans yb).
elim: k => [|k ih].
  by rewrite /below sum_drafts0 /= /first_from /= !expr0 subrr !mulr0.
have -> : below (@Leaf R) a b k.+1 y = q y * t b ^+ k + t a * below (@Leaf R) a b k y.
  rewrite -(mass_below (ltnW (leq_trans ab bN))) {1}/below sum_drafts -(mass_below bN) -iid_inside.
  rewrite (bigID (fun z => (place z < a)%N)) /= addrC; congr (_ + _); last first.
    rewrite mulr_suml; apply: eq_bigr => z za; rewrite mulr_sumr; apply: eq_bigr => x _ /=.
    by rewrite (ltn_trans za ab) /= -mulrA /first_from /= leqNgt za.
  rewrite (bigD1 y) ?ltnNge ?ay //= [X in _ + X]big1 ?addr0 => [|z /andP[za zy]]; last first.
    apply: big1 => x _; case: ifP => [/andP[zb _]|]; last by rewrite mulr0.
    rewrite /first_from /= -leqNgt in za *; rewrite za.
    case: eqP => [e|]; last by rewrite mulr0.
    have zs : z \in s by rewrite -index_mem (leq_trans zb).
    by move: zy; rewrite -(nth_index y zs) e nth_index // eqxx.
  rewrite /inside [in RHS]big_mkcond mulr_sumr; apply: eq_bigr => x _.
  rewrite /first_from /= -ltnNge yb ay eqxx /= -mulrA; case: ifP => _; rewrite ?mulr0 ?mulr1 //.
have := congr1 (fun u => t a * u) ih; rewrite !exprS /=; lra.
Qed.

Lemma below_leaf_value a b k y : (a < b)%N -> (b <= N)%N -> (a <= place y < b)%N ->
  below (@Leaf R) a b k y
  = chord (real R) q s (g k) a b (place y).+1 - chord (real R) q s (g k) a b (place y).
Proof.
move=> ab bN yab; have /andP[ay yb] := yab.
have pos : t b - t a != 0 by rewrite subr_eq0 gt_eqF // (t_lt y0 s_q).
apply: (mulfI pos); rewrite below_leaf // [RHS]mulrBr !(chordE y0 s_q) //.
have -> : t (place y).+1 = t (place y) + q y.
  have iN : (place y < N)%N by exact: leq_trans bN.
  by rewrite (tS _ y0) // nth_index // -index_mem.
by rewrite !gE; lra.
Qed.

Theorem selected_law k w a b (y : T) : well_formed w a b -> (b <= N)%N -> (a <= place y < b)%N ->
  below w a b k y = value q k s w a b (place y).+1 - value q k s w a b (place y).
Proof.
elim: w a b => [|level c low ihl high ihr] a b wf bN yab.
  by rewrite below_leaf_value.
have [/andP[l0 l1] ac cb wl wr] := wf; have /andP[ay yb] := yab.
have ab := ltn_trans ac cb.
have -> : below (Node level c low high) a b k y
  = (1 - level) * below (@Leaf R) a b k y + level * (below high c b k y + below low a c k y).
  rewrite mulr_sumr -big_split /= mulr_sumr -big_split; apply: eq_bigr => x _ /=.
  case: (boolP (all (fun z => (place z < b)%N) x)) => inb; last first.
    have /negbTE -> : ~~ all (fun z => (place z < c)%N) x.
      by apply: contra inb => /allP h; apply/allP => z /h zc; exact: ltn_trans cb.
    by lra.
  have -> : all (fun z => (place z < c)%N) x = ~~ has (leq c) (places x).
    by rewrite -all_predC all_map; apply: eq_all => z /=; rewrite ltnNge.
  case: ifPn => [hc|nc] /=; first lra.
  by rewrite (descend_support wr) ?mulr0; [lra | apply: contra nc => /andP[yx cy]; apply/hasP; exists (place y)].
have leaf := below_leaf_value k ab bN yab.
have [l_a l_c] := @value_ends _ _ q k s y0 s_q low a c wl (leq_trans (ltnW cb) bN).
have [r_c r_b] := @value_ends _ _ q k s y0 s_q high c b wr bN.
rewrite /= leaf.
have zero w' a' b' : well_formed w' a' b' -> ~~ (a' <= place y < b')%N -> below w' a' b' k y = 0.
  move=> wf' out; apply: big1 => x _; case: ifP => [/allP h|_]; last by rewrite mulr0.
  rewrite (descend_support wf') ?mulr0 //; apply: contra out => /andP[/mapP[z zx e] ->] /=.
  by rewrite e h.
case: (leqP c (place y)) => cy.
  rewrite (ihr c b wr bN) ?cy // (zero _ _ _ wl); last by rewrite negb_and -leqNgt cy orbT.
  case: (leqP (place y) c) => yc; last lra.
  have e : place y = c by apply/eqP; rewrite eqn_leq yc.
  by rewrite e r_c l_c; lra.
rewrite (ihl a c wl (leq_trans (ltnW cb) bN)) ?ay // (zero _ _ _ wr); last by rewrite negb_and -ltnNge cy.
by rewrite (ltnW cy); lra.
Qed.

End Law.

Print Assumptions selected_law.
