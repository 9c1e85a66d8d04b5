(* The optimum of the path program is attained.

   THEOREM (linear_program_attained). A linear program with finitely many constraints f <= 0, feasible and bounded above, has a best point, over
   any real field: its variables are eliminated one after the other (Fourier and Motzkin), which leaves a closed interval of values.
   THEOREM (path_program_attained, best_rule_exists). So has the path program of program_optimum.v; hence one of the lossless rules that know
   both models accepts most, for any drafting of any trees.

   Any real field, any finite set of tokens and of outcomes of the drafting. *)

From Draft Require Import head problem bound sampling path_rules block.
From Draft Require Import block_optimal tree_bound program_optimum.

Section Elimination.
Variable R : realFieldType.
Implicit Types (x : seq R) (z v s t : R) (n : nat).

(* n coefficients, a constant, and the coefficient of a value z. *)
Fixpoint form n : Type := if n is n'.+1 then (R * form n')%type else (R * R)%type.
Fixpoint at_ n : form n -> seq R -> R -> R :=
  if n is n'.+1 then fun f x z => f.1 * head 0 x + at_ f.2 (behead x) z else fun f _ z => f.1 + f.2 * z.
Fixpoint combine s t n : form n -> form n -> form n :=
  if n is n'.+1 then fun f g => (s * f.1 + t * g.1, combine s t f.2 g.2) else fun f g => (s * f.1 + t * g.1, s * f.2 + t * g.2).
Lemma combineE s t n (f g : form n) x z : at_ (combine s t f g) x z = s * at_ f x z + t * at_ g x z.
Proof. by elim: n f g x => [|n ih] f g x /=; rewrite ?ih; ring. Qed.
Definition satisfied n (l : seq (form n)) x z := all (fun f => at_ f x z <= 0) l.

Lemma between_lists (low high : seq R) : (forall s t, s \in low -> t \in high -> s <= t) ->
  exists v, (forall s, s \in low -> s <= v) /\ (forall t, t \in high -> v <= t).
Proof.
elim: low => [|a low ih] h.
  elim: high {h} => [|b high [v [_ hv]]]; first by exists 0.
  exists (Num.min b v); split=> // t; rewrite inE => /orP[/eqP->|/hv vt]; first by rewrite le_minl lexx.
  by rewrite le_minl vt orbT.
have [|v [lv hv]] := ih; first by move=> s t sl; apply: h; rewrite inE sl orbT.
exists (Num.max a v); split=> [s|t th]; last by rewrite le_maxl hv // h // inE eqxx.
by rewrite inE => /orP[/eqP->|/lv sv]; rewrite le_maxr ?lexx // sv orbT.
Qed.

Lemma between (low high : seq R) : all (fun t => all (fun s => s <= t) low) high ->
  exists v, all (fun s => s <= v) low /\ all (fun t => v <= t) high.
Proof.
move=> h; have [s t sl th|v [l h']] := @between_lists low high; first by move/allP: h => /(_ t th)/allP; exact.
by exists v; split; apply/allP.
Qed.

(* The first variable is eliminated: upper bounds of it against lower ones. *)
Definition eliminated n (l : seq (form n.+1)) : seq (form n) :=
  [seq f.2 | f <- l & f.1 == 0]
  ++ flatten [seq [seq combine f.1^-1 (- g.1^-1) f.2 g.2 | g <- l & g.1 < 0] | f <- l & 0 < f.1].

Lemma all_flatten (X : Type) (a : pred X) ss : all a (flatten ss) = all (all a) ss.
Proof. by elim: ss => //= s ss ih; rewrite all_cat ih. Qed.
Lemma eliminatedP n (l : seq (form n.+1)) x z : satisfied (eliminated l) x z <-> exists v, satisfied l (v :: x) z.
Proof.
pose bound (f : form n.+1) := - (at_ f.2 x z / f.1).
have upper (f : form n.+1) v : 0 < f.1 -> (at_ f (v :: x) z <= 0) = (v <= bound f).
  by move=> f0; rewrite /bound -mulNr ler_pdivl_mulr //= mulrC -[LHS]subr_le0 -[RHS]subr_le0 subr0 opprK.
have lower (f : form n.+1) v : f.1 < 0 -> (at_ f (v :: x) z <= 0) = (bound f <= v).
  by move=> f0; rewrite /bound -mulNr ler_ndivr_mulr //= -[RHS]subr_le0 opprK mulrC.
have pair (f g : form n.+1) : 0 < f.1 -> g.1 < 0 -> (at_ (combine f.1^-1 (- g.1^-1) f.2 g.2) x z <= 0) = (bound g <= bound f).
  by move=> f0 g0; rewrite combineE /bound -[RHS]subr_le0 opprK; congr (_ <= 0); rewrite mulNr addrC; congr (- _ + _); exact: mulrC.
rewrite /satisfied all_cat all_map all_filter all_flatten all_map all_filter; split=> [/andP[zeros pairs]|[v sat]].
  have [|v []] := @between [seq bound g | g : form n.+1 <- l & g.1 < 0] [seq bound f | f : form n.+1 <- l & 0 < f.1].
    rewrite all_map all_filter; apply: sub_all pairs => f /=; case: ltP => //= f0; rewrite !all_map !all_filter.
    by apply: sub_all => g /=; case: ltP => //= g0; rewrite pair.
  rewrite !all_map !all_filter => lo hi; exists v.
  elim: (l) zeros lo hi => [//|f s ih] /=; case/andP => z0 zs; case/andP => l0 ls; case/andP => h0 hs; rewrite ih // andbT.
  move: z0 l0 h0; case: (ltgtP f.1 0) => f0 /= z0 l0 h0; [by rewrite lower | by rewrite upper |].
  by rewrite f0 mul0r add0r.
apply/andP; split; first by apply: sub_all sat => f /=; case: eqP => //= ->; rewrite mul0r add0r.
apply: sub_all (sat) => f hf /=; case: ltP => //= f0; rewrite all_map all_filter; apply: sub_all sat => g hg /=.
by case: ltP => //= g0; rewrite pair // (@le_trans _ _ v) -?lower -?upper.
Qed.

(* The values that can be reached: what is left when all variables are eliminated. *)
Lemma projected n (l : seq (form n)) : exists l0 : seq (form 0), forall z, (exists x, satisfied l x z) <-> satisfied l0 [::] z.
Proof.
elim: n l => [|n ih] l; first by exists l => z; split=> [[x]|]; [|exists [::]].
have [l0 h] := ih (eliminated l); exists l0 => z; rewrite -h; split=> [[x]|[x /eliminatedP[v sat]]]; last by exists (v :: x).
case: x => [|v x] sat; [exists [::] | exists x]; apply/eliminatedP; [exists 0 | by exists v].
by move: sat; rewrite /satisfied => /(sub_all _); apply=> f /=.
Qed.

Theorem linear_program_attained n (l : seq (form n)) z0 B : (exists x, satisfied l x z0) ->
  (forall x z, satisfied l x z -> z <= B) -> exists x z, satisfied l x z /\ forall x' z', satisfied l x' z' -> z' <= z.
Proof.
have [l0 h] := projected l; move=> /h s0 below.
pose tops := [seq - (f.1 / f.2) | f : form 0 <- l0 & 0 < f.2].
have topsE z : all (fun t => z <= t) tops -> z0 <= z -> satisfied l0 [::] z.
  rewrite all_map all_filter => ts zz; rewrite /satisfied; elim: (l0) s0 ts => [//|f s ih] /= /andP[f0 s0] /andP[ft st]; rewrite ih // andbT.
  case: (ltP 0 f.2) ft => /= [f2|f2 _]; first by rewrite -mulNr ler_pdivl_mulr // -subr_ge0 => ?; lra.
  by have := ler_wnmul2l f2 zz; rewrite ![f.2 * _]mulrC; lra.
have le_tops z : satisfied l0 [::] z -> all (fun t => z <= t) tops.
  rewrite all_map all_filter; apply: sub_all => f /=; case: ltP => //= f2.
  by rewrite -mulNr ler_pdivl_mulr // => ?; lra.
case e: tops => [|t ts].
  have /h[x /below] : satisfied l0 [::] (Num.max z0 (B + 1)) by apply: topsE; rewrite ?e // le_maxr lexx.
  by rewrite le_maxl => /andP[_ le]; exfalso; clear -le; lra.
pose z := foldr Num.min t ts.
have zmin : all (fun t' => z <= t') tops.
  rewrite e /z; elim: (ts) => [|a r ih] /=; first by rewrite lexx.
  move: ih => /= /andP[i1 i2]; rewrite !le_minl lexx i1 orbT /=; apply: sub_all i2 => b /= zb; by rewrite le_minl zb orbT.
have zmax z' : all (fun t' => z' <= t') tops -> z' <= z.
  rewrite e /z; elim: (ts) => [|a r ih] /= /andP[z1 z2]; first by [].
  by move: z2 => /andP[za zr]; rewrite le_minr za ih //= z1.
have /h[x sx] : satisfied l0 [::] z by apply: topsE => //; apply: zmax; exact: le_tops.
exists x, z; split=> // x' z' s'; apply: zmax; apply: le_tops; apply/h; by exists x'.
Qed.

(* Functions of the variables that a form can say. *)
Definition affine n (F : seq R -> R) := {f : form n | forall x z, at_ f x z = F x}.
Lemma affine_const n a : affine n (fun _ => a).
Proof.
elim: n => [|n [f e]]; first by exists (a, 0) => x z /=; rewrite mul0r addr0.
by exists ((0, f) : form n.+1) => x z /=; rewrite e mul0r add0r.
Qed.
Lemma affine_var n i : (i < n)%N -> affine n (fun x => nth 0 x i).
Proof.
elim: n i => [//|n ih] [_|i /ih[f e]].
  have [f e] := affine_const n 0; exists ((1, f) : form n.+1) => x z /=; by rewrite e mul1r addr0; case: x.
by exists ((0, f) : form n.+1) => x z /=; rewrite e mul0r add0r; case: x => //=; rewrite nth_nil.
Qed.
Lemma affine_combine n a b F G : affine n F -> affine n G -> affine n (fun x => a * F x + b * G x).
Proof. by move=> [f e] [g e']; exists (combine a b f g) => x z; rewrite combineE e e'. Qed.
Lemma affine_sum n (I : Type) (s : seq I) F : (forall i, affine n (F i)) -> affine n (fun x => \sum_(i <- s) F i x).
Proof.
move=> h; elim: s => [|i s ih]; first by have [f e] := affine_const n 0; exists f => x z; rewrite big_nil.
by have [f e] := affine_combine 1 1 (h i) ih; exists f => x z; rewrite big_cons e !mul1r.
Qed.
(* A best value of an affine objective under affine constraints, each <= 0. *)
Theorem affine_program_attained n (constraints : seq {F : seq R -> R & affine n F}) O B : affine n O ->
  let ok x := all (fun F : {F : seq R -> R & affine n F} => tag F x <= 0) constraints in
  (exists x, ok x) -> (forall x, ok x -> O x <= B) -> exists2 x, ok x & forall x', ok x' -> O x' <= O x.
Proof.
move=> [o eo] ok [x0 ok0] below; pose l := [seq sval (tagged F) | F <- constraints].
have okE x z : satisfied l x z = ok x by rewrite /satisfied all_map; apply: eq_all => F /=; rewrite (svalP (tagged F)).
(* z <= O x *)
have [value ev] : {f : form n | forall x z, at_ f x z = z - O x}.
  suff [g eg] : {g : form n | forall x z, at_ g x z = z} by exists (combine 1 (-1) g o) => x z; rewrite combineE eg eo mul1r mulN1r.
  elim: n {constraints O o eo ok ok0 below l okE} => [|n [g eg]]; first by exists (0, 1) => x z /=; rewrite mul1r add0r.
  by exists ((0, g) : form n.+1) => x z /=; rewrite eg mul0r add0r.
have satE x z : satisfied (value :: l) x z = (z <= O x) && ok x by rewrite /satisfied /= ev subr_le0 -/(satisfied l x z) okE.
have [||x [z [sx best]]] := @linear_program_attained n (value :: l) (O x0) B.
- by exists x0; rewrite satE lexx.
- by move=> x z; rewrite satE => /andP[zx /below]; exact: le_trans.
move: sx; rewrite satE => /andP[zx okx]; exists x => // x' ok'; apply: le_trans zx.
by apply: (best x'); rewrite satE lexx.
Qed.
End Elimination.

Section Program.
Variables (R : realFieldType) (T : finType) (p : seq T -> T -> R).
Hypothesis p_law : forall h, law (p h).
Variables (W : finType) (Q : W -> R) (node : W -> pred (seq T)) (L : nat).
Hypotheses (Q_ge0 : forall w, 0 <= Q w) (Q_one : \sum_w Q w = 1).
Hypotheses (root : forall w, node w [::]) (parents : forall w u c, node w (rcons u c) -> node w u).
Hypothesis depth : forall w u, node w u -> (size u <= L)%N.
Implicit Types (s : W -> seq T -> T -> R) (a : W -> seq T -> R) (u v : seq T) (c : T).
Notation feasible := (feasible p Q node).
Notation objective := (objective Q L).

(* The variables: one for each outcome and each prefix that can be on a tree. *)
Let prefixes : seq (seq T) := flatten [seq drafts i | i <- iota 0 L.+1].
Let variables : seq (W * seq T) := [seq (w, v) | w <- enum W, v <- prefixes].
Let n := size variables.
Let point (x : seq R) w v : R := if node w v then (if v is [::] then 1 else nth 0 x (index (w, v) variables)) else 0.

Let prefixesE v : (v \in prefixes) = (size v <= L)%N.
Proof.
apply/flattenP/idP => [[s /mapP[i]]|vL]; first by rewrite mem_iota ltnS => /= iL ->; rewrite mem_drafts => /eqP->.
by exists (drafts (size v)); [apply: map_f; rewrite mem_iota ltnS | rewrite mem_drafts].
Qed.
Let variable w v : (size v <= L)%N -> (w, v) \in variables.
Proof. by move=> vL; apply/allpairsP; exists (w, v); rewrite /= mem_enum prefixesE. Qed.
Let point_affine w v : affine n (fun x => point x w v).
Proof.
rewrite /point; case e: (node w v); last exact: affine_const.
case: v e => [|c v] e; first exact: affine_const.
by apply: affine_var; rewrite index_mem; apply: variable; exact: depth e.
Qed.
Let mean_affine v : affine n (fun x => mean Q (point x) v).
Proof.
have [f e] := affine_sum (index_enum W) (fun w => affine_combine (Q w) 0 (point_affine w v) (point_affine w v)).
by exists f => x z; rewrite e; apply: eq_bigr => w _; rewrite mul0r addr0.
Qed.
Let constraint F (h : affine n F) : {F : seq R -> R & affine n F} := existT _ F h.
Let kids_affine w u : affine n (fun x => 1 * (\sum_(c <- index_enum T) point x w (rcons u c)) + (-1) * point x w u).
Proof. by apply: affine_combine => //; apply: affine_sum. Qed.
Let constraints := [seq constraint (affine_combine (-1) 0 (point_affine z.1 z.2) (point_affine z.1 z.2)) | z <- variables]
  ++ [seq constraint (kids_affine z.1 z.2) | z <- variables]
  ++ [seq constraint (affine_combine 1 (- p z.1 z.2) (mean_affine (rcons z.1 z.2)) (mean_affine z.1)) | z <- [seq (u, c) | u <- prefixes, c <- enum T]].
Let ok x := all (fun F : {F : seq R -> R & affine n F} => tag F x <= 0) constraints.

Let deep a w v : feasible a -> (L < size v)%N -> a w v = 0.
Proof. by move=> [_ out _ _ _] vL; apply: out; apply/negP => /depth; rewrite leqNgt vL. Qed.

Let okP x : ok x <-> feasible (point x).
Proof.
rewrite /ok /constraints !all_cat !all_map; split=> [/and3P[/allP k1 /allP k2 /allP k3]|fx].
  have off w v : ~~ node w v -> point x w v = 0 by rewrite /point => /negbTE->.
  have far w v : (L < size v)%N -> point x w v = 0 by move=> vL; apply: off; apply/negP => /depth; rewrite leqNgt vL.
  split=> [w v|//|w|w u|u c]; last 1 first.
  - case: (leqP (size u) L) => uL; last first.
      rewrite /mean [leLHS]big1 => [|w _]; first by rewrite [X in _ * X]big1 ?mulr0 // => w _; rewrite far ?mulr0.
      by rewrite far ?mulr0 // size_rcons ltnW.
    have /k3 /= : (u, c) \in [seq (u, c) | u <- prefixes, c <- enum T] by apply/allpairsP; exists (u, c); rewrite /= mem_enum prefixesE.
    by rewrite mul1r mulNr subr_le0.
  - case: (leqP (size v) L) => vL; last by rewrite far.
    by have /k1 /= := variable w vL; rewrite mul0r addr0 mulN1r oppr_le0.
  - by rewrite /point root.
  case: (leqP (size u) L) => uL; last by rewrite far // big1 // => c _; rewrite far // size_rcons ltnW.
  by have /k2 /= := variable w uL; rewrite mul1r mulN1r subr_le0.
have [f0 out f1 kids cap] := fx; apply/and3P; split; apply/allP => z _ /=.
- by rewrite mul0r addr0 mulN1r oppr_le0.
- by rewrite mul1r mulN1r subr_le0.
by rewrite mul1r mulNr subr_le0.
Qed.

(* Any feasible a is a point. *)
Let of_point a : feasible a -> exists2 x, ok x & forall w v, point x w v = a w v.
Proof.
move=> fa; have [a0 out a1 kids cap] := fa; pose x := [seq a z.1 z.2 | z <- variables].
have e w v : point x w v = a w v.
  rewrite /point; case: ifPn => nv; last by rewrite out.
  case: v nv => [|c v] nv; first by rewrite a1.
  have vin : (w, c :: v) \in variables by apply: variable; exact: depth nv.
  by rewrite (nth_map (w, c :: v)) ?index_mem // nth_index.
exists x => //; apply/okP; split=> [w v|w v|w|w u|u c]; rewrite ?e //; first exact: out.
  by under eq_bigr do rewrite e.
have m v : mean Q (point x) v = mean Q a v by apply: eq_bigr => w _; rewrite e.
by rewrite !m.
Qed.
Let objective_eq a b : (forall w v, a w v = b w v) -> objective a = objective b.
Proof. by move=> e; apply: eq_bigr => i _; apply: eq_bigr => v _; apply: eq_bigr => w _; rewrite e. Qed.

Theorem path_program_attained : exists2 a, feasible a & forall b, feasible b -> objective b <= objective a.
Proof.
have objective_affine : affine n (fun x => objective (point x)).
  by apply: affine_sum => i; apply: affine_sum => v; exact: mean_affine.
have [||x /okP fx best] := @affine_program_attained _ n constraints _ (caps p (drafted Q node) L [::] 1) objective_affine.
- have [|x okx _] := @of_point (fun w v => if v is [::] then 1 else 0); last by exists x.
  split=> [w v|w v|w|w u|u c] //; first by case: v => [|c v]; rewrite ?ler01 ?lexx.
  + by case: v => // /negP; rewrite root.
  + by rewrite big1 => [|c _]; case: u => [|c' u]; rewrite ?ler01 ?lexx.
  rewrite /mean big1 => [|w _]; last by case: u => [|c' u]; rewrite mulr0.
  by rewrite mulr_ge0 ?sumr_ge0 // => [|w _]; [case: (p_law u) | case: u => [|c' u]; rewrite ?mulr1 ?mulr0].
- move=> x /okP fx; have [[s0 out one los] <- _] := program_rule p_law Q_one parents depth fx.
  have -> : accepts Q L (rule_of p Q (point x)) = \sum_w Q w * more (rule_of p Q (point x) w) L [::].
    by apply: eq_bigr => w _; rewrite moreE.
  by apply: tree_bound => // w; rewrite -reach_root one.
exists (point x) => // b fb; have [y oky e] := of_point fb; rewrite -(objective_eq e); exact: best.
Qed.

Theorem best_rule_exists : exists2 s, lossless_rule p Q node L s & forall s', lossless_rule p Q node L s' -> accepts Q L s' <= accepts Q L s.
Proof.
have [a fa best] := path_program_attained; have [ok_a e _] := program_rule p_law Q_one parents depth fa.
exists (rule_of p Q a) => // s' /(rule_feasible p_law Q_ge0 parents depth)[f' ->]; rewrite e; exact: best.
Qed.
End Program.

Print Assumptions linear_program_attained.
Print Assumptions path_program_attained.
Print Assumptions best_rule_exists.
