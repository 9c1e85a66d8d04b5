(* What is computed along paths over Coq's rationals holds over every real field.

   In the notation of carried.v: phi keeps the seven operations, e names tokens by others, and models p, q are carried to p', q'.
   THEOREM (carried_token_wise, carried_block, carried_traversal, carried_joint, carried_optimal_joint). Then the law of the text and the
   expected number of accepted tokens of each rule of path_rules.v, and what it does on given paths, are carried to those for p' and q'.
   THEOREM (paths_everywhere). Tokens 0 .. n - 1 and models in rationals, as in bridge_paths.v: the values computed there are those of the
   theorems' terms over the tokens 'I_n and any real field. *)

From Coq Require Import QArith.
From mathcomp Require Import all_ssreflect all_algebra.
From Draft Require Import lra rules path_rules carried.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Section Carried.
Variables (A A' : Type) (N : numbers A) (N' : numbers A') (phi : A -> A').
Hypothesis c : carries N N' phi.
Variables (T T' : eqType) (e : T' -> T) (tokens : seq T').
Hypothesis e_inj : injective e.
Variables (p q : seq T -> T -> A) (pp qq : seq T' -> T' -> A').
Local Infix "~" := (same_function phi e) (at level 70).
Hypotheses (hp : forall h, p (map e h) ~ pp h) (hq : forall h, q (map e h) ~ qq h).
Implicit Types (h x z : seq T') (xs : seq (seq T')) (w : A) (L K : nat).
Local Notation tokens' := (map e tokens).
Local Notation named := (map (map e)).

Let drop_if b (x : A) : phi (if b then x else zero N) = if b then phi x else zero N'.
Proof. by case: b => //; exact: phi0. Qed.

Lemma carried_next_weight h w m mm y : m ~ mm -> phi (next_weight N p (map e h) w m (e y)) = next_weight N' pp h (phi w) mm y.
Proof. by move=> hm; rewrite /next_weight (carried_least c) (phi1 c) (phiV c) (phiM c) hp hm. Qed.
Lemma carried_left_over h w m mm : m ~ mm -> left_over N tokens' p (map e h) w m ~ left_over N' tokens pp h (phi w) mm.
Proof. by move=> hm; apply: (carried_excess c) => // y; rewrite (phiM c) hp. Qed.
Lemma carried_test h w m mm : m ~ mm -> phi (test N tokens' p (map e h) w m) = test N' tokens pp h (phi w) mm.
Proof.
move=> hm; rewrite /test (phiL c) (phiD c) (phiB c) (phi1 c) (phi0 c) (carried_mass c tokens (carried_left_over h w hm)).
by case: ifP => _; rewrite ?(phi1 c) // (phiV c) (phiD c) (phiB c) (phi1 c) (carried_mass c tokens (carried_left_over h w hm)).
Qed.
Lemma carried_following h w m mm : m ~ mm -> following N tokens' p (map e h) w m ~ following N' tokens pp h (phi w) mm.
Proof. by move=> hm; apply: (carried_norm c) => //; exact: carried_left_over. Qed.
Lemma carried_continued h z : phi (in_sequence N p (map e h) (map e z)) = in_sequence N' pp h z.
Proof. exact: (carried_in_sequence c). Qed.

(** One path. *)

Lemma carried_block_passes h w x : phi (block_passes N tokens' p q (map e h) w (map e x)) = block_passes N' tokens pp qq h (phi w) x.
Proof.
elim: x h w => [//|y x ih] h w /=.
by rewrite (phiD c) (phiM c) (phiB c) (phi1 c) -map_rcons ih (carried_next_weight _ _ _ (hq h)) (carried_test _ _ (hq h)).
Qed.
Lemma carried_block_emits h w x z :
  phi (block_emits N tokens' p q (map e h) w (map e x) (map e z)) = block_emits N' tokens pp qq h (phi w) x z.
Proof.
elim: x h w z => [|y x ih] h w [|a z] /=; rewrite ?(phi0 c) // ?(phiM c) ?(phi1 c) ?hp -?map_rcons ?carried_continued //.
rewrite (phiD c) drop_if (inj_eq e_inj) ih !(phiM c) (phiB c) (phi1 c) carried_block_passes (carried_next_weight _ _ _ (hq h)).
by rewrite (carried_test _ _ (hq h)) (carried_following _ _ (hq h)) -carried_continued.
Qed.
Lemma carried_block_length h w x : phi (block_length N tokens' p q (map e h) w (map e x)) = block_length N' tokens pp qq h (phi w) x.
Proof.
elim: x h w => [|y x ih] h w /=; first exact: phi0.
by rewrite (phiD c) -map_rcons ih carried_block_passes (carried_next_weight _ _ _ (hq h)).
Qed.

Lemma carried_path_law x : phi (in_sequence N q [::] (map e x)) = in_sequence N' qq [::] x.
Proof. exact: (carried_in_sequence c [::]). Qed.
Theorem carried_block L z :
  phi (block_output N tokens' p q L (map e z)) = block_output N' tokens pp qq L z
  /\ phi (expected_block N tokens' p q L) = expected_block N' tokens pp qq L.
Proof.
have b1 := phi1 c; split; rewrite /block_output /expected_block carried_drafts; apply: (carried_sum c) => x.
  by rewrite (phiM c) carried_path_law -b1 -(carried_block_emits [::]).
by rewrite (phiM c) carried_path_law -b1 -(carried_block_length [::]).
Qed.

(** Several paths. *)

Lemma carried_bundles L K : bundles tokens' L K = map named (bundles tokens L K).
Proof. by rewrite /bundles carried_drafts carried_drafts. Qed.
Lemma carried_bundle_law xs : phi (bundle_law N q [::] (named xs)) = bundle_law N' qq [::] xs.
Proof. by elim: xs => [|x xs ih]; rewrite /bundle_law /= ?(phi1 c) // (phiM c) carried_path_law; congr mul. Qed.
Lemma carried_heads xs : heads (named xs) = map e (heads xs).
Proof. by elim: xs => [//|[|y x] xs ih]; rewrite /heads /= ?[RHS]/= -?ih. Qed.
Lemma carried_survivors y xs : survivors (e y) (named xs) = named (survivors y xs).
Proof.
rewrite /survivors filter_map -!map_comp (@eq_filter _ _ (fun x => ohead x == Some y)) => [|[|a x] //=].
  by apply: eq_map => -[|a x].
exact: (inj_eq (inj_comp (@Some_inj _) e_inj) a y).
Qed.
Lemma carried_mem y x : (e y \in map e x) = (y \in x). Proof. exact: mem_map. Qed.

Lemma carried_expected L K f g : (forall xs, phi (f (named xs)) = g xs) -> phi (expected N tokens' q L K f) = expected N' tokens qq L K g.
Proof. by move=> h; rewrite /expected carried_bundles; apply: (carried_sum c) => xs; rewrite (phiM c) carried_bundle_law h. Qed.

Section TokenWise.
Variables (rule : seq T -> seq T -> selection A T) (rule' : seq T' -> seq T' -> selection A' T').
Hypothesis hr : forall h x, same_selection phi e (rule (map e h) (map e x)) (rule' h x).
Lemma carried_token_wise_emits h L xs z :
  phi (token_wise_emits N p rule (map e h) L (named xs) (map e z)) = token_wise_emits N' pp rule' h L xs z.
Proof.
elim: L h xs z => [|L ih] h xs [|a z]; try exact: carried_continued; try exact: (phi1 c).
rewrite /= (phiM c) carried_heads (carried_row c e_inj _ (hr h _)) carried_mem -map_rcons carried_survivors.
by case: ifP => _; rewrite ?ih ?carried_continued.
Qed.
Lemma carried_token_wise_length h L xs :
  phi (token_wise_length N tokens' rule (map e h) L (named xs)) = token_wise_length N' tokens rule' h L xs.
Proof.
elim: L h xs => [|L ih] h xs; first exact: phi0.
rewrite /= carried_heads filter_map (@eq_filter _ _ (fun y => y \in heads xs)) => [|y]; last exact: carried_mem.
apply: (carried_sum c) => y; rewrite (phiM c) (phiD c) (phi1 c) (carried_row c e_inj _ (hr h _)) -map_rcons carried_survivors.
by rewrite ih.
Qed.
Theorem carried_token_wise L K z :
  phi (token_wise_output N tokens' p q rule L K (map e z)) = token_wise_output N' tokens pp qq rule' L K z
  /\ phi (expected_token_wise N tokens' q rule L K) = expected_token_wise N' tokens qq rule' L K.
Proof.
split; last by apply: carried_expected => xs; exact: (carried_token_wise_length [::]).
rewrite /token_wise_output carried_bundles; apply: (carried_sum c) => xs.
by rewrite (phiM c) carried_bundle_law (carried_token_wise_emits [::]).
Qed.
End TokenWise.

(* What Traversal hands on at the root. *)
Lemma carried_left (r : T -> A) (rr : T' -> A') w : r ~ rr ->
  excess N tokens' (fun y => mul N w (r y)) (q [::]) ~ excess N' tokens (fun y => mul N' (phi w) (rr y)) (qq [::]).
Proof. by move=> hr; apply: (carried_excess c) => // [y|]; rewrite ?(phiM c) ?hr //; exact: (hq [::]). Qed.
Lemma carried_handed (r : T -> A) (rr : T' -> A') w : r ~ rr ->
  phi (let rest := mass N tokens' (excess N tokens' (fun y => mul N w (r y)) (q [::])) in
    let lost := sub N (one N) w in if leb N (add N rest lost) (zero N) then one N else div N rest (add N rest lost))
  = let rest := mass N' tokens (excess N' tokens (fun y => mul N' (phi w) (rr y)) (qq [::])) in
    let lost := sub N' (one N') (phi w) in if leb N' (add N' rest lost) (zero N') then one N' else div N' rest (add N' rest lost).
Proof.
move=> hr; have hm := carried_mass c tokens (carried_left w hr); cbv zeta.
by rewrite (phiL c) (phiD c) (phiB c) (phi1 c) (phi0 c) hm; case: ifP => _; rewrite ?(phi1 c) // (phiV c) (phiD c) (phiB c) (phi1 c) hm.
Qed.
Lemma carried_first (r : T -> A) (rr : T' -> A') w y : r ~ rr ->
  phi (least N (one N) (div N (mul N w (r (e y))) (q [::] (e y)))) = least N' (one N') (div N' (mul N' (phi w) (rr y)) (qq [::] y)).
Proof. by move=> hr; rewrite (carried_least c) (phi1 c) (phiV c) (phiM c) hr (hq [::]). Qed.
Lemma carried_traversal_emits (r : T -> A) (rr : T' -> A') w xs z : r ~ rr ->
  phi (traversal_emits N tokens' p q r w (named xs) (map e z)) = traversal_emits N' tokens pp qq rr (phi w) xs z.
Proof.
elim: xs r rr w z => [|[|y x] xs ih] r rr w [|a z] hr; try exact: (phi0 c);
  try by rewrite /= !(phiM c) hr (carried_continued [:: a]).
have hl := carried_left w hr; have hh := carried_handed w hr; have hf := carried_first w y hr; cbv zeta in hh.
rewrite /= (phiD c) (phiM c) (phiB c) (phi1 c) drop_if (inj_eq e_inj).
rewrite (carried_block_emits [:: y]) (carried_block_passes [:: y]) hf; congr (add N' _ (mul N' _ _)).
by rewrite -hh -(ih _ _ _ (a :: z) (carried_norm c tokens e_inj hl hr)).
Qed.
Lemma carried_traversal_length (r : T -> A) (rr : T' -> A') w xs : r ~ rr ->
  phi (traversal_length N tokens' p q r w (named xs)) = traversal_length N' tokens pp qq rr (phi w) xs.
Proof.
elim: xs r rr w => [|[|y x] xs ih] r rr w hr; try exact: (phi0 c).
have hl := carried_left w hr; have hh := carried_handed w hr; have hf := carried_first w y hr; cbv zeta in hh.
rewrite /= !(phiD c) (phiM c) (phiB c) (phi1 c) (carried_block_length [:: y]) (carried_block_passes [:: y]) hf.
by congr (add N' _ (mul N' _ _)); rewrite -hh -(ih _ _ _ (carried_norm c tokens e_inj hl hr)).
Qed.
Theorem carried_traversal L K z :
  phi (traversal_output N tokens' p q L K (map e z)) = traversal_output N' tokens pp qq L K z
  /\ phi (expected_traversal N tokens' p q L K) = expected_traversal N' tokens pp qq L K.
Proof.
have h1 := phi1 c; split; last by apply: carried_expected => xs; rewrite (carried_traversal_length _ _ (hp [::])) h1.
rewrite /traversal_output carried_bundles; apply: (carried_sum c) => xs.
by rewrite (phiM c) carried_bundle_law (carried_traversal_emits _ _ _ (hp [::])) h1.
Qed.

(** Joint. *)

Section Joint.
Variables (choice : seq T -> A -> seq T -> seq A) (choice' : seq T' -> A' -> seq T' -> seq A').
Variables (m : seq T -> A -> nat -> T -> A) (mm : seq T' -> A' -> nat -> T' -> A').
Hypothesis hc : forall h w x, map phi (choice (map e h) w (map e x)) = choice' h (phi w) x.
Hypothesis hm : forall h w j, m (map e h) w j ~ mm h (phi w) j.

Lemma carried_chance h w x y : phi (chance N choice (map e h) w (map e x) (e y)) = chance N' choice' h (phi w) x y.
Proof.
rewrite /chance -hc; elim: x (choice _ _ _) => [|b x ih] [|a l] /=; rewrite ?(phi0 c) //.
by rewrite (phiD c) ih drop_if (inj_eq e_inj).
Qed.
Lemma carried_joint_passes h w L xs :
  phi (joint_passes N tokens' p choice m (map e h) w L (named xs)) = joint_passes N' tokens pp choice' mm h (phi w) L xs.
Proof.
elim: L h w xs => [//|L ih] h w xs; rewrite /= size_map; apply: (carried_sum c) => y.
rewrite (phiM c) carried_heads carried_chance (phiD c) (phiM c) (phiB c) (phi1 c) -map_rcons carried_survivors ih.
by rewrite (carried_next_weight _ _ _ (hm h w _)) (carried_test _ _ (hm h w _)).
Qed.
Lemma carried_joint_emits h w L xs z :
  phi (joint_emits N tokens' p choice m (map e h) w L (named xs) (map e z)) = joint_emits N' tokens pp choice' mm h (phi w) L xs z.
Proof.
elim: L h w xs z => [|L ih] h w xs [|a z]; try by rewrite /= !(phiM c) ?(phi1 c) ?hp -?map_rcons ?carried_continued.
rewrite /= size_map; apply: (carried_sum c) => y.
rewrite (phiM c) carried_heads carried_chance (phiD c) drop_if (inj_eq e_inj) -map_rcons carried_survivors ih.
rewrite (phiM c) (phiB c) (phi1 c) carried_joint_passes (carried_next_weight _ _ _ (hm h w _)) !(phiM c).
by rewrite (carried_test _ _ (hm h w _)) (carried_following _ _ (hm h w _)) -map_rcons carried_continued.
Qed.
Lemma carried_joint_length h w L xs :
  phi (joint_length N tokens' p choice m (map e h) w L (named xs)) = joint_length N' tokens pp choice' mm h (phi w) L xs.
Proof.
elim: L h w xs => [|L ih] h w xs; first exact: (phi0 c).
rewrite /= size_map; apply: (carried_sum c) => y.
rewrite (phiM c) carried_heads carried_chance (phiD c) -map_rcons carried_survivors ih carried_joint_passes.
by rewrite (carried_next_weight _ _ _ (hm h w _)).
Qed.
Theorem carried_joint L K z :
  phi (joint_output N tokens' p q choice m L K (map e z)) = joint_output N' tokens pp qq choice' mm L K z
  /\ phi (expected N tokens' q L K (joint_length N tokens' p choice m [::] (one N) L))
    = expected N' tokens qq L K (joint_length N' tokens pp choice' mm [::] (one N') L).
Proof.
have h1 := phi1 c; split; last by apply: carried_expected => xs; rewrite -h1; exact: (carried_joint_length [::]).
rewrite /joint_output carried_bundles; apply: (carried_sum c) => xs.
by rewrite (phiM c) carried_bundle_law -h1 (carried_joint_emits [::]).
Qed.
End Joint.

Section Optimal.
Variables (h : seq T') (w : A).
Let wp y := mul N w (p (map e h) y).
Let wpp y := mul N' (phi w) (pp h y).
Let hw : wp ~ wpp. Proof. by move=> y; rewrite /wp (phiM c) hp. Qed.
Lemma carried_optimal_choice x : map phi (optimal_choice N tokens' p q (map e h) w (map e x)) = optimal_choice N' tokens pp qq h (phi w) x.
Proof.
rewrite /optimal_choice -/wp (carried_by_ratio c tokens hw (hq h)) size_map (carried_choose c).
rewrite (carried_optimal_levels c _ _ hw (hq h)); congr choose; rewrite -map_comp; apply: eq_map => y /=; exact: index_map.
Qed.
Lemma carried_optimal_selected j : optimal_selected N tokens' p q (map e h) w j ~ optimal_selected N' tokens pp qq h (phi w) j.
Proof. by rewrite /optimal_selected -/wp (carried_by_ratio c tokens hw (hq h)); exact: carried_optimal_law. Qed.
End Optimal.

Theorem carried_optimal_joint L K z :
  phi (optimal_joint_output N tokens' p q L K (map e z)) = optimal_joint_output N' tokens pp qq L K z
  /\ phi (expected_joint N tokens' p q L K) = expected_joint N' tokens pp qq L K.
Proof. by apply: carried_joint => [h w x|h w j]; [exact: carried_optimal_choice | exact: carried_optimal_selected]. Qed.
End Carried.

(** From Coq's rationals into a real field. *)
Section Rational.
Variables (R : realFieldType) (n L K : nat) (p q : seq nat -> nat -> Q) (z : seq 'I_n).
Notation phi := (@of_rational R).
Notation name := (@nat_of_ord n).
Let N := binary.
Let N' := real R.
Let s := iota 0 n.
Let s' := index_enum [finType of 'I_n].
Let p' (h : seq 'I_n) (y : 'I_n) := phi (p (map name h) y).
Let q' (h : seq 'I_n) (y : 'I_n) := phi (q (map name h) y).
Let recursive A (N : numbers A) (T : eqType) s (p q : seq T -> T -> A) h x := recursive_rejection N s (fun _ => q h) [::] (p h) x.
Let best A (N : numbers A) (T : eqType) s (p q : seq T -> T -> A) h (x : seq T) := optimal N s (p h) (q h) (size x) x.

Theorem paths_everywhere :
  [/\ phi (token_wise_output N s p q (recursive N s p q) L K (map name z)) = token_wise_output N' s' p' q' (recursive N' s' p' q') L K z,
      phi (token_wise_output N s p q (best N s p q) L K (map name z)) = token_wise_output N' s' p' q' (best N' s' p' q') L K z,
      phi (traversal_output N s p q L K (map name z)) = traversal_output N' s' p' q' L K z,
      phi (optimal_joint_output N s p q L K (map name z)) = optimal_joint_output N' s' p' q' L K z
    & phi (block_output N s p q L (map name z)) = block_output N' s' p' q' L z]
  /\ [/\ phi (expected_token_wise N s q (recursive N s p q) L K) = expected_token_wise N' s' q' (recursive N' s' p' q') L K,
      phi (expected_token_wise N s q (best N s p q) L K) = expected_token_wise N' s' q' (best N' s' p' q') L K,
      phi (expected_traversal N s p q L K) = expected_traversal N' s' p' q' L K,
      phi (expected_joint N s p q L K) = expected_joint N' s' p' q' L K
    & phi (expected_block N s p q L) = expected_block N' s' p' q' L].
Proof.
have c := rational_operations R; have e_inj : injective name by exact: ord_inj.
have tokens : s = map name s' by rewrite /s /s' -val_enum_ord enumT.
have hp h : same_function phi name (p (map name h)) (p' h) by [].
have hq h : same_function phi name (q (map name h)) (q' h) by [].
have hr h x : same_selection phi name (recursive N (map name s') p q (map name h) (map name x)) (recursive N' s' p' q' h x).
  by apply: (carried_recursive_rejection c s' e_inj [::]) => // h'; exact: hq.
have hb h x : same_selection phi name (best N (map name s') p q (map name h) (map name x)) (best N' s' p' q' h x).
  by rewrite /best size_map; exact: (carried_optimal c).
rewrite tokens; have [t1 l1] := carried_token_wise c s' e_inj hp hq hr L K z; have [t2 l2] := carried_token_wise c s' e_inj hp hq hb L K z.
have [t3 l3] := carried_traversal c s' e_inj hp hq L K z; have [t4 l4] := carried_optimal_joint c s' e_inj hp hq L K z.
by have [t5 l5] := carried_block c s' e_inj hp hq L z.
Qed.
End Rational.

Print Assumptions carried_token_wise.
Print Assumptions carried_block.
Print Assumptions carried_traversal.
Print Assumptions carried_joint.
Print Assumptions carried_optimal_joint.
Print Assumptions paths_everywhere.
