(* What is computed over Coq's rationals holds over every real field.

   Let phi take numbers of one kind to numbers of another and keep the seven operations of rules.v, and let e name tokens by other tokens,
   different ones differently. THEOREM (carried_output, carried_acceptance, carried_least_cut, and one for each rule). Then the output law,
   the acceptance, the best acceptance and what each rule of rules.v decides, computed from p and q, are carried by phi to those of the
   carried p and q.
   THEOREM (rational_operations). Into any real field there is such a phi, from Coq's rationals: of_rational (lra.v).
   THEOREM (computed_everywhere). Tokens 0 .. n - 1 and lists of rationals for p and q, as in refuted.v and bridge.v: the values computed there
   are those of the theorems' terms over the tokens 'I_n and any real field.
   So the numbers of the bridges, and the refuted statements, are about the very terms that the theorems speak of. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import lra rules.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.

Section Carried.
Variables (A A' : Type) (N : numbers A) (N' : numbers A') (phi : A -> A').
Record carries := Carries {
  phi0 : phi (zero N) = zero N'; phi1 : phi (one N) = one N';
  phiD : {morph phi : x y / add N x y >-> add N' x y}; phiB : {morph phi : x y / sub N x y >-> sub N' x y};
  phiM : {morph phi : x y / mul N x y >-> mul N' x y}; phiV : {morph phi : x y / div N x y >-> div N' x y};
  phiL : forall x y, leb N x y = leb N' (phi x) (phi y) }.
Hypothesis c : carries.

Lemma carried_least x y : phi (least N x y) = least N' (phi x) (phi y).
Proof. by rewrite /least -(phiL c); case: ifP. Qed.
Lemma carried_most x y : phi (most N x y) = most N' (phi x) (phi y).
Proof. by rewrite /most -(phiL c); case: ifP. Qed.
Lemma carried_sum (X X' : Type) (g : X' -> X) s f ff : (forall x, phi (f (g x)) = ff x) -> phi (sum_of N (map g s) f) = sum_of N' s ff.
Proof. by move=> h; elim: s => [|x s ih] /=; rewrite ?(phi0 c) // (phiD c) h ih. Qed.
Lemma carried_pow x k : phi (pow N x k) = pow N' (phi x) k.
Proof. by elim: k => [|k ih] /=; rewrite ?(phi1 c) // (phiM c) ih. Qed.

Variables (T T' : eqType) (e : T' -> T) (tokens : seq T').
Hypothesis e_inj : injective e.
Implicit Types (p q v w m f : T -> A) (pp qq vv ww mm ff : T' -> A') (x h : seq T').
Local Notation tokens' := (map e tokens).
Definition same_function f ff := forall y, phi (f (e y)) = ff y.
Definition same_selection (s : selection A T) (ss : selection A' T') := map phi (accept s) = accept ss /\ same_function (residual s) (residual ss).
Local Infix "~" := same_function (at level 70).

Lemma carried_table f ff : f ~ ff -> table N tokens' f ~ table N' tokens ff.
Proof.
move=> h y; rewrite /table index_map //; move: (index y tokens) => i.
by elim: tokens i => [|z s ih] [|i] //=; exact: phi0.
Qed.
Lemma carried_mass f ff : f ~ ff -> phi (mass N tokens' f) = mass N' tokens ff.
Proof. exact: carried_sum. Qed.
Lemma carried_norm v w vv ww : v ~ vv -> w ~ ww -> norm N tokens' v w ~ norm N' tokens vv ww.
Proof.
move=> hv hw; apply: carried_table => y; rewrite (phiL c) (phi0 c) (carried_mass hv); case: ifP => _ //.
by rewrite (phiV c) hv (carried_mass hv).
Qed.
Lemma carried_excess p q pp qq : p ~ pp -> q ~ qq -> excess N tokens' p q ~ excess N' tokens pp qq.
Proof. by move=> hp hq; apply: carried_table => y; rewrite carried_most (phiB c) (phi0 c) hp hq. Qed.

(** The problem. *)

Lemma carried_drafts k : rules.drafts tokens' k = map (map e) (rules.drafts tokens k).
Proof.
elim: k => [//|k ih] /=; rewrite ih map_flatten -!map_comp; congr flatten; apply: eq_map => y /=.
by rewrite -!map_comp.
Qed.
Lemma carried_iid q qq x : q ~ qq -> phi (rules.iid N q (map e x)) = rules.iid N' qq x.
Proof. by move=> h; elim: x => [|y x ih] /=; rewrite ?(phi1 c) // (phiM c) h ih. Qed.
Lemma carried_in_sequence next next' h x : (forall h, next (map e h) ~ next' h) ->
  phi (rules.in_sequence N next (map e h) (map e x)) = rules.in_sequence N' next' h x.
Proof. by move=> hn; elim: x h => [|y x ih] h /=; rewrite ?(phi1 c) // (phiM c) hn -map_rcons ih. Qed.

Section Judged.
Variables (k : nat) (law : seq T -> A) (law' : seq T' -> A') (rule : seq T -> selection A T) (rule' : seq T' -> selection A' T').
Hypotheses (hl : forall x, phi (law (map e x)) = law' x) (hr : forall x, same_selection (rule (map e x)) (rule' x)).

Lemma carried_row x (s : selection A T) ss : same_selection s ss -> rules.row N (map e x) s ~ rules.row N' x ss.
Proof.
move=> [ha hr'] y; rewrite /rules.row (phiD c) (phiM c) (phiB c) (phi1 c) hr' -ha; congr (add N' _ (mul N' (sub N' _ _) _)).
  elim: x (accept s) => [|z x ih] [|a l] /=; rewrite ?(phi0 c) // (phiD c) ih (inj_eq e_inj).
  by case: ifP; rewrite ?(phi0 c).
by elim: (accept s) => [|a l ih] /=; rewrite ?(phi0 c) // (phiD c) ih.
Qed.
Theorem carried_output : rules.output N tokens' k law rule ~ rules.output N' tokens k law' rule'.
Proof.
move=> y; rewrite /rules.output carried_drafts; apply: carried_sum => x.
by rewrite (phiM c) hl (carried_row _ (hr x)).
Qed.
Theorem carried_acceptance : phi (rules.acceptance N tokens' k law rule) = rules.acceptance N' tokens k law' rule'.
Proof.
rewrite /rules.acceptance carried_drafts; apply: carried_sum => x; rewrite (phiM c) hl filter_map; congr (mul N' _ _).
rewrite (@eq_filter _ _ (mem x)) => [|y]; last exact: mem_map.
exact/carried_sum/(carried_row x (hr x)).
Qed.
Theorem carried_least_cut p pp : p ~ pp -> phi (rules.least_cut N tokens' k law p) = rules.least_cut N' tokens k law' pp.
Proof.
move=> hp; have sets s : token_sets (map e s) = map (map e) (token_sets s).
  by elim: s => [//|y s ih] /=; rewrite ih map_cat -!map_comp.
have cut H : phi (rules.cut_value N tokens' k law p (map e H)) = rules.cut_value N' tokens k law' pp H.
  rewrite /rules.cut_value (phiB c) (phiD c) (phi1 c) (carried_sum _ hp) carried_drafts filter_map.
  rewrite (@eq_filter _ _ (fun x => all (mem H) x)) => [|x /=]; last by rewrite all_map; apply: eq_all => y /=; exact: mem_map.
  by rewrite (carried_sum _ hl).
rewrite /rules.least_cut sets; elim: (token_sets tokens) => [|H s ih] /=; first exact: cut.
by rewrite carried_least cut ih.
Qed.
End Judged.

(** Rules. *)

Lemma carried_in_turn t : map phi (in_turn N t) = in_turn N' (map phi t).
Proof.
elim: t => [//|a t ih] /=; rewrite -ih -!map_comp; congr (_ :: _); apply: eq_map => b /=.
by rewrite (phiM c) (phiB c) (phi1 c).
Qed.
Lemma carried_naive_target p pp x : p ~ pp -> same_selection (naive_target N tokens' p (map e x)) (naive_target N' tokens pp x).
Proof.
move=> hp; split=> /=.
  rewrite -[Nil T]/(map e [::]); elim: x [::] => [//|y x ih] seen /=; rewrite mem_map // -ih.
  by case: ifP; rewrite ?(phi0 c) ?hp.
by apply: carried_norm => // y; rewrite mem_map //; case: ifP; rewrite ?(phi0 c) ?hp.
Qed.
Lemma carried_speculative_sampling p q pp qq x : p ~ pp -> q ~ qq ->
  same_selection (speculative_sampling N tokens' p q (map e x)) (speculative_sampling N' tokens pp qq x).
Proof.
move=> hp hq; case: x => [|y x]; first by split.
split=> /=; last by apply: carried_norm => //; exact: carried_excess.
rewrite carried_least (phi1 c) (phiV c) hp hq size_map; congr (_ :: _).
by elim: (size x) => //= n ->; rewrite (phi0 c).
Qed.
Lemma carried_recursive_rejection next next' h p pp x : (forall h, next (map e h) ~ next' h) -> p ~ pp ->
  same_selection (recursive_rejection N tokens' next (map e h) p (map e x)) (recursive_rejection N' tokens next' h pp x).
Proof.
move=> hn; elim: x h p pp => [|y x ih] h p pp hp; first by split.
have [|ha hr] := ih (rcons h y) (norm N tokens' (excess N tokens' p (next (map e h))) p)
  (norm N' tokens (excess N' tokens pp (next' h)) pp).
  by apply: carried_norm => //; apply: carried_excess => //; exact: hn.
rewrite map_rcons in ha hr; split=> //=; rewrite carried_least (phi1 c) (phiV c) hp hn -ha -!map_comp; congr (_ :: _).
by apply: eq_map => b /=; rewrite (phiM c) (phiB c) (phi1 c) carried_least (phi1 c) (phiV c) hp hn.
Qed.
Lemma carried_without_replacement q qq h : q ~ qq ->
  without_replacement N tokens' q (map e h) ~ without_replacement N' tokens qq h.
Proof.
move=> hq; apply: carried_norm => [y|]; first by rewrite mem_map //; case: ifP; rewrite ?(phi0 c).
by apply: carried_norm => // y; rewrite mem_map //; case: ifP; rewrite ?(phi0 c) ?(phi1 c).
Qed.
Lemma carried_taken g p q pp qq : p ~ pp -> q ~ qq -> taken N g p q ~ taken N' (phi g) pp qq.
Proof. by move=> hp hq y; rewrite /taken carried_least hq (phiV c) hp. Qed.
Lemma carried_k_seq g p q pp qq x : p ~ pp -> q ~ qq ->
  same_selection (k_seq N tokens' g p q (map e x)) (k_seq N' tokens (phi g) pp qq x).
Proof.
move=> hp hq; have ht := carried_taken g hp hq; split=> /=.
  rewrite carried_in_turn -!map_comp; congr in_turn; apply: eq_map => y /=.
  by rewrite carried_least (phi1 c) (phiV c) (phiM c) hp hq.
apply: carried_norm => //; apply: carried_excess => // y; rewrite (phiM c) ht size_map; congr (mul N' _ _).
rewrite /tries -[in LHS](map_id (iota 0 _)); apply: carried_sum => i.
by rewrite carried_pow (phiB c) (phi1 c) (carried_mass ht).
Qed.
Lemma carried_couple p m choice pp mm x : p ~ pp -> m ~ mm ->
  same_selection (couple N tokens' p m choice (map e x)) (couple N' tokens pp mm (map phi choice) x).
Proof.
move=> hp hm; split=> /=; last by apply: carried_norm => //; exact: carried_excess.
by elim: x choice => [|y x ih] [|b l] //=; rewrite ih (phiM c) carried_least (phi1 c) (phiV c) hp hm.
Qed.

(** Optimal selection. *)

Fixpoint carried_tree (w : tree A) : tree A' :=
  if w is Node level i low high then Node (phi level) i (carried_tree low) (carried_tree high) else @Leaf A'.
Definition carried_levels : seq (nat * A) -> seq (nat * A') := map (fun z => (z.1, phi z.2)).

Section Levels.
Variables (p q : T -> A) (pp qq : T' -> A') (k : nat) (s : seq T').
Hypotheses (hp : p ~ pp) (hq : q ~ qq).
Local Notation s' := (map e s).

Lemma carried_t i : phi (t_ N q s' i) = t_ N' qq s i. Proof. by rewrite /t_ -map_take; exact: carried_sum. Qed.
Lemma carried_F i : phi (F_ N p s' i) = F_ N' pp s i. Proof. by rewrite /F_ -map_take; exact: carried_sum. Qed.
Lemma carried_g i : phi (g_ N q k s' i) = g_ N' qq k s i. Proof. by rewrite /g_ carried_pow carried_t. Qed.
Lemma carried_D i : phi (D_ N p q k s' i) = D_ N' pp qq k s i. Proof. by rewrite /D_ (phiB c) carried_g carried_F. Qed.
Lemma carried_G i : phi (G_ N p q k s' i) = G_ N' pp qq k s i.
Proof.
have up j : phi (upto N p q k s' j) = upto N' pp qq k s j by elim: j => [|j ih] /=; rewrite ?carried_most ?ih carried_D.
have down j : phi (down N p q k s' j) = down N' pp qq k s j.
  by elim: j => [|j ih] /=; rewrite ?carried_most ?ih carried_D size_map.
by rewrite /G_ (phiD c) carried_least carried_F up down size_map.
Qed.

Section Build.
Variables (h : nat -> A) (h' : nat -> A').
Hypothesis hh : forall i, phi (h i) = h' i.
Lemma carried_chord a b i : phi (chord N q s' h a b i) = chord N' qq s h' a b i.
Proof. by rewrite /chord (phiD c) (phiM c) (phiB c) (phiV c) !(phiB c) !hh !carried_t. Qed.
End Build.
Lemma carried_drop (h : nat -> A) (h' : nat -> A') a b i : (forall i, phi (h i) = h' i) -> phi (drop_ N q k s' h a b i) = drop_ N' qq k s h' a b i.
Proof. by move=> hh; rewrite /drop_ (phiV c) !(phiB c) (carried_chord hh) (carried_chord carried_g) hh carried_g. Qed.
Lemma carried_build fuel a b (h : nat -> A) (h' : nat -> A') : (forall i, phi (h i) = h' i) ->
  carried_tree (build N q k s' fuel a b h) = build N' qq k s fuel a b h'.
Proof.
elim: fuel a b h h' => [//|fuel ih] a b h h' hh /=; have hd := fun i => carried_drop a b i hh.
have -> : foldr (fun i j => if leb N (drop_ N q k s' h a b j) (drop_ N q k s' h a b i) then i else j) a.+1 (iota a.+1 (b - a.+1))
  = foldr (fun i j => if leb N' (drop_ N' qq k s h' a b j) (drop_ N' qq k s h' a b i) then i else j) a.+1 (iota a.+1 (b - a.+1)).
  by elim: (iota _ _) => [//|i l IH] /=; rewrite IH (phiL c) !hd.
set i := foldr _ _ _; rewrite (phiL c) (phi0 c) hd; case: ifP => //= _; rewrite hd.
by congr Node; apply: ih => j; rewrite (phiB c) (phiV c) (phiB c) (carried_chord hh) hh hd.
Qed.
Lemma carried_levels_of (w : tree A) : carried_levels (levels N w) = levels N' (carried_tree w).
Proof.
have scale a l : carried_levels [seq (z.1, mul N a z.2) | z <- l] = [seq (z.1, mul N' (phi a) z.2) | z <- carried_levels l].
  by rewrite /carried_levels -!map_comp; apply: eq_map => z /=; rewrite (phiM c).
elim: w => [//|a i low ih1 high ih2] /=; rewrite -ih1 -ih2 -!scale /carried_levels map_cat //.
Qed.
Lemma carried_optimal_levels : carried_levels (optimal_levels N p q k s') = optimal_levels N' pp qq k s.
Proof. by rewrite /optimal_levels carried_levels_of size_map (carried_build _ _ _ carried_G). Qed.
Lemma carried_choose l (x : seq nat) : map phi (choose N l x) = choose N' (carried_levels l) x.
Proof.
have cut i top : phi (cut N l i top) = cut N' (carried_levels l) i top.
  by elim: l => [|z l ih] /=; rewrite ?(phi0 c) //; case: ifP; rewrite ?carried_most ih.
have falls a ms : map phi (falls N a ms) = falls N' (phi a) (map phi ms).
  by elim: ms a => [//|b ms ih] a /=; rewrite ih (phiB c) !carried_least.
by rewrite /choose falls (phi1 c) -map_comp; congr (rules.falls _ _ _); apply: eq_map => i /=; rewrite cut.
Qed.
Lemma carried_optimal_law : optimal_law N tokens' p q k s' ~ optimal_law N' tokens pp qq k s.
Proof.
apply: carried_table => y; rewrite /increment mem_map // index_map //.
by case: ifP; rewrite ?(phi0 c) // (phiB c) !carried_G.
Qed.
End Levels.

Lemma carried_by_ratio p q pp qq : p ~ pp -> q ~ qq -> by_ratio N tokens' p q = map e (by_ratio N' tokens pp qq).
Proof.
move=> hp hq; rewrite /by_ratio filter_map (@eq_filter _ _ (fun y => ~~ leb N' (qq y) (zero N'))) => [|y /=].
  by apply/esym/map_sort => y z; rewrite (phiL c) !(phiM c) !hp !hq.
by rewrite (phiL c) (phi0 c) hq.
Qed.
Theorem carried_optimal p q pp qq k x : p ~ pp -> q ~ qq ->
  same_selection (optimal N tokens' p q k (map e x)) (optimal N' tokens pp qq k x).
Proof.
move=> hp hq; rewrite /optimal /optimal_with (carried_by_ratio hp hq).
set s := by_ratio _ _ _ _; rewrite -(carried_optimal_levels k s hp hq).
have -> : [seq index y (map e s) | y <- map e x] = [seq index y s | y <- x].
  by rewrite -map_comp; apply: eq_map => y /=; rewrite index_map.
by rewrite -carried_choose; apply: carried_couple => //; exact: carried_optimal_law.
Qed.
End Carried.

(** From Coq's rationals into a real field. *)
Local Open Scope ring_scope.
Section Rational.
Variable R : realFieldType.
Notation phi := (@of_rational R).

Theorem rational_operations : carries binary (real R) phi.
Proof.
have [mor _ neq lev] := @rationals R; have [p0 p1 pD pB pM pN pE] := mor.
have red x : phi (Qred x) = phi x by apply: pE; apply/Qeq_bool_iff; exact: Qred_correct.
have inv x : phi (Qinv x) = (phi x)^-1.
  case: x => [[|n|n] d]; rewrite /Qinv /of_rational /= ?mul0r ?invr0 //; first by rewrite invf_div.
  by rewrite !mulNr invrN invf_div.
have le x y : Qle_bool x y = (phi x <= phi y).
  apply/idP/idP => [/lev //|h]; case: (Qlt_le_dec y x) => [lt|/Qle_bool_iff //].
  have /lev yx : Qle_bool y x = true by apply/Qle_bool_iff; exact: Qlt_le_weak.
  case e: (Qeq_bool x y); first by apply/Qle_bool_iff/Qle_lteq; right; exact: Qeq_bool_eq.
  by case: (neq _ _ e); apply/eqP; rewrite eq_le h.
split; [exact: p0 | exact: p1 | | | | | exact: le] => x y; rewrite [LHS]red; [exact: pD | exact: pB | exact: pM |].
by rewrite pM inv.
Qed.

(* Tokens 0 .. n - 1, and p and q by their masses. *)
Theorem computed_everywhere n k (ps qs : seq Q) : let p y := nth (zero binary) ps y in let q y := nth (zero binary) qs y in
  let p' (y : 'I_n) := phi (p y) in let q' (y : 'I_n) := phi (q y) in let s := index_enum _ in
  let rule := optimal binary (iota 0 n) p q k in let rule' := optimal (real R) s p' q' k in
  [/\ forall y : 'I_n, phi (output binary (iota 0 n) k (iid binary q) rule y) = output (real R) s k (iid (real R) q') rule' y,
      phi (acceptance binary (iota 0 n) k (iid binary q) rule) = acceptance (real R) s k (iid (real R) q') rule'
    & phi (least_cut binary (iota 0 n) k (iid binary q) p) = least_cut (real R) s k (iid (real R) q') p'].
Proof.
move=> p q p' q' s rule rule'; have c := rational_operations; pose e := @nat_of_ord n; have e_inj : injective e := @ord_inj n.
have tokens : map e s = iota 0 n by rewrite /s -val_enum_ord enumT.
have hp : same_function phi e p p' by []; have hq : same_function phi e q q' by [].
have hl (x : seq 'I_n) : phi (iid binary q (map e x)) = iid (real R) q' x by exact: carried_iid.
have hr (x : seq 'I_n) : same_selection phi e (rule (map e x)) (rule' x) by rewrite /rule -tokens; exact: carried_optimal.
move: rule rule' hr; rewrite -tokens => rule rule' hr; split=> [y||].
- exact: (carried_output c s e_inj k hl hr y).
- exact: (carried_acceptance c s e_inj k hl hr).
exact: (carried_least_cut c s e_inj k hl hp).
Qed.
End Rational.

Print Assumptions carried_output.
Print Assumptions carried_acceptance.
Print Assumptions carried_least_cut.
Print Assumptions carried_optimal.
Print Assumptions rational_operations.
Print Assumptions computed_everywhere.
