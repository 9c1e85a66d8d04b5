(* Optimal selection for i.i.d. drafts.

   THEOREM (optimal_selection). For every finite set of tokens, all laws p, q on it, every k >= 1: there are an order s of the
   tokens with q > 0 by p/q, levels c_b in [0, 1] between them, and a law m, such that the rule that selects draft l with
   probability min(1, M_1, .., M_(l-1)) - min(1, M_1, .., M_l) and couples it with p through m is lossless for k i.i.d. drafts
   from q, and accepts exactly 1 + p(H) - q(H)^k, where H is a prefix of s. By the bound no lossless rule accepts more. The
   levels are those that `optimal_levels` computes, m is the law `optimal_law` of the envelope's increments. *)

From Draft Require Import head problem bound couple levels selected selected_law envelope.

Section Optimal.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (k : nat).
(* An order of the tokens with q > 0 by p/q. *)
Definition order_of (s : seq T) := [/\ uniq s, forall y, (y \in s) = (0 < q y)
  & forall y0 i j, (i < j)%N -> (j < size s)%N -> p (nth y0 s i) * q (nth y0 s j) <= p (nth y0 s j) * q (nth y0 s i)].

Lemma by_ratio_order : order_of (by_ratio (real R) (index_enum T) p q).
Proof.
set le := fun x y => p x * q y <= p y * q x; set l := [seq y <- index_enum T | ~~ (q y <= 0)].
have inl y : (y \in l) = (0 < q y) by rewrite mem_filter mem_index_enum andbT ltNge.
have -> : by_ratio (real R) (index_enum T) p q = sort le l by [].
split=> [|y|y0 i j ij jN].
- by rewrite sort_uniq filter_uniq // index_enum_uniq.
- by rewrite mem_sort inl.
have all_l : all (fun y => 0 < q y) (sort le l) by apply/allP => y; rewrite mem_sort inl.
have tr : {in (fun y => 0 < q y) & &, transitive le}.
  move=> b a c qb qa qc; rewrite /le !unfold_in /= in qb qa qc * => ab bc; rewrite -(ler_pmul2l qb).
  have := ler_wpmul2r (ltW qc) ab; have := ler_wpmul2r (ltW qa) bc; lra.
have so : sorted le (sort le l) by apply: sort_sorted => a b; exact: le_total.
exact: (sorted_ltn_nth_in tr y0 all_l so _ _ (ltn_trans ij jN) jN ij).
Qed.

(* The target may be a part of a law: what is left of one, or w p with a weight w. *)
Hypotheses (p_ge0 : forall y, 0 <= p y) (p_le1 : \sum_y p y <= 1) (q_law : law q) (k_pos : (0 < k)%N).

Lemma a_token : {y : T | 0 < q y}.
Proof.
case: (pickP (fun y => 0 < q y)) => [y qy|none]; first by exists y.
exfalso; have : \sum_y q y = 0 by apply: big1 => y _; apply/eqP; rewrite eq_le (proj1 q_law) andbT leNgt none.
by rewrite (proj2 q_law) => /eqP; rewrite oner_eq0.
Qed.

Variable s : seq T.
Hypothesis s_order : order_of s.
Let y0 := sval a_token.
Let s_uniq : uniq s. Proof. by case: s_order. Qed.
Let s_pos y : (y \in s) = (0 < q y). Proof. by case: s_order. Qed.
Let ordered i j : (i < j)%N -> (j < size s)%N -> p (nth y0 s i) * q (nth y0 s j) <= p (nth y0 s j) * q (nth y0 s i).
Proof. by case: s_order => _ _; exact. Qed.
Let q_pos y : y \in s -> 0 < q y. Proof. by rewrite s_pos. Qed.

Local Notation N := (size s).
Local Notation G := (G_ (real R) p q k s).
Local Notation t := (t_ (real R) q s).
Local Notation F := (F_ (real R) p s).
Local Notation g := (g_ (real R) q k s).
Local Notation D := (D_ (real R) p q k s).
Let w := build (real R) q k s N 0 N G.
Let l := optimal_levels (real R) p q k s.
Let m := optimal_law (real R) (index_enum T) p q k s.
Let rule := optimal_with (real R) (index_enum T) p s l m.
Let choice (x : seq T) := choose (real R) l [seq index y s | y <- x].

Let t_one : t N = 1. Proof. exact: t_N. Qed.
Let F_le1 : F N <= 1.
Proof.
rewrite FE take_size (big_uniq _ s_uniq); apply: le_trans p_le1; rewrite [leRHS](bigID (mem s)) /= ler_addl.
by apply: sumr_ge0 => y _; exact: p_ge0.
Qed.
Let N_pos : (0 < N)%N. Proof. by rewrite lt0n size_eq0; apply/eqP => e; move: (svalP a_token); rewrite -s_pos e. Qed.
Let best := largest_index D N.

Let built : well_formed w 0 N /\ forall i, (0 <= i <= N)%N -> value q k s w 0 N i = G i.
Proof.
have [top top_le top_max] := best.
apply: (@levels_exist R T q k s y0 q_pos) => //; rewrite ?subn0 //.
- exact: (G_convex q_pos ordered t_one F_le1 top_le top_max).
- by move=> i /andP[_ iN]; exact: G_above.
- by rewrite (G_zero k_pos top_le top_max) g0.
- by rewrite (G_one t_one top_le top_max) gN.
Qed.

Let G_value := proj2 built.
Let wf := proj1 built.

Let mE y : m y = if y \in s then G (index y s).+1 - G (index y s) else 0.
Proof. by rewrite /m /optimal_law tableE. Qed.

Let size_choice x : size (choice x) = size x.
Proof.
rewrite /choice /choose; set top := foldr _ _ _.
have go (n : R) (ms : seq R) : size (falls (real R) n ms) = size ms by elim: ms n => //= a ms ih n; rewrite ih.
by rewrite go !size_map.
Qed.

(* Where all drafts have q > 0, the choice is the descent of the tree. *)
Let chosen_descend x y : all (mem s) x -> chosen (choice x) x y = if y \in s then descend w 0 [seq index z s | z <- x] (index y s) else 0.
Proof.
move=> xs; case: ifPn => ys.
  rewrite /choice /choose -(falls_descend _ wf) // /chosen /on_place.
  set ms := falls _ _ _; clearbody ms.
  elim: x xs ms => [|a x ih] /= xs [|c ms]; rewrite ?big_nil // !big_cons ih; last by case/andP: xs.
  case/andP: xs => sa _ /=; congr (_ + _).
  suff -> : (a == y) = (index a s == index y s) by [].
  apply/eqP/eqP => [->//|e]; by rewrite -(nth_index a sa) e nth_index.
apply: (chosen_outside choice).
by apply: contra ys => yx; move/allP: xs => /(_ y yx).
Qed.

Let possible k' x : x \in drafts k' -> iid q x != 0 -> all (mem s) x.
Proof.
elim: k' x => [|k' ih] x; rewrite mem_drafts; first by case: x.
case: x => [//|a x]; rewrite eqSS -mem_drafts => xk /=; rewrite mulf_eq0 negb_or => /andP[qa qx].
by rewrite s_pos lt_def qa (proj1 q_law) /= (ih _ xk qx).
Qed.

Let has_place (x : seq T) : x \in drafts k -> has (leq 0) [seq index z s | z <- x].
Proof. by rewrite mem_drafts => /eqP xk; case: x xk k_pos => [<-|]. Qed.

Let chosen_ge0 x y : x \in drafts k -> iid q x != 0 -> 0 <= chosen (choice x) x y.
Proof.
move=> xk ne; rewrite chosen_descend ?(possible xk ne) //.
by case: ifP => // _; exact: (descend_ge0 _ _ wf).
Qed.

Let chosen_sum x : x \in drafts k -> iid q x != 0 -> \sum_y chosen (choice x) x y = 1.
Proof.
move=> xk ne; have xs := possible xk ne.
under eq_bigr do rewrite chosen_descend //.
rewrite -big_mkcond /= -(big_uniq _ s_uniq) (big_nth y0) big_mkord.
rewrite -[RHS](@descend_sum R w 0 N [seq index z s | z <- x] N wf (has_place xk)) => [|j /mapP[z zx ->]].
  by apply: eq_bigr => i _; rewrite index_uniq.
by rewrite index_mem; move/allP: xs; exact.
Qed.

Let chosen_law y : \sum_(x <- drafts k) iid q x * chosen (choice x) x y = m y.
Proof.
rewrite mE; case: ifPn => ys; last first.
  rewrite big_seq big1 // => x xk; have [->|ne] := eqVneq (iid q x) 0; first by rewrite mul0r.
  by rewrite chosen_descend ?(possible xk ne) // (negbTE ys) mulr0.
have iN : (index y s < N)%N by rewrite index_mem.
have e1 : value q k s w 0 N (index y s).+1 = G (index y s).+1 by apply: G_value.
have e2 : value q k s w 0 N (index y s) = G (index y s) by apply: G_value; exact: ltnW.
rewrite -e1 -e2.
rewrite -(selected_law y0 s_uniq s_pos k wf (leqnn N)) ?iN //.
rewrite /below !big_seq; apply: eq_bigr => x xk.
have [->|ne] := eqVneq (iid q x) 0; first by rewrite !mul0r.
have xs := possible xk ne; rewrite chosen_descend // ys.
suff -> : all (fun z => (index z s < N)%N) x by [].
by apply/allP => z zx; rewrite index_mem; move/allP: xs; exact.
Qed.

Theorem selection_by_levels :
  [/\ forall x y, x \in drafts k -> iid q x != 0 -> 0 <= chosen (choice x) x y,
      forall x, x \in drafts k -> iid q x != 0 -> \sum_y chosen (choice x) x y = 1
    & forall y, \sum_(x <- drafts k) iid q x * chosen (choice x) x y = m y].
Proof. by split; [exact: chosen_ge0 | exact: chosen_sum | exact: chosen_law]. Qed.

Hypothesis p_law : law p.
Theorem optimal_selection :
  [/\ proper k (iid q) rule, lossless k (iid q) p rule
    & exists top, let H := fun y => (index y s < top)%N in
      acceptance k (iid q) rule = 1 + mass_of p H - mass_of q H ^+ k].
Proof.
have Q := iid_law k q_law.
have ok : proper k (iid q) rule.
  rewrite /proper => x xk ne; have := couple_proper Q p_law chosen_ge0 chosen_sum chosen_law; move/(_ x xk ne); exact.
have out : lossless k (iid q) p rule.
  move=> y; have := couple_lossless Q p_law chosen_ge0 chosen_sum chosen_law; move/(_ y); exact.
split=> //; have [top top_le top_max] := best; exists top => H.
apply/eqP; rewrite eq_le; apply/andP; split.
  by have := bound Q ok out H; rewrite iid_inside.
have := couple_acceptance Q p_law chosen_ge0 chosen_sum chosen_law.
apply: le_trans.
have -> : \sum_y Num.min (p y) (m y) = \sum_(0 <= i < N) Num.min (p (nth y0 s i)) (G i.+1 - G i).
  rewrite (bigID (mem s)) /= addrC big1 ?add0r => [|y ys]; last by rewrite mE (negbTE ys) min_r //; case: p_law.
  rewrite -(big_uniq _ s_uniq) (big_nth y0) !big_nat; apply: eq_bigr => i /andP[_ iN].
  by rewrite mE mem_nth // index_uniq.
rewrite (overlap y0 t_one F_le1 top_le top_max) DE gE (mass_below q s_uniq top_le).
have -> : mass_of p H = F top.
  rewrite FE (big_uniq _ (take_uniq top s_uniq)) /mass_of /=.
  by apply: eq_bigl => y; rewrite in_take_leq.
by rewrite opprB addrCA addrA [F top + _]addrC.
Qed.

Theorem optimal_is_optimal other : proper k (iid q) other -> lossless k (iid q) p other ->
  acceptance k (iid q) other <= acceptance k (iid q) rule.
Proof.
move=> ok out; case: optimal_selection => _ _ [top /= ->].
by have := bound (iid_law k q_law) ok out (fun y => (index y s < top)%N); rewrite iid_inside.
Qed.

End Optimal.

(* The rule as it is computed: with the order that sorting by p/q gives. *)
Theorem optimal_rule (R : realFieldType) (T : finType) (p q : T -> R) k : law p -> law q -> (0 < k)%N ->
  let rule := optimal (real R) (index_enum T) p q k in
  [/\ lossless k (iid q) p rule, proper k (iid q) rule
    & forall other, proper k (iid q) other -> lossless k (iid q) p other ->
        acceptance k (iid q) other
          <= acceptance k (iid q) rule].
Proof.
move=> pl ql k0 rule; have o := by_ratio_order p q.
have p1 : \sum_y p y <= 1 by case: pl => _ ->.
have [ok out _] := optimal_selection (proj1 pl) p1 ql k0 o pl.
by split=> // other ok' out'; exact: (optimal_is_optimal (proj1 pl) p1 ql k0 o pl).
Qed.

Print Assumptions optimal_selection.
Print Assumptions optimal_rule.
