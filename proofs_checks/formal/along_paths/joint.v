(* Several paths: token-wise selection and joint selection.

   THEOREM (token_wise_lossless). K paths of L tokens each are drawn from the draft model. A rule that is lossless for every
   number of i.i.d. drafts, used at every node for the drafts that are still alive, up to the first output that nobody
   drafted, is lossless along the path: the L + 1 tokens that come out have the target's law.
   THEOREM (traversal_lossless). Traversal of K paths, one after the other, each by block verification, with what the root's
   target has left handed on from one to the next, is lossless.
   THEOREM (joint_lossless). Go down the paths; at every node, with weight w, select one of the living drafts in any way, let m
   be the law of its token, and put w <- min(1, w p/m). Block verification at the end, with m in the place of q, is
   lossless: for every K, every L, every way to select and hence every m.
   THEOREM (optimal_joint_lossless). So it is with optimal selection for the scaled target w p, as it is computed.

   THEOREM (joint_length_weights). Joint selection accepts sum_i E[w_i] tokens on average.

   Models: any laws of the next token given the tokens so far, and thus Markov models. Any finite set of tokens, any real
   field. The reason: given the walk to a node, what follows on the living paths is drawn anew (survivors_law). *)

From Draft Require Import head problem bound couple sampling optimal path_rules block.

Section Bundles.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R).
Implicit Types (h x z : seq T) (xs : seq (seq T)) (w : R).
Hypotheses (p_law : forall h, law (p h)) (q_law : forall h, law (q h)).
Notation bundles := (bundles (index_enum T)).
Notation bundle_law := (bundle_law (real R) q).

Lemma sum_drafts_of (X : eqType) (s : seq X) k (f : seq X -> R) :
  \sum_(x <- rules.drafts s k.+1) f x = \sum_(a <- s) \sum_(x <- rules.drafts s k) f (a :: x).
Proof.
rewrite /= big_flatten /= big_map; apply: eq_bigr => a _.
by rewrite big_map.
Qed.
Lemma size_drafts_of (X : eqType) (s : seq X) k (x : seq X) : x \in rules.drafts s k -> size x = k.
Proof.
elim: k x => [|k ih] x; first by rewrite inE => /eqP->.
by move/flatten_mapP => [a _ /mapP[x' /ih e ->]] /=; rewrite e.
Qed.

(* L + 1 tokens: the next one, and what follows. *)
Lemma sum_bundles L K h (f : seq (seq T) -> R) :
  \sum_(xs <- bundles L.+1 K.+1) bundle_law h xs * f xs
  = \sum_a q h a * \sum_(x <- drafts L) in_sequence q (rcons h a) x * \sum_(xs <- bundles L.+1 K) bundle_law h xs * f ((a :: x) :: xs).
Proof.
rewrite [LHS](@sum_drafts_of _ (drafts L.+1)) sum_drafts; apply: eq_bigr => a _; rewrite mulr_sumr; apply: eq_bigr => x _.
rewrite mulr_sumr mulr_sumr; apply: eq_bigr => xs _.
by rewrite {1}/path_rules.bundle_law /= !mulrA.
Qed.
Lemma bundle_total L K h : \sum_(xs <- bundles L K) bundle_law h xs = 1.
Proof.
elim: K => [|K ih]; first by rewrite /path_rules.bundles /= big_seq1.
rewrite [LHS](@sum_drafts_of _ (drafts L)); under eq_bigr do rewrite -mulr_sumr -/(bundle_law _ _) ih mulr1.
by case: (in_sequence_law L h q_law).
Qed.

(* The next tokens are drafts from q; what follows y on those that go on with y is drawn anew. *)
Lemma survivors_law L K h y (F : seq T -> seq (seq T) -> R) :
  \sum_(xs <- bundles L.+1 K) bundle_law h xs * F (heads xs) (survivors y xs)
  = \sum_(x <- drafts K) iid (q h) x * \sum_(xs <- bundles L (count_mem y x)) bundle_law (rcons h y) xs * F x xs.
Proof.
elim: K F => [|K ih] F; first by rewrite /path_rules.bundles /= !big_seq1 /= ?big_seq1 /path_rules.bundle_law /= !mul1r.
rewrite sum_bundles sum_drafts; apply: eq_bigr => a _.
have step x : \sum_(xs <- bundles L.+1 K) bundle_law h xs * F (heads ((a :: x) :: xs)) (survivors y ((a :: x) :: xs))
  = \sum_(x' <- drafts K) iid (q h) x' * \sum_(xs <- bundles L (count_mem y x')) bundle_law (rcons h y) xs
      * F (a :: x') (if a == y then x :: xs else xs).
  rewrite -(ih (fun x' xs => F (a :: x') (if a == y then x :: xs else xs))); apply: eq_bigr => xs _.
  by rewrite /survivors /heads /= (_ : (Some a == Some y) = (a == y)) //; case: (a == y).
under eq_bigr do rewrite step; case: (eqVneq a y) => [->|ay].
  under eq_bigr do rewrite mulr_sumr; rewrite exchange_big mulr_sumr; apply: eq_bigr => x' _.
  rewrite /= eqxx add1n [\sum_(xs <- bundles L _.+1) _](@sum_drafts_of _ (drafts L)) !mulr_sumr; apply: eq_bigr => x _.
  rewrite !mulr_sumr; apply: eq_bigr => xs _; rewrite {2}/path_rules.bundle_law /= -/(bundle_law _ _); ring.
rewrite -mulr_suml (proj2 (in_sequence_law _ _ q_law)) mul1r mulr_sumr; apply: eq_bigr => x _.
by rewrite /= (negbTE ay) add0n mulrA.
Qed.

(** Token-wise selection. *)

Theorem token_wise_sum (rule : seq T -> seq T -> selection R T) :
  (forall h k, (0 < k)%N -> lossless k (iid (q h)) (p h) (rule h)) ->
  forall L K h z, (0 < K)%N -> size z = L.+1 ->
  \sum_(xs <- bundles L K) bundle_law h xs * token_wise_emits (real R) p rule h L xs z = in_sequence p h z.
Proof.
move=> out; elim=> [|L ih] K h z K0 sz; first by rewrite -mulr_suml bundle_total mul1r.
case: z sz => [//|c z] [sz] /=.
rewrite (survivors_law L K h c (fun x xs => row x (rule h x) c * (if c \in x then _ rule (rcons h c) L xs z else _))).
have := out h K K0 c; rewrite outputE => <-; rewrite mulr_suml; apply: eq_bigr => x _.
rewrite -[RHS]mulrA; congr (_ * _); case: (boolP (c \in x)) => cx; last by rewrite -mulr_suml bundle_total mul1r.
under eq_bigr do rewrite mulrCA; rewrite -mulr_sumr ih //.
by rewrite -has_count has_pred1.
Qed.

Theorem token_wise_lossless (rule : seq T -> seq T -> selection R T) L K z :
  (forall h k, (0 < k)%N -> lossless k (iid (q h)) (p h) (rule h)) -> (0 < K)%N -> size z = L.+1 ->
  token_wise_output (real R) (index_enum T) p q rule L K z = in_sequence p [::] z.
Proof. by move=> out K0 sz; rewrite /token_wise_output sumE token_wise_sum. Qed.

(** Traversal: path after path, the state of the root handed on. *)

Lemma traversal_sum L K (r : T -> R) w c z : law r -> 0 <= w -> w <= 1 -> size z = L.+1 ->
  \sum_(xs <- bundles L.+1 K) bundle_law [::] xs * traversal_emits (real R) (index_enum T) p q r w xs (c :: z)
  = w * (r c * in_sequence p [:: c] z).
Proof.
elim: K r w => [|K ih] r w rl w0 w1 sz.
  by rewrite /path_rules.bundles /= big_seq1 /path_rules.bundle_law /= mul1r.
have root_law (h : seq T) : law r by []; have ql := q_law [::].
have /andP[t0 t1] : 0 <= test (real R) (index_enum T) (fun _ => r) [::] w (q [::]) <= 1.
  exact: test01.
have fl : law (following (real R) (index_enum T) (fun _ => r) [::] w (q [::])).
  by apply: norm_law => // y; exact: excess_ge0.
have next := ih _ _ fl t0 t1 sz.
rewrite sum_bundles -[RHS](ladder_emits root_law [::] c _ w0 w1 ql); apply: eq_bigr => y _; congr (_ * _).
set v := next_weight _ _ _ _ _ _; have /andP[v0 v1] : 0 <= v <= 1 by exact: next_weight01.
rewrite -[rcons [::] y]/[:: y]; set f := following _ _ _ _ _ _ in fl next *; set t := test _ _ _ _ _ _ in t0 t1 next *.
have one x : \sum_(xs <- bundles L.+1 K) bundle_law [::] xs
    * traversal_emits (real R) (index_enum T) p q r w ((y :: x) :: xs) (c :: z)
  = (if c == y then block_emits (real R) (index_enum T) p q [:: y] v x z else 0)
    + (1 - block_passes (real R) (index_enum T) p q [:: y] v x) * (t * f c * in_sequence p [:: c] z).
  rewrite -[t * f c * _]mulrA -next mulr_sumr -[X in _ = X + _]mul1r -[X in _ = X * _ + _](bundle_total L.+1 K [::]) mulr_suml -big_split.
  by apply: eq_bigr => xs _; rewrite /= mulrDr [X in _ = _ + X]mulrCA.
under eq_bigr do rewrite one mulrDr mulrBl mul1r mulrBr [in_sequence _ _ _ * (block_passes _ _ _ _ _ _ _ * _)]mulrA.
rewrite big_split sumrB /= -!mulr_suml (proj2 (in_sequence_law _ _ q_law)) mul1r.
rewrite (block_passes_sum p_law q_law L [:: y] v0 v1) mulrBl mul1r; congr (_ + _).
case: eqP => [->|_]; first by rewrite (block_emits_sum p_law q_law [:: y] v0 v1 sz).
by rewrite big1 // => x _; rewrite mulr0.
Qed.

Theorem traversal_lossless L K z : size z = L.+2 ->
  traversal_output (real R) (index_enum T) p q L.+1 K z = in_sequence p [::] z.
Proof.
by case: z => [//|c z] [sz]; rewrite /traversal_output sumE traversal_sum ?ler01 // mul1r.
Qed.


(** Joint selection. *)

Section Joint.
Variables (choice : seq T -> R -> seq T -> seq R) (m : seq T -> R -> nat -> T -> R).
Notation chance := (chance (real R) choice).
Notation next_weight := (next_weight (real R) p).
Notation passes := (joint_passes (real R) (index_enum T) p choice m).
Notation emits := (joint_emits (real R) (index_enum T) p choice m).
(* What is selected is one of the drafts, and m is the law of its token. *)
Definition selects := forall h w k, 0 <= w -> w <= 1 -> (0 < k)%N ->
  [/\ forall x y, x \in drafts k -> iid (q h) x != 0 -> 0 <= chance h w x y,
      forall x, x \in drafts k -> iid (q h) x != 0 -> \sum_y chance h w x y = 1
    & forall y, \sum_(x <- drafts k) iid (q h) x * chance h w x y = m h w k y].
Hypothesis sel : selects.

Lemma chance_outside h w x y : y \notin x -> chance h w x y = 0.
Proof. by move=> yx; rewrite /path_rules.chance sumE; exact: (chosen_outside (choice h w)). Qed.
Lemma token_law h w k : 0 <= w -> w <= 1 -> (0 < k)%N -> law (m h w k).
Proof.
move=> w0 w1 k0; have [c0 c1 cm] := sel h w0 w1 k0; split=> [y|].
  rewrite -cm big_seq sumr_ge0 // => x xk; have [->|ne] := eqVneq (iid (q h) x) 0; first by rewrite mul0r.
  by rewrite mulr_ge0 ?c0 //; case: (iid_law k (q_law h)).
under eq_bigr do rewrite -cm.
rewrite exchange_big /= -(proj2 (iid_law k (q_law h))) !big_seq; apply: eq_bigr => x xk; rewrite -mulr_sumr.
by have [->|ne] := eqVneq (iid (q h) x) 0; [rewrite mul0r | rewrite c1 ?mulr1].
Qed.

(* One node: what is expected of the living paths below the selected token y is f y, if that is so for any number of them. *)
Lemma one_node L K h w (F : T -> seq (seq T) -> R) (f : T -> R) : 0 <= w -> w <= 1 -> (0 < K)%N ->
  (forall y k, (0 < k)%N -> \sum_(xs <- bundles L k) bundle_law (rcons h y) xs * F y xs = f y) ->
  \sum_(xs <- bundles L.+1 K) bundle_law h xs * (\sum_y chance h w (heads xs) y * F y (survivors y xs))
  = \sum_y m h w K y * f y.
Proof.
move=> w0 w1 K0 below; have [_ _ cm] := sel h w0 w1 K0.
under eq_bigr do rewrite mulr_sumr; rewrite exchange_big; apply: eq_bigr => y _ /=.
rewrite (survivors_law L K h y (fun x xs => chance h w x y * F y xs)) -cm mulr_suml; apply: eq_bigr => x _.
have [yx|yx] := boolP (y \in x).
  under eq_bigr do rewrite mulrCA; rewrite -mulr_sumr below ?mulrA //.
  by rewrite -has_count has_pred1.
by rewrite chance_outside // mulr0 mul0r big1 ?mulr0 // => xs _; rewrite mul0r mulr0.
Qed.

Lemma joint_passes_sum L K h w : 0 <= w -> w <= 1 -> (0 < K)%N ->
  \sum_(xs <- bundles L K) bundle_law h xs * passes h w L xs = w.
Proof.
elim: L K h w => [|L ih] K h w w0 w1 K0; first by rewrite -mulr_suml bundle_total mul1r.
have ml := token_law h w0 w1 K0; rewrite -[RHS](ladder_passes p_law h w0 w1 ml).
set t := test _ _ _ _ _ _.
rewrite -(one_node (L := L) (F := fun y xs => let longer := passes (rcons h y) (next_weight h w (m h w K) y) L xs in
  longer + (1 - longer) * t)) // => [|y k k0].
  rewrite big_seq [RHS]big_seq; apply: eq_bigr => xs xsK.
  by rewrite /= sumE (size_drafts_of xsK).
have /andP[v0 v1] := next_weight01 p_law h y w0 ml; move: (next_weight h w _ y) v0 v1 => v v0 v1 /=.
under eq_bigr do rewrite mulrDr mulrBl mul1r mulrBr mulrA.
by rewrite big_split sumrB /= -!mulr_suml ih // bundle_total; lra.
Qed.

Lemma joint_emits_sum L K h w z : 0 <= w -> w <= 1 -> (0 < K)%N -> size z = L.+1 ->
  \sum_(xs <- bundles L K) bundle_law h xs * emits h w L xs z = w * in_sequence p h z.
Proof.
elim: L K h w z => [|L ih] K h w [|c z] //= w0 w1 K0 => [_|[sz]]; first by rewrite -mulr_suml bundle_total mul1r.
have ml := token_law h w0 w1 K0; rewrite -[RHS](ladder_emits p_law h c _ w0 w1 ml).
set rest := _ * following _ _ _ _ _ _ _ * _.
rewrite -(one_node (L := L) (F := fun y xs => let w' := next_weight h w (m h w K) y in
  (if c == y then emits (rcons h y) w' L xs z else 0) + (1 - passes (rcons h y) w' L xs) * rest)) // => [|y k k0].
  rewrite big_seq [RHS]big_seq; apply: eq_bigr => xs xsK.
  by rewrite sumE (size_drafts_of xsK).
have /andP[v0 v1] := next_weight01 p_law h y w0 ml; move: (next_weight h w _ y) v0 v1 => v v0 v1 /=.
under eq_bigr do rewrite mulrDr mulrBl mul1r mulrBr [bundle_law _ _ * (passes _ _ _ _ * _)]mulrA.
rewrite big_split sumrB /= -!mulr_suml bundle_total joint_passes_sum // mul1r mulrBl mul1r; congr (_ + _).
case: eqP => [->|_]; first exact: ih.
by rewrite big1 // => xs _; rewrite mulr0.
Qed.

(* What is accepted is, on average, the sum of the weights w_1 .. w_L. *)
Theorem joint_length_weights L K h w : 0 <= w -> w <= 1 -> (0 < K)%N ->
  \sum_(xs <- bundles L K) bundle_law h xs * joint_length (real R) (index_enum T) p choice m h w L xs
  = \sum_(xs <- bundles L K) bundle_law h xs * joint_weights (real R) (index_enum T) p choice m h w L xs.
Proof.
elim: L K h w => [//|L ih] K h w w0 w1 K0; have ml := token_law h w0 w1 K0.
pose v := next_weight h w (m h w K); pose below F := \sum_(xs <- bundles L.+1 K) bundle_law h xs
  * (\sum_y chance h w (heads xs) y * F y (survivors y xs)) : R.
transitivity (below (fun y xs => passes (rcons h y) (v y) L xs + joint_length (real R) (index_enum T) p choice m (rcons h y) (v y) L xs)).
  by rewrite /below big_seq [RHS]big_seq; apply: eq_bigr => xs xsK; rewrite /= sumE (size_drafts_of xsK).
transitivity (below (fun y xs => v y + joint_weights (real R) (index_enum T) p choice m (rcons h y) (v y) L xs)); last first.
  by rewrite /below big_seq [RHS]big_seq; apply: eq_bigr => xs xsK; rewrite /= sumE (size_drafts_of xsK).
rewrite /below; under eq_bigr do rewrite mulr_sumr; under [RHS]eq_bigr do rewrite mulr_sumr.
rewrite exchange_big [RHS]exchange_big; apply: eq_bigr => y _ /=.
rewrite (survivors_law L K h y (fun x xs => chance h w x y * (passes (rcons h y) (v y) L xs
  + joint_length (real R) (index_enum T) p choice m (rcons h y) (v y) L xs))).
rewrite (survivors_law L K h y (fun x xs => chance h w x y * (v y
  + joint_weights (real R) (index_enum T) p choice m (rcons h y) (v y) L xs))).
have /andP[v0 v1] := next_weight01 p_law h y w0 ml; rewrite -/(v y) in v0 v1.
apply: eq_bigr => x _; congr (_ * _); have [yx|yx] := boolP (y \in x); last first.
  by rewrite !big1 // => xs _; rewrite chance_outside // mul0r mulr0.
have k0 : (0 < count_mem y x)%N by rewrite -has_count has_pred1.
under eq_bigr do rewrite mulrCA mulrDr; under [RHS]eq_bigr do rewrite mulrCA mulrDr.
by rewrite -!mulr_sumr !big_split /= ih // joint_passes_sum // -mulr_suml bundle_total mul1r.
Qed.

Theorem joint_lossless L K z : (0 < K)%N -> size z = L.+1 ->
  joint_output (real R) (index_enum T) p q choice m L K z = in_sequence p [::] z.
Proof. by move=> K0 sz; rewrite /joint_output sumE joint_emits_sum ?mul1r ?ler01. Qed.

End Joint.

(* Optimal selection for the scaled target w p. *)
Theorem optimal_joint_lossless L K z : (0 < K)%N -> size z = L.+1 ->
  optimal_joint_output (real R) (index_enum T) p q L K z = in_sequence p [::] z.
Proof.
move=> K0 sz; apply: joint_lossless => // h w k w0 w1 k0; pose wp y := w * p h y.
have wp0 y : 0 <= wp y by rewrite mulr_ge0 //; case: (p_law h).
have wp1 : \sum_y wp y <= 1 by rewrite -mulr_sumr (proj2 (p_law h)) mulr1.
have [c0 c1 cm] := selection_by_levels wp0 wp1 (q_law h) k0 (by_ratio_order wp (q h)).
set s := by_ratio _ _ _ _ in c0 c1 cm.
have chosenE x y : x \in drafts k -> chance (real R) (optimal_choice (real R) (index_enum T) p q) h w x y
    = chosen (choose (real R) (optimal_levels (real R) wp (q h) k s) [seq index z s | z <- x]) x y.
  by rewrite mem_drafts /path_rules.chance sumE /optimal_choice => /eqP->.
split=> [x y xk ne|x xk ne|y]; first by rewrite chosenE // c0.
  by under eq_bigr do rewrite chosenE //; exact: c1.
by rewrite -[RHS]cm !big_seq; apply: eq_bigr => x xk; rewrite chosenE.
Qed.

End Bundles.

Print Assumptions token_wise_lossless.
Print Assumptions joint_lossless.
Print Assumptions optimal_joint_lossless.
Print Assumptions joint_length_weights.
Print Assumptions traversal_lossless.
