(* Traversal and recursive rejection on trees that follow what was drafted, below the caps.

   On a tree that is drafted as in tree_rules.v, s u c is the probability that the tokens u are accepted and c follows.
   THEOREM (tree_proper). On every tree whose children were drawn by laws these are probabilities of total mass 1, nothing is accepted that
   the tree does not hold, and the text that comes out is that of tree_rules.v.
   THEOREM (adaptive_bounded). So on trees of L levels at most, drafted by laws and coins with probabilities, both rules accept on average at most
   the sum of the caps of tree_bound.v, for the probabilities with which the trees hold each prefix.

   Any finite set of tokens, any real field, any target. *)

From Draft Require Import head problem bound sampling path_rules block tree_rules adaptive_trees.
From Draft Require Import block_optimal tree_bound proper.

Section Adaptive.
Variables (R : realFieldType) (T : finType) (p : seq T -> T -> R) (traversal : bool).
Hypothesis p_law : forall h, law (p h).
Implicit Types (h u z : seq T) (w t : R) (r Q : T -> R) (f : forest R T) (a : seq nat) (d : drafting R T) (L n : nat).
Notation state := (state (real R) (index_enum T)).
Notation entry := (entry (real R) (index_enum T)).
Notation below := (below (real R) (index_enum T) traversal).
Notation refused := (refused (real R) (index_enum T) p traversal).
Notation accepted := (tree_rules.accepted (real R) (index_enum T) p traversal).
Notation tree_text := (tree_text (real R) (index_enum T) p traversal).
Notation tree_texts := (tree_rules.text (real R) (index_enum T) p traversal).
Notation says := (says p).

(* h itself is the last that is accepted, and c follows. *)
Definition ends k r u (c : T) : R := if u is [::] then k * r c else 0.
(* Some child of h, or a node below it, after the tokens u, is the last that is accepted, and c follows. *)
Fixpoint decided h w r f u c : R :=
  if f is Child elder Q y f' then
    let v := entry w r elder Q y in let h' := rcons h y in let b := below w r elder Q y in let s := state b (p h') f' in
    let through := if u is x :: u' then
      if x == y then decided h' b (p h') f' u' c + ends (refused h' b (p h') f' * s.1) s.2 u' c else 0 else 0 in
    decided h w r elder u c + refused h w r elder * (if traversal then through else v * through)
  else 0.
Definition decision h w r f u c : R := decided h w r f u c + ends (refused h w r f * (state w r f).1) (state w r f).2 u c.

(* No node is deeper than n. *)
Fixpoint shallow n f : bool :=
  if f is Child elder _ _ f' then shallow n elder && (if n is n'.+1 then shallow n' f' else false) else true.

(* What goes through the child y. *)
Definition through y (s : seq T -> T -> R) u c : R := if u is x :: u' then if x == y then s u' c else 0 else 0.
Lemma decidedE h w r elder Q y f' u c : let v := entry w r elder Q y in let b := below w r elder Q y in
  decided h w r (Child elder Q y f') u c = decided h w r elder u c
    + (refused h w r elder * (if traversal then 1 else v)) * through y (decision (rcons h y) b (p (rcons h y)) f') u c.
Proof. by rewrite /= /through /decision; case: traversal; rewrite ?mulr1 ?mulrA. Qed.

Lemma says_ends k r h c z : says (ends k r) h (c :: z) = k * r c * in_sequence p (rcons h c) z.
Proof. by rewrite /= (says_eq _ _ (s' := fun _ _ => 0)) // says0 addr0. Qed.
Lemma says_through y s h c z : says (through y s) h (c :: z) = if c == y then says s (rcons h y) z else 0.
Proof.
rewrite /= mul0r add0r; have [->|/negbTE cy] := eqVneq c y; first by apply: says_eq => u d; rewrite /= eqxx.
by rewrite (says_eq _ _ (s' := fun _ _ => 0)) ?says0 // => u d; rewrite /= cy.
Qed.
Lemma reach_ends k r n : law r -> reach (ends k r) n [::] = k.
Proof.
move=> [_ r1]; case: n => [|n]; first by rewrite reach_nil -mulr_sumr r1 mulr1.
rewrite reach_cons /= -mulr_sumr r1 mulr1 big1 ?addr0 // => c _.
by rewrite (reach_eq _ _ (s' := fun _ _ => 0)) // reach0.
Qed.
Lemma reach_through y s n : reach (through y s) n.+1 [::] = reach s n [::].
Proof.
rewrite reach_cons big1 // add0r (bigD1 y) //= big1 ?addr0 => [|c /negbTE cy].
  by apply: reach_eq => u c; rewrite /= eqxx.
by rewrite (reach_eq _ _ (s' := fun _ _ => 0)) ?reach0 // => u c'; rewrite /= cy.
Qed.

(* The weight 1 stays. *)
Lemma state_one r f : (state 1 r f).1 = 1.
Proof. by elim: f => [//|e ih Q y f' _] /=; rewrite ih test_one. Qed.

Lemma text_says h w r f n z : shallow n f -> size z = n.+1 ->
  accepted h w r f z = says (decided h w r f) h z /\ tree_texts h w r f z = says (decision h w r f) h z.
Proof.
have whole f' h' w' r' c z' : accepted h' w' r' f' (c :: z') = says (decided h' w' r' f') h' (c :: z') ->
    tree_texts h' w' r' f' (c :: z') = says (decision h' w' r' f') h' (c :: z').
  by move=> e; rewrite /tree_rules.text e says_add says_ends /= !mulrA.
elim: f h w r n z => [|e ihe Q y f' ih] h w r n [|c z] // sf [sz].
  by have e : accepted h w r Bare (c :: z) = says (decided h w r Bare) h (c :: z); [rewrite says0 | split=> //; exact: whole].
have ez : accepted h w r (Child e Q y f') (c :: z) = says (decided h w r (Child e Q y f')) h (c :: z); last by split=> //; exact: whole.
rewrite (says_eq _ _ _ (decidedE h w r e Q y f')) says_add says_scale says_through.
move: sf => /andP[se sf']; have [<- _] := ihe h w r n (c :: z) se (congr1 succn sz).
case: n sf' {se ihe} sz => [//|n] sf' sz.
rewrite [LHS]/= -!mulrA; congr (_ + _ * _).
have [_ <-] := ih (rcons h y) (below w r e Q y) (p (rcons h y)) n z sf' sz.
by rewrite /tree_rules.text; case: traversal; case: eqP => _; rewrite /= ?mul1r ?mulr0 ?mulrA.
Qed.

(** Probabilities of total mass 1. *)

Lemma refused_ge0 h w r f : node w r -> drawn f -> 0 <= refused h w r f.
Proof.
elim: f h w r => [|e ihe Q y f' ih] h w r n; first by rewrite ler01.
move=> [Ql de df]; have ne := entry_node p_law y (rcons h y) n de Ql; rewrite /= mulr_ge0 ?ihe //.
case: traversal ih => ih; last by case: ne => _ e1 _; rewrite subr_ge0.
by have [_ s1 _] := state_node ne df; rewrite mulr_ge0 ?ih ?subr_ge0.
Qed.
Lemma decided_ge0 h w r f u c : node w r -> drawn f -> 0 <= decided h w r f u c.
Proof.
elim: f h w r u => [//|e ihe Q y f' ih] h w r u n [Ql de df]; rewrite decidedE.
have ne := entry_node p_law y (rcons h y) n de Ql; have nb := below_node traversal p_law y (rcons h y) n de Ql.
rewrite addr_ge0 ?ihe // mulr_ge0 //.
  rewrite mulr_ge0 ?refused_ge0 //; case: traversal => //; first exact: ler01.
  by case: ne.
case: u => [//|x u] /=; case: ifP => // _; have [s0 s1 [s2 _]] := state_node nb df.
rewrite addr_ge0 ?ih //; case: u => [|? ?] //=; by rewrite !mulr_ge0 ?refused_ge0.
Qed.
Lemma decision_ge0 h w r f u c : node w r -> drawn f -> 0 <= decision h w r f u c.
Proof.
move=> n df; have [s0 s1 [s2 _]] := state_node n df.
rewrite addr_ge0 ?decided_ge0 //; case: u => [|? ?] //=; by rewrite !mulr_ge0 ?refused_ge0.
Qed.

Lemma decided_mass h w r f n : node w r -> drawn f -> shallow n f -> reach (decided h w r f) n [::] = 1 - refused h w r f.
Proof.
elim: f h w r n => [|e ihe Q y f' ih] h w r n nd; first by rewrite subrr reach0.
move=> [Ql de df] /= /andP[se]; case: n se => [//|n] se sf.
have ne := entry_node p_law y (rcons h y) nd de Ql; have nb := below_node traversal p_law y (rcons h y) nd de Ql.
rewrite (reach_eq _ _ (decidedE h w r e Q y f')) reach_add reach_scale reach_through ihe // /decision reach_add ih //.
rewrite reach_ends; last by case: (state_node nb df).
move: nb; rewrite /tree_rules.below; case: traversal => nb; first by rewrite /=; ring.
by rewrite state_one /=; ring.
Qed.

Lemma holds_nil f : holds f [::]. Proof. by case: f. Qed.
Lemma decided_outside h w r f u c : ~~ holds f u -> decided h w r f u c = 0.
Proof.
elim: f h w r u => [//|e ihe Q y f' ih] h w r [//|x u] /=; rewrite negb_or negb_and => /andP[xy eu].
rewrite ihe // add0r; case: eqP xy => _ /=; last by case: traversal; rewrite ?mulr0.
case: u eu => [|x' u] _ fu; first by rewrite holds_nil in fu.
by rewrite ih // add0r; case: traversal; rewrite ?mulr0.
Qed.

Theorem tree_proper f n : drawn f -> shallow n f -> let s := decision [::] 1 (p [::]) f in
  [/\ forall u c, 0 <= s u c, reach s n [::] = 1, forall u c, ~~ holds f u -> s u c = 0
    & forall z, size z = n.+1 -> tree_text f z = text p s n [::] z].
Proof.
move=> df sf s; have nd : node 1 (p [::]) by split; rewrite ?ler01.
split=> [u c||u c fu|z sz].
- exact: decision_ge0.
- rewrite /s /decision reach_add decided_mass // reach_ends; last by case: (state_node nd df).
  by rewrite state_one; ring.
- by case: u fu => [|x u] fu; [rewrite holds_nil in fu | rewrite /s /decision decided_outside // add0r].
by have [_ e] := text_says [::] 1 (p [::]) sf sz; rewrite /tree_rules.tree_text e -(@says_text _ _ p s n [::] z sz).
Qed.

(** Means over all that is drafted. *)

Notation average := (drafted_mean (real R) (index_enum T)).
Implicit Types (F G : forest R T -> R).
(* What holds of every tree that may be drafted; coins fall by probabilities. *)
Fixpoint always (P : forest R T -> Prop) d f : Prop :=
  match d with
  | Stop => P f
  | Draw a Q next => forall x, always P (next x) (add_child a Q x f)
  | Coin _ d1 d2 => always P d1 f /\ always P d2 f
  end.
Fixpoint fair d : Prop :=
  match d with Stop => True | Draw _ _ next => forall x, fair (next x) | Coin t d1 d2 => [/\ 0 <= t <= 1, fair d1 & fair d2] end.

Lemma average_sum (I : finType) (F : I -> forest R T -> R) d f : \sum_i average (F i) d f = average (fun f => \sum_i F i f) d f.
Proof.
elim: d f => [//|a Q next ih|t d1 ih1 d2 ih2] f /=.
  rewrite sumE; under eq_bigr do rewrite sumE; rewrite exchange_big; apply: eq_bigr => x _ /=.
  by rewrite -ih mulr_sumr.
by rewrite -ih1 -ih2 !mulr_sumr -big_split.
Qed.
Lemma average_add F G d f : average F d f + average G d f = average (fun f => F f + G f) d f.
Proof.
elim: d f => [//|a Q next ih|t d1 ih1 d2 ih2] f /=; last by rewrite -ih1 -ih2; ring.
by rewrite !sumE -big_split; apply: eq_bigr => x _ /=; rewrite -ih mulrDr.
Qed.
Lemma average_right F k d f : average F d f * k = average (fun f => F f * k) d f.
Proof.
elim: d f => [//|a Q next ih|t d1 ih1 d2 ih2] f /=; last by rewrite -ih1 -ih2; ring.
by rewrite !sumE mulr_suml; apply: eq_bigr => x _ /=; rewrite -ih mulrA.
Qed.
Lemma average_le (P : forest R T -> Prop) F G d f : by_laws d -> fair d -> drawn f -> always P d f ->
  (forall f, drawn f -> P f -> F f <= G f) -> average F d f <= average G d f.
Proof.
move=> l a df al le; elim: d f l a df al => [|a Q next ih|t d1 ih1 d2 ih2] f; first by move=> _ _ df; exact: le.
  move=> [Ql l] fa df al; rewrite /= !sumE; apply: ler_sum => x _; have [q0 _] := Ql.
  have dx : drawn (add_child a Q x f) by exact: drawn_more.
  by apply: ler_wpmul2l => //; exact: (ih x _ (l x) (fa x) dx (al x)).
move=> [l1 l2] [/andP[t0 t1] fa1 fa2] df [al1 al2]; rewrite /= ler_add // ler_wpmul2l ?ih1 ?ih2 //.
by rewrite /= subr_ge0.
Qed.
Lemma average_ext F G d f : F =1 G -> average F d f = average G d f.
Proof.
move=> e; elim: d f => [|a Q next ih|t d1 ih1 d2 ih2] f /=; rewrite ?ih1 ?ih2 //.
by rewrite !sumE; apply: eq_bigr => x _; rewrite /= ih.
Qed.
Lemma average_zero d f : average (fun _ => 0) d f = 0.
Proof.
elim: d f => [//|a Q next ih|t d1 ih1 d2 ih2] f /=; last by rewrite ih1 ih2 !mulr0 addr0.
by rewrite sumE big1 // => x _; rewrite /= ih mulr0.
Qed.
Lemma average_eq (P : forest R T -> Prop) F G d f : by_laws d -> fair d -> drawn f -> always P d f ->
  (forall f, drawn f -> P f -> F f = G f) -> average F d f = average G d f.
Proof.
move=> l a df al e; apply/eqP; rewrite eq_le.
by rewrite !(average_le l a df al) // => f' df' Pf'; rewrite e.
Qed.

Section Bounded.
Variables (L : nat) (d : drafting R T).
Hypotheses (d_law : by_laws d) (d_fair : fair d) (d_shallow : always (fun f => shallow L f) d Bare).
Let s f := decision [::] 1 (p [::]) f.
Let D u c := average (fun f => s f u c) d Bare.

Lemma average_text n h z : text p D n h z = average (fun f => text p (s f) n h z) d Bare.
Proof.
elim: n h z => [|n ih] h [|c z]; rewrite ?[LHS]/= ?average_zero //.
  by rewrite addr0 /D average_right; apply: average_ext => f; rewrite /= addr0.
by rewrite ih /D average_right average_add.
Qed.
Lemma average_reach n h : reach D n h = average (fun f => reach (s f) n h) d Bare.
Proof.
elim: n h => [|n ih] h; rewrite [LHS]/= /D average_sum; first by rewrite addr0; apply: average_ext => f; rewrite /= addr0.
by under eq_bigr do rewrite ih; rewrite average_sum average_add.
Qed.
Lemma average_more n h : more D n h = average (fun f => more (s f) n h) d Bare.
Proof.
elim: n h => [|n ih] h; rewrite [LHS]/= ?average_zero //.
by under eq_bigr do rewrite average_reach ih average_add; rewrite average_sum.
Qed.

Lemma holds_parent f u (c : T) : holds f (rcons u c) -> holds f u.
Proof.
elim: f u => [|e ihe Q y f' ih] [|x u] //= /orP[/andP[-> /ih->]|h]; first by [].
by rewrite (ihe (x :: u) h) orbT.
Qed.

Theorem adaptive_bounded :
  average (fun f => more (decision [::] 1 (p [::]) f) L [::]) d Bare <= caps p (chance_of (real R) (index_enum T) d) L [::] 1.
Proof.
have dr : drawn (Bare : forest R T) by [].
rewrite -[X in X <= _]average_more; apply: (@more_caps _ _ _ p_law _ _ _ _ 1) => // [u c|z sz|x xL].
- rewrite -(average_zero d Bare); apply: (average_le d_law d_fair dr d_shallow) => f df sf.
  by have [s0 _ _ _] := tree_proper df sf; exact: s0.
- rewrite mul1r average_text -(adaptive_lossless traversal p_law z d_law); apply/esym.
  by apply: (average_eq d_law d_fair dr d_shallow) => f df sf; have [_ _ _ e] := tree_proper df sf; exact: e.
rewrite /= average_reach; apply: (average_le d_law d_fair dr d_shallow) => f df sf.
have [s0 s1 out _] := tree_proper df sf; case: ifPn => fx.
  exact: (@reach_le1 R T [finType of unit] L (fun _ => s f) (fun _ => s0) (fun _ => s1) tt x xL).
by rewrite (@reach_outside R T [finType of unit] (fun _ => holds f) (fun _ => s f) (fun _ => @holds_parent f) (fun _ => out) tt).
Qed.
End Bounded.
End Adaptive.

Print Assumptions tree_proper.
Print Assumptions adaptive_bounded.
